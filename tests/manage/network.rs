//! The TCP address: permissions, tokens and TLS.

use crate::client::{LIMIT, Managed, Response};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use testkit::SimCluster;
use torus_sm::manage::server::network::NetworkConfig;
use torus_sm::manage::server::tls::TlsConfig;

const TOKEN: &str = "a-token-of-some-length";

async fn managed(change: impl FnOnce(&SimCluster, &mut NetworkConfig)) -> Managed {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = cluster.options();
    let address = "127.0.0.1:0".parse().expect("an address");
    let mut network = NetworkConfig { address, token_file: None, tls: None };
    change(&cluster, &mut network);
    Managed::start_configured(cluster, options, |config| config.network = Some(network)).await
}

fn token_file(cluster: &SimCluster) -> PathBuf {
    let path = cluster.file("token");
    std::fs::write(&path, format!("{TOKEN}\n")).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("our file");
    path
}

fn address(managed: &Managed) -> &str {
    let url = managed.url();
    url.split("//").nth(1).expect("an address").trim_end_matches('/')
}

fn tcp(managed: &Managed) -> TcpStream {
    let stream = TcpStream::connect(address(managed)).expect("the server listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    stream
}

fn answer(mut stream: impl Read + Write, request: &str) -> Response {
    tokio::task::block_in_place(|| {
        stream.write_all(request.as_bytes()).expect("the server reads");
        Response::read(stream)
    })
}

fn request(method: &str, path: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{more}content-length: 0\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_token_clients_may_read_only() {
    let managed = managed(|_, _| ()).await;
    let status = answer(tcp(&managed), &request("GET", "/v1/status", ""));
    assert_eq!(status.status, 200, "{}", status.body);
    assert_eq!(status.json()["sm"]["state"], "MASTER");
    let refused = answer(tcp(&managed), &request("POST", "/v1/actions/resweep", ""));
    assert_eq!(refused.status, 403, "{}", refused.body);
    let foreign = "GET /v1/status HTTP/1.1\r\nhost: attacker.example\r\n\r\n";
    assert_eq!(answer(tcp(&managed), foreign).status, 403);
    let page = answer(tcp(&managed), &request("GET", "/", ""));
    assert!(page.head.contains("content-type: text/html"), "{}", page.head);
    assert!(page.head.contains("content-security-policy: default-src 'none'"), "{}", page.head);
    assert!(page.body.contains("<canvas"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_permits_reading_and_acting() {
    let managed = managed(|cluster, network| network.token_file = Some(token_file(cluster))).await;
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    for wrong in ["", "authorization: Bearer a-token-of-some-lengtX\r\n"] {
        let refused = answer(tcp(&managed), &request("GET", "/v1/status", wrong));
        assert_eq!(refused.status, 401, "{}", refused.body);
    }
    assert_eq!(answer(tcp(&managed), &request("GET", "/", "")).status, 200, "the page has no data");
    assert_eq!(answer(tcp(&managed), &request("GET", "/v1/status", &bearer)).status, 200);
    let last = managed.events(0).len() as u64;
    let accepted = answer(tcp(&managed), &request("POST", "/v1/actions/resweep", &bearer));
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    let event = managed.event(last, "action_requested").await;
    assert!(event["uid"].is_null(), "{event}");
}

/// A self-signed certificate for 127.0.0.1, and its files.
struct Identity {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Identity {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { certificate, key }
    }

    fn write(&self, cluster: &SimCluster, name: &str) -> (PathBuf, PathBuf) {
        let [certificate, key] = ["crt", "key"].map(|kind| cluster.file(&format!("{name}.{kind}")));
        std::fs::write(&certificate, self.certificate.pem()).expect("a file");
        std::fs::write(&key, self.key.serialize_pem()).expect("a file");
        (certificate, key)
    }
}

/// A TLS connection of a client that trusts `server`.
fn tls(
    managed: &Managed,
    server: &Identity,
    client: Option<&Identity>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(server.certificate.der().clone()).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match client {
        None => builder.with_no_client_auth(),
        Some(client) => {
            let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(client.key.serialize_der()));
            let chain = vec![client.certificate.der().clone()];
            builder.with_client_auth_cert(chain, key).expect("a certificate")
        }
    };
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    StreamOwned::new(connection, tcp(managed))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_encrypts_and_client_certificates_permit_acting() {
    let server = Identity::new();
    let client = Identity::new();
    let managed = managed(|cluster, network| {
        let (certificate, key) = server.write(cluster, "server");
        let (ca, _) = client.write(cluster, "client");
        network.tls = Some(TlsConfig { certificate, key, client_ca: Some(ca) });
    })
    .await;
    assert!(managed.url().starts_with("https://"));
    let accepted =
        answer(tls(&managed, &server, Some(&client)), &request("POST", "/v1/actions/resweep", ""));
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    // In TLS 1.3 the server's refusal reaches the client when it reads.
    let refused = answer(tls(&managed, &server, None), &request("GET", "/v1/status", ""));
    assert_eq!(refused.status, 0, "{refused:?}");
    let clear = answer(tcp(&managed), &request("GET", "/v1/status", ""));
    assert_eq!(clear.status, 0, "no reply in clear text: {clear:?}");
}

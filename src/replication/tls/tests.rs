//! Connections with good, wrong, expired and missing certificates.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use std::fs;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// An authority with the folder of the files that it issues.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    dir: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let dir = tempfile::tempdir().expect("a folder");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        fs::write(dir.path().join("ca.pem"), certificate.pem()).expect("a file");
        Self { issuer: Issuer::new(params, key), dir }
    }

    /// Settings with a certificate for `name`, valid until the end of `year`, and these
    /// authorities.
    fn issue(&self, name: &str, year: i32, trusted: &Self) -> TlsSettings {
        self.issue_for(name, [2001, year], trusted)
    }

    /// [`Self::issue`] for a certificate that is valid from the beginning of the first year on.
    fn issue_for(&self, name: &str, [first, year]: [i32; 2], trusted: &Self) -> TlsSettings {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.not_before = date_time_ymd(first, 1, 1);
        params.not_after = date_time_ymd(year, 12, 31);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        fs::write(file(name, &self.dir, "crt", first, year), certificate.pem()).expect("a file");
        fs::write(file(name, &self.dir, "key", first, year), key.serialize_pem()).expect("a file");
        let ca = trusted.dir.path().join("ca.pem");
        TlsSettings {
            listen: None,
            peers: Vec::new(),
            cert: file(name, &self.dir, "crt", first, year),
            key: file(name, &self.dir, "key", first, year),
            ca,
        }
    }
}

fn file(name: &str, dir: &tempfile::TempDir, kind: &str, first: i32, year: i32) -> PathBuf {
    dir.path().join(format!("{name}-{first}-{year}.{kind}"))
}

/// A year in which certificates have not expired.
const VALID: i32 = 2999;

/// Both ends of a connection: errors as text. The name of the server is `localhost`.
async fn connect(
    server: TlsSettings,
    client: TlsSettings,
) -> (Result<(), String>, Result<(), String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server =
        TlsNetwork::new(TlsSettings { listen: Some(format!("127.0.0.1:{port}")), ..server });
    *server.listener.lock().await = Some(Arc::new(listener));
    let serving = tokio::spawn(async move {
        let incoming = server.accept().await?;
        let mut stream = incoming.handshake.await?;
        stream.write_all(b"hello").await?;
        stream.read_u8().await
    });
    let client = TlsNetwork::new(client);
    let calling = async {
        let mut stream = client.connect(&format!("localhost:{port}")).await?;
        let mut hello = [0; 5];
        stream.read_exact(&mut hello).await?;
        assert_eq!(&hello, b"hello");
        stream.write_u8(1).await?;
        stream.flush().await
    };
    let called = calling.await.map_err(|error: io::Error| error.to_string());
    // A client whose files cannot be used does not connect at all.
    let served = timeout(Duration::from_secs(2), serving).await;
    let served = served
        .map_or_else(|_| Err(io::ErrorKind::TimedOut.into()), |served| served.expect("no panic"));
    (served.map(|_| ()).map_err(|error| error.to_string()), called)
}

/// The certificate of the client or of the server is of another authority, or has expired, or a clock was set
/// back: the other side refuses it, and says why.
#[tokio::test]
async fn both_sides_require_valid_certificates_of_the_authority() {
    let ours = Authority::new();
    let theirs = Authority::new();
    assert_eq!(connect(server(&ours), client(&ours)).await, (Ok(()), Ok(())));
    for bad in [
        theirs.issue("client", VALID, &ours),
        ours.issue("client", 2002, &ours),
        later(&ours, "client"),
    ] {
        let (served, called) = connect(server(&ours), bad).await;
        assert!(served.is_err_and(|text| text.contains("invalid peer certificate")));
        assert!(called.is_err());
    }
    // So may be that of the server, or it has another name.
    for bad in [
        ours.issue("localhost", 2002, &ours),
        later(&ours, "localhost"),
        theirs.issue("localhost", VALID, &ours),
        ours.issue("elsewhere", VALID, &ours),
    ] {
        let (served, called) = connect(bad, client(&ours)).await;
        assert!(called.is_err_and(|text| text.contains("invalid peer certificate")));
        assert!(served.is_err());
    }
}

/// A certificate that is not valid yet.
fn later(ours: &Authority, name: &str) -> TlsSettings {
    ours.issue_for(name, [VALID, VALID], ours)
}

fn client(ours: &Authority) -> TlsSettings {
    ours.issue("client", VALID, ours)
}

fn server(ours: &Authority) -> TlsSettings {
    ours.issue("localhost", VALID, ours)
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let ours = Authority::new();
    let good = ours.issue("localhost", VALID, &ours);
    let missing = PathBuf::from("/nonexistent/file.pem");
    for bad in [
        TlsSettings { cert: missing.clone(), ..good.clone() },
        TlsSettings { key: missing.clone(), ..good.clone() },
        TlsSettings { ca: missing.clone(), ..good.clone() },
    ] {
        let (_, called) = connect(good.clone(), bad.clone()).await;
        assert!(called.is_err_and(|text| text.contains("/nonexistent/file.pem")), "{bad:?}");
        let (served, _) = connect(bad, good.clone()).await;
        assert!(served.is_err_and(|text| text.contains("/nonexistent/file.pem")));
    }
    let no_certificate = TlsSettings { cert: good.key.clone(), ..good.clone() };
    let (_, called) = connect(good.clone(), no_certificate).await;
    assert!(called.is_err_and(|text| text.contains("contains no certificate")));
}

#[test]
fn settings_are_checked() {
    assert_eq!(TlsSettings::read(&Options::default()), Ok(None));
    assert_eq!(TlsSettings::read(&options(" , ")), Ok(None));
    let settings = TlsSettings::read(&options("sm1:7471, [fe80::1]:7471,10.0.0.1:1"));
    let settings = settings.expect("valid").expect("peers");
    assert_eq!(settings.peers, ["sm1:7471", "[fe80::1]:7471", "10.0.0.1:1"]);
    assert_eq!(host("[fe80::1]:7471"), Ok("fe80::1"));
    for peer in ["sm1", "sm1:", ":7471", "fe80::1:7471", "sm1:70000"] {
        let refused = TlsSettings::read(&options(peer)).expect_err("no address");
        assert!(refused.contains(peer), "{refused}");
    }
    let keyless = Options { replication_key: None, ..options("sm1:7471") };
    assert!(TlsSettings::read(&keyless).is_err_and(|text| text.contains("replication_key")));
}

fn options(peers: &str) -> Options {
    Options {
        replication_peers: Some(peers.to_owned()),
        replication_cert: Some("c".into()),
        replication_key: Some("k".into()),
        replication_ca: Some("a".into()),
        ..Options::default()
    }
}

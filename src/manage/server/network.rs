//! The optional TCP address: for browsers, and for tools on other hosts.
//!
//! Without TLS it is a loopback address. Without a token, whoever reaches it may read and nobody
//! may act: requests for another host name than an address or `localhost` are refused, so that no
//! foreign page in a browser reads the answers through a host name of its own (DNS rebinding).

use super::access::{self, Access};
use super::tls;
use crate::config::options::Options;
use crate::manage::api::ApiError;
use crate::notes::{Note, Severity};
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HOST};
use sha2::{Digest, Sha256};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tokio_rustls::TlsAcceptor;

/// Shortest token in bytes.
const MIN_TOKEN_LENGTH: usize = 16;

/// Permission bits of a token file that let other users read or change it.
const OTHERS_MODE: u32 = 0o077;

/// The TCP address as configured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkConfig {
    pub address: SocketAddr,
    /// File with the token that clients must have.
    pub token_file: Option<PathBuf>,
    pub tls: Option<tls::TlsConfig>,
}

impl NetworkConfig {
    /// The TCP address, if one is configured.
    ///
    /// # Errors
    /// The text begins with the key that is wrong.
    pub fn from_options(options: &Options) -> Result<Option<Self>, String> {
        let Some(text) = &options.management_tcp else { return Ok(None) };
        let address = text.parse().map_err(|_| {
            format!("management_tcp {text}: not an address and port, such as 127.0.0.1:8080")
        })?;
        let path = |option: &Option<String>| option.as_ref().map(PathBuf::from);
        let certificate = path(&options.management_tls_certificate);
        let tls = match (certificate, path(&options.management_tls_key)) {
            (Some(certificate), Some(key)) => {
                let client_ca = path(&options.management_tls_client_ca);
                Some(tls::TlsConfig { certificate, key, client_ca })
            }
            (None, None) => None,
            _ => {
                let text = "management_tcp: TLS needs management_tls_certificate and \
                            management_tls_key";
                return Err(text.to_owned());
            }
        };
        Ok(Some(Self { address, token_file: path(&options.management_token_file), tls }))
    }
}

/// The errors in the options of the management interface that a start would log. Whether the
/// addresses are free is not tried.
pub fn findings(options: &Options) -> Vec<Note> {
    if !options.management {
        return Vec::new();
    }
    let group = options.management_group.as_deref().map(access::group);
    let network = NetworkConfig::from_options(options).and_then(|config| match &config {
        Some(config) => {
            NetworkListener::prepare(config).map(drop).map_err(|error| error.to_string())
        }
        None => Ok(()),
    });
    let problems = group.and_then(Result::err).into_iter().chain(network.err());
    problems.map(|text| Note::new(Severity::Error, None, text)).collect()
}

/// Why there is no TCP address.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("management_tcp {0}: without TLS only a loopback address is served")]
    NotLoopback(SocketAddr),
    #[error(
        "management_tcp {0}: an address of other hosts needs management_token_file or \
             management_tls_client_ca"
    )]
    NoCredentials(SocketAddr),
    #[error("management_tcp {0}: {1}")]
    Bind(SocketAddr, io::Error),
    #[error("management_token_file {0}: {1}")]
    Token(String, String),
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
}

/// The hash of a token, so that comparisons take the same time for all.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TokenHash([u8; 32]);

impl TokenHash {
    fn new(text: &[u8]) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// Reads a token file, which only its owner may read.
    fn read(path: &Path) -> Result<Self, String> {
        let mode = std::fs::metadata(path).map_err(|error| error.to_string())?.mode();
        if mode & OTHERS_MODE != 0 {
            return Err("other users can read or change it: chmod 600".to_owned());
        }
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        match text.trim() {
            token if token.len() < MIN_TOKEN_LENGTH => {
                Err(format!("the token is shorter than {MIN_TOKEN_LENGTH} characters"))
            }
            token => Ok(Self::new(token.as_bytes())),
        }
    }
}

/// The permissions of clients of the TCP address.
pub(super) struct NetworkPolicy {
    token: Option<TokenHash>,
    /// TLS checks certificates of clients, which may read and act.
    has_client_certificates: bool,
}

impl NetworkPolicy {
    /// The permissions of a request.
    ///
    /// # Errors
    /// 401 if the token is missing or wrong, 403 for a foreign host name.
    pub(super) fn access(&self, headers: &HeaderMap) -> Result<Access, ApiError> {
        let (may_read, may_act) = match (self.token, self.has_client_certificates) {
            (Some(token), _) if given_token(headers) == Some(token) => (true, true),
            (Some(_), _) => {
                let text = "the header Authorization has no valid bearer token";
                return Err(ApiError::new(401, text));
            }
            (None, true) => (true, true),
            (None, false) if is_own_host(headers) => (true, false),
            (None, false) => {
                let text = "the header Host names neither an address nor localhost";
                return Err(ApiError::new(403, text));
            }
        };
        Ok(Access { uid: None, may_read, may_act })
    }
}

fn given_token(headers: &HeaderMap) -> Option<TokenHash> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| TokenHash::new(token.trim().as_bytes()))
}

/// True if the header Host is an address or `localhost`, with or without a port.
fn is_own_host(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|value| value.to_str().ok()) else { return false };
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

/// The open TCP address.
pub(super) struct NetworkListener {
    pub listener: TcpListener,
    pub tls: Option<TlsAcceptor>,
    pub policy: NetworkPolicy,
}

impl NetworkListener {
    /// Opens the address.
    ///
    /// # Errors
    /// The address is not permitted or not free, or a file cannot be used.
    pub(super) fn open(config: &NetworkConfig) -> Result<Self, NetworkError> {
        let (policy, tls) = Self::prepare(config)?;
        let address = config.address;
        let listener = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|error| NetworkError::Bind(address, error))?;
        Ok(Self { listener, tls, policy })
    }

    /// Reads the files of the address.
    fn prepare(
        config: &NetworkConfig,
    ) -> Result<(NetworkPolicy, Option<TlsAcceptor>), NetworkError> {
        let address = config.address;
        let is_local = address.ip().is_loopback();
        let has_client_certificates =
            config.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if !is_local && config.tls.is_none() {
            return Err(NetworkError::NotLoopback(address));
        }
        if !is_local && config.token_file.is_none() && !has_client_certificates {
            return Err(NetworkError::NoCredentials(address));
        }
        let token = config.token_file.as_deref().map(|path| {
            TokenHash::read(path)
                .map_err(|problem| NetworkError::Token(path.display().to_string(), problem))
        });
        let policy = NetworkPolicy { token: token.transpose()?, has_client_certificates };
        let tls = config.tls.as_ref().map(tls::acceptor).transpose()?;
        Ok((policy, tls))
    }

    /// The address with the port that the kernel chose.
    pub(super) fn url(&self) -> Option<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let address = self.listener.local_addr().ok()?;
        Some(format!("{scheme}://{address}/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn headers(host: &str, authorization: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).expect("a value"));
        if let Some(text) = authorization {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(text).expect("a value"));
        }
        headers
    }

    #[test]
    fn without_token_clients_read_by_address_only() {
        let policy = NetworkPolicy { token: None, has_client_certificates: false };
        for host in ["127.0.0.1:80", "localhost", "LOCALHOST:1", "[::1]:8080", "10.1.2.3"] {
            let access = policy.access(&headers(host, None)).expect(host);
            assert_eq!((access.may_read, access.may_act), (true, false), "{host}");
        }
        for host in ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example"] {
            assert_eq!(policy.access(&headers(host, None)).map_err(|error| error.status), Err(403));
        }
    }

    #[test]
    fn a_token_permits_everything() {
        let token = Some(TokenHash::new(b"0123456789abcdef"));
        let policy = NetworkPolicy { token, has_client_certificates: false };
        let access = |text| policy.access(&headers("sm.example", text)).map_err(|e| e.status);
        let all = Access { uid: None, may_read: true, may_act: true };
        assert_eq!(access(Some("Bearer 0123456789abcdef")), Ok(all));
        assert_eq!(access(Some("bearer 0123456789abcdef")), Ok(all));
        for wrong in [None, Some("Bearer"), Some("Bearer 0123456789abcde"), Some("Basic eDp5")] {
            assert_eq!(access(wrong), Err(401), "{wrong:?}");
        }
    }

    fn config(address: &str) -> NetworkConfig {
        NetworkConfig { address: address.parse().expect("an address"), token_file: None, tls: None }
    }

    #[test]
    fn addresses_of_other_hosts_need_tls_and_credentials() {
        let opened = NetworkListener::open(&config("127.0.0.1:0")).expect("loopback");
        assert!(opened.url().is_some_and(|url| url.starts_with("http://127.0.0.1:")));
        let refused = NetworkListener::open(&config("0.0.0.0:0")).err();
        assert!(matches!(refused, Some(NetworkError::NotLoopback(_))), "{refused:?}");
        let tls = tls::TlsConfig { certificate: "c".into(), key: "k".into(), client_ca: None };
        let refused =
            NetworkListener::open(&NetworkConfig { tls: Some(tls), ..config("0.0.0.0:0") }).err();
        assert!(matches!(refused, Some(NetworkError::NoCredentials(_))), "{refused:?}");
    }

    #[test]
    fn token_files_are_private_and_long_enough() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        let write = |text: &str, mode| {
            std::fs::write(&path, text).expect("a file");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("owned");
            TokenHash::read(&path).map(|token| token == TokenHash::new(b"0123456789abcdef"))
        };
        assert_eq!(write(" 0123456789abcdef\n", 0o600), Ok(true));
        assert!(write("0123456789abcdef", 0o640).is_err());
        assert!(write("short", 0o600).is_err());
    }
}

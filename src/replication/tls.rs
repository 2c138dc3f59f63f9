//! Streams over TCP with TLS 1.3 and certificates on both sides.
//!
//! The files are read for each connection, so that renewed certificates are used without a restart.
//! A peer is accepted if one of the configured authorities has issued its certificate; one that
//! this instance connects to must also have its name or address in it.

use super::network::{Incoming, InstanceNetwork, Pending, Stream};
use crate::config::options::Options;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, version::TLS13};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tracing::{error, info};

/// Time for a TCP connection and its TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Delay before an address that cannot be listened at is tried again: it may come up later.
const LISTEN_PAUSE: Duration = Duration::from_secs(30);

/// The keys of opensm.conf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsSettings {
    /// Address and port.
    pub listen: Option<String>,
    /// Host and port each.
    pub peers: Vec<String>,
    pub cert: PathBuf,
    pub key: PathBuf,
    pub ca: PathBuf,
}

impl TlsSettings {
    /// `None` if nothing is to be replicated.
    ///
    /// # Errors
    /// Files are missing, or a peer is not a host and a port.
    pub fn read(options: &Options) -> Result<Option<Self>, String> {
        let listen = options.replication_listen.clone();
        let peers = options.replication_peers.iter().flat_map(|peers| peers.split(','));
        let peers: Vec<String> =
            peers.map(|peer| peer.trim().to_owned()).filter(|peer| !peer.is_empty()).collect();
        if listen.is_none() && peers.is_empty() {
            return Ok(None);
        }
        for address in listen.iter().chain(&peers) {
            host(address)?;
        }
        Ok(Some(Self {
            listen,
            peers,
            cert: required_file("replication_cert", &options.replication_cert)?,
            key: required_file("replication_key", &options.replication_key)?,
            ca: required_file("replication_ca", &options.replication_ca)?,
        }))
    }
}

fn required_file(name: &str, value: &Option<String>) -> Result<PathBuf, String> {
    let file = value.as_ref().map(PathBuf::from);
    file.ok_or_else(|| format!("{name} is not set, which connections require"))
}

/// The host of `HOST:PORT`, without the brackets of an IPv6 address.
fn host(address: &str) -> Result<&str, String> {
    let problem = || format!("\"{address}\" is no host and port, such as 10.0.0.1:7471");
    let (host, port) = address.rsplit_once(':').ok_or_else(problem)?;
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if port.parse::<u16>().is_err() || host.is_empty() || (inner.is_none() && host.contains(':')) {
        return Err(problem());
    }
    Ok(inner.unwrap_or(host))
}

/// The network as configured.
pub struct TlsNetwork {
    settings: TlsSettings,
    provider: Arc<CryptoProvider>,
    listener: Mutex<Option<Arc<TcpListener>>>,
}

impl TlsNetwork {
    pub fn new(settings: TlsSettings) -> Self {
        let provider = Arc::new(ring::default_provider());
        Self { settings, provider, listener: Mutex::default() }
    }

    /// The certificate of this instance, and its key.
    fn identity(&self) -> io::Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        let key = PrivateKeyDer::from_pem_file(&self.settings.key);
        Ok((certificates(&self.settings.cert)?, key.map_err(file_error(&self.settings.key))?))
    }

    fn authorities(&self) -> io::Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&self.settings.ca)? {
            roots.add(certificate).map_err(invalid)?;
        }
        Ok(roots)
    }

    fn client(&self) -> io::Result<ClientConfig> {
        let (chain, key) = self.identity()?;
        let builder = ClientConfig::builder_with_provider(self.provider.clone());
        let builder = builder.with_protocol_versions(&[&TLS13]).map_err(invalid)?;
        let builder = builder.with_root_certificates(self.authorities()?);
        builder.with_client_auth_cert(chain, key).map_err(invalid)
    }

    fn server(&self) -> io::Result<ServerConfig> {
        let (chain, key) = self.identity()?;
        let roots = Arc::new(self.authorities()?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, self.provider.clone());
        let verifier = verifier.build().map_err(invalid)?;
        let builder = ServerConfig::builder_with_provider(self.provider.clone());
        let builder = builder.with_protocol_versions(&[&TLS13]).map_err(invalid)?;
        let builder = builder.with_client_cert_verifier(verifier);
        builder.with_single_cert(chain, key).map_err(invalid)
    }

    async fn connect_to(&self, peer: &str) -> io::Result<Stream> {
        let name = ServerName::try_from(host(peer).map_err(invalid)?.to_owned());
        let connector = TlsConnector::from(Arc::new(self.client()?));
        let stream = TcpStream::connect(peer).await?;
        stream.set_nodelay(true)?;
        let stream = connector.connect(name.map_err(invalid)?, stream).await?;
        Ok(Box::new(stream))
    }

    /// The listening socket, once its address can be bound.
    async fn listener(&self, address: &str) -> Arc<TcpListener> {
        let mut listener = self.listener.lock().await;
        let mut logged = None;
        loop {
            if let Some(listener) = listener.as_ref() {
                return listener.clone();
            }
            match TcpListener::bind(address).await {
                Ok(bound) => {
                    info!("shared state: listening at {address}");
                    *listener = Some(Arc::new(bound));
                }
                Err(problem) => {
                    let problem = problem.to_string();
                    if logged.as_ref() != Some(&problem) {
                        error!("cannot listen at {address} (replication_listen): {problem}");
                        logged = Some(problem);
                    }
                    sleep(LISTEN_PAUSE).await;
                }
            }
        }
    }

    async fn next_incoming(&self) -> io::Result<Incoming> {
        let Some(address) = self.settings.listen.as_deref() else {
            return std::future::pending().await;
        };
        let (stream, from) = self.listener(address).await.accept().await?;
        let config = self.server();
        let handshake = async move {
            stream.set_nodelay(true)?;
            let acceptor = TlsAcceptor::from(Arc::new(config?));
            let stream = limited(acceptor.accept(stream)).await?;
            Ok(Box::new(stream) as Stream)
        };
        Ok(Incoming { from: from.to_string(), handshake: Box::pin(handshake) })
    }
}

fn invalid(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error.to_string())
}

fn file_error(path: &Path) -> impl Fn(rustls::pki_types::pem::Error) -> io::Error + '_ {
    move |error| invalid(format!("{}: {error}", path.display()))
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path).map_err(file_error(path))?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(file_error(path))?;
    if found.is_empty() {
        Err(invalid(format!("{} contains no certificate", path.display())))
    } else {
        Ok(found)
    }
}

async fn limited<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(CONNECT_TIMEOUT, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

impl InstanceNetwork for TlsNetwork {
    fn connect<'a>(&'a self, peer: &'a str) -> Pending<'a, io::Result<Stream>> {
        Box::pin(limited(self.connect_to(peer)))
    }

    fn accept(&self) -> Pending<'_, io::Result<Incoming>> {
        Box::pin(self.next_incoming())
    }
}

#[cfg(test)]
mod tests;

//! TLS of the TCP address.

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Files of TLS, in PEM format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsConfig {
    /// Certificate chain of the server.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Certificate authorities of clients: each client must have a certificate of one.
    pub client_ca: Option<PathBuf>,
}

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("TLS of management_tcp: {0}")]
pub struct TlsError(String);

fn in_file(path: &Path, problem: impl std::fmt::Display) -> TlsError {
    TlsError(format!("{}: {problem}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| in_file(path, error))?;
    let found: Result<Vec<_>, _> = found.collect();
    match found.map_err(|error| in_file(path, error))? {
        none if none.is_empty() => Err(in_file(path, "no certificate")),
        found => Ok(found),
    }
}

/// Reads the files.
///
/// # Errors
/// A file cannot be read, or certificate and key do not belong together.
pub(super) fn acceptor(config: &TlsConfig) -> Result<TlsAcceptor, TlsError> {
    let chain = certificates(&config.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&config.key);
    let key = key.map_err(|error| in_file(&config.key, error))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError(error.to_string()))?;
    let builder = match &config.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| in_file(path, error))?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| in_file(path, error))?)
        }
    };
    let server = builder.with_single_cert(chain, key);
    let server = server.map_err(|error| in_file(&config.certificate, error))?;
    Ok(TlsAcceptor::from(Arc::new(server)))
}

//! Byte streams between instances.

use std::future::Future;
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};

/// An authenticated stream.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

pub type Stream = Box<dyn ByteStream>;

/// The result of an asynchronous function of a trait object.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Connects instances. Streams are mutually authenticated.
pub trait InstanceNetwork: Send + Sync {
    /// Connects to a peer. Takes bounded time.
    fn connect<'a>(&'a self, peer: &'a str) -> Pending<'a, io::Result<Stream>>;

    /// Waits for a connection, of which the handshake is still to be done. Waits for ever if none
    /// are accepted. An error concerns this connection only.
    fn accept(&self) -> Pending<'_, io::Result<Incoming>>;
}

/// A connection of a peer.
pub struct Incoming {
    /// Address of the peer.
    pub from: String,
    /// The handshake, which takes bounded time.
    pub handshake: Pending<'static, io::Result<Stream>>,
}

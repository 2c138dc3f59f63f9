//! Connections between daemons in this process, for their shared state on a paused clock.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{DuplexStream, copy_bidirectional, duplex};
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};
use tokio::task::JoinHandle;
use torus_sm::replication::local::Local;
use torus_sm::replication::network::{Incoming, InstanceNetwork, Pending, Stream};
use torus_sm::replication::service;

/// Bytes on their way in each direction.
const BUFFER: usize = 1 << 16;

type Listeners = Arc<Mutex<HashMap<String, mpsc::UnboundedSender<(String, DuplexStream)>>>>;

/// A network of named hosts.
pub struct MemoryNetwork {
    listeners: Listeners,
    /// Nothing arrives any more, and no connection is reported as closed.
    is_cut: watch::Sender<bool>,
}

impl Default for MemoryNetwork {
    fn default() -> Self {
        Self { listeners: Listeners::default(), is_cut: watch::Sender::new(false) }
    }
}

/// The sessions of a daemon, which end when this is dropped.
pub struct Sharing(JoinHandle<()>);

impl Drop for Sharing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The network as a host uses it.
pub struct Host {
    name: String,
    listeners: Listeners,
    is_cut: watch::Receiver<bool>,
    incoming: AsyncMutex<mpsc::UnboundedReceiver<(String, DuplexStream)>>,
}

impl MemoryNetwork {
    /// Cuts the network, silently, or repairs it; connections that were cut stay silent.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.send_replace(is_cut);
    }

    /// Connects a new host.
    pub fn host(&self, name: &str) -> Host {
        let (sender, incoming) = mpsc::unbounded_channel();
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.insert(name.to_owned(), sender);
        Host {
            name: name.to_owned(),
            listeners: self.listeners.clone(),
            is_cut: self.is_cut.subscribe(),
            incoming: AsyncMutex::new(incoming),
        }
    }

    /// Lets a daemon on a new host share state with the daemons at `peers`.
    pub fn share(&self, local: &Local, name: &str, peers: &[&str]) -> Sharing {
        let peers = peers.iter().map(|&peer| peer.to_owned()).collect();
        let host = Arc::new(self.host(name));
        Sharing(tokio::spawn(service::run(local.clone(), host, peers)))
    }
}

impl Host {
    async fn connect_to(&self, peer: &str) -> io::Result<Stream> {
        if *self.is_cut.borrow() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (own, mut near) = duplex(BUFFER);
        let (mut far, theirs) = duplex(BUFFER);
        let accepted = {
            let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
            let listener = listeners.get(peer);
            listener.is_some_and(|listener| listener.send((self.name.clone(), theirs)).is_ok())
        };
        if !accepted {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let mut is_cut = self.is_cut.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = copy_bidirectional(&mut near, &mut far) => {}
                () = async { drop(is_cut.wait_for(|&is_cut| is_cut).await) } => {
                    std::future::pending().await
                }
            }
        });
        Ok(Box::new(own))
    }

    async fn next_incoming(&self) -> io::Result<Incoming> {
        let Some((from, stream)) = self.incoming.lock().await.recv().await else {
            return std::future::pending().await;
        };
        let handshake = async move { Ok(Box::new(stream) as Stream) };
        Ok(Incoming { from, handshake: Box::pin(handshake) })
    }
}

impl InstanceNetwork for Host {
    fn connect<'a>(&'a self, peer: &'a str) -> Pending<'a, io::Result<Stream>> {
        Box::pin(self.connect_to(peer))
    }

    fn accept(&self) -> Pending<'_, io::Result<Incoming>> {
        Box::pin(self.next_incoming())
    }
}

//! A connection with another instance, from the greeting to its end.

use super::comparison::differences;
use super::local::{FilesFn, Local};
use super::network::Stream;
use super::protocol::{self, Files, Hello, ReplicationMessage, VERSION};
use crate::ids::Guid;
use crate::replication::status::{PeerStatus, StateTransfer, TransferDirection};
use crate::sa::registry::replica::{Page, ReplicaPosition, ReplicaRequest};
use crate::wire::attr::SmState;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::WriteHalf;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tracing::{info, warn};

/// Interval at which roles, configurations and files are looked at.
const TICK_INTERVAL: Duration = Duration::from_millis(200);

/// Pause between pages of changed registrations, at least. A change after a longer one is sent at
/// once, before most clients have the reply: a standby lacks those of the last pause if the master
/// ends without HANDOVER.
const MIN_SEND_PAUSE: Duration = Duration::from_millis(10);

/// Interval at which a side sends something.
const ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Time without a message after which a connection ends, and in which a message must be sent.
const SILENCE_LIMIT: Duration = Duration::from_secs(20);

/// Delay before the master is asked again after a page that was of no use.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);

/// Changes in a page: the SA server serves other requests between two pages.
const PAGE_SIZE: usize = 512;

/// Received messages that wait.
const MAX_RECEIVED: usize = 4;

/// The end of a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the peer was silent for {} s", SILENCE_LIMIT.as_secs())]
    Silent,
    /// A peer list may contain the instance itself, so that all instances can have the same.
    #[error("the address is that of this instance")]
    Itself,
    #[error("the daemon ends")]
    Ended,
}

/// A session as master whose peer follows.
struct FollowerState {
    since: Option<ReplicaPosition>,
    /// The peer has been informed that it has everything.
    is_complete: bool,
    /// The files that the peer has, with the function that made them.
    files: Option<(FilesFn, Files)>,
    /// The incidents that the peer has.
    incidents: Arc<str>,
}

/// The state that a standby gets from its peer.
#[derive(Default)]
struct FollowingState {
    /// It gets the registry of the peer.
    is_active: bool,
    /// How far it has come.
    position: Option<ReplicaPosition>,
    /// Time before which the peer is not asked again.
    next_request: Option<Instant>,
}

struct ReplicationSession {
    local: Local,
    /// Number of its status.
    number: u64,
    stream: WriteHalf<Stream>,
    /// The greeting that was sent last.
    greeted: Option<Hello>,
    peer: Option<Hello>,
    following: FollowingState,
    last_transfer: Option<StateTransfer>,
    follower: Option<FollowerState>,
    last_received: Instant,
    last_sent: Instant,
}

/// Serves a connection until it ends, with its status under `number`.
pub async fn run(local: Local, number: u64, stream: Stream) -> SessionError {
    let (mut input, output) = tokio::io::split(stream);
    let (sender, mut received) = mpsc::channel(MAX_RECEIVED);
    let now = Instant::now();
    let mut session = ReplicationSession {
        local,
        number,
        stream: output,
        greeted: None,
        peer: None,
        following: FollowingState::default(),
        last_transfer: None,
        follower: None,
        last_received: now,
        last_sent: now,
    };
    // An error comes after the messages before it: a peer may say why it ends the connection.
    let reading = async {
        loop {
            let message = protocol::receive(&mut input).await;
            let is_end = message.is_err();
            if sender.send(message).await.is_err() {
                return SessionError::Ended;
            }
            if is_end {
                std::future::pending::<()>().await;
            }
        }
    };
    let error = tokio::select! {
        error = reading => error,
        error = session.serve(&mut received) => error,
    };
    session.local.status.update(number, |status| {
        *status = PeerStatus {
            address: status.address.clone(),
            is_outgoing: status.is_outgoing,
            problem: Some(error.to_string()),
            last_transfer: status.last_transfer,
            ..PeerStatus::default()
        };
    });
    error
}

impl ReplicationSession {
    async fn serve(
        &mut self,
        received: &mut mpsc::Receiver<io::Result<ReplicationMessage>>,
    ) -> SessionError {
        // The greeting comes before any reason to end the connection.
        if let Err(error) = self.tick().await {
            return error;
        }
        let mut ticks = interval(TICK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut changed = self.local.registry_changed.clone();
        let mut last_sent = Instant::now();
        let mut due = None;
        loop {
            let result = tokio::select! {
                message = received.recv() => match message {
                    Some(Ok(message)) => self.receive(message).await,
                    Some(Err(error)) => return error.into(),
                    None => return SessionError::Ended,
                },
                _ = ticks.tick() => self.tick().await,
                Ok(()) = changed.changed(), if due.is_none() => {
                    due = Some(last_sent + MIN_SEND_PAUSE);
                    Ok(())
                }
                () = sleep_until(due.unwrap_or(last_sent)), if due.is_some() => {
                    (last_sent, due) = (Instant::now(), None);
                    self.send_state().await
                }
            };
            if let Err(error) = result {
                return error;
            }
        }
    }

    async fn send(&mut self, message: &ReplicationMessage) -> Result<(), SessionError> {
        let sent = timeout(SILENCE_LIMIT, protocol::send(&mut self.stream, message)).await;
        sent.map_err(|_| SessionError::Silent)??;
        self.last_sent = Instant::now();
        Ok(())
    }

    fn state(&self) -> SmState {
        self.local.sm_status.borrow().state
    }

    fn hello(&self) -> Hello {
        let status = *self.local.sm_status.borrow();
        Hello {
            version: VERSION,
            software: concat!("torus-sm ", env!("CARGO_PKG_VERSION")).to_owned(),
            port_guid: status.guid.0,
            subnet_prefix: self.local.subnet_prefix,
            state: status.state.to_string(),
            configuration: self.local.configuration.borrow().as_ref().clone(),
        }
    }

    async fn tick(&mut self) -> Result<(), SessionError> {
        if self.last_received.elapsed() > SILENCE_LIMIT {
            return Err(SessionError::Silent);
        }
        let hello = self.hello();
        if self.greeted.as_ref() != Some(&hello) {
            let is_reconfigured =
                self.greeted.as_ref().is_some_and(|old| old.configuration != hello.configuration);
            self.send(&ReplicationMessage::Hello(hello.clone())).await?;
            self.greeted = Some(hello);
            if is_reconfigured {
                self.compare();
            }
        }
        self.follow().await?;
        self.send_state().await?;
        if self.last_sent.elapsed() >= ALIVE_INTERVAL {
            self.send(&ReplicationMessage::Alive).await?;
        }
        Ok(())
    }

    async fn receive(&mut self, message: ReplicationMessage) -> Result<(), SessionError> {
        self.last_received = Instant::now();
        match message {
            ReplicationMessage::Hello(hello) => self.greeting(hello)?,
            ReplicationMessage::Follow { since } if self.problem().is_none() => {
                self.follower = Some(FollowerState {
                    since,
                    is_complete: false,
                    files: None,
                    incidents: "".into(),
                });
            }
            ReplicationMessage::Unfollow => self.follower = None,
            ReplicationMessage::Registry(page) if self.following.is_active => {
                self.import(page).await?
            }
            ReplicationMessage::Files(files) if self.following.is_active => {
                (self.local.store)(files);
                self.transferred(TransferDirection::Received, None);
            }
            ReplicationMessage::Incidents { text } if self.following.is_active => {
                self.local.incidents.receive(text)
            }
            _ => {}
        }
        self.show();
        Ok(())
    }

    fn greeting(&mut self, hello: Hello) -> Result<(), SessionError> {
        if hello.port_guid == self.local.sm_status.borrow().guid.0 {
            return Err(SessionError::Itself);
        }
        let is_first = self.peer.is_none();
        self.peer = Some(hello);
        match self.problem() {
            Some(problem) if is_first => warn!("no shared state with {}: {problem}", self.name()),
            None if is_first => info!("connected with {}", self.name()),
            _ => {}
        }
        self.compare();
        Ok(())
    }

    /// The peer as named in the log.
    fn name(&self) -> String {
        let guid = self.peer.as_ref().map_or(Guid(0), |peer| Guid(peer.port_guid));
        let status = self.local.status.load();
        let own = status.peers.iter().find(|(number, _)| *number == self.number);
        let address = own.map_or("", |(_, status)| &status.address);
        format!("the SM at port GUID {guid} ({address})")
    }

    /// Why nothing can be exchanged with the peer.
    fn problem(&self) -> Option<String> {
        let peer = self.peer.as_ref()?;
        if peer.version != VERSION {
            return Some(format!(
                "it speaks version {} of the protocol, and this instance version {VERSION}: run the same \
                 version of torus-sm on both hosts",
                peer.version
            ));
        }
        (peer.subnet_prefix != self.local.subnet_prefix).then(|| {
            format!("it manages another subnet, with the prefix {:#018x}", peer.subnet_prefix)
        })
    }

    /// Reports in which keys the configurations differ, once for all connections with the peer.
    fn compare(&self) {
        let Some(peer) = self.peer.as_ref() else { return };
        let found = differences(&self.local.configuration.borrow(), &peer.configuration);
        let guid = Some(Guid(peer.port_guid));
        let status = self.local.status.load();
        let known = status.peers.iter().filter(|(_, other)| other.port_guid == guid);
        let is_known = known.clone().any(|(_, other)| other.differences == found);
        let differed = known.into_iter().any(|(_, other)| !other.differences.is_empty());
        self.local.status.update(self.number, |status| {
            status.port_guid = guid;
            status.differences.clone_from(&found);
        });
        if !found.is_empty() && !is_known {
            warn!(
                "{} is configured differently; when one of both takes over from the other, the fabric \
                 changes: {}",
                self.name(),
                found.join(", ")
            );
        } else if found.is_empty() && differed && !is_known {
            info!("{} is configured as this one now", self.name());
        }
    }

    /// Updates the status of the connection.
    fn show(&self) {
        let Some(peer) = self.peer.as_ref() else { return };
        let problem = self.problem();
        self.local.status.update(self.number, |status| {
            status.is_connected = true;
            status.problem.clone_from(&problem);
            status.port_guid = Some(Guid(peer.port_guid));
            status.state = Some(peer.state.clone());
            status.software = Some(peer.software.clone());
            status.sharing.is_followed = self.following.is_active;
            status.sharing.is_complete =
                self.following.is_active && self.following.position.is_some();
            status.sharing.is_follower = self.follower.is_some();
            status.last_transfer = self.last_transfer.or(status.last_transfer);
        });
    }

    /// Keeps when state was transferred; `generation` is that of before if there were only files.
    fn transferred(&mut self, direction: TransferDirection, generation: Option<u64>) {
        let before = self.last_transfer.map_or(0, |transfer| transfer.generation);
        let generation = generation.unwrap_or(before);
        self.last_transfer = Some(StateTransfer { direction, generation, at: Instant::now() });
    }

    /// Starts or stops to follow the peer, as the roles of both require.
    async fn follow(&mut self) -> Result<(), SessionError> {
        let followed = *self.local.follows.borrow();
        let is_wanted = self.problem().is_none()
            && self.state() == SmState::Standby
            && self.peer.as_ref().is_some_and(|peer| {
                followed == Some(Guid(peer.port_guid)) && peer.state == SmState::Master.to_string()
            });
        if !is_wanted {
            if std::mem::take(&mut self.following.is_active) {
                self.following.position = None;
                self.send(&ReplicationMessage::Unfollow).await?;
                self.show();
            }
            return Ok(());
        }
        let is_due = self.following.next_request.is_none_or(|next| next <= Instant::now());
        if !self.following.is_active && is_due {
            self.following.is_active = true;
            self.send(&ReplicationMessage::Follow { since: self.following.position }).await?;
            self.show();
        }
        Ok(())
    }

    /// Passes a page on to the SA server.
    async fn import(&mut self, page: Page) -> Result<(), SessionError> {
        let position = page.position;
        let is_last = page.is_last;
        let (reply, result) = oneshot::channel();
        let request = ReplicaRequest::Import { page, reply };
        self.local.registry.send(request).await.map_err(|_| SessionError::Ended)?;
        if result.await.map_err(|_| SessionError::Ended)? {
            self.following.position = is_last.then_some(position).or(self.following.position);
            self.transferred(TransferDirection::Received, Some(position.number));
        } else {
            (self.following.is_active, self.following.position) = (false, None);
            self.following.next_request = Some(Instant::now() + REFUSED_PAUSE);
        }
        Ok(())
    }

    /// As master, sends what a follower lacks.
    async fn send_state(&mut self) -> Result<(), SessionError> {
        if self.state() != SmState::Master {
            return Ok(());
        }
        let before = self.last_transfer;
        self.send_files().await?;
        self.send_incidents().await?;
        self.send_pages().await?;
        if self.last_transfer != before {
            self.show();
        }
        Ok(())
    }

    async fn send_pages(&mut self) -> Result<(), SessionError> {
        while let Some(follower) = self.follower.as_ref() {
            let (reply, page) = oneshot::channel();
            let request = ReplicaRequest::Export { since: follower.since, max: PAGE_SIZE, reply };
            self.local.registry.send(request).await.map_err(|_| SessionError::Ended)?;
            let page = page.await.map_err(|_| SessionError::Ended)?;
            if page.changes.is_empty() && !page.reset && follower.is_complete {
                break;
            }
            let position = page.position;
            let is_complete = page.is_last;
            self.send(&ReplicationMessage::Registry(page)).await?;
            self.transferred(TransferDirection::Sent, Some(position.number));
            if let Some(follower) = self.follower.as_mut() {
                (follower.since, follower.is_complete) = (Some(position), is_complete);
            }
            if is_complete {
                break;
            }
        }
        Ok(())
    }

    async fn send_incidents(&mut self) -> Result<(), SessionError> {
        let Some(follower) = self.follower.as_mut() else { return Ok(()) };
        let text = self.local.incidents.provided();
        if follower.incidents == text {
            return Ok(());
        }
        follower.incidents = text.clone();
        self.send(&ReplicationMessage::Incidents { text: text.to_string() }).await
    }

    async fn send_files(&mut self) -> Result<(), SessionError> {
        let Some(follower) = self.follower.as_mut() else { return Ok(()) };
        let Some(current) = self.local.files.borrow().clone() else { return Ok(()) };
        if follower.files.as_ref().is_some_and(|(made_by, _)| Arc::ptr_eq(made_by, &current)) {
            return Ok(());
        }
        let files = current();
        let is_new = follower.files.as_ref().is_none_or(|(_, sent)| *sent != files);
        follower.files = Some((current, files.clone()));
        if is_new {
            self.send(&ReplicationMessage::Files(files)).await?;
            self.transferred(TransferDirection::Sent, None);
        }
        Ok(())
    }
}

//! The server's thread: waits for events on all descriptors, and handles them.

use super::attach_point::AttachPoint;
use super::connection::{Connection, Disconnected, Reply, Request};
use super::directories::{DeviceKind, NodeDirectories};
use super::open_file::{OpenFile, SimulatedDevice};
use super::protocol::{ATTACH, CONSOLE, IOCTL, ISSM_BIT, OPEN, POST, REFRESH, VERSION, WRITE};
use super::wakeup::{Wakeup, WakeupReceiver};
use crate::local_socket::Listener;
use crate::sim::SimFabric;
use crate::sim::console::{self, ConsoleError};
use crate::sim::timers;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll, ppoll};
use nix::sys::time::TimeSpec;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct EventLoop {
    fabric: SimFabric,
    default: AttachPoint,
    listener: Listener,
    directories: NodeDirectories,
    wakeup: Arc<Wakeup>,
    receiver: WakeupReceiver,
    /// Connections, and the nodes that their programs are attached to.
    connections: BTreeMap<u64, (Connection, Option<AttachPoint>)>,
    files: BTreeMap<u64, OpenFile>,
    /// True if this thread handles the fabric's timed events. Handled by another thread, each response would
    /// pass a lock that the wake-up of this thread holds for longer than all other work on it takes.
    has_timed_events: bool,
    /// Number of the last connection or open file.
    last_number: u64,
}

/// Owner of a descriptor.
#[derive(Clone, Copy)]
enum DescriptorOwner {
    Wakeup,
    Listener,
    Connection(u64),
    File(u64),
}

impl EventLoop {
    pub(super) fn new(
        fabric: SimFabric,
        default: AttachPoint,
        listener: Listener,
        directory: PathBuf,
        wakeup: Arc<Wakeup>,
        receiver: WakeupReceiver,
    ) -> io::Result<Self> {
        let directories = NodeDirectories::new(fabric.clone(), directory.canonicalize()?);
        let waker = Arc::clone(&wakeup);
        let has_timed_events = fabric.take_over_events(move || waker.wake());
        Ok(Self {
            fabric,
            default,
            listener,
            directories,
            wakeup,
            receiver,
            connections: BTreeMap::new(),
            files: BTreeMap::new(),
            has_timed_events,
            last_number: 0,
        })
    }

    /// Runs until the server is stopped.
    pub(super) fn run(mut self) {
        if self.has_timed_events {
            timers::make_timers_exact();
        }
        while !self.wakeup.is_stopped() {
            let ready = self.wait();
            for (source, events) in ready {
                self.handle(source, events);
            }
            if self.has_timed_events {
                self.fabric.handle_due_events();
            }
            for number in self.wakeup.take_readable() {
                self.send_packets(number);
            }
        }
    }

    fn wait(&self) -> Vec<(DescriptorOwner, PollFlags)> {
        let idle = PollFlags::empty();
        let input = PollFlags::POLLIN;
        let output = PollFlags::POLLOUT;
        let mut sources = vec![DescriptorOwner::Wakeup, DescriptorOwner::Listener];
        let mut fds = vec![
            PollFd::new(self.receiver.0.as_fd(), input),
            PollFd::new(self.listener.socket.as_fd(), input),
        ];
        for (&number, (connection, _)) in &self.connections {
            sources.push(DescriptorOwner::Connection(number));
            let events = if connection.has_unsent() { output } else { input };
            fds.push(PollFd::new(connection.fd(), events));
        }
        for (&number, file) in &self.files {
            sources.push(DescriptorOwner::File(number));
            // POLLHUP is reported regardless of the events requested.
            fds.push(PollFd::new(file.socket(), if file.is_blocked() { output } else { idle }));
        }
        let timeout =
            if self.wakeup.may_block() { self.time_to_next_event() } else { Some(Duration::ZERO) };
        let polled = ppoll(&mut fds, timeout.map(TimeSpec::from_duration), None);
        self.wakeup.woken(&self.receiver);
        if polled.is_err() {
            return Vec::new();
        }
        let events = fds.iter().map(|fd| fd.revents().unwrap_or(idle));
        sources.into_iter().zip(events).filter(|(_, events)| !events.is_empty()).collect()
    }

    /// `None` if this thread has no event to wait for.
    fn time_to_next_event(&self) -> Option<Duration> {
        if !self.has_timed_events {
            return None;
        }
        let due = self.fabric.next_event()?;
        Some(timers::time_to(due))
    }

    fn handle(&mut self, source: DescriptorOwner, events: PollFlags) {
        match source {
            DescriptorOwner::Wakeup => {}
            DescriptorOwner::Listener => self.accept(),
            DescriptorOwner::Connection(number) => self.serve_connection(number),
            DescriptorOwner::File(number) => {
                let closed = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
                if events.intersects(closed) {
                    self.files.remove(&number);
                } else {
                    self.send_packets(number);
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.socket.accept() {
            if let Ok(connection) = Connection::new(stream) {
                self.last_number += 1;
                self.connections.insert(self.last_number, (connection, None));
            }
        }
    }

    /// Closes files that programs have closed, so that requests do not find their agents still
    /// registered.
    fn close_unused_files(&mut self) {
        let idle = PollFlags::empty();
        let sockets = self.files.values().map(|file| PollFd::new(file.socket(), idle));
        let mut fds: Vec<_> = sockets.collect();
        if poll(&mut fds, PollTimeout::ZERO).is_err() {
            return;
        }
        let closed = self.files.keys().zip(&fds).filter(|(_, fd)| is_closed(fd));
        let closed: Vec<u64> = closed.map(|(&number, _)| number).collect();
        drop(fds);
        for number in closed {
            self.files.remove(&number);
        }
    }

    /// Sends the packets in a file's receive queue to the program; closes the file on errors.
    fn send_packets(&mut self, number: u64) {
        if let Some(file) = self.files.get_mut(&number)
            && file.send_packets().is_err()
        {
            self.files.remove(&number);
        }
    }

    /// Handles the requests of a connection, and drops the connection on errors.
    fn serve_connection(&mut self, number: u64) {
        let Some((mut connection, mut at)) = self.connections.remove(&number) else { return };
        if self.handle_requests(&mut connection, &mut at).is_ok() {
            self.connections.insert(number, (connection, at));
        }
    }

    fn handle_requests(
        &mut self,
        connection: &mut Connection,
        at: &mut Option<AttachPoint>,
    ) -> Result<(), Disconnected> {
        connection.flush()?;
        connection.fill()?;
        while let Some(request) = connection.request()? {
            if request.operation == POST {
                // An invalid one is dropped, as no one waits for the error.
                let _ = at.map(|_| self.write(&request.body));
                continue;
            }
            let reply = self.handle_request(&request, at);
            connection.reply(reply)?;
        }
        Ok(())
    }

    fn handle_request(&mut self, request: &Request, at: &mut Option<AttachPoint>) -> Reply {
        if matches!(request.operation, OPEN | IOCTL) {
            self.close_unused_files();
        }
        let body = request.body.as_slice();
        let result = match (request.operation, *at) {
            (ATTACH, _) => return self.attach(body, at),
            (CONSOLE, _) => return self.console(body),
            (OPEN, Some(at)) => self.open(body, at),
            (REFRESH, Some(at)) => self.refresh(body, at),
            (WRITE, Some(_)) => self.write(body),
            (IOCTL, Some(_)) => return self.ioctl(body),
            _ => Err(Errno::EPROTO),
        };
        result.unwrap_or_else(Reply::error)
    }

    fn console(&self, body: &[u8]) -> Reply {
        match console::run_line(&self.fabric, &String::from_utf8_lossy(body)) {
            Ok(text) => Reply::body(text),
            Err(ConsoleError { column, text }) => {
                let column = u32::try_from(column).unwrap_or(u32::MAX).to_ne_bytes();
                let body = [&column, text.as_bytes()].concat();
                Reply { errno: Some(Errno::EINVAL), ..Reply::body(body) }
            }
        }
    }

    fn attach(&mut self, body: &[u8], at: &mut Option<AttachPoint>) -> Reply {
        let Some((version, name)) = body.split_first_chunk() else {
            return Reply::error(Errno::EPROTO);
        };
        if u32::from_ne_bytes(*version) != VERSION {
            return error_reply(
                "torus-sm and libtorus_sm_preload.so have different versions".to_owned(),
            );
        }
        let name = String::from_utf8_lossy(name);
        let found =
            if name.is_empty() { Ok(self.default) } else { self.fabric.attach_point(&name) };
        let found = match found {
            Ok(found) => found,
            Err(reason) => return error_reply(reason.to_string()),
        };
        match self.directories.directory(found) {
            Ok(directory) => {
                *at = Some(found);
                Reply::body(directory.into_os_string().into_vec())
            }
            Err(reason) => error_reply(reason.to_string()),
        }
    }

    fn open(&mut self, body: &[u8], at: AttachPoint) -> Result<Reply, Errno> {
        let path = std::str::from_utf8(body).map_err(|_| Errno::ENOENT)?;
        let (kind, port) = self.directories.device(at, path)?;
        self.last_number += 1;
        let number = match kind {
            DeviceKind::Umad => self.last_number,
            DeviceKind::Issm => self.last_number | ISSM_BIT,
        };
        let device = match kind {
            DeviceKind::Umad => {
                let wakeup = Arc::clone(&self.wakeup);
                let wake = Arc::new(move || wakeup.notify(number));
                let umad = self.fabric.open_umad(at.node, port, wake)?;
                SimulatedDevice::Umad(Box::new(umad.of_vport(at.vport)))
            }
            DeviceKind::Issm => {
                SimulatedDevice::Issm { _open: self.fabric.open_issm(at.node, port)? }
            }
        };
        let (file, program) = OpenFile::new(device)?;
        self.files.insert(number, file);
        let body = number.to_ne_bytes().to_vec();
        Ok(Reply { body, descriptor: Some(program), ..Reply::default() })
    }

    fn refresh(&mut self, body: &[u8], at: AttachPoint) -> Result<Reply, Errno> {
        let path = std::str::from_utf8(body).map_err(|_| Errno::ENOENT)?;
        let result = self.directories.refresh(at, path);
        result.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
        Ok(Reply::default())
    }

    fn write(&mut self, body: &[u8]) -> Result<Reply, Errno> {
        let (number, bytes) = split_number(body)?;
        let file = self.files.get(&number).ok_or(Errno::EBADF)?;
        let written = file.write(bytes)?;
        let written = u32::try_from(written).unwrap_or(u32::MAX);
        Ok(Reply::body(written.to_ne_bytes()))
    }

    fn ioctl(&mut self, body: &[u8]) -> Reply {
        let parts = split_number(body).ok();
        let parts = parts.and_then(|(number, rest)| Some((number, rest.split_first_chunk()?)));
        let Some((number, (code, argument))) = parts else { return Reply::error(Errno::EPROTO) };
        let Some(file) = self.files.get(&number) else { return Reply::error(Errno::EBADF) };
        let mut argument = argument.to_vec();
        let result = file.ioctl(u32::from_ne_bytes(*code), &mut argument);
        Reply { errno: result.err(), ..Reply::body(argument) }
    }
}

fn error_reply(text: String) -> Reply {
    Reply { errno: Some(Errno::ENODEV), ..Reply::body(text) }
}

fn is_closed(fd: &PollFd<'_>) -> bool {
    fd.revents().is_some_and(|events| !events.is_empty())
}

/// Number of the open file that a request is for, and the rest of the request.
fn split_number(body: &[u8]) -> Result<(u64, &[u8]), Errno> {
    let (number, rest) = body.split_first_chunk().ok_or(Errno::EPROTO)?;
    Ok((u64::from_ne_bytes(*number), rest))
}

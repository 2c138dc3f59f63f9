//! The server's thread: waits for all descriptors at once, and serves whoever has something.

use super::address::Listener;
use super::bell::{Bell, Ear};
use super::client::{Client, Lost, Reply, Request};
use super::device::{Device, Opened};
use super::nodes::{DeviceKind, Nodes};
use super::place::Place;
use super::protocol::{CONSOLE, HELD, HELLO, IOCTL, OPEN, REFRESH, VERSION, WRITE};
use crate::sim::SimFabric;
use crate::sim::console::{self, ConsoleError};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;

pub(super) struct Hub {
    fabric: SimFabric,
    default: Place,
    listener: Listener,
    nodes: Nodes,
    bell: Arc<Bell>,
    ear: Ear,
    /// Connections with the places that they are attached at, once they said so.
    clients: BTreeMap<u64, (Client, Option<Place>)>,
    devices: BTreeMap<u64, Device>,
    /// The last number that was given to a client or a device.
    last: u64,
}

/// What a descriptor belongs to.
#[derive(Clone, Copy)]
enum Source {
    Ear,
    Listener,
    Client(u64),
    Device(u64),
}

impl Hub {
    pub(super) fn new(
        fabric: SimFabric,
        default: Place,
        listener: Listener,
        folder: PathBuf,
        bell: Arc<Bell>,
        ear: Ear,
    ) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        let nodes = Nodes::new(fabric.clone(), folder);
        let (clients, devices) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { fabric, default, listener, nodes, bell, ear, clients, devices, last: 0 })
    }

    /// Serves until the bell tells the end.
    pub(super) fn run(mut self) {
        while !self.bell.has_ended() {
            let ready = self.wait();
            for (source, events) in ready {
                self.serve(source, events);
            }
            for number in self.bell.take() {
                self.drain(number);
            }
        }
    }

    /// Waits until there is something to do.
    fn wait(&self) -> Vec<(Source, PollFlags)> {
        let idle = PollFlags::empty();
        let (input, output) = (PollFlags::POLLIN, PollFlags::POLLOUT);
        let mut sources = vec![Source::Ear, Source::Listener];
        let mut fds = vec![
            PollFd::new(self.ear.0.as_fd(), input),
            PollFd::new(self.listener.socket.as_fd(), input),
        ];
        for (&number, (client, _)) in &self.clients {
            sources.push(Source::Client(number));
            let events = if client.has_unsent() { output } else { input };
            fds.push(PollFd::new(client.fd(), events));
        }
        for (&number, device) in &self.devices {
            sources.push(Source::Device(number));
            // A program that went away is told in any case.
            fds.push(PollFd::new(device.end(), if device.is_stuck() { output } else { idle }));
        }
        let timeout = if self.bell.may_sleep() { PollTimeout::NONE } else { PollTimeout::ZERO };
        let polled = poll(&mut fds, timeout);
        self.bell.wake(&self.ear);
        if polled.is_err() {
            return Vec::new();
        }
        let events = fds.iter().map(|fd| fd.revents().unwrap_or(idle));
        sources.into_iter().zip(events).filter(|(_, events)| !events.is_empty()).collect()
    }

    fn serve(&mut self, source: Source, events: PollFlags) {
        match source {
            Source::Ear => {}
            Source::Listener => self.accept(),
            Source::Client(number) => self.attend(number),
            Source::Device(number) => {
                let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
                if events.intersects(gone) {
                    self.devices.remove(&number);
                } else {
                    self.drain(number);
                }
            }
        }
    }

    fn accept(&mut self) {
        // A client that did not wait for us is no loss.
        while let Ok((stream, _)) = self.listener.socket.accept() {
            if let Ok(client) = Client::new(stream) {
                self.last += 1;
                self.clients.insert(self.last, (client, None));
            }
        }
    }

    /// Closes what programs have closed: before somebody asks for what they held.
    fn close_abandoned(&mut self) {
        let idle = PollFlags::empty();
        let ends = self.devices.values().map(|device| PollFd::new(device.end(), idle));
        let mut fds: Vec<_> = ends.collect();
        if poll(&mut fds, PollTimeout::ZERO).is_err() {
            return;
        }
        let is_over = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
        let over = self.devices.keys().zip(&fds).filter(|(_, fd)| is_over(fd));
        let over: Vec<u64> = over.map(|(&number, _)| number).collect();
        drop(fds);
        for number in over {
            self.devices.remove(&number);
        }
    }

    /// Reconfigurer packets on; whoever does not take them any more is forgotten.
    fn drain(&mut self, number: u64) {
        if let Some(device) = self.devices.get_mut(&number)
            && device.drain().is_err()
        {
            self.devices.remove(&number);
        }
    }

    /// Serves a connection's requests.
    fn attend(&mut self, number: u64) {
        // It is out of the table while its requests change that.
        let Some((mut client, mut place)) = self.clients.remove(&number) else { return };
        if self.converse(&mut client, &mut place).is_ok() {
            self.clients.insert(number, (client, place));
        }
    }

    fn converse(&mut self, client: &mut Client, place: &mut Option<Place>) -> Result<(), Lost> {
        client.flush()?;
        client.fill()?;
        while let Some(request) = client.request()? {
            let reply = self.answer(&request, place);
            client.reply(reply)?;
        }
        Ok(())
    }

    fn answer(&mut self, request: &Request, place: &mut Option<Place>) -> Reply {
        if matches!(request.operation, OPEN | IOCTL) {
            self.close_abandoned();
        }
        let body = request.body.as_slice();
        let answered = match (request.operation, *place) {
            (HELLO, _) => return self.hello(body, place),
            (CONSOLE, _) => return self.console(body),
            (OPEN, Some(place)) => self.open(body, place),
            (REFRESH, Some(place)) => self.refresh(body, place),
            (WRITE, Some(_)) => self.write(body),
            (IOCTL, Some(_)) => return self.ioctl(body),
            _ => Err(Errno::EPROTO),
        };
        answered.unwrap_or_else(Reply::error)
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

    fn hello(&mut self, body: &[u8], place: &mut Option<Place>) -> Reply {
        let refuse = |text: String| Reply { errno: Some(Errno::ENODEV), ..Reply::body(text) };
        let Some((version, name)) = body.split_first_chunk() else {
            return Reply::error(Errno::EPROTO);
        };
        if u32::from_ne_bytes(*version) != VERSION {
            return refuse("the preloaded library is of another version".to_owned());
        }
        let name = String::from_utf8_lossy(name);
        let named = if name.is_empty() { Ok(self.default) } else { self.fabric.place(&name) };
        let found = match named {
            Ok(found) => found,
            Err(error) => return refuse(error.to_string()),
        };
        match self.nodes.folder(found) {
            Ok(folder) => {
                *place = Some(found);
                Reply::body(folder.into_os_string().into_vec())
            }
            Err(error) => refuse(error.to_string()),
        }
    }

    fn open(&mut self, body: &[u8], place: Place) -> Result<Reply, Errno> {
        let path = std::str::from_utf8(body).map_err(|_| Errno::ENOENT)?;
        let (kind, port) = self.nodes.device(place, path)?;
        self.last += 1;
        let number = match kind {
            DeviceKind::Umad => self.last,
            DeviceKind::Issm => self.last | HELD,
        };
        let opened = match kind {
            DeviceKind::Umad => {
                let bell = Arc::clone(&self.bell);
                let wake = Arc::new(move || bell.ring(number));
                Opened::Umad(Box::new(self.fabric.open_umad(place.node, port, wake)?))
            }
            DeviceKind::Issm => Opened::Issm { _hold: self.fabric.open_issm(place.node, port)? },
        };
        let (device, program) = Device::new(opened)?;
        self.devices.insert(number, device);
        let body = number.to_ne_bytes().to_vec();
        Ok(Reply { body, passed: Some(program), ..Reply::default() })
    }

    fn refresh(&mut self, body: &[u8], place: Place) -> Result<Reply, Errno> {
        let path = std::str::from_utf8(body).map_err(|_| Errno::ENOENT)?;
        let done = self.nodes.refresh(place, path);
        done.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
        Ok(Reply::default())
    }

    fn write(&mut self, body: &[u8]) -> Result<Reply, Errno> {
        let (number, bytes) = self.device(body)?;
        let device = self.devices.get(&number).ok_or(Errno::EBADF)?;
        let taken = device.write(bytes)?;
        let taken = u32::try_from(taken).unwrap_or(u32::MAX);
        Ok(Reply::body(taken.to_ne_bytes()))
    }

    fn ioctl(&mut self, body: &[u8]) -> Reply {
        let parts = self.device(body).ok();
        let parts = parts.and_then(|(number, rest)| Some((number, rest.split_first_chunk()?)));
        let Some((number, (code, argument))) = parts else { return Reply::error(Errno::EPROTO) };
        let Some(device) = self.devices.get(&number) else { return Reply::error(Errno::EBADF) };
        let mut argument = argument.to_vec();
        let done = device.ioctl(u32::from_ne_bytes(*code), &mut argument);
        Reply { errno: done.err(), ..Reply::body(argument) }
    }

    /// The number of the device that a request is for, and the rest of it.
    fn device<'a>(&self, body: &'a [u8]) -> Result<(u64, &'a [u8]), Errno> {
        let (number, rest) = body.split_first_chunk().ok_or(Errno::EPROTO)?;
        Ok((u64::from_ne_bytes(*number), rest))
    }
}

//! Connection of a program: decodes requests and encodes replies, without blocking.

use super::protocol::{FRAME_HEADER_SIZE, frame_header, read_frame_header};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Bytes that one read(2) requests.
const READ_SIZE: usize = 64 * 1024;

pub(super) struct Connection {
    stream: UnixStream,
    buffer: Box<[u8]>,
    received: Vec<u8>,
    /// Bytes of `received` that were decoded.
    decoded: usize,
    unsent: Vec<u8>,
}

pub(super) struct Request {
    pub(super) operation: u32,
    pub(super) body: Vec<u8>,
}

#[derive(Default)]
pub(super) struct Reply {
    pub(super) errno: Option<Errno>,
    pub(super) body: Vec<u8>,
    /// Descriptor to pass to the program.
    pub(super) descriptor: Option<OwnedFd>,
}

impl Reply {
    pub(super) fn body(body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    pub(super) fn error(errno: Errno) -> Self {
        Self { errno: Some(errno), ..Self::default() }
    }
}

/// The connection is closed or broken.
pub(super) struct Disconnected;

impl Connection {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let buffer = vec![0; READ_SIZE].into_boxed_slice();
        Ok(Self { stream, buffer, received: Vec::new(), decoded: 0, unsent: Vec::new() })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Reads all available bytes.
    pub(super) fn fill(&mut self) -> Result<(), Disconnected> {
        self.received.drain(..std::mem::take(&mut self.decoded));
        loop {
            match self.stream.read(&mut self.buffer) {
                Ok(0) => return Err(Disconnected),
                Ok(got) => {
                    self.received.extend_from_slice(&self.buffer[..got]);
                    if got < READ_SIZE {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Disconnected),
            }
        }
    }

    /// The next request, once it has been received completely.
    pub(super) fn request(&mut self) -> Result<Option<Request>, Disconnected> {
        let rest = self.received.get(self.decoded..).unwrap_or(&[]);
        let Some(header) = rest.first_chunk() else { return Ok(None) };
        let (operation, length) = read_frame_header(*header).ok_or(Disconnected)?;
        let Some(body) = rest.get(FRAME_HEADER_SIZE..FRAME_HEADER_SIZE + length) else {
            return Ok(None);
        };
        let body = body.to_vec();
        self.decoded += FRAME_HEADER_SIZE + length;
        Ok(Some(Request { operation, body }))
    }

    /// Sends a reply, or queues it until the socket is writable.
    pub(super) fn reply(&mut self, reply: Reply) -> Result<(), Disconnected> {
        let errno = reply.errno.map_or(0, |errno| (errno as i32).cast_unsigned());
        let header = frame_header(errno, reply.body.len());
        if let Some(descriptor) = reply.descriptor {
            return self.reply_with(&header, &reply.body, &descriptor);
        }
        self.unsent.extend_from_slice(&header);
        self.unsent.extend_from_slice(&reply.body);
        self.flush()
    }

    /// Sends a reply with a descriptor in one message. The library reads each reply before its next
    /// request; a connection with unsent replies is therefore broken.
    fn reply_with(
        &mut self,
        header: &[u8],
        body: &[u8],
        descriptor: &OwnedFd,
    ) -> Result<(), Disconnected> {
        if self.has_unsent() {
            return Err(Disconnected);
        }
        let parts = [IoSlice::new(header), IoSlice::new(body)];
        let fds = [descriptor.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&fds)];
        let flags = MsgFlags::MSG_NOSIGNAL;
        let sent = sendmsg::<()>(self.stream.as_raw_fd(), &parts, &rights, flags, None);
        if sent == Ok(header.len() + body.len()) { Ok(()) } else { Err(Disconnected) }
    }

    /// Sends queued replies.
    pub(super) fn flush(&mut self) -> Result<(), Disconnected> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Disconnected),
            }
        }
        Ok(())
    }
}

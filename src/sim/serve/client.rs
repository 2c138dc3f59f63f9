//! A connection: bytes into requests, replies into bytes.

use super::protocol::{FRAME_HEAD, frame_head, read_frame_head};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// A connection that never blocks.
pub(super) struct Client {
    stream: UnixStream,
    received: Vec<u8>,
    unsent: Vec<u8>,
}

/// A request.
pub(super) struct Request {
    pub(super) operation: u32,
    pub(super) body: Vec<u8>,
}

/// What is answered.
#[derive(Default)]
pub(super) struct Reply {
    pub(super) errno: Option<Errno>,
    pub(super) body: Vec<u8>,
    pub(super) passed: Option<OwnedFd>,
}

impl Reply {
    pub(super) fn body(body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::default() }
    }

    pub(super) fn error(errno: Errno) -> Self {
        Self { errno: Some(errno), ..Self::default() }
    }
}

/// The connection cannot go on.
pub(super) struct Lost;

impl Client {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, received: Vec::new(), unsent: Vec::new() })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Reads what there is.
    pub(super) fn fill(&mut self) -> Result<(), Lost> {
        let mut chunk = [0; CHUNK];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(Lost),
                Ok(got) => {
                    self.received.extend_from_slice(&chunk[..got]);
                    if got < CHUNK {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Lost),
            }
        }
    }

    /// The next request, if it is there as a whole.
    pub(super) fn request(&mut self) -> Result<Option<Request>, Lost> {
        let Some(head) = self.received.first_chunk() else { return Ok(None) };
        let (operation, length) = read_frame_head(*head).ok_or(Lost)?;
        let Some(body) = self.received.get(FRAME_HEAD..FRAME_HEAD + length) else {
            return Ok(None);
        };
        let body = body.to_vec();
        self.received.drain(..FRAME_HEAD + length);
        Ok(Some(Request { operation, body }))
    }

    /// Sends a reply, now or when there is room.
    pub(super) fn reply(&mut self, reply: Reply) -> Result<(), Lost> {
        let errno = reply.errno.map_or(0, |errno| (errno as i32).cast_unsigned());
        let head = frame_head(errno, reply.body.len());
        if let Some(passed) = reply.passed {
            return self.reply_with(&head, &reply.body, &passed);
        }
        self.unsent.extend_from_slice(&head);
        self.unsent.extend_from_slice(&reply.body);
        self.flush()
    }

    /// A descriptor goes with a reply as a whole, before which all others have gone: who asks
    /// for the next before reading the last has no use for one.
    fn reply_with(&mut self, head: &[u8], body: &[u8], passed: &OwnedFd) -> Result<(), Lost> {
        if self.has_unsent() {
            return Err(Lost);
        }
        let parts = [IoSlice::new(head), IoSlice::new(body)];
        let fds = [passed.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&fds)];
        let flags = MsgFlags::MSG_NOSIGNAL;
        let sent = sendmsg::<()>(self.stream.as_raw_fd(), &parts, &rights, flags, None);
        if sent == Ok(head.len() + body.len()) { Ok(()) } else { Err(Lost) }
    }

    /// Sends what has not been sent.
    pub(super) fn flush(&mut self) -> Result<(), Lost> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Lost),
            }
        }
        Ok(())
    }
}

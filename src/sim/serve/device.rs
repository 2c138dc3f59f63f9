//! Open files: the simulator's end of a program's descriptor, and what user_mad.c does with it.

use super::protocol::{INSIDE, packet_head};
use crate::sim::kernel::Registration;
use crate::sim::umad::{OpenIssm, OpenUmad};
use crate::transport::umad::request;
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair,
};
use std::fs::File;
use std::io::{IoSlice, Seek as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

/// The MAD inside a packet: a longer message is told by its first segment.
const MAD: usize = 256;

/// What a file is.
pub(super) enum Opened {
    Umad(Box<OpenUmad>),
    Issm { _hold: OpenIssm },
}

/// An open file.
pub(super) struct Device {
    opened: Opened,
    /// Hangs up when the program has closed its last copy.
    end: OwnedFd,
    /// A packet that the full socket did not take.
    stuck: Option<Vec<u8>>,
}

impl Device {
    /// A file, and the descriptor for the program.
    pub(super) fn new(opened: Opened) -> Result<(Self, OwnedFd), Errno> {
        let (family, flags) = (AddressFamily::Unix, SockFlag::SOCK_CLOEXEC);
        let (end, program) = socketpair(family, SockType::SeqPacket, None, flags)?;
        Ok((Self { opened, end, stuck: None }, program))
    }

    pub(super) fn end(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    /// True if a packet waits for room in the socket.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck.is_some()
    }

    /// write(2).
    pub(super) fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match &self.opened {
            Opened::Umad(umad) => umad.write(bytes),
            Opened::Issm { .. } => Err(Errno::EINVAL),
        }
    }

    /// ioctl(2); what the kernel writes back is in `argument` afterwards, also if it fails.
    pub(super) fn ioctl(&self, code: u32, argument: &mut [u8]) -> Result<(), Errno> {
        let Opened::Umad(umad) = &self.opened else { return Err(Errno::ENOTTY) };
        match code.into() {
            request::ENABLE_PKEY => umad.enable_pkey(),
            request::UNREGISTER_AGENT => {
                let id = argument.first_chunk().ok_or(Errno::EFAULT)?;
                umad.unregister(u32::from_ne_bytes(*id))
            }
            request::REGISTER_AGENT => {
                let raw = argument.first_chunk().ok_or(Errno::EFAULT)?;
                let id = umad.register(&Registration::from_request(raw))?;
                put(argument, 0, id)
            }
            request::REGISTER_AGENT2 => {
                let raw = argument.first_chunk().ok_or(Errno::EFAULT)?;
                let registration = Registration::from_request2(raw);
                if registration.flags & !Registration::SUPPORTED_FLAGS != 0 {
                    put(argument, 12, Registration::SUPPORTED_FLAGS)?;
                    return Err(Errno::EINVAL);
                }
                let id = umad.register(&registration)?;
                put(argument, 0, id)
            }
            _ => Err(Errno::ENOTTY),
        }
    }

    /// Reconfigurer on what waits, as far as the socket takes it. An error: the program is gone.
    pub(super) fn drain(&mut self) -> Result<(), Errno> {
        let Opened::Umad(umad) = &self.opened else { return Ok(()) };
        let header = umad.header_size();
        while let Some(packet) = self.stuck.take().or_else(|| umad.receive()) {
            match send(&self.end, &packet, header) {
                Ok(()) => {}
                Err(Errno::EAGAIN | Errno::ENOBUFS) => {
                    self.stuck = Some(packet);
                    return Ok(());
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

fn put(argument: &mut [u8], at: usize, word: u32) -> Result<(), Errno> {
    let place = argument.get_mut(at..at + 4).ok_or(Errno::EFAULT)?;
    place.copy_from_slice(&word.to_ne_bytes());
    Ok(())
}

fn send(end: &OwnedFd, packet: &[u8], header: usize) -> Result<(), Errno> {
    let first = packet.len().min(header + MAD).min(INSIDE);
    let outside = first < packet.len();
    let head = packet_head(packet.len(), header, outside);
    let parts = [IoSlice::new(&head), IoSlice::new(&packet[..first])];
    let whole = if outside { Some(memory_file(packet)?) } else { None };
    let passed = whole.as_ref().map(|file| [file.as_raw_fd()]);
    let rights = passed.as_ref().map(|fds| ControlMessage::ScmRights(fds));
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    sendmsg::<()>(end.as_raw_fd(), &parts, rights.as_slice(), flags, None).map(|_| ())
}

fn memory_file(bytes: &[u8]) -> Result<File, Errno> {
    let fd = memfd_create(c"torus-sm packet", MFdFlags::MFD_CLOEXEC)?;
    let mut file = File::from(fd);
    let written = file.write_all(bytes).and_then(|()| file.rewind());
    written.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::super::protocol::{PACKET_HEAD, read_packet_head};
    use super::*;
    use nix::sys::socket::{ControlMessageOwned, recvmsg};
    use std::io::IoSliceMut;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SockFlag::SOCK_CLOEXEC;
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).expect("a pair")
    }

    #[test]
    fn a_long_message_is_outside_and_begins_inside() {
        let (end, program) = pair();
        let packet: Vec<u8> = (0..3_000_000_u32).map(|i| (i / 7) as u8).collect();
        send(&end, &packet, 64).expect("room");
        let mut inside = [0; PACKET_HEAD + INSIDE];
        let mut space = nix::cmsg_space!([std::os::fd::RawFd; 1]);
        let mut parts = [IoSliceMut::new(&mut inside)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let got = recvmsg::<()>(program.as_raw_fd(), &mut parts, Some(&mut space), flags);
        let got = got.expect("a packet");
        assert_eq!(got.bytes, PACKET_HEAD + 320);
        let passed = got.cmsgs().expect("not cut off").next();
        let Some(ControlMessageOwned::ScmRights(fds)) = passed else { panic!("{passed:?}") };
        let whole = std::fs::read(format!("/proc/self/fd/{}", fds[0])).expect("a file");
        nix::unistd::close(fds[0]).expect("open");
        assert!(whole == packet);
        let head = inside.first_chunk().expect("a head");
        assert_eq!(read_packet_head(*head), (packet.len(), 64, true));
        assert_eq!(inside[PACKET_HEAD..], packet[..320]);
    }

    #[test]
    fn short_messages_are_inside_until_the_socket_is_full() {
        let (end, program) = pair();
        let packet = [7; 56 + 256];
        let mut sent = 0;
        let full = loop {
            match send(&end, &packet, 56) {
                Ok(()) => sent += 1,
                Err(errno) => break errno,
            }
        };
        assert_eq!(full, Errno::EAGAIN);
        assert!(sent > 50, "{sent}");
        drop(program);
        // What the program has not read is lost, which the first to send is told.
        let lost = send(&end, &packet, 56);
        assert!(matches!(lost, Err(Errno::ECONNRESET | Errno::EPIPE)), "{lost:?}");
    }
}

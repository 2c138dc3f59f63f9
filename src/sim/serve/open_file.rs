//! Device files that programs have open: the simulator's end of a descriptor, with the operations
//! of `user_mad.c` in Linux.

use super::protocol::{MAX_INLINE, packet_header};
use crate::sim::kernel::AgentRegistration;
use crate::sim::umad::{OpenIssm, OpenUmad};
use crate::transport::umad::request;
use crate::wire::mad::MAD_SIZE;
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair,
};
use std::fs::File;
use std::io::{IoSlice, Seek as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

pub(super) enum SimulatedDevice {
    Umad(Box<OpenUmad>),
    Issm { _open: OpenIssm },
}

/// A device file that a program has open.
pub(super) struct OpenFile {
    device: SimulatedDevice,
    /// Hangs up when the program has closed the last copy of its descriptor.
    socket: OwnedFd,
    /// A packet to send once the socket is writable.
    unsent: Option<Vec<u8>>,
}

impl OpenFile {
    /// Creates a file; returns it with the descriptor for the program.
    pub(super) fn new(device: SimulatedDevice) -> Result<(Self, OwnedFd), Errno> {
        let family = AddressFamily::Unix;
        let flags = SockFlag::SOCK_CLOEXEC;
        let (socket, program) = socketpair(family, SockType::SeqPacket, None, flags)?;
        Ok((Self { device, socket, unsent: None }, program))
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// True if a packet waits for the socket to become writable.
    pub(super) fn is_blocked(&self) -> bool {
        self.unsent.is_some()
    }

    /// write(2).
    pub(super) fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match &self.device {
            SimulatedDevice::Umad(umad) => umad.write(bytes),
            SimulatedDevice::Issm { .. } => Err(Errno::EINVAL),
        }
    }

    /// ioctl(2). Writes results to `argument`, even with an error.
    pub(super) fn ioctl(&self, code: u32, argument: &mut [u8]) -> Result<(), Errno> {
        let SimulatedDevice::Umad(umad) = &self.device else { return Err(Errno::ENOTTY) };
        match code.into() {
            request::ENABLE_PKEY => umad.enable_pkey(),
            request::UNREGISTER_AGENT => {
                let id = argument.first_chunk().ok_or(Errno::EFAULT)?;
                umad.unregister(u32::from_ne_bytes(*id))
            }
            request::REGISTER_AGENT => {
                let raw = argument.first_chunk().ok_or(Errno::EFAULT)?;
                let id = umad.register(&AgentRegistration::from_request(raw))?;
                write_u32(argument, 0, id)
            }
            request::REGISTER_AGENT2 => {
                let raw = argument.first_chunk().ok_or(Errno::EFAULT)?;
                let registration = AgentRegistration::from_request2(raw);
                if registration.flags & !AgentRegistration::SUPPORTED_FLAGS != 0 {
                    write_u32(argument, 12, AgentRegistration::SUPPORTED_FLAGS)?;
                    return Err(Errno::EINVAL);
                }
                let id = umad.register(&registration)?;
                write_u32(argument, 0, id)
            }
            _ => Err(Errno::ENOTTY),
        }
    }

    /// Sends packets from the receive queue to the program until the socket is full.
    ///
    /// # Errors
    /// The program has closed its descriptor.
    pub(super) fn send_packets(&mut self) -> Result<(), Errno> {
        let SimulatedDevice::Umad(umad) = &self.device else { return Ok(()) };
        let header = umad.header_size();
        while let Some(packet) = self.unsent.take().or_else(|| umad.receive()) {
            match send(&self.socket, &packet, header) {
                Ok(()) => {}
                Err(Errno::EAGAIN | Errno::ENOBUFS) => {
                    self.unsent = Some(packet);
                    return Ok(());
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

fn write_u32(argument: &mut [u8], at: usize, word: u32) -> Result<(), Errno> {
    let bytes = argument.get_mut(at..at + 4).ok_or(Errno::EFAULT)?;
    bytes.copy_from_slice(&word.to_ne_bytes());
    Ok(())
}

/// Sends a packet whose umad header has `header` bytes.
fn send(socket: &OwnedFd, packet: &[u8], header: usize) -> Result<(), Errno> {
    let first = packet.len().min(header + MAD_SIZE).min(MAX_INLINE);
    let has_file = first < packet.len();
    let packet_header = packet_header(packet.len(), header, has_file);
    let parts = [IoSlice::new(&packet_header), IoSlice::new(&packet[..first])];
    let whole = if has_file { Some(memory_file(packet)?) } else { None };
    let descriptor = whole.as_ref().map(|file| [file.as_raw_fd()]);
    let rights = descriptor.as_ref().map(|fds| ControlMessage::ScmRights(fds));
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    sendmsg::<()>(socket.as_raw_fd(), &parts, rights.as_slice(), flags, None).map(|_| ())
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
    use super::super::protocol::{PACKET_HEADER_SIZE, read_packet_header};
    use super::*;
    use nix::sys::socket::{ControlMessageOwned, recvmsg};
    use std::io::IoSliceMut;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SockFlag::SOCK_CLOEXEC;
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).expect("a pair")
    }

    #[test]
    fn long_packets_are_passed_in_a_file() {
        let (socket, program) = pair();
        let packet: Vec<u8> = (0..3_000_000_u32).map(|i| (i / 7) as u8).collect();
        send(&socket, &packet, 64).expect("room");
        let mut inside = [0; PACKET_HEADER_SIZE + MAX_INLINE];
        let mut space = nix::cmsg_space!([std::os::fd::RawFd; 1]);
        let mut parts = [IoSliceMut::new(&mut inside)];
        let flags = MsgFlags::MSG_DONTWAIT;
        let got = recvmsg::<()>(program.as_raw_fd(), &mut parts, Some(&mut space), flags);
        let got = got.expect("a packet");
        assert_eq!(got.bytes, PACKET_HEADER_SIZE + 320);
        let passed = got.cmsgs().expect("not cut off").next();
        let Some(ControlMessageOwned::ScmRights(fds)) = passed else { panic!("{passed:?}") };
        let whole = std::fs::read(format!("/proc/self/fd/{}", fds[0])).expect("a file");
        nix::unistd::close(fds[0]).expect("open");
        assert!(whole == packet);
        let head = inside.first_chunk().expect("a head");
        assert_eq!(read_packet_header(*head), (packet.len(), 64, true));
        assert_eq!(inside[PACKET_HEADER_SIZE..], packet[..320]);
    }

    #[test]
    fn short_packets_are_inline_until_the_socket_is_full() {
        let (socket, program) = pair();
        let packet = [7; 56 + 256];
        let mut sent = 0;
        let full = loop {
            match send(&socket, &packet, 56) {
                Ok(()) => sent += 1,
                Err(errno) => break errno,
            }
        };
        assert_eq!(full, Errno::EAGAIN);
        assert!(sent > 50, "{sent}");
        drop(program);
        // Unread packets are lost, which the next send reports.
        let lost = send(&socket, &packet, 56);
        assert!(matches!(lost, Err(Errno::ECONNRESET | Errno::EPIPE)), "{lost:?}");
    }
}

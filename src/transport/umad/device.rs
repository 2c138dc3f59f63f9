//! An open umad device with its agents.

use super::abi::{HEADER, OLD_HEADER, Registration, USER_RMPP};
use super::sys::Descriptor;
use super::users::users_of;
use super::{OpenError, device_path, open_device};
use crate::transport::Agent;
use crate::transport::rmpp::Segmentation;
use std::io;
use std::sync::atomic::AtomicBool;

/// State that the readers of a port share.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Set when the port is dropped.
    pub stop: AtomicBool,
    /// Set when a device fails or the readers stop.
    pub gone: AtomicBool,
}

/// An open device, shared by the port and its readers. The last one closes it.
#[derive(Debug)]
pub(super) struct Device {
    pub descriptor: Descriptor,
    /// Number N of `/dev/infiniband/umadN`.
    number: u32,
    /// The agents with their IDs in the kernel.
    agents: Vec<(Agent, u32)>,
    pub with_pkey_index: bool,
    /// How messages of the SA agent are sent.
    pub segmentation: Segmentation,
}

impl Device {
    /// Opens `/dev/infiniband/umadN` for N = `number`.
    pub(super) fn open(number: u32) -> Result<Self, OpenError> {
        let descriptor = open_device("umad", number, Descriptor::open)?;
        // ibsim's shim accepts the ioctl but keeps the old header without the P_Key index.
        let with_pkey_index = descriptor.is_real() && descriptor.enable_pkey_index().is_ok();
        let segmentation =
            if descriptor.is_real() { Segmentation::Device } else { Segmentation::FirstOnly };
        Ok(Self { descriptor, number, agents: Vec::new(), with_pkey_index, segmentation })
    }

    #[cfg(test)]
    pub(super) fn with_agent(descriptor: Descriptor, agent: Agent, id: u32) -> Self {
        let agents = vec![(agent, id)];
        let segmentation = Segmentation::Device;
        Self { descriptor, number: 0, agents, with_pkey_index: false, segmentation }
    }

    /// Registers agents, so that their requests are received.
    pub(super) fn register(&mut self, agents: &[Agent]) -> Result<(), OpenError> {
        for &agent in agents {
            let registered = register(&self.descriptor, &Registration::of(agent));
            let id = registered.map_err(|source| self.register_error(agent, source))?;
            self.agents.push((agent, id));
        }
        Ok(())
    }

    /// Registers agents for requests of this program: they receive the responses to these, and no
    /// requests of others.
    pub(super) fn register_for_requests(&mut self, agents: &[Agent]) -> Result<(), OpenError> {
        for &agent in agents {
            let registration = Registration { methods: 0, ..Registration::of(agent) };
            let id = register(&self.descriptor, &registration)
                .map_err(|source| self.register_error(agent, source))?;
            self.agents.push((agent, id));
        }
        Ok(())
    }

    /// Registers the SA agent: with [`Segmentation::Caller`] for segments as they are, if the kernel
    /// can, else for whole messages.
    pub(super) fn register_sa(&mut self, wanted: Segmentation) -> Result<(), OpenError> {
        if wanted == Segmentation::Caller {
            let registration = Registration { flags: USER_RMPP, ..Registration::of(Agent::Sa) };
            let mut request = registration.request2();
            // The errors of a kernel that lacks the flag are those of a port in use, which the
            // second attempt reports.
            if self.descriptor.register2(&mut request).is_ok() {
                self.segmentation = Segmentation::Caller;
                self.agents.push((Agent::Sa, request.id));
                return Ok(());
            }
        }
        self.register(&[Agent::Sa])
    }

    /// Explains a failed registration: EINVAL and EBUSY mean that another program has registered
    /// for the same methods of the class, which only a subnet manager does.
    fn register_error(&self, agent: Agent, source: io::Error) -> OpenError {
        let path = device_path("umad", self.number);
        match source.raw_os_error() {
            Some(libc::EINVAL | libc::EBUSY) => {
                let mut users = users_of(&path);
                let managers = users_of(&device_path("issm", self.number));
                if !managers.is_empty() {
                    users = managers;
                }
                OpenError::InUse { path, users }
            }
            _ => OpenError::Register { path, agent, source },
        }
    }

    /// Length of the umad header in bytes.
    pub(super) fn header_len(&self) -> usize {
        if self.with_pkey_index { HEADER } else { OLD_HEADER }
    }

    /// The agent with the kernel's ID `id`.
    pub(super) fn agent(&self, id: u32) -> Option<Agent> {
        self.agents.iter().find(|agent| agent.1 == id).map(|agent| agent.0)
    }

    /// The kernel's ID of `agent`, if it is registered here.
    pub(super) fn id(&self, agent: Agent) -> Option<u32> {
        self.agents.iter().find(|known| known.0 == agent).map(|known| known.1)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        for &(_, id) in &self.agents {
            // The kernel unregisters agents with the descriptor; simulators may not.
            let _ = self.descriptor.unregister(id);
        }
    }
}

/// Registers an agent by the newer ioctl, or by the older one if the kernel lacks it.
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

//! The `umad` and `issm` devices of simulated ports, as opened by a program. Model of `user_mad.c`
//! in Linux.

use super::kernel::{
    AgentRegistration, HEADER_SIZE, OLD_HEADER_SIZE, Owner, ReceiveQueue, RegisterCall, classes,
};
use super::sim_fabric::{Shared, SimFabric};
use crate::ids::{Guid, Lid, PortNum};
use crate::transport::umad::UserHeader;
use crate::wire::mad::{Class, Header, Mad};
use crate::wire::sa::SA_OFFSET;
use crate::wire::smp::{INITIAL_PATH, MAX_HOPS, RETURN_PATH};
use nix::errno::Errno;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Agents that one open device can have, as in Linux (`IB_UMAD_MAX_AGENTS`).
const MAX_AGENTS: usize = 32;

/// An open `umadN` device of a simulated port. Dropping it unregisters its agents and cancels their
/// requests.
pub struct OpenUmad {
    shared: Arc<Shared>,
    slot: u32,
    num: PortNum,
    /// The vport whose function the program runs on.
    vport: Option<u16>,
    queue: Arc<ReceiveQueue>,
    state: Mutex<UmadState>,
}

#[derive(Default)]
struct UmadState {
    agents: [Option<u32>; MAX_AGENTS],
    has_pkey_index: bool,
    /// True once an agent has been registered, which fixes the header size.
    is_used: bool,
}

impl UmadState {
    fn header_size(&self) -> usize {
        if self.has_pkey_index { HEADER_SIZE } else { OLD_HEADER_SIZE }
    }

    fn agent(&self, id: u32) -> Result<u32, Errno> {
        let at = usize::try_from(id).map_err(|_| Errno::EINVAL)?;
        self.agents.get(at).copied().flatten().ok_or(Errno::EINVAL)
    }
}

/// An open `issmN` device of a simulated port, which sets the port's CapabilityMask.IsSM. Dropping
/// it closes the device.
pub struct OpenIssm {
    shared: Arc<Shared>,
    slot: u32,
}

impl SimFabric {
    /// Opens the `umad` device of port `num` of the node `guid` (port 0 of a switch).
    ///
    /// `wake` is called, with the fabric locked, when a packet arrives in the empty receive queue.
    /// It must not block, and may call no other method of the fabric than [`OpenUmad::receive`].
    /// Requires a running tokio runtime.
    ///
    /// # Errors
    /// ENXIO if there is no such end port.
    pub fn open_umad(
        &self,
        guid: Guid,
        num: PortNum,
        wake: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<OpenUmad, Errno> {
        let slot = self.shared.lock().end_port_at(guid, num).ok_or(Errno::ENXIO)?;
        self.start();
        Ok(OpenUmad {
            shared: self.shared.clone(),
            slot,
            num,
            vport: None,
            queue: Arc::new(ReceiveQueue::new(wake)),
            state: Mutex::default(),
        })
    }

    /// Opens the `issm` device of port `num` of the node `guid`.
    ///
    /// # Errors
    /// ENXIO if there is no such end port; EAGAIN while the device is open already (Linux blocks
    /// open(2) without O_NONBLOCK until it is closed).
    pub fn open_issm(&self, guid: Guid, num: PortNum) -> Result<OpenIssm, Errno> {
        let mut net = self.shared.lock();
        let slot = net.end_port_at(guid, num).ok_or(Errno::ENXIO)?;
        if net.has_sm(slot) {
            return Err(Errno::EAGAIN);
        }
        net.hold_issm(slot);
        Ok(OpenIssm { shared: self.shared.clone(), slot })
    }
}

impl OpenUmad {
    /// Makes this the device of a vport: packets of general services have its GID and P_Keys, as those
    /// of a virtual function.
    pub(in crate::sim) fn of_vport(mut self, vport: Option<u16>) -> Self {
        self.vport = vport;
        self
    }

    fn state(&self) -> MutexGuard<'_, UmadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an agent; returns its number, 0 to 31.
    ///
    /// # Errors
    /// EINVAL if the request is invalid, or another agent of the port has one of the methods;
    /// ENOMEM if the device has 32 agents, or the vendor class too many OUIs.
    pub fn register(&self, request: &AgentRegistration) -> Result<u32, Errno> {
        let mut state = self.state();
        let id = state.agents.iter().position(Option::is_none).ok_or(Errno::ENOMEM)?;
        let enables_pkey = request.call == RegisterCall::Agent2 && !state.is_used;
        let header_size = if enables_pkey { HEADER_SIZE } else { state.header_size() };
        let owner = Owner::Umad { queue: self.queue.clone(), id: id as u32, header_size };
        let agent = self.shared.lock().register(self.slot, request, owner)?;
        state.agents[id] = Some(agent);
        state.is_used = true;
        state.has_pkey_index |= enables_pkey;
        Ok(id as u32)
    }

    /// Unregisters the agent `id` and cancels its requests. MADs in the receive queue stay there.
    ///
    /// # Errors
    /// EINVAL if there is no such agent.
    pub fn unregister(&self, id: u32) -> Result<(), Errno> {
        let mut state = self.state();
        let agent = state.agent(id)?;
        state.agents[id as usize] = None;
        self.shared.lock().unregister(agent);
        Ok(())
    }

    /// Switches to the 64-byte header with a P_Key index (`IB_USER_MAD_ENABLE_PKEY`).
    ///
    /// # Errors
    /// EINVAL if an agent has been registered.
    pub fn enable_pkey(&self) -> Result<(), Errno> {
        let mut state = self.state();
        if state.is_used {
            return Err(Errno::EINVAL);
        }
        state.has_pkey_index = true;
        Ok(())
    }

    /// Size of the header in front of each MAD: 56 bytes, or 64 with a P_Key index.
    pub fn header_size(&self) -> usize {
        self.state().header_size()
    }

    /// Sends a MAD or, for an agent with RMPP, a whole message; the header precedes it, as for
    /// write(2). Returns the number of bytes.
    ///
    /// # Errors
    /// EINVAL for an unknown agent, an invalid length, the transaction ID of an outstanding
    /// request, or a directed route that does not start at this port.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let state = self.state();
        let start = state.header_size();
        let mut sent = UserHeader::read(bytes, state.has_pkey_index).ok_or(Errno::EINVAL)?;
        let mad = bytes.get(start..).filter(|mad| mad.len() >= SA_OFFSET).ok_or(Errno::EINVAL)?;
        let agent = state.agent(sent.id)?;
        let class = Header::read(mad).class();
        let is_routable =
            class != Class::SUBN_DIRECTED || starts_at_port(self.num, &Mad::read(mad));
        if mad.len() < classes::data_offset(class) || !is_routable {
            return Err(Errno::EINVAL);
        }
        let mut net = self.shared.lock();
        if let Some(vport) = self.vport.filter(|_| !classes::is_smi(class)) {
            sent.address.grh = Some(net.devices.grh_of_vport(vport, &sent.address));
        }
        net.post(agent, &sent, mad)?;
        Ok(bytes.len())
    }

    /// Takes the next packet from the receive queue, as read(2) would return it: a header of
    /// [`Self::header_size`] bytes, then a MAD of 256 bytes, a reassembled RMPP message, or the
    /// first 24 bytes of a request that timed out (status ETIMEDOUT in the header).
    pub fn receive(&self) -> Option<Vec<u8>> {
        self.queue.pop()
    }
}

/// True if the kernel sends the directed-route SMP from port `num` (`smi_handle_dr_smp_send` in
/// Linux).
fn starts_at_port(num: PortNum, mad: &Mad) -> bool {
    let smp = mad.smp();
    let hops = usize::from(smp.hop_count());
    let pointer = usize::from(smp.hop_pointer());
    if hops > MAX_HOPS {
        return false;
    }
    // A switch (port 0) sends through any of its ports. Other nodes start a directed route at this
    // port, unless a LID-routed part precedes it.
    if num == PortNum::ZERO || hops == 0 {
        return true;
    }
    if !smp.returning() {
        let first = smp.dr_slid() == Lid::PERMISSIVE;
        return !first || (pointer == 0 && mad.0[INITIAL_PATH + 1] == num.0);
    }
    let first = smp.dr_dlid() == Lid::PERMISSIVE;
    !first || (pointer == hops + 1 && mad.0[RETURN_PATH + hops] == num.0)
}

impl Drop for OpenUmad {
    fn drop(&mut self) {
        let agents = self.state().agents;
        let mut net = self.shared.lock();
        agents.into_iter().flatten().for_each(|agent| net.unregister(agent));
    }
}

impl Drop for OpenIssm {
    fn drop(&mut self) {
        self.shared.lock().release_issm(self.slot);
    }
}

#[cfg(test)]
mod tests;

//! The devices `umad` and `issm` of a simulated port, as a program has them open.

use super::agents::Owner;
use super::classes;
use super::queue::{HEADER, OLD_HEADER, Queue};
use super::registration::{RegisterCall, Registration};
use crate::ids::{Guid, Lid, PortNum};
use crate::sim::SimFabric;
use crate::sim::control::Shared;
use crate::sim::net::Net;
use crate::transport::umad::UserHeader;
use crate::wire::attr::CapMask;
use crate::wire::mad::{Class, Header, Mad};
use crate::wire::sa::SA_OFFSET;
use crate::wire::smp::{INITIAL_PATH, MAX_HOPS, RETURN_PATH};
use nix::errno::Errno;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Agents of an open `umad`.
const AGENTS: usize = 32;

/// An open `umadN` of one simulated port. Dropping it closes it: its agents are unregistered and
/// their requests forgotten.
pub struct OpenUmad {
    shared: Arc<Shared>,
    slot: u32,
    num: PortNum,
    queue: Arc<Queue>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    agents: [Option<u32>; AGENTS],
    with_pkey_index: bool,
    /// An agent was registered: the length of the header is settled.
    used: bool,
}

impl State {
    fn header_size(&self) -> usize {
        if self.with_pkey_index { HEADER } else { OLD_HEADER }
    }

    fn agent(&self, id: u32) -> Result<u32, Errno> {
        let at = usize::try_from(id).map_err(|_| Errno::EINVAL)?;
        self.agents.get(at).copied().flatten().ok_or(Errno::EINVAL)
    }
}

/// An open `issmN`: while it is there the port shows IsSM. Dropping it closes it.
pub struct IssmHold {
    shared: Arc<Shared>,
    slot: u32,
}

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
        let slot = self.shared.lock().end_port_at(guid, num).ok_or(Errno::ENXIO)?;
        self.start();
        Ok(OpenUmad {
            shared: self.shared.clone(),
            slot,
            num,
            queue: Arc::new(Queue::new(wake)),
            state: Mutex::default(),
        })
    }

    /// Opens the `issm` device of the port.
    ///
    /// # Errors
    /// ENXIO if there is no such end port; EAGAIN while somebody else has it open (the kernel
    /// makes a blocking open wait for that).
    pub fn open_issm(&self, guid: Guid, num: PortNum) -> Result<IssmHold, Errno> {
        let mut net = self.shared.lock();
        let slot = net.end_port_at(guid, num).ok_or(Errno::ENXIO)?;
        if net.has_sm(slot) {
            return Err(Errno::EAGAIN);
        }
        net.hold_issm(slot);
        Ok(IssmHold { shared: self.shared.clone(), slot })
    }
}

impl OpenUmad {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an agent and gives its number, 0 to 31.
    ///
    /// # Errors
    /// EINVAL for what makes no sense, or is registered by somebody else; ENOMEM if there are 32
    /// agents already, or too many OUIs in a vendor class.
    pub fn register(&self, request: &Registration) -> Result<u32, Errno> {
        let mut state = self.state();
        let id = state.agents.iter().position(Option::is_none).ok_or(Errno::ENOMEM)?;
        let becomes_long = request.call == RegisterCall::Agent2 && !state.used;
        let header_size = if becomes_long { HEADER } else { state.header_size() };
        let owner = Owner::File { queue: self.queue.clone(), id: id as u32, header_size };
        let agent = self.shared.lock().register(self.slot, request, owner)?;
        state.agents[id] = Some(agent);
        state.used = true;
        state.with_pkey_index |= becomes_long;
        Ok(id as u32)
    }

    /// Takes the agent `id` out; its requests are forgotten. What it received can still be read.
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

    /// Headers have 64 bytes, with the P_Key index, from now on.
    ///
    /// # Errors
    /// EINVAL if an agent was registered before.
    pub fn enable_pkey(&self) -> Result<(), Errno> {
        let mut state = self.state();
        if state.used {
            return Err(Errno::EINVAL);
        }
        state.with_pkey_index = true;
        Ok(())
    }

    /// Length of the header in front of each MAD: 56, or 64 with the P_Key index.
    pub fn header_size(&self) -> usize {
        self.state().header_size()
    }

    /// Sends what write(2) takes: a header and a MAD, or a whole message for an agent that uses
    /// RMPP. Gives the number of bytes.
    ///
    /// # Errors
    /// EINVAL for what cannot be sent: no such agent, a MAD that is too short or too long, a
    /// request that is under way already, a directed route that does not leave through this
    /// port.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let state = self.state();
        let start = state.header_size();
        let sent = UserHeader::read(bytes, state.with_pkey_index).ok_or(Errno::EINVAL)?;
        let mad = bytes.get(start..).filter(|mad| mad.len() >= SA_OFFSET).ok_or(Errno::EINVAL)?;
        let agent = state.agent(sent.id)?;
        let class = Header::read(mad).class();
        let leaves = class != Class::SUBN_DIRECTED || leaves_through(self.num, &Mad::read(mad));
        if mad.len() < classes::data_offset(class) || !leaves {
            return Err(Errno::EINVAL);
        }
        self.shared.lock().post(agent, &sent, mad)?;
        Ok(bytes.len())
    }

    /// The next packet as read(2) gives it into a buffer that is long enough: the header of
    /// [`Self::header_size`] bytes, then the MAD of 256 bytes, the message that RMPP put
    /// together, or the first 24 bytes of a request that was not answered (status ETIMEDOUT in
    /// the header). `None` if nothing waits.
    pub fn receive(&self) -> Option<Vec<u8>> {
        self.queue.pop()
    }
}

/// True if the kernel lets the directed-route SMP out through the port `num`.
fn leaves_through(num: PortNum, mad: &Mad) -> bool {
    let smp = mad.smp();
    let hops = usize::from(smp.hop_count());
    let pointer = usize::from(smp.hop_pointer());
    if hops > MAX_HOPS {
        return false;
    }
    // Port 0 is a switch's: it sends through any of its ports. Else the directed part may only
    // begin here if no LID-routed part comes before it.
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

impl Drop for IssmHold {
    fn drop(&mut self) {
        self.shared.lock().release_issm(self.slot);
    }
}

impl Net {
    /// The slot of an end port: port 0 of a switch, a port of another node.
    pub(in crate::sim) fn end_port_at(&self, guid: Guid, num: PortNum) -> Option<u32> {
        let slot = self.devices.find(guid, num)?;
        let exists = num != PortNum::ZERO || self.devices.is_switch_slot(slot);
        (exists && self.devices.is_end_port(slot)).then_some(slot)
    }

    /// True if the port shows an SM.
    pub(in crate::sim) fn has_sm(&self, slot: u32) -> bool {
        self.kernel.sms.contains_key(&slot)
    }

    /// One more that shows an SM at this port.
    pub(in crate::sim) fn hold_issm(&mut self, slot: u32) {
        *self.kernel.sms.entry(slot).or_default() += 1;
        self.show_sm(slot);
    }

    /// One less.
    pub(in crate::sim) fn release_issm(&mut self, slot: u32) {
        if let Some(holders) = self.kernel.sms.get_mut(&slot) {
            *holders -= 1;
            if *holders == 0 {
                self.kernel.sms.remove(&slot);
            }
        }
        self.show_sm(slot);
    }

    /// IsSM as it should be.
    pub(in crate::sim) fn show_sm(&mut self, slot: u32) {
        let is_sm = self.has_sm(slot);
        let info = &mut self.devices.port_mut(slot).info;
        let others = info.capability_mask() & !CapMask::IS_SM;
        info.set_capability_mask(if is_sm { others | CapMask::IS_SM } else { others });
    }
}

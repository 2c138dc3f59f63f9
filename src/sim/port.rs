//! A port of the simulated fabric, as the kernel's would be: [`MadPort`].

use super::control::{Shared, SimFabric};
use super::device::Devices;
use super::mailbox::Mailbox;
use super::net::{Attached, Message, Packet, agent_of};
use crate::ids::{Guid, PortNum};
use crate::transport::{MadPort, MadSink, Outgoing, PortIdentity, SendError};
use crate::wire::attr::CapMask;
use crate::wire::mad::Header;
use std::sync::Arc;

/// An attached port. Dropping it detaches it.
pub struct SimPort {
    shared: Arc<Shared>,
    index: usize,
    slot: u32,
    identity: PortIdentity,
    is_sm: bool,
}

impl SimFabric {
    /// Attaches a program at the port `num` of the node `guid` (port 0 of a switch): what
    /// arrives there for it is delivered to `sink`, from a task of its own. With `is_sm` the port
    /// announces a subnet manager and gets SMInfo requests, traps and SA requests. Several
    /// programs may attach to one port. Needs a running tokio runtime.
    ///
    /// `None` if there is no such end port.
    pub fn attach(
        &self,
        guid: Guid,
        num: PortNum,
        sink: Arc<dyn MadSink>,
        is_sm: bool,
    ) -> Option<SimPort> {
        let mailbox = Arc::new(Mailbox::default());
        let mut net = self.shared.lock();
        let slot = net.devices.find(guid, num)?;
        if !net.devices.is_end_port(slot) || (num.0 == 0 && !net.devices.is_switch_slot(slot)) {
            return None;
        }
        if is_sm {
            announce(&mut net.devices, slot, true);
        }
        let identity = PortIdentity {
            device: "sim0".to_owned(),
            port: num,
            guid: net.devices.port(slot).guid,
        };
        let index = net.attached.len();
        net.attached.push(Some(Attached { slot, is_sm, mailbox: mailbox.clone() }));
        drop(net);
        self.start();
        tokio::spawn(mailbox.drain(sink));
        Some(SimPort { shared: self.shared.clone(), index, slot, identity, is_sm })
    }
}

fn announce(devices: &mut Devices, slot: u32, is_sm: bool) {
    let info = &mut devices.port_mut(slot).info;
    let others = info.capability_mask() & !CapMask::IS_SM;
    info.set_capability_mask(if is_sm { others | CapMask::IS_SM } else { others });
}

impl MadPort for SimPort {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        let refuse = |kind: std::io::ErrorKind| SendError::Io {
            device: self.identity.device.clone(),
            port: self.identity.port,
            source: kind.into(),
        };
        let class = Header::read(out.mad).class();
        if out.mad.len() < Header::SIZE || agent_of(class) != Some(out.agent) {
            return Err(refuse(std::io::ErrorKind::InvalidInput));
        }
        let message = Message::new(out.mad);
        let packet = Packet { from: self.slot, agent: out.agent, to: out.to, message };
        self.shared.lock().post(self.index, packet, out.timeout, out.retries);
        Ok(())
    }
}

impl Drop for SimPort {
    fn drop(&mut self) {
        let mut net = self.shared.lock();
        net.detach(self.index);
        let left = |port: &Attached| port.slot == self.slot && port.is_sm;
        if self.is_sm && !net.attached.iter().flatten().any(left) {
            announce(&mut net.devices, self.slot, false);
        }
    }
}

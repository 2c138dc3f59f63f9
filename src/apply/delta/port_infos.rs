//! Sets of PortInfo, which are compared with the attributes that were read.

use super::{Delta, SetRequest};
use crate::apply::link_down;
use crate::fabric::PortId;
use crate::ids::PortNum;
use crate::plan::links;
use crate::wire::attr::{AttrId, PortInfo, PortState};

impl<'a> Delta<'a> {
    /// PortInfo Sets with all fields except ACTIVE state. They include the transition from INIT to
    /// ARMED. Ports 0 of switches that get another M_Key are left to [`Self::rekeyed_switches`].
    pub fn port_infos(self) -> impl Iterator<Item = SetRequest> + 'a {
        self.scope.slots(self.fabric).filter_map(move |slot| {
            let is_rekeyed_switch = self.is_switch_port_0(slot) && self.is_rekeyed(slot);
            if is_rekeyed_switch { None } else { self.port_info(slot) }
        })
    }

    /// PortInfo Sets of ports 0 of switches that get another M_Key. All other Sets to the switch
    /// carry the key that it holds, so these Sets must not be in flight with others.
    pub fn rekeyed_switches(self) -> impl Iterator<Item = SetRequest> + 'a {
        let ports = self.fabric.switches().iter().map(move |&id| self.fabric.node(id).first_port);
        let rekeyed = ports.filter(move |&slot| self.is_rekeyed(slot));
        rekeyed.filter_map(move |slot| self.port_info(slot))
    }

    /// True if an end port is to get another M_Key than it holds.
    fn is_rekeyed(&self, slot: PortId) -> bool {
        let target = self.plan.ports.of(slot);
        target.is_some_and(|target| target.m_key() != self.keys.of_port(self.fabric, slot))
    }

    fn port_info(&self, slot: PortId) -> Option<SetRequest> {
        let mut target = self.plan.ports.of(slot)?;
        let observed = self.fabric.port(slot).info()?;
        let is_port_0 = self.is_switch_port_0(slot);
        let arms = !is_port_0 && observed.port_state() == PortState::Init;
        if !arms && self.is_reset(slot) {
            return None;
        }
        let port = self.fabric.port(slot);
        let is_doubtful = self.is_unanswered(port.node, AttrId::PORT_INFO, port.num.0.into());
        let is_right = !links::differs(&observed, &target) || self.is_settled(slot, &target);
        if !arms && !is_doubtful && is_right {
            return None;
        }
        if arms {
            target.set_port_state(PortState::Armed);
        }
        Some(self.port_change(slot, &target))
    }

    /// The ends nearer to the SM of the links that carry data and whose MTU or operational VLs
    /// change. Such a link is taken down; both ends get their targets when it is in INIT.
    pub fn reset_links(self) -> impl Iterator<Item = PortId> + 'a {
        let first_ends = self.scope.slots(self.fabric).filter(move |&slot| {
            self.fabric.port(slot).peer.is_some_and(|peer| slot < peer) && self.is_reset(slot)
        });
        first_ends.map(move |slot| link_down::near_end(self.fabric, slot))
    }

    /// Sets that take the links of these ports down.
    pub fn take_down(self, ports: &'a [PortId]) -> impl Iterator<Item = SetRequest> + 'a {
        ports.iter().filter_map(move |&slot| {
            let target = self.plan.ports.of(slot);
            let info = target.or(self.fabric.port(slot).info())?;
            Some(self.port_change(slot, &link_down::down(&info)))
        })
    }

    /// True if the link of a port is among [`Self::reset_links`].
    fn is_reset(&self, slot: PortId) -> bool {
        self.needs_reset(slot)
            || self.fabric.port(slot).peer.is_some_and(|peer| self.needs_reset(peer))
    }

    /// True if a port carries data and its MTU or operational VLs change.
    fn needs_reset(&self, slot: PortId) -> bool {
        let target = self.plan.ports.of(slot);
        let changed = target.zip(self.fabric.port(slot).info());
        let changed =
            changed.filter(|(target, observed)| link_fields(target) != link_fields(observed));
        changed.is_some_and(|(target, _)| {
            !self.is_switch_port_0(slot)
                && link_down::is_up(self.fabric, slot)
                && !self.is_settled(slot, &target)
        })
    }

    /// True if this target was already sent and the port still shows its answer. Some devices store
    /// other values than they are sent, and sending again changes nothing.
    fn is_settled(&self, slot: PortId, target: &PortInfo) -> bool {
        let port = self.fabric.port(slot);
        let Some((sent, answered)) =
            self.known(port.node).and_then(|known| known.port_info(port.num))
        else {
            return false;
        };
        let unchanged = port.info().is_some_and(|observed| has_same_link(&observed, &answered));
        unchanged
            && has_same_link(&sent, target)
            && !target.client_reregister()
            && !self.is_pending(port.node, AttrId::PORT_INFO, port.num.0.into())
    }

    /// PortInfo Sets from ARMED to ACTIVE, for planned ports for which `is_armed` is true.
    pub fn activations(
        self,
        is_armed: impl Fn(PortId) -> bool + 'a,
    ) -> impl Iterator<Item = SetRequest> + 'a {
        self.scope.slots(self.fabric).filter_map(move |slot| {
            let mut target = self.plan.ports.of(slot)?;
            if self.is_switch_port_0(slot) || !is_armed(slot) {
                return None;
            }
            target.set_port_state(PortState::Active);
            Some(self.port_change(slot, &target))
        })
    }

    /// True if a port is ARMED and its peer is at least ARMED.
    pub(in crate::apply) fn is_ready(&self, slot: PortId) -> bool {
        let port = self.fabric.port(slot);
        let peer_state = port.peer.map(|peer| self.fabric.port(peer).state());
        port.state() == PortState::Armed
            && matches!(peer_state, Some(PortState::Armed | PortState::Active))
    }

    fn is_switch_port_0(&self, slot: PortId) -> bool {
        self.fabric.port(slot).num == PortNum::ZERO
    }

    fn port_change(&self, slot: PortId, target: &PortInfo) -> SetRequest {
        let port = self.fabric.port(slot);
        self.change(port.node, port.num, AttrId::PORT_INFO, port.num.0.into(), &target.0)
    }
}

fn has_same_link(a: &PortInfo, b: &PortInfo) -> bool {
    links::settable(a) == links::settable(b)
}

fn link_fields(info: &PortInfo) -> (u8, u8) {
    (info.neighbor_mtu(), info.operational_vls())
}

//! Adaptive routing of simulated switches: their tables, and the ports that they may choose for a packet.
//!
//! A switch has it with the capability adaptive-routing-revised. While it is on, or local repair is, the
//! switch forwards by the table of adaptive routing instead of the plain one. As old firmware does, a Set
//! of the plain table switches both off, unless [`AdaptiveLimits::survives_plain_tables`] says otherwise.

use super::adaptive_tables::{AdaptiveLimits, AdaptiveView, BlockRequest, PacketClass, has_port};
use super::devices::Devices;
use super::sim_fabric::SimFabric;
use super::sma::AttributeResult;
use super::tables::AttributeData;
use super::vendor::VendorProfile;
use crate::ids::{Guid, Lid, PortNum};
use crate::wire::attr::{AttrId, PortState};
use crate::wire::mad::Status;
use crate::wire::vendor::adaptive::{ArGroupCopy, ArInfo, ArState};
use crate::wire::vendor::capabilities::Capabilities;
use crate::wire::vendor::facts::AR_INFO_MODIFIER;

/// The ports through which a switch may forward a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Exits {
    /// No choice: this port, whether its link is up or not.
    Static(PortNum),
    /// Any of these, which are up, for each packet; none if all are down.
    Group(Vec<PortNum>),
    /// One of these, which are up, for all packets of a flow.
    Flow(Vec<PortNum>),
}

impl Exits {
    /// The port that a switch without any load takes.
    pub(super) fn first(&self) -> Option<PortNum> {
        match self {
            Self::Static(port) => Some(*port),
            Self::Group(ports) | Self::Flow(ports) => ports.first().copied(),
        }
    }
}

impl Devices {
    /// Reads or sets an attribute of adaptive routing of a switch.
    pub(super) fn adaptive_attribute(
        &mut self,
        node: u32,
        profile: VendorProfile,
        id: u16,
        modifier: u32,
        write: Option<&AttributeData>,
    ) -> AttributeResult {
        let limits = self.vendor.adaptive_limits(node);
        let num_ports = self.node(node).info.num_ports();
        let is_capable = profile.capabilities.has(Capabilities::ADAPTIVE_ROUTING);
        let switch = self.switch_mut(node).filter(|_| is_capable).ok_or(Status::BAD_METHOD_ATTR)?;
        match id {
            AttrId::AR_INFO if modifier == AR_INFO_MODIFIER.value => {
                if let Some(data) = write {
                    switch.adaptive.set_info(ArInfo(*data), &limits)?;
                }
                Ok(switch.adaptive.shown_info(&limits).0)
            }
            AttrId::AR_GROUP_TABLE => {
                switch.adaptive.group_block(BlockRequest { modifier, write }, &limits, num_ports)
            }
            AttrId::AR_LFT => {
                let cap = switch.info.linear_fdb_cap();
                switch.adaptive.entry_block(BlockRequest { modifier, write }, &limits, cap)
            }
            AttrId::AR_GROUP_TABLE_COPY if limits.has_group_copy => {
                let data = write.ok_or(Status::BAD_METHOD_ATTR)?;
                switch.adaptive.copy_group(modifier, &ArGroupCopy(*data), limits.group_cap)?;
                Ok(*data)
            }
            AttrId::AR_INFO => Err(Status::BAD_FIELD),
            _ => Err(Status::BAD_METHOD_ATTR),
        }
    }

    /// Switches adaptive routing off where a Set of the plain forwarding table does so.
    pub(super) fn plain_table_written(&mut self, node: u32) {
        let limits = self.vendor.adaptive_limits(node);
        if let Some(switch) = self.switch_mut(node).filter(|_| !limits.survives_plain_tables) {
            switch.adaptive.switch_off();
        }
    }

    /// The ports through which a switch may forward a packet to a LID; `None` without an entry.
    pub(super) fn exits(&self, node: u32, lid: Lid, packet: PacketClass) -> Option<Exits> {
        let switch = self.switch(node)?;
        if !switch.adaptive.is_in_force() {
            return self.lft_entry(node, lid).map(Exits::Static);
        }
        let entry = switch.adaptive.entry(lid)?;
        let is_known = lid.0 <= switch.info.linear_fdb_top();
        if !is_known || entry.port > self.node(node).info.num_ports() {
            return None;
        }
        let fixed = PortNum(entry.port);
        let ports = switch.adaptive.group(&entry);
        let is_free = ports.is_some() && switch.adaptive.is_routed(&entry, packet);
        let replaces = switch.adaptive.info.fast_recovery() && !self.is_usable(node, fixed);
        match ports.filter(|_| is_free || replaces) {
            Some(ports) => {
                let members = (1..=254u8).filter(|&port| has_port(&ports, port)).map(PortNum);
                let usable = members.filter(|&port| self.is_usable(node, port)).collect();
                let is_bounded = entry.state == ArState::Bounded;
                Some(if is_bounded { Exits::Flow(usable) } else { Exits::Group(usable) })
            }
            None => Some(Exits::Static(fixed)),
        }
    }

    /// True if the link of a port is ARMED or ACTIVE.
    fn is_usable(&self, node: u32, port: PortNum) -> bool {
        port == PortNum::ZERO
            || self.slot(node, port).is_some_and(|slot| {
                let state = self.port(slot).info.port_state();
                let is_up = matches!(state, PortState::Armed | PortState::Active);
                is_up && self.linked_peer(slot).is_some()
            })
    }
}

impl SimFabric {
    /// Changes the limits of a switch.
    pub fn set_adaptive_limits(&self, guid: Guid, limits: AdaptiveLimits) -> bool {
        self.at_node(guid, |net, node| net.devices.vendor.set_adaptive_limits(node, limits))
            .is_some()
    }

    /// The tables of adaptive routing of a switch.
    pub fn adaptive(&self, guid: Guid) -> Option<AdaptiveView> {
        self.at_node(guid, |net, node| {
            net.devices.switch(node).map(|switch| switch.adaptive.view())
        })
        .flatten()
    }
}

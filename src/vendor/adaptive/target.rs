//! The tables of adaptive routing that the switches of a subnet should have.

use super::group_sets::ports_of;
use crate::fabric::{Fabric, SwitchId};
use crate::ids::{Guid, Lid};
use crate::plan::Plan;
use crate::plan::adaptive::{AdaptiveGroups, SwitchGroups};
use crate::plan::routing::PortMask;
use crate::wire::attr::tables::LFT_NO_PATH;
use crate::wire::vendor::adaptive::{
    AR_GROUP_BLOCK, AR_LFT_BLOCK, ArEntry, ArGroupBlock, ArInfo, ArLftBlock, ArState, GroupPorts,
};
use std::sync::Arc;

/// What is written to ARInfo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdaptiveSettings {
    pub routing: bool,
    pub healing: bool,
    pub sl_mask: u16,
    /// Transports as bits of ARInfo.
    pub excluded_transports: u8,
}

/// The tables of all switches of a subnet.
#[derive(Clone, Debug)]
pub struct AdaptiveTarget(Arc<TargetTables>);

#[derive(Debug)]
struct TargetTables {
    fabric: Arc<Fabric>,
    plan: Arc<Plan>,
    groups: AdaptiveGroups,
    settings: AdaptiveSettings,
    /// By LID: true if packets must arrive in order, because the destination does not reorder them.
    in_order: Vec<bool>,
    /// The LID of the subnet manager.
    own_lid: Lid,
}

/// The tables of one switch.
#[derive(Clone, Debug)]
pub struct SwitchTarget {
    tables: Arc<TargetTables>,
    switch: SwitchId,
}

impl AdaptiveTarget {
    /// The tables for groups that are proven. `reorders` tells whether the port with a LID puts packets in
    /// order.
    pub fn new(
        fabric: Arc<Fabric>,
        plan: Arc<Plan>,
        groups: AdaptiveGroups,
        settings: AdaptiveSettings,
        reorders: impl Fn(Lid) -> bool,
    ) -> Self {
        let in_order = (0..=plan.lids.max().0).map(|lid| !reorders(Lid(lid))).collect();
        let own_lid = plan.lids.base_or_zero(fabric.local());
        Self(Arc::new(TargetTables { fabric, plan, groups, settings, in_order, own_lid }))
    }

    pub fn groups(&self) -> &AdaptiveGroups {
        &self.0.groups
    }

    pub fn settings(&self) -> AdaptiveSettings {
        self.0.settings
    }

    /// The groups of a switch; `None` if the fabric does not have it.
    pub fn groups_of(&self, guid: Guid) -> Option<&SwitchGroups> {
        let target = self.of_switch(guid)?;
        Some(self.0.groups.of(target.switch))
    }

    /// The ports that a switch may choose for a LID with this static port.
    pub fn ports(&self, guid: Guid, lid: Lid, port: u8) -> PortMask {
        match self.of_switch(guid) {
            Some(target) => self.0.groups.ports(target.switch, lid, port),
            None => PortMask::only(port),
        }
    }

    /// The ports that a switch may choose for a LID.
    pub fn choices(&self, guid: Guid, lid: Lid) -> PortMask {
        let Some(target) = self.of_switch(guid) else { return PortMask::default() };
        self.ports(guid, lid, self.0.plan.routing.lft(target.switch).entry(lid))
    }

    /// The highest LID.
    pub fn lids(&self) -> u16 {
        self.0.plan.lids.max().0
    }

    /// The tables of a switch; `None` if no entry of it has a group, so that its plain table is enough.
    pub fn for_switch(&self, guid: Guid) -> Option<SwitchTarget> {
        let target = self.of_switch(guid)?;
        let TargetTables { plan, groups, .. } = &*self.0;
        let lft = plan.routing.lft(target.switch);
        plan.lids
            .iter()
            .any(|(lid, _)| groups.number(target.switch, lid, lft.entry(lid)) > 0)
            .then_some(target)
    }

    /// The tables of a switch, with groups or without.
    pub(super) fn of_switch(&self, guid: Guid) -> Option<SwitchTarget> {
        let node = self.0.fabric.node_by_guid(guid)?;
        let switch = self.0.fabric.node(node).switch?;
        Some(SwitchTarget { tables: self.0.clone(), switch })
    }
}

impl SwitchTarget {
    /// The ports that the switch may choose for a LID.
    pub fn choices(&self, lid: Lid) -> PortMask {
        let TargetTables { plan, groups, .. } = &*self.tables;
        groups.ports(self.switch, lid, plan.routing.lft(self.switch).entry(lid))
    }

    /// True if both have the same choices for all LIDs.
    pub(super) fn has_choices_of(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.tables, &other.tables) {
            return self.switch == other.switch;
        }
        let lids = self.tables.plan.lids.max().max(other.tables.plan.lids.max());
        (1..=lids.0).map(Lid).all(|lid| self.choices(lid) == other.choices(lid))
    }

    /// The ports of each group, by number.
    pub(super) fn groups(&self) -> Vec<GroupPorts> {
        self.tables.groups.of(self.switch).masks().iter().map(|mask| mask.0).collect()
    }

    /// The ARInfo of a switch that has another one now.
    pub(super) fn info(&self, now: ArInfo) -> ArInfo {
        let AdaptiveSettings { routing, healing, sl_mask, excluded_transports } =
            self.tables.settings;
        let top = self.tables.groups.of(self.switch).used().max().unwrap_or(0);
        let mut info = now;
        info.set_group_top(top);
        info.set_adaptive_routing(routing);
        info.set_fast_recovery(healing && now.fast_recovery_supported());
        info.set_notifications(false);
        if now.by_sl_supported() {
            info.set_by_sl(sl_mask != u16::MAX);
            info.set_sl_mask(sl_mask);
        }
        if now.by_transport_supported() {
            info.set_excluded_transports(excluded_transports);
        }
        info
    }

    /// Number of blocks of the forwarding table.
    pub(super) fn entry_blocks(&self) -> u32 {
        ArLftBlock::block(self.tables.plan.lids.max()) + 1
    }

    /// The block with the entry of the subnet manager.
    pub(super) fn own_block(&self) -> u32 {
        ArLftBlock::block(self.tables.own_lid)
    }

    pub(super) fn entries(&self, block: u32) -> ArLftBlock {
        let first = block as usize * AR_LFT_BLOCK;
        ArLftBlock::of(std::array::from_fn(|index| self.entry(Lid((first + index) as u16))))
    }

    /// A block with static entries alone.
    pub(super) fn static_entries(&self, block: u32) -> ArLftBlock {
        ArLftBlock::of(self.entries(block).entries().map(|entry| ArEntry {
            state: ArState::Static,
            group: 0,
            ..entry
        }))
    }

    fn entry(&self, lid: Lid) -> ArEntry {
        let TargetTables { plan, groups, settings, in_order, .. } = &*self.tables;
        let lft = plan.routing.lft(self.switch);
        let port = lft.entry(lid);
        if port == LFT_NO_PATH {
            return ArEntry { state: ArState::Static, port, group: 0 };
        }
        let group = groups.number(self.switch, lid, port);
        // Without adaptive routing, groups serve local repair only, and packets stay in order.
        let needs_order = settings.routing && in_order.get(lid.index()).copied().unwrap_or(true);
        let state = if group == 0 || needs_order { ArState::Static } else { ArState::Free };
        ArEntry { state, port, group }
    }
}

/// A block of groups by number.
pub(super) fn group_block(groups: &[GroupPorts], block: u32) -> ArGroupBlock {
    let first = block as usize * AR_GROUP_BLOCK;
    ArGroupBlock::of(std::array::from_fn(|index| ports_of(groups, first + index)))
}

/// Number of blocks that hold groups.
pub(super) fn group_blocks(groups: &[GroupPorts]) -> u32 {
    groups.len().div_ceil(AR_GROUP_BLOCK) as u32
}

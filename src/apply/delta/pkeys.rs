//! Sets of P_Key tables, which are compared with the tables that were read.

use super::{Delta, SetRequest};
use crate::fabric::PortId;
use crate::ids::PortNum;
use crate::plan::partitions::steps;
use crate::wire::attr::AttrId;
use crate::wire::attr::tables::PkeyBlock;

impl<'a> Delta<'a> {
    /// The blocks of the next step (see [`steps`]).
    pub fn pkey_tables(self) -> impl Iterator<Item = SetRequest> + 'a {
        self.scope
            .slots(self.fabric)
            .flat_map(move |slot| self.pkey_sets(slot, self.pkey_step(slot)))
    }

    /// The blocks of the next step, and those whose last Set was not answered, so that the port
    /// may hold other keys than were read before it.
    pub(in crate::apply) fn pkey_tables_and_doubtful(
        self,
    ) -> impl Iterator<Item = SetRequest> + 'a {
        self.scope.slots(self.fabric).flat_map(move |slot| {
            let mut step = self.pkey_step(slot);
            step.extend(self.doubtful_pkeys(slot, &step));
            self.pkey_sets(slot, step)
        })
    }

    fn pkey_step(&self, slot: PortId) -> Vec<(u16, PkeyBlock)> {
        let port = self.fabric.port(slot);
        let node = self.fabric.node(port.node);
        let cap = if self.is_external(slot) {
            node.switch_info.partition_enforcement_cap()
        } else {
            node.info.partition_cap()
        };
        steps::next_step(self.held_pkeys(slot), self.wanted_pkeys(slot), cap.into())
    }

    /// The blocks outside `step`, as they were read, whose last Set was not answered.
    fn doubtful_pkeys(&self, slot: PortId, step: &[(u16, PkeyBlock)]) -> Vec<(u16, PkeyBlock)> {
        let node = self.fabric.port(slot).node;
        let held = self.held_pkeys(slot);
        let planned = self.wanted_pkeys(slot).iter().map(|&(block, _)| block);
        let read = planned.filter_map(|block| Some((block, *held.get(usize::from(block))?)));
        read.filter(|&(block, _)| {
            self.is_unanswered(node, AttrId::PKEY_TABLE, self.pkey_modifier(slot, block))
                && step.iter().all(|&(other, _)| other != block)
        })
        .collect()
    }

    fn pkey_sets(
        self,
        slot: PortId,
        blocks: Vec<(u16, PkeyBlock)>,
    ) -> impl Iterator<Item = SetRequest> + 'a {
        let port = self.fabric.port(slot);
        blocks.into_iter().map(move |(block, table)| {
            let modifier = self.pkey_modifier(slot, block);
            self.change(port.node, port.num, AttrId::PKEY_TABLE, modifier, &table.to_wire())
        })
    }

    fn held_pkeys(&self, slot: PortId) -> &'a [PkeyBlock] {
        self.pkeys.get(slot.index()).map_or(&[], |table| &table[..])
    }

    fn wanted_pkeys(&self, slot: PortId) -> &'a [(u16, PkeyBlock)] {
        self.plan.partitions.blocks_of(slot)
    }

    /// True for a port of a switch with a cable, whose table enforces P_Keys.
    fn is_external(&self, slot: PortId) -> bool {
        let port = self.fabric.port(slot);
        self.fabric.node(port.node).is_switch() && port.num != PortNum::ZERO
    }

    fn pkey_modifier(&self, slot: PortId, block: u16) -> u32 {
        let high = if self.is_external(slot) { self.fabric.port(slot).num.0 } else { 0 };
        u32::from(high) << 16 | u32::from(block)
    }
}

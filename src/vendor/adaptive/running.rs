//! The tables by which switches may forward while adaptive routing, or local repair, is on.

use super::target::{AdaptiveTarget, SwitchTarget};
use crate::fabric::{Fabric, SwitchId};
use crate::ids::{Guid, Lid};
use crate::plan::routing::PortMask;
use std::collections::{BTreeMap, BTreeSet};

/// Switches whose adaptive routing may be on. A switch has one of its tables, or, if it is being written, some
/// entries of each; without any it has tables that are not known, of another subnet manager.
#[derive(Clone, Debug, Default)]
pub struct RunningTables {
    switches: BTreeMap<Guid, Vec<SwitchTarget>>,
}

impl FromIterator<(Guid, Vec<SwitchTarget>)> for RunningTables {
    fn from_iter<T: IntoIterator<Item = (Guid, Vec<SwitchTarget>)>>(switches: T) -> Self {
        Self { switches: switches.into_iter().collect() }
    }
}

impl RunningTables {
    pub fn is_empty(&self) -> bool {
        self.switches.is_empty()
    }

    /// True for a switch that may be on with tables of this subnet manager.
    pub fn is_known(&self, guid: Guid) -> bool {
        self.switches.get(&guid).is_some_and(|tables| !tables.is_empty())
    }

    pub fn guids(&self) -> impl Iterator<Item = Guid> + '_ {
        self.switches.keys().copied()
    }

    /// These tables, and those to which the switches of a target are brought, also of switches whose adaptive
    /// routing is off now. Tables that are not known stay so.
    pub fn with_target(&self, target: &AdaptiveTarget, switches: &[Guid]) -> Self {
        let mut with = self.clone();
        for &guid in switches {
            let Some(tables) = target.for_switch(guid) else { continue };
            let is_unknown = self.switches.get(&guid).is_some_and(Vec::is_empty);
            if !is_unknown {
                with.switches.entry(guid).or_default().push(tables);
            }
        }
        with
    }

    /// The LIDs for which a switch may have other choices than those of a target. Switches whose tables are not
    /// known are passed over.
    pub fn changed_lids(&self, target: &AdaptiveTarget) -> BTreeSet<Lid> {
        let mut changed = BTreeSet::new();
        for (&guid, tables) in &self.switches {
            let wanted = target.for_switch(guid);
            for table in tables {
                if wanted.as_ref().is_some_and(|wanted| wanted.has_choices_of(table)) {
                    continue;
                }
                changed.extend(
                    (1..=target.lids())
                        .map(Lid)
                        .filter(|lid| table.choices(*lid) != target.choices(guid, *lid)),
                );
            }
        }
        changed
    }

    /// The tables by switch of a fabric.
    pub fn of(&self, fabric: &Fabric) -> TablesBySwitch<'_> {
        let tables = fabric.switch_ids().map(|switch| {
            let node = fabric.switch(switch);
            Some((node.num_ports(), self.switches.get(&node.guid())?.as_slice()))
        });
        TablesBySwitch(tables.collect())
    }
}

/// By switch: its number of ports, and the tables by which it may forward; `None` if it forwards by its plain
/// table.
pub struct TablesBySwitch<'a>(Vec<Option<(u8, &'a [SwitchTarget])>>);

impl TablesBySwitch<'_> {
    /// The ports that a switch may choose for a LID, by any of its tables; `None` if it forwards by its plain
    /// table. Tables that are not known may have any port.
    pub fn choices(&self, switch: SwitchId, lid: Lid) -> Option<PortMask> {
        let (ports, tables) = self.0.get(switch.index()).copied().flatten()?;
        let mut choices = PortMask::default();
        if tables.is_empty() {
            (1..=ports).for_each(|port| choices.insert(port));
        }
        for table in tables {
            let own = table.choices(lid);
            for (word, more) in choices.0.iter_mut().zip(own.0) {
                *word |= more;
            }
        }
        Some(choices)
    }
}

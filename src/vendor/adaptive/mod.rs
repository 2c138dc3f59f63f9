//! Adaptive routing of switches: what they hold as far as is known, and the next request to each.
//!
//! * [`target`]: the tables that the switches of a subnet should have
//! * [`switch`]: one switch, from reading its ARInfo to the last difference
//! * [`failure`]: why a switch forwards statically; `group_sets`: groups between two tables
//! * [`running`]: the tables by which switches may forward, whichever of them they have
//!
//! A switch is written while its adaptive routing is off, or, on a running one, in an order in which no
//! entry ever names a group that leads elsewhere. If it refuses a table, does not answer, or answers with
//! other contents, adaptive routing is switched off: it forwards by its plain table, which always has the
//! static routes. One that cannot even be switched off gets static entries.

pub mod failure;
mod group_sets;
mod reply;
pub mod running;
pub mod switch;
pub mod target;

use crate::ids::Guid;
use crate::transport::transactions::SmpResult;
use failure::AdaptiveFailure;
use running::RunningTables;
use std::collections::BTreeMap;
use switch::{AdaptiveRequest, AdaptiveSwitch};
use target::AdaptiveTarget;

/// Numbers of switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AdaptiveCounts {
    /// Switches with adaptive routing or local repair as wanted.
    pub configured: usize,
    /// Switches that do not answer, refuse or alter their tables: they forward statically.
    pub failed: usize,
    /// Groups in the switches that are configured.
    pub groups: usize,
}

/// The state of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdaptiveSwitchState {
    /// It has its groups.
    On,
    /// It forwards by its plain table, as it should.
    Static,
    /// Requests to it are due.
    Busy,
    /// It forwards by its plain table after a failure.
    Failed(AdaptiveFailure),
}

impl AdaptiveSwitchState {
    pub fn word(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Static => "static",
            Self::Busy => "busy",
            Self::Failed(_) => "failed",
        }
    }

    pub fn failure(self) -> Option<AdaptiveFailure> {
        if let Self::Failed(failure) = self { Some(failure) } else { None }
    }
}

/// All switches that support adaptive routing.
#[derive(Clone, Debug, Default)]
pub struct AdaptiveSwitches {
    switches: BTreeMap<Guid, AdaptiveSwitch>,
}

impl AdaptiveSwitches {
    /// Takes over the capable switches of a published subnet: node GUID, and the generation of the last
    /// subnet in which the node was new or had restarted. Each is asked for its ARInfo again, since other
    /// programs, and Sets of the plain table, may have changed it.
    pub fn observe(&mut self, switches: impl Iterator<Item = (Guid, u64)>) {
        let mut before = std::mem::take(&mut self.switches);
        for (guid, restarted) in switches {
            let known = before.remove(&guid).filter(|known| known.restarted() == restarted);
            let mut switch = known.unwrap_or_else(|| AdaptiveSwitch::new(restarted));
            switch.begin();
            self.switches.insert(guid, switch);
        }
    }

    /// Gives all switches their target; `None` is static forwarding.
    pub fn set_target(&mut self, target: Option<&AdaptiveTarget>) {
        for (&guid, switch) in &mut self.switches {
            let routes = target.and_then(|target| target.of_switch(guid));
            switch.set_target(target.and_then(|target| target.for_switch(guid)), routes);
        }
    }

    /// Drops all requests that are due; [`Self::observe`] and [`Self::set_target`] find others. Returns the
    /// tables by which switches may forward meanwhile.
    pub fn hold(&mut self) -> RunningTables {
        self.switches.values_mut().for_each(AdaptiveSwitch::hold);
        self.running()
    }

    /// The tables by which switches may forward.
    pub fn running(&self) -> RunningTables {
        let running = self.switches.iter().filter(|(_, switch)| switch.may_be_on());
        running.map(|(&guid, switch)| (guid, switch.may_hold().to_vec())).collect()
    }

    /// Has these switches forward by their plain tables until they get a target.
    pub fn switch_off(&mut self, guids: &[Guid]) {
        for guid in guids {
            if let Some(switch) = self.switches.get_mut(guid) {
                switch.switch_off();
            }
        }
    }

    pub fn guids(&self) -> impl Iterator<Item = Guid> + '_ {
        self.switches.keys().copied()
    }

    pub fn get(&self, guid: Guid) -> Option<&AdaptiveSwitch> {
        self.switches.get(&guid)
    }

    /// The next request to a switch.
    pub fn request(&mut self, guid: Guid) -> Option<AdaptiveRequest> {
        self.switches.get_mut(&guid)?.request()
    }

    /// Takes over the answer to the last request. Returns the failure, if it is a new one.
    pub fn answered(&mut self, guid: Guid, result: &SmpResult) -> Option<AdaptiveFailure> {
        self.switches.get_mut(&guid)?.answered(result)
    }

    /// The state of each switch.
    pub fn states(&self) -> BTreeMap<Guid, AdaptiveSwitchState> {
        self.switches.iter().map(|(&guid, switch)| (guid, switch.state())).collect()
    }

    pub fn counts(&self) -> AdaptiveCounts {
        let mut counts = AdaptiveCounts::default();
        for switch in self.switches.values() {
            counts.failed += usize::from(switch.failure().is_some());
            if switch.is_configured() {
                counts.configured += 1;
                counts.groups += switch.groups();
            }
        }
        counts
    }
}

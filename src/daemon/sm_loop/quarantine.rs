//! Quarantine of links that flap or whose ports report errors, see [`crate::observe::link_health`].

use crate::daemon::sm_loop::manager::Manager;
use crate::daemon::sm_loop::pending::PendingWork;
use crate::daemon::sm_loop::reconfigure::ReconfigureOutcome;
use crate::fabric::difference::Difference;
use crate::fabric::quarantined::{QuarantineCause, QuarantinedLink};
use crate::fabric::{End, Fabric, PortId};
use crate::observe::link_health::{Cable, DOWN_WINDOW, MAX_DOWNS, cable_of};
use crate::observe::{Observation, quarantine};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{info, warn};

impl Manager {
    /// Counts the links that went down since the last sweep, and removes quarantined ones from the
    /// snapshot.
    pub(super) fn quarantine(&mut self, observation: Observation) -> Observation {
        if let Some(last) = &self.observation {
            let (old, new) = (&last.fabric, &observation.fabric);
            let changed = &observation.changed_switches;
            self.links.health.observe(Instant::now(), old, new, changed);
        }
        self.without_quarantined(observation)
    }

    /// Removes quarantined links from a snapshot, except those that are needed.
    pub(super) fn without_quarantined(&mut self, observation: Observation) -> Observation {
        let mut links = self.links.health.quarantined(Instant::now());
        let full = observation.fabric.clone();
        let (observation, needed) = match links.is_empty() {
            true => (observation, Vec::new()),
            false => quarantine::without_links(observation, &links),
        };
        for link in &needed {
            let (name, reason) = (name(link.ends, &full), reason(link.cause));
            warn!("{name} is used although {reason}: nodes would be cut off without it");
            self.monitor.needed(link.ends, reason, &full);
            self.links.health.keep(&link.ends);
        }
        links.retain(|link| !needed.contains(link));
        let before = std::mem::take(&mut self.links.removed);
        let is_new = |link: &&QuarantinedLink| !before.iter().any(|old| old.ends == link.ends);
        for link in links.iter().filter(is_new) {
            warn!(
                "{} is quarantined: {}; it is treated as down until {}",
                name(link.ends, &full),
                reason(link.cause),
                end(link.calm)
            );
            self.monitor.quarantined(link.ends, reason(link.cause), link.calm, &full);
        }
        self.reconfigurer.set_quarantined(links.clone());
        self.links.removed = links;
        observation
    }

    /// True if only quarantined links differ from the last snapshot, so that no light sweep has to
    /// confirm it.
    pub(super) fn is_quarantine_noise(&self, observation: &Observation) -> bool {
        let fabric = &observation.fabric;
        let end = |id: PortId| (fabric.node_of(id).guid(), fabric.port(id).num);
        let last = self.observation.as_ref().filter(|_| !self.links.removed.is_empty());
        last.and_then(|last| Difference::between(&last.fabric, fabric)).is_some_and(|difference| {
            difference.nodes.is_empty()
                && difference.ports.iter().all(|&id| self.links.is_removed(end(id)))
        })
    }

    /// Ends the quarantines whose links were calm, and requests sweeps of their switches.
    pub(super) fn release_links(&mut self, pending: &mut PendingWork) {
        let released = self.links.health.release(Instant::now());
        self.sweep_links(&released, pending, "its quarantine ends");
    }

    /// Quarantines the links at these ports, and requests a plan without them.
    pub(super) fn quarantine_by_request(
        &mut self,
        ends: &BTreeSet<End>,
        pending: &mut PendingWork,
    ) {
        let Some(observation) = self.observation.take() else { return };
        let fabric = &observation.fabric;
        for &(guid, num) in ends {
            let node = fabric.node_by_guid(guid);
            let port = node.and_then(|node| fabric.port_of(node, num));
            let cable = port.and_then(|port| cable_of(fabric, port));
            let removed = self.links.removed.iter().map(|link| link.ends);
            let removed = || removed.clone().find(|ends| ends.contains(&(guid, num)));
            match cable.or_else(removed) {
                Some(cable) => pending.plan |= self.links.health.hold(cable),
                None => warn!("{guid}[{num}] has no link to quarantine"),
            }
        }
        self.observation = Some(self.without_quarantined(observation));
    }

    /// Ends the quarantine of the links at these ports.
    pub(super) fn release_by_request(&mut self, ends: &BTreeSet<End>, pending: &mut PendingWork) {
        for &(guid, num) in ends {
            match self.links.health.forget((guid, num)) {
                Some(link) => self.sweep_links(&[link], pending, "an operator ends its quarantine"),
                None => warn!("no link at {guid}[{num}] is quarantined"),
            }
        }
    }

    fn sweep_links(&self, links: &[Cable], pending: &mut PendingWork, event: &str) {
        let Some(observation) = self.observation.as_ref() else { return };
        let fabric = &observation.fabric;
        for &cable in links {
            info!("{}: {event}", name(cable, fabric));
            self.monitor.released(cable, fabric);
            let nodes = cable.into_iter().filter_map(|(guid, _)| fabric.node_by_guid(guid));
            let switches = nodes.filter(|&node| fabric.node(node).is_switch());
            pending.suspects.extend(switches.map(|node| fabric.node(node).guid()));
        }
    }

    /// Ends all quarantines if the fabric cannot be routed without these links, or by a later
    /// routing engine only. `engine`: the engine of the plan before.
    pub(super) fn check_quarantine(
        &mut self,
        engine: Option<&'static str>,
        outcome: &ReconfigureOutcome,
        pending: &mut PendingWork,
    ) {
        let is_rejected = matches!(outcome, ReconfigureOutcome::Rejected(_));
        let is_worse = engine.is_some() && self.engine() != engine;
        if self.links.removed.is_empty() || !(is_rejected || is_worse) {
            return;
        }
        warn!("the fabric cannot be routed as before without its quarantined links: they are used");
        let lifted = self.links.health.lift(Instant::now());
        self.sweep_links(&lifted, pending, "its quarantine is lifted");
        pending.heavy = true;
    }

    /// The routing engine of the published plan.
    pub(super) fn engine(&self) -> Option<&'static str> {
        self.context.subnet.borrow().as_ref().map(|subnet| subnet.plan.routing.engine)
    }
}

fn reason(cause: QuarantineCause) -> String {
    match cause {
        QuarantineCause::Flaps => {
            format!("it went down {MAX_DOWNS} times within {} s", DOWN_WINDOW.as_secs())
        }
        QuarantineCause::Errors((guid, num)) => {
            format!("{guid}[{num}] reports errors of the link")
        }
        QuarantineCause::Operator => "an operator requests it".to_owned(),
    }
}

/// What ends a quarantine.
fn end(calm: Option<Duration>) -> String {
    calm.map_or_else(
        || "an operator releases it".to_owned(),
        |calm| format!("it has been calm for {} s", calm.as_secs()),
    )
}

/// Both ends of a link for messages.
fn name(cable: Cable, fabric: &Fabric) -> String {
    let [near, far] = cable.map(|(guid, num)| {
        let slot = fabric.node_by_guid(guid).and_then(|node| fabric.port_of(node, num));
        slot.map_or_else(|| format!("{guid}[{num}]"), |slot| fabric.describe(slot))
    });
    format!("the link between {near} and {far}")
}

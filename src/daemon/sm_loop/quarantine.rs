//! Quarantine of links that flap, whose ports report errors, or that operators quarantine: they are
//! treated as down. See [`crate::observe::link_health`].

use super::agenda::{FollowUp, TaskKind};
use super::monitor::Monitor;
use crate::fabric::difference::Difference;
use crate::fabric::quarantined::{LinkDowns, QuarantineCause, QuarantinedLink};
use crate::fabric::{End, Fabric, PortId};
use crate::observe::link_health::{Cable, DOWN_WINDOW, LinkHealth, MAX_DOWNS, cable_of};
use crate::observe::{Observation, quarantine};
use std::time::Duration;
use tokio::time::Instant;
use tracing::{info, warn};

/// The health of all links, and the links that are quarantined because of it.
#[derive(Default)]
pub(super) struct LinkQuarantine {
    health: LinkHealth,
    /// The links that the last snapshot does not have because of their quarantine.
    removed: Vec<QuarantinedLink>,
}

impl LinkQuarantine {
    /// Counts the links that went down since the last snapshot.
    pub(super) fn observe(&mut self, last: &Observation, now: &Observation) {
        let changed = &now.changed_switches;
        self.health.observe(Instant::now(), &last.fabric, &now.fabric, changed);
    }

    /// Removes quarantined links from a snapshot, except those that are needed.
    pub(super) fn remove_from(
        &mut self,
        monitor: &Monitor,
        observation: Observation,
    ) -> Observation {
        let mut links = self.health.quarantined(Instant::now());
        if links.is_empty() {
            self.removed = links;
            return observation;
        }
        let full = observation.fabric.clone();
        let (observation, needed) = quarantine::without_links(observation, &links);
        for link in &needed {
            let reason = reason(link.cause);
            warn!(
                "{} is used although {reason}: nodes would be cut off without it",
                name(link.ends, &full)
            );
            monitor.needed(link.ends, reason, &full);
            self.health.keep(&link.ends);
        }
        links.retain(|link| !needed.contains(link));
        for link in &links {
            if self.removed.iter().any(|old| old.ends == link.ends) {
                continue;
            }
            let reason = reason(link.cause);
            warn!(
                "{} is quarantined: {reason}; it is treated as down until {}",
                name(link.ends, &full),
                end(link.calm)
            );
            monitor.quarantined(link.ends, reason, link.calm, &full);
        }
        self.removed = links;
        observation
    }

    /// The links that went down lately.
    pub(super) fn downs(&self) -> Vec<LinkDowns> {
        self.health.downs()
    }

    /// The links that the last snapshot does not have.
    pub(super) fn removed(&self) -> &[QuarantinedLink] {
        &self.removed
    }

    /// The quarantined ends that sweeps need not cross.
    pub(super) fn avoidable(&self, fabric: &Fabric) -> Vec<End> {
        self.health.avoidable(Instant::now(), fabric)
    }

    /// True if only quarantined links differ between two snapshots, so that no light sweep has to
    /// confirm the later one.
    pub(super) fn explains(&self, last: &Observation, now: &Observation) -> bool {
        if self.removed.is_empty() {
            return false;
        }
        let fabric = &now.fabric;
        let difference = Difference::between(&last.fabric, fabric);
        difference.is_some_and(|difference| {
            difference.nodes.is_empty()
                && difference.ports.iter().all(|&id| self.is_removed(fabric.end_of(id)))
        })
    }

    fn is_removed(&self, end: End) -> bool {
        self.removed.iter().any(|link| link.ends.contains(&end))
    }

    /// Time at which a quarantine ends unless its link changes before.
    pub(super) fn next_release(&self) -> Option<Instant> {
        self.health.next_release()
    }

    /// Ends the quarantines whose links were calm; sweeps of their switches follow.
    pub(super) fn release_calm(&mut self, monitor: &Monitor, fabric: Option<&Fabric>) -> FollowUp {
        let released = self.health.release(Instant::now());
        match fabric {
            Some(fabric) => sweep_links(&released, monitor, fabric, "its quarantine ends"),
            None => FollowUp::nothing(),
        }
    }

    /// Quarantines the link at a port as an operator requests; a plan without it follows.
    pub(super) fn hold(&mut self, fabric: &Fabric, port: End) -> FollowUp {
        let (guid, num) = port;
        let slot = fabric.node_by_guid(guid).and_then(|node| fabric.port_of(node, num));
        let cable = slot.and_then(|slot| cable_of(fabric, slot)).or_else(|| {
            let removed = self.removed.iter().find(|link| link.ends.contains(&port));
            removed.map(|link| link.ends)
        });
        match cable {
            Some(cable) => FollowUp::nothing().and(TaskKind::Configure, self.health.hold(cable)),
            None => {
                warn!("{guid}[{num}] has no link to quarantine");
                FollowUp::nothing()
            }
        }
    }

    /// Ends the quarantine of the link at a port as an operator requests.
    pub(super) fn release(&mut self, monitor: &Monitor, fabric: &Fabric, port: End) -> FollowUp {
        match self.health.forget(port) {
            Some(link) => sweep_links(&[link], monitor, fabric, "an operator ends its quarantine"),
            None => {
                warn!("no link at {}[{}] is quarantined", port.0, port.1);
                FollowUp::nothing()
            }
        }
    }

    /// Records a port that sent `count` traps about errors of its link. True if it was healthy before.
    pub(super) fn record_errors(&mut self, fabric: &Fabric, port: PortId, count: u32) -> bool {
        let Some(cable) = cable_of(fabric, port) else { return false };
        let is_new = self.health.errors(Instant::now(), fabric.end_of(port), cable);
        if is_new {
            let port = fabric.describe(port);
            warn!("{port} is unhealthy: it sent {count} traps about errors of its link");
        }
        is_new
    }

    /// Ends all quarantines, because the fabric cannot be routed as before without these links.
    pub(super) fn lift(&mut self, monitor: &Monitor, fabric: &Fabric) -> FollowUp {
        warn!("the fabric cannot be routed as before without its quarantined links: they are used");
        let lifted = self.health.lift(Instant::now());
        sweep_links(&lifted, monitor, fabric, "its quarantine is lifted")
            .and(TaskKind::HeavySweep, true)
    }
}

/// Reports links whose quarantine has ended; sweeps of their switches follow.
fn sweep_links(links: &[Cable], monitor: &Monitor, fabric: &Fabric, event: &str) -> FollowUp {
    let mut follow_up = FollowUp::nothing();
    for &cable in links {
        info!("{}: {event}", name(cable, fabric));
        monitor.released(cable, fabric);
        let nodes = cable.into_iter().filter_map(|(guid, _)| fabric.node_by_guid(guid));
        let switches = nodes.filter(|&node| fabric.node(node).is_switch());
        follow_up.suspects.extend(switches.map(|node| fabric.node(node).guid()));
    }
    follow_up
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

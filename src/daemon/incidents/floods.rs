//! Clients that flood: those that offend often within a minute.

use super::sa_offences::SaOffences;
use super::source::{FactSource, FactView};
use crate::ids::Lid;
use crate::incidents::fact::{Facts, Flood};
use crate::manage::loop_status::LoopStatus;
use crate::manage::offenders::Offence;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Time in which offences are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Offences of one kind within [`WINDOW`] that are a flood.
const MIN_FLOOD: u64 = 100;

/// A flood of one client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ObservedFlood {
    lid: Lid,
    offence: Offence,
    /// Since the start of the daemon.
    count: u64,
}

/// The floods among the offences that the SM loop and the SA server count.
pub struct FloodSource {
    pub sa_offences: SaOffences,
    pub watch: FloodWatch,
}

impl FactSource for FloodSource {
    fn add_facts(&mut self, view: &FactView<'_>, facts: &mut Facts) {
        if view.watched.is_none() {
            return;
        }
        let mut offences = view.status.handles.offenders.list();
        offences.extend_from_slice(self.sa_offences.counts(view.instant));
        let floods = self.watch.look(&offences, view.instant);
        facts.floods.extend(floods.into_iter().map(|flood| named(view.status, flood)));
    }
}

/// Counts at the beginning of the window, and floods. LIDs bound their number.
#[derive(Debug, Default)]
pub struct FloodWatch {
    began: Option<Instant>,
    before: BTreeMap<(Lid, Offence), u64>,
    floods: BTreeMap<(Lid, Offence), u64>,
}

impl FloodWatch {
    /// The floods at `now`; `counts` are all since the start of the daemon. A flood lasts until a whole
    /// window has fewer offences.
    fn look(&mut self, counts: &[((Lid, Offence), u64)], now: Instant) -> Vec<ObservedFlood> {
        let began = *self.began.get_or_insert(now);
        for &(key, count) in counts {
            if count.saturating_sub(self.before.get(&key).copied().unwrap_or(0)) >= MIN_FLOOD {
                self.floods.insert(key, count);
            }
        }
        if now - began >= WINDOW {
            let before = std::mem::replace(&mut self.before, counts.iter().copied().collect());
            let now_at = &self.before;
            self.floods.retain(|key, _| {
                let count = now_at.get(key).copied().unwrap_or(0);
                count.saturating_sub(before.get(key).copied().unwrap_or(0)) >= MIN_FLOOD
            });
            self.began = Some(now);
        }
        let floods = self.floods.iter();
        floods.map(|(&(lid, offence), &count)| ObservedFlood { lid, offence, count }).collect()
    }
}

/// A flood with the name of its client.
fn named(status: &LoopStatus, flood: ObservedFlood) -> Flood {
    let port = status.subnet.as_ref().and_then(|subnet| {
        let port = subnet.plan.lids.port(flood.lid)?;
        Some(subnet.fabric.node_of(port).name().to_string())
    });
    Flood {
        lid: flood.lid.0,
        name: port.unwrap_or_else(|| "unknown".to_owned()),
        offence: flood.offence.name(),
        count: flood.count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_lasts_until_a_window_without_it() {
        let mut watch = FloodWatch::default();
        let start = Instant::now();
        let key = (Lid(7), Offence::TrapFlood);
        let mut at = |seconds: u64, count: u64| {
            let now = start + Duration::from_secs(seconds);
            watch.look(&[(key, count)], now).len()
        };
        assert_eq!(at(0, 0), 0);
        assert_eq!(at(10, 99), 0, "below the limit");
        assert_eq!(at(20, 150), 1);
        assert_eq!(at(60, 150), 1, "this window had the flood");
        assert_eq!(at(120, 155), 0, "and the next one has not");
        assert_eq!(at(130, 400), 1);
    }
}

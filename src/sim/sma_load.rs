//! Load of the subnet management agents: an agent with a service time works on one SMP at a time, in the
//! order in which they arrive, and drops those that find its queue full.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// Speed and queue of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmaSpeed {
    /// Time that the agent needs for each SMP; zero: none.
    pub service_time: Duration,
    /// SMPs at the agent at a time, the one it works on included. It drops further ones.
    pub queue: u32,
}

impl SmaSpeed {
    /// The queue of an agent that drops nothing.
    pub const UNLIMITED: u32 = u32::MAX;
}

/// Whether and when an agent answers an SMP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AgentAnswer {
    AtOnce,
    At(Instant),
    Dropped,
}

/// An agent with a service time.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadedAgent {
    pub(super) speed: SmaSpeed,
    /// Time at which it has served all SMPs that it has.
    idle_at: Option<Instant>,
    /// Largest number of SMPs that it had at a time.
    pub(super) longest_queue: u32,
    pub(super) dropped: u64,
}

/// The SMPs between subnet managers and the agents of all devices.
#[derive(Default)]
pub(super) struct SmaTraffic {
    pub(super) loads: SmaLoads,
    /// Time that an SMP and its response are on their way, in all.
    pub(super) round_trip: Duration,
    /// SMPs that the agents received: `[Get, Set]` by attribute ID.
    pub(super) requests: BTreeMap<u16, [u64; 2]>,
}

/// The agents with a service time, by node index.
#[derive(Default)]
pub(super) struct SmaLoads(HashMap<u32, LoadedAgent>);

impl SmaLoads {
    /// Sets the speed of a node's agent, and clears its figures.
    pub(super) fn set(&mut self, node: u32, speed: SmaSpeed) {
        let previous = self.0.remove(&node);
        if !speed.service_time.is_zero() {
            let idle_at = previous.and_then(|agent| agent.idle_at);
            self.0.insert(node, LoadedAgent { speed, idle_at, longest_queue: 0, dropped: 0 });
        }
    }

    /// True if all agents answer at once.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Hands an SMP that arrives at `now` to the node's agent.
    pub(super) fn admit(&mut self, node: u32, now: Instant) -> AgentAnswer {
        match self.0.get_mut(&node) {
            Some(agent) => agent.admit(now),
            None => AgentAnswer::AtOnce,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &LoadedAgent)> {
        self.0.iter().map(|(&node, agent)| (node, agent))
    }
}

impl LoadedAgent {
    fn admit(&mut self, now: Instant) -> AgentAnswer {
        let start = self.idle_at.map_or(now, |idle_at| idle_at.max(now));
        let waiting = (start - now).as_nanos().div_ceil(self.speed.service_time.as_nanos());
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        if waiting >= self.speed.queue {
            self.dropped += 1;
            return AgentAnswer::Dropped;
        }
        self.longest_queue = self.longest_queue.max(waiting + 1);
        let done = start + self.speed.service_time;
        self.idle_at = Some(done);
        AgentAnswer::At(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_serves_one_smp_at_a_time_and_drops_what_its_queue_cannot_hold() {
        let time = Duration::from_micros(50);
        let mut loads = SmaLoads::default();
        let now = Instant::now();
        assert_eq!(loads.admit(1, now), AgentAnswer::AtOnce);
        loads.set(1, SmaSpeed { service_time: time, queue: 2 });
        assert_eq!(loads.admit(1, now), AgentAnswer::At(now + time));
        assert_eq!(loads.admit(1, now), AgentAnswer::At(now + 2 * time));
        assert_eq!(loads.admit(1, now), AgentAnswer::Dropped);
        assert_eq!(loads.admit(2, now), AgentAnswer::AtOnce, "another node");
        // The second SMP is in service: there is room for one.
        assert_eq!(loads.admit(1, now + time), AgentAnswer::At(now + 3 * time));
        assert_eq!(loads.admit(1, now + time), AgentAnswer::Dropped);
        assert_eq!(loads.admit(1, now + 9 * time), AgentAnswer::At(now + 10 * time));
        let (_, agent) = loads.iter().next().expect("one agent");
        assert_eq!(agent.longest_queue, 2);
        assert_eq!(agent.dropped, 2);
        loads.set(1, SmaSpeed { service_time: Duration::ZERO, queue: 1 });
        assert_eq!(loads.admit(1, now), AgentAnswer::AtOnce);
    }
}

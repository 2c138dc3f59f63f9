//! The command `show sma`.

use crate::notes::counted;
use crate::sim::net::Net;
use crate::sim::sma_load::{LoadedAgent, SmaSpeed};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// Agents listed by name.
const MAX_LISTED: usize = 10;

/// Agents of the same speed, and the totals of their figures.
#[derive(Default)]
struct AgentGroup {
    agents: usize,
    longest_queue: u32,
    dropped: u64,
}

/// The agents with a service time, by speed, and those that dropped the most SMPs.
pub(super) fn show(net: &Net) -> String {
    let mut groups: BTreeMap<(Duration, u32), AgentGroup> = BTreeMap::new();
    let mut dropping: Vec<(u32, &LoadedAgent)> = Vec::new();
    for (node, agent) in net.smas.loads.iter() {
        let group = groups.entry((agent.speed.service_time, agent.speed.queue)).or_default();
        group.agents += 1;
        group.longest_queue = group.longest_queue.max(agent.longest_queue);
        group.dropped += agent.dropped;
        if agent.dropped > 0 {
            dropping.push((node, agent));
        }
    }
    let mut text = String::new();
    for ((service_time, queue), group) in groups {
        let queue = match queue {
            SmaSpeed::UNLIMITED => "no limit".to_owned(),
            queue => format!("queue {queue}"),
        };
        let agents = counted(group.agents, "agent", "agents");
        let longest = group.longest_queue;
        let dropped = group.dropped;
        let _ = writeln!(
            text,
            "{agents}, {service_time:?} for an SMP, {queue}: at most {longest} at a time, {dropped} dropped"
        );
    }
    if !net.smas.round_trip.is_zero() {
        let _ = writeln!(text, "round trip {:?}", net.smas.round_trip);
    }
    dropping.sort_unstable_by_key(|&(node, agent)| (std::cmp::Reverse(agent.dropped), node));
    for (node, agent) in dropping.into_iter().take(MAX_LISTED) {
        let name = &net.devices.node(node).description;
        let _ = writeln!(text, "  \"{name}\": {} dropped", agent.dropped);
    }
    if text.is_empty() { "none\n".to_owned() } else { text }
}

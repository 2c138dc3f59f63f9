//! The unicast cache (`use_ucast_cache`): routes stay while hosts and leaf switches go and return.
//!
//! The routes of an engine are kept with a record of the topology that they belong to. A later
//! fabric is routed by them, without running an engine, if it lacks nothing but
//!
//! * hosts, and links to hosts;
//! * switches that had hosts, with all their links;
//!
//! and if every remaining entry to a host still leads over a link. OpenSM does not test the latter,
//! and leaves remaining nodes without routes if a missing switch was on their paths; here they are
//! routed again. Entries to switches that led through a missing switch get a detour. A node or link
//! that the record does not have, another LID, or changed options end the use of the cache, as does
//! a rejection of the plan by verification.
//!
//! * `record`: the topology of the kept routes, and its comparison with a fabric;
//! * `policy`: the policy of the engine for a fabric that lacks some nodes.

mod policy;
mod record;

use super::switch_graph::linked_peer;
use super::{Lft, Routing, RoutingInput};
use crate::config::options::Options;
use crate::config::torus::TorusConfig;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::Lid;
use crate::notes::{Note, counted};
use crate::wire::attr::tables::LFT_NO_PATH;
use policy::CachedPolicy;
use record::{IdMap, TopologyRecord};
use std::sync::Arc;

/// The routes of an engine with what they were computed for.
pub struct UnicastCache {
    routing: Arc<Routing>,
    record: TopologyRecord,
    options: Options,
    torus_config: Result<TorusConfig, Vec<Note>>,
}

/// Keeps the routes that an engine has just computed.
pub(super) fn remember(input: &RoutingInput<'_>, routing: Routing) -> Routing {
    let cache = Arc::new(UnicastCache {
        routing: Arc::new(routing.clone()),
        record: TopologyRecord::new(input.fabric, input.lids),
        options: input.options.clone(),
        torus_config: input.torus_config.clone(),
    });
    Routing { policy: Arc::new(CachedPolicy::new(cache, None)), ..routing }
}

/// The routes in the cache of the previous routing, if they suit the fabric.
pub(super) fn reuse(input: &RoutingInput<'_>) -> Option<Routing> {
    let cache = input.previous?.policy.unicast_cache()?;
    if cache.options != *input.options || cache.torus_config != *input.torus_config {
        return None;
    }
    let map = cache.record.map(input.fabric, input.lids)?;
    let lfts = tables(input, cache, &map)?;
    let Routing { engine, routing_errors, .. } = &*cache.routing;
    let mut notes = cache.routing.notes.clone();
    let missing = map.missing_nodes();
    let lacks = match missing {
        0 => "all nodes are present".to_owned(),
        _ => format!("{} not present", counted(missing, "node is", "nodes are")),
    };
    notes.push(Note::info(format!("routes of the unicast cache are used: {lacks}")));
    let map = (!map.is_identity()).then_some(map);
    Some(Routing {
        engine,
        lfts,
        policy: Arc::new(CachedPolicy::new(Arc::clone(cache), map)),
        notes,
        routing_errors: routing_errors.clone(),
    })
}

/// The routes of the engine in place of those of its cache, for its next run. The flag is true if
/// they belong to the previous fabric.
pub(super) fn unwrapped(previous: &Routing) -> (&Routing, bool) {
    match previous.policy.unicast_cache() {
        Some(cache) => (&cache.routing, previous.policy.as_any().type_id() != cached_type()),
        None => (previous, true),
    }
}

/// True if the routes come from the cache and not from the last run of an engine.
pub(super) fn is_reused(routing: &Routing) -> bool {
    routing.policy.unicast_cache().is_some_and(|cache| cache.routing.notes != routing.notes)
}

/// The type of a policy for a fabric that lacks nodes, which hides that of the engine.
fn cached_type() -> std::any::TypeId {
    std::any::TypeId::of::<CachedPolicy>()
}

/// The kept tables of the present switches; `None` if an entry to a host leads nowhere.
fn tables(input: &RoutingInput<'_>, cache: &UnicastCache, map: &IdMap) -> Option<Vec<Arc<Lft>>> {
    let mut lfts = Vec::with_capacity(input.fabric.switches().len());
    for switch in input.fabric.switch_ids() {
        let kept = cache.routing.lfts.get(map.switch(switch)?.index())?;
        lfts.push(resized(kept, input.lids.max()));
    }
    let mut dead = Vec::new();
    for switch in input.fabric.switch_ids() {
        for (lid, port) in input.lids.iter() {
            let leads_nowhere = lfts[switch.index()]
                .out(lid)
                .is_some_and(|out| out != 0 && far_end(input.fabric, switch, out).is_none());
            if leads_nowhere && !input.fabric.node_of(port).is_switch() {
                return None;
            }
            if leads_nowhere {
                dead.push((switch, lid));
            }
        }
    }
    detour(input.fabric, &mut lfts, &dead);
    Some(lfts)
}

/// The table with the size for this highest LID.
fn resized(kept: &Arc<Lft>, max: Lid) -> Arc<Lft> {
    if kept.has_size_for(max) {
        return Arc::clone(kept);
    }
    let mut table = (**kept).clone();
    table.resize(max);
    Arc::new(table)
}

/// The port at the far end of a link of a switch.
fn far_end(fabric: &Fabric, switch: SwitchId, port: u8) -> Option<PortId> {
    linked_peer(fabric, fabric.switch_port(switch, port.into())?)
}

/// Replaces entries to switches that led through a missing switch by the first neighbour which
/// reaches the LID by kept entries; without one, removes them. Packets to switches are management
/// packets, for which routes of an engine may turn at leaf switches.
fn detour(fabric: &Fabric, lfts: &mut [Arc<Lft>], dead: &[(SwitchId, Lid)]) {
    for &(switch, lid) in dead {
        Arc::make_mut(&mut lfts[switch.index()]).set(lid, LFT_NO_PATH);
    }
    let found = dead.iter().map(|&(switch, lid)| {
        let mut ports = 1..=fabric.switch(switch).num_ports();
        let port = ports.find(|&port| {
            let next = far_end(fabric, switch, port).and_then(|to| fabric.node_of(to).switch);
            next.is_some_and(|next| reaches(fabric, lfts, next, lid))
        });
        (switch, lid, port)
    });
    let found: Vec<_> = found.collect();
    for (switch, lid, port) in found {
        if let Some(port) = port {
            Arc::make_mut(&mut lfts[switch.index()]).set(lid, port);
        }
    }
}

/// True if the tables lead from a switch to the switch that owns the LID.
fn reaches(fabric: &Fabric, lfts: &[Arc<Lft>], from: SwitchId, lid: Lid) -> bool {
    let mut at = from;
    for _ in 0..fabric.switches().len() {
        match lfts[at.index()].out(lid) {
            Some(0) => return true,
            Some(port) => {
                let next = far_end(fabric, at, port).and_then(|to| fabric.node_of(to).switch);
                let Some(next) = next else { return false };
                at = next;
            }
            None => return false,
        }
    }
    false
}

//! Reads SL to VL mappings that a plan does not write, for the proof that it has no credit loop.

use super::acknowledged::Acknowledged;
use super::delta::{Delta, slvl};
use super::inherited::{MAX_OUTSTANDING_GETS, MAX_UNANSWERED, get};
use crate::fabric::NodeId;
use crate::ids::PortNum;
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::plan::Plan;
use crate::transport::client::SmpClient;
use crate::transport::tagged::Tagged;
use crate::transport::transactions::SmpError;
use crate::verify::held_mappings::{HeldMappings, MappedPorts};
use crate::wire::attr::AttrId;
use crate::wire::attr::tables::SlToVl;
use std::collections::HashMap;

/// Reads these mappings of switches. A switch that answers none of several Gets is not asked for
/// others; its mappings are recorded as unread.
pub async fn read_mappings(
    client: &SmpClient,
    observation: &Observation,
    plan: &Plan,
    keys: &MKeys,
    pairs: Vec<(NodeId, MappedPorts)>,
) -> HeldMappings {
    let nothing = Acknowledged::default();
    let delta = Delta::new(observation, plan, &nothing, keys);
    let mut held = HeldMappings::default();
    let mut unanswered: HashMap<NodeId, u32> = HashMap::new();
    let mut pairs = pairs.into_iter();
    let mut batch: Tagged<(NodeId, MappedPorts)> = Tagged::new(client);
    loop {
        while batch.outstanding() < MAX_OUTSTANDING_GETS
            && let Some((node, pair)) = pairs.next()
        {
            if unanswered.get(&node).is_some_and(|&count| count >= MAX_UNANSWERED) {
                held.record(delta.fabric.node(node).guid(), pair, None);
                continue;
            }
            let modifier = slvl::modifier(&(pair.input, pair.output, SlToVl::default()), true);
            let (_, set) = delta.change(node, PortNum::ZERO, AttrId::SL_TO_VL, modifier, &[]);
            batch.submit((node, pair), get(set));
        }
        let Some(((node, pair), answer)) = batch.next().await else { return held };
        match answer {
            Err(SmpError::Unanswered) => *unanswered.entry(node).or_default() += 1,
            _ => drop(unanswered.remove(&node)),
        }
        let map = answer.ok().map(|reply| SlToVl(std::array::from_fn(|at| reply.data[at])));
        held.record(delta.fabric.node(node).guid(), pair, map);
    }
}

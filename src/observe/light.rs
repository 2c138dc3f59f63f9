//! The light sweep: one SwitchInfo per switch, to find PortStateChange bits that no trap told
//! about, and one NodeInfo to every place that was silent, to find out whether it woke up.

use crate::fabric::{DiscoveryFault, Fabric};
use crate::ids::Guid;
use crate::transport::client::SmpClient;
use crate::transport::transactions::SmpRequest;
use crate::wire::attr::{AttrId, SwitchInfo};
use crate::wire::smp::{DirectedRoute, SmpRoute};

/// What a light sweep found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// Switches whose ports changed state.
    pub changed: Vec<Guid>,
    /// Switches that do not answer any more.
    pub lost: Vec<Guid>,
    /// Places that were silent and answer now.
    pub recovered: Vec<DirectedRoute>,
}

impl Findings {
    /// True if nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.lost.is_empty() && self.recovered.is_empty()
    }
}

/// Asks every switch of `fabric` and every silent place of its faults.
pub async fn sweep(client: &SmpClient, m_key: u64, fabric: &Fabric) -> Findings {
    let silent: Vec<DirectedRoute> = fabric.faults().iter().filter_map(silent_route).collect();
    let mut batch = client.batch();
    let mut ask = |tag: usize, route, attr_id| {
        let mut request = SmpRequest::get(SmpRoute::Directed(route), attr_id, 0);
        request.m_key = m_key;
        batch.submit(tag as u64, request);
    };
    let switches = fabric.switches().len();
    for (tag, &node) in fabric.switches().iter().enumerate() {
        ask(tag, fabric.node(node).route, AttrId::SWITCH_INFO);
    }
    for (tag, &route) in silent.iter().enumerate() {
        ask(switches + tag, route, AttrId::NODE_INFO);
    }
    let mut findings = Findings::default();
    while let Some((tag, answer)) = batch.next().await {
        let tag = tag as usize;
        let guid = fabric.switches().get(tag).map(|&node| fabric.node(node).guid());
        match (guid, answer) {
            (Some(guid), Ok(reply)) if SwitchInfo::read(&reply.data).port_state_change() => {
                findings.changed.push(guid);
            }
            (Some(guid), Err(_)) => findings.lost.push(guid),
            (None, Ok(_)) => findings.recovered.push(silent[tag - switches]),
            _ => {}
        }
    }
    findings.changed.sort_unstable();
    findings.lost.sort_unstable();
    findings
}

fn silent_route(fault: &DiscoveryFault) -> Option<DirectedRoute> {
    match fault {
        DiscoveryFault::NoAnswer { route, .. } => Some(*route),
        _ => None,
    }
}

//! The light sweep: one SwitchInfo query per switch, to find PortStateChange bits whose trap was lost, and
//! one NodeInfo query to each device that did not answer the last sweep, to find out whether it does now.

use crate::fabric::{DiscoveryFault, Fabric};
use crate::ids::Guid;
use crate::transport::client::SmpClient;
use crate::transport::transactions::SmpRequest;
use crate::wire::attr::{AttrId, SwitchInfo};
use crate::wire::smp::{DirectedRoute, SmpRoute};

/// The result of a light sweep.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// Switches with PortStateChange set.
    pub changed: Vec<Guid>,
    /// Switches that no longer answer.
    pub lost: Vec<Guid>,
    /// Routes to devices that did not answer before and do now.
    pub recovered: Vec<DirectedRoute>,
}

impl Findings {
    /// True if nothing changed.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.lost.is_empty() && self.recovered.is_empty()
    }
}

/// Queries each switch of `fabric` and each device that a fault of it names as unresponsive.
pub async fn sweep(client: &SmpClient, m_key: u64, fabric: &Fabric) -> Findings {
    let unanswered: Vec<DirectedRoute> =
        fabric.faults().iter().filter_map(unanswered_route).collect();
    let mut batch = client.batch();
    let mut submit = |tag: usize, route, attr_id| {
        let mut request = SmpRequest::get(SmpRoute::Directed(route), attr_id, 0);
        request.m_key = m_key;
        batch.submit(tag as u64, request);
    };
    let switches = fabric.switches().len();
    for (tag, &node) in fabric.switches().iter().enumerate() {
        submit(tag, fabric.node(node).route, AttrId::SWITCH_INFO);
    }
    for (tag, &route) in unanswered.iter().enumerate() {
        submit(switches + tag, route, AttrId::NODE_INFO);
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
            (None, Ok(_)) => findings.recovered.push(unanswered[tag - switches]),
            _ => {}
        }
    }
    findings.changed.sort_unstable();
    findings.lost.sort_unstable();
    findings
}

fn unanswered_route(fault: &DiscoveryFault) -> Option<DirectedRoute> {
    match fault {
        // The device answers; the manager queries the SM again by itself.
        DiscoveryFault::NoAnswer { attribute: "SMInfo", .. } => None,
        DiscoveryFault::NoAnswer { route, .. } => Some(*route),
        _ => None,
    }
}

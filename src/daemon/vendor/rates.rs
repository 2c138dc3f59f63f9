//! Writes the rate limits of `enhanced_qos_policy_file` to ports of channel adapters and their vports.

use super::VendorManager;
use crate::config::enhanced_qos::{self, EnhancedQos};
use crate::fabric::Fabric;
use crate::fabric::PortId;
use crate::fabric::virtual_ports::VirtualPort;
use crate::notes::counted;
use crate::observe::m_keys::MKeys;
use crate::plan::rate_limits::port_limits;
use crate::publish::Subnet;
use crate::transport::tagged::Tagged;
use crate::transport::transactions::SmpRequest;
use crate::vendor::rates::{CapablePort, Limits, RateFailure, RateLimiter, RateTarget};
use crate::wire::attr::{AttrId, NodeKind};
use crate::wire::mad::{Method, Status};
use crate::wire::smp::SmpRoute;
use crate::wire::vendor::capabilities::Capabilities;
use crate::wire::vendor::facts::RATE_LIMIT_SCALE;
use crate::wire::vendor::qos_config_sl::QosConfigSl;
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::{error, info, warn};

/// Ports that a log line names; the others are counted.
const MAX_NAMED: usize = 16;

impl VendorManager {
    /// Brings the ports of a subnet to their rate limits.
    pub(super) async fn set_rates(&mut self, subnet: &Subnet) {
        let mut limits = self.wanted_limits(subnet);
        let fabric = &subnet.fabric;
        let adapters = fabric.end_ports().filter(|&id| fabric.node_of(id).kind() == NodeKind::Ca);
        let vport_policy = subnet.rate_limits.as_ref().filter(|_| subnet.options.qos);
        let vport_policy = vport_policy.filter(|policy| !policy.vports.is_empty());
        let mut incapable = 0;
        let mut capable = Vec::new();
        for id in adapters {
            let node = fabric.node_of(id).guid();
            let restarted = subnet.restarts.last(node);
            let wanted = limits.as_mut().and_then(|limits| limits.remove(&id));
            let limits_vports = self.nodes.capabilities(node).has(Capabilities::VPORT_RATE_LIMIT);
            for vport in discovered_vports(subnet, id) {
                let wanted = vport_policy.map(|policy| vport_limits(policy, subnet, vport));
                if limits_vports {
                    let target = RateTarget::Vport {
                        port: fabric.port(id).guid,
                        index: vport.index,
                        guid: vport.guid,
                    };
                    capable.push(CapablePort { target, restarted, wanted });
                } else {
                    let has_limits =
                        wanted.is_some_and(|limits| limits.iter().any(|&limit| limit > 0));
                    incapable += usize::from(has_limits);
                }
            }
            if !self.nodes.capabilities(node).has(Capabilities::RATE_LIMIT) {
                let has_limits = wanted.is_some_and(|limits| limits.iter().any(|&limit| limit > 0));
                incapable += usize::from(has_limits);
                continue;
            }
            let target = RateTarget::Port(fabric.port(id).guid);
            capable.push(CapablePort { target, restarted, wanted });
        }
        self.rates.observe(capable.into_iter());
        self.warn_of_incapable(incapable);
        let due = self.rates.due();
        if !due.is_empty() {
            self.send_rates(subnet, due).await;
        }
    }

    /// The limits of each adapter port; `None` without a policy.
    fn wanted_limits(&mut self, subnet: &Subnet) -> Option<BTreeMap<PortId, Limits>> {
        let policy = subnet.rate_limits.as_ref().filter(|_| subnet.options.qos)?;
        let (limits, notes) = port_limits(policy, &subnet.fabric);
        if self.noted != notes {
            notes.iter().for_each(|note| warn!("{}", note.text));
            self.noted = notes;
        }
        Some(limits.into_iter().map(|(port, limits)| (port, on_wire(limits))).collect())
    }

    fn warn_of_incapable(&mut self, incapable: usize) {
        if incapable > 0 && incapable != self.incapable {
            let ports = counted(incapable, "port or vport", "ports or vports");
            warn!(
                "enhanced_qos_policy_file limits {ports} of adapters that do not announce rate \
                 limits: they stay unlimited"
            );
        }
        self.incapable = incapable;
    }

    /// Sends the requests to these ports, one at a time to each.
    async fn send_rates(&mut self, subnet: &Subnet, due: Vec<RateTarget>) {
        let keys = self.connections.m_keys.load_full();
        let client = self.connections.client.clone();
        let mut batch = Tagged::new(&client);
        let mut sets = 0usize;
        for target in due {
            if let Some((method, request)) = next_request(&self.rates, subnet, &keys, target) {
                sets += usize::from(method == Method::SET);
                batch.submit(target, request);
            }
        }
        let mut failed: BTreeMap<RateFailure, Vec<RateTarget>> = BTreeMap::new();
        while let Some((target, result)) = self.next_answer(&mut batch).await {
            if let Some(failure) = self.rates.answered(target, &result) {
                failed.entry(failure).or_default().push(target);
            } else if let Some((method, request)) = next_request(&self.rates, subnet, &keys, target)
            {
                sets += usize::from(method == Method::SET);
                batch.submit(target, request);
            }
        }
        if sets > 0 {
            let counts = self.rates.counts();
            info!(
                "rate limits (experimental): {} limited, {} sent",
                counted(counts.configured, "port or vport", "ports and vports"),
                counted(sets, "Set", "Sets")
            );
        }
        for (failure, targets) in &failed {
            log_failure(subnet, *failure, targets);
        }
    }
}

fn on_wire(limits: Limits) -> Limits {
    limits.map(|limit| limit * RATE_LIMIT_SCALE.value)
}

/// The vports of a port, if they are known.
fn discovered_vports(subnet: &Subnet, port: PortId) -> impl Iterator<Item = &VirtualPort> {
    let fabric = &subnet.fabric;
    let known = fabric.virtual_ports().of_port(fabric.port(port).guid);
    let known = known.filter(|port| port.is_discovered);
    known.into_iter().flat_map(|port| &port.vports)
}

fn vport_limits(policy: &EnhancedQos, subnet: &Subnet, vport: &VirtualPort) -> Limits {
    let selected = enhanced_qos::LimitedVport { guid: vport.guid, is_first: vport.index == 0 };
    let is_first_unlimited = subnet.options.enhanced_qos_vport0_unlimit_default_rl;
    on_wire(policy.vport_limits(selected, is_first_unlimited))
}

/// The method and the request that is due next to a port; `None` if there is none.
fn next_request(
    limiter: &RateLimiter,
    subnet: &Subnet,
    keys: &MKeys,
    target: RateTarget,
) -> Option<(Method, SmpRequest)> {
    let (method, config) = limiter.request(target)?;
    let fabric = &subnet.fabric;
    let port = fabric.port_by_guid(target.port())?;
    let route = SmpRoute::Directed(fabric.route_to(port));
    let modifier = match target {
        RateTarget::Port(_) => QosConfigSl::of_port(fabric.port(port).num),
        RateTarget::Vport { index, .. } => QosConfigSl::of_vport(index),
    };
    let request = match method {
        Method::SET => SmpRequest::set(route, AttrId::QOS_CONFIG_SL, modifier, config.0),
        _ => SmpRequest::get(route, AttrId::QOS_CONFIG_SL, modifier),
    };
    Some((method, request.with_m_key(keys.of_port(fabric, port))))
}

fn log_failure(subnet: &Subnet, failure: RateFailure, targets: &[RateTarget]) {
    let fabric = &subnet.fabric;
    let mut names = targets
        .iter()
        .take(MAX_NAMED)
        .map(|target| target_name(fabric, target))
        .collect::<Vec<_>>()
        .join(", ");
    if let Some(others) = targets.len().checked_sub(MAX_NAMED).filter(|&others| others > 0) {
        names += &format!(" and {others} others");
    }
    let ports = counted(targets.len(), "port or vport", "ports or vports");
    match failure {
        RateFailure::Unanswered => error!(
            "rate limits: {ports} did not answer QosConfigSL: {names}; they are asked again with \
             the next change of the subnet"
        ),
        RateFailure::Refused(status) => error!(
            "rate limits: {ports} refused QosConfigSL with status 0x{status:04x} ({}): {names}; \
             they have no limits of this subnet manager",
            Status::name(status)
        ),
        RateFailure::Altered => {
            error!("rate limits: {ports} acknowledged QosConfigSL with other limits: {names}")
        }
    }
}

fn target_name(fabric: &Arc<Fabric>, target: &RateTarget) -> String {
    let guid = target.port();
    let port = fabric.port_by_guid(guid);
    let port = port.map_or_else(|| guid.to_string(), |port| fabric.describe(port));
    match target {
        RateTarget::Port(_) => port,
        RateTarget::Vport { index, .. } => format!("vport {index} of {port}"),
    }
}

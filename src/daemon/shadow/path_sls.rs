//! Service levels of sample paths: those that the SA of the present master answers, and those that this
//! program would answer.

use super::first_start::FirstPlan;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Gid, Pkey, Sl};
use crate::plan::qos::policy::EffectivePolicy;
use crate::publish::Subnet;
use crate::sa::{Registry, Responder};
use crate::transport::gsi::{GsiClient, GsiTimeouts};
use crate::transport::{Address, Agent};
use crate::verify::Verified;
use crate::wire::mad::{Class, Header, Mad, Method, Status};
use crate::wire::record::{PathRecord, Record};
use crate::wire::sa::{CLASS_VERSION, DATA_OFFSET, SA_OFFSET, SaAttr, SaHeader};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Number of pairs of hosts whose paths are asked for in a pass.
const SAMPLES: usize = 32;

/// Unanswered queries, without an answered one before, after which no others are sent.
const MAX_UNANSWERED: usize = 2;

/// Timeout of a query, and its retransmissions.
const TIMEOUTS: GsiTimeouts = GsiTimeouts { timeout: Duration::from_secs(1), retries: 2 };

/// The comparison of the samples.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SampledPathSls {
    /// Number of queries, one for each pair of hosts.
    pub asked: usize,
    /// Number of paths that the SA of the master answered.
    pub answered: usize,
    /// Pairs with another SL, in words.
    pub differing: Vec<String>,
}

/// Asks the SA of the master that the local port names for the paths of sample pairs, one after the
/// other. `pass` selects other pairs each time.
pub(super) async fn compare(
    client: &GsiClient,
    fabric: &Arc<Fabric>,
    planned: &FirstPlan,
    verified: &Verified,
    pass: u64,
) -> SampledPathSls {
    let mut found = SampledPathSls::default();
    let Some(local) = fabric.port(fabric.local()).info() else { return found };
    let sa = Address::gsi(local.master_sm_lid(), local.master_sm_sl());
    let own_port = Address::gsi(local.lid(), Sl(0));
    let mut responder = Responder::new(Registry::default());
    let subnet = subnet(fabric, planned, verified);
    for [from, to] in pairs(fabric, pass) {
        if found.answered == 0 && found.asked >= MAX_UNANSWERED {
            break;
        }
        let query = query(local.gid_prefix(), fabric, from, to);
        found.asked += 1;
        let own = own_answer(&mut responder, &subnet, &own_port, &query);
        let Some(theirs) = answer(client, sa, query).await else { continue };
        found.answered += 1;
        if own != Some(theirs) {
            let planned = own.map_or_else(|| "no path".to_owned(), |sl| format!("SL {sl}"));
            found.differing.push(format!(
                "path from {} to {}: the master answers SL {theirs}, planned {planned}",
                port_name(fabric, from),
                port_name(fabric, to)
            ));
        }
    }
    found
}

fn port_name(fabric: &Fabric, port: PortId) -> String {
    fabric.describe(port)
}

/// Pairs of hosts, others in each pass.
fn pairs(fabric: &Fabric, pass: u64) -> Vec<[PortId; 2]> {
    let hosts: Vec<PortId> = fabric
        .end_ports()
        .filter(|&port| !fabric.node_of(port).is_switch() && fabric.port(port).peer.is_some())
        .collect();
    if hosts.len() < 2 {
        return Vec::new();
    }
    let total = hosts.len() as u64;
    let picked = (0..SAMPLES as u64).map(|number| {
        // Steps of the golden ratio spread over all hosts.
        let mixed = (pass * SAMPLES as u64 + number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let from = (mixed >> 32) % total;
        let to = (from + 1 + (mixed & 0xFFFF_FFFF) % (total - 1)) % total;
        [hosts[from as usize], hosts[to as usize]]
    });
    picked.collect()
}

fn query(prefix: u64, fabric: &Fabric, from: PortId, to: PortId) -> Mad {
    let mut wanted = PathRecord::default();
    wanted.set_sgid(Gid::new(prefix, fabric.port(from).guid));
    wanted.set_dgid(Gid::new(prefix, fabric.port(to).guid));
    wanted.set_numb_path(1);
    wanted.set_pkey(Pkey::DEFAULT_FULL);
    let mask = PathRecord::SGID | PathRecord::DGID | PathRecord::NUMB_PATH | PathRecord::PKEY;
    let mut header = Header::default();
    header.set_base_version(1);
    header.set_class(Class::SUBN_ADM);
    header.set_class_version(CLASS_VERSION);
    header.set_method(Method::GET.0);
    header.set_attr_id(SaAttr::PATH_RECORD);
    let mut mad = Mad::default();
    mad.set_header(&header);
    let mut sa = SaHeader::default();
    sa.set_component_mask(mask);
    sa.write(&mut mad.0[SA_OFFSET..]);
    mad.0[DATA_OFFSET..DATA_OFFSET + PathRecord::STRIDE].copy_from_slice(wanted.bytes());
    mad
}

/// The SL that the SA answers; `None` without a path.
async fn answer(client: &GsiClient, sa: Address, query: Mad) -> Option<Sl> {
    let mut batch = client.batch(TIMEOUTS);
    batch.submit(0, Agent::Sa, sa, query);
    let (_, answer) = batch.next().await?;
    sl_of(&answer.ok()?.0)
}

/// The SL that this program would answer.
fn own_answer(
    responder: &mut Responder,
    subnet: &Subnet,
    from: &Address,
    query: &Mad,
) -> Option<Sl> {
    let reply = responder.handle(subnet, from, &query.0, Instant::now().into_std())?;
    sl_of(&reply.mad)
}

fn sl_of(mad: &[u8]) -> Option<Sl> {
    let is_path = Header::read(mad).status() == Status::OK;
    let record = mad.get(DATA_OFFSET..DATA_OFFSET + PathRecord::STRIDE)?;
    is_path.then(|| PathRecord::read(record).sl())
}

/// The subnet as this program would publish it.
fn subnet(fabric: &Arc<Fabric>, planned: &FirstPlan, verified: &Verified) -> Subnet {
    let plan = verified.plan().clone();
    let request = &planned.request;
    let own = Some(fabric.local());
    let policy = request.qos_policy.clone().map(|policy| {
        let keys = &plan.partitions.keys;
        Arc::new(EffectivePolicy::new(policy, fabric, keys, &request.partitions, own).0)
    });
    Subnet {
        generation: 1,
        fabric: fabric.clone(),
        options: request.options.clone(),
        qos_policy: policy,
        summary: Arc::new(verified.summary().clone()),
        failed_sets: 0,
        devices: Arc::default(),
        restarts: Arc::default(),
        rate_limits: None,
        repair_view: Arc::default(),
        plan,
    }
}

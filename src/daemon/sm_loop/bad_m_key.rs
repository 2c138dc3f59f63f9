//! Trap 256: a port refused a request because of its M_Key. Log lines name the port and the
//! requester, and no key.

use crate::fabric::{Fabric, PortId};
use crate::ids::{Lid, PortNum};
use crate::publish::Subnet;
use crate::wire::attr::{AttrId, Notice};
use crate::wire::mad::Method;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{debug, warn};

/// Time in which refusals of the same port and requester are logged once.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Renewals of a lease within its period, for a port that repeats its trap: some may be lost.
const RENEWALS_PER_LEASE: u32 = 4;
/// Maximum number of remembered pairs of port and requester; then all are forgotten.
const MAX_PAIRS: usize = 4096;

/// The sender of a refused request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Requester {
    /// A port of the snapshot.
    Port(PortId),
    /// A LID that the snapshot does not have.
    Lid(Lid),
    /// The notice does not tell.
    Unknown,
}

/// Logs refused requests.
#[derive(Debug, Default)]
pub(super) struct BadMKeyLog {
    /// The last log line about each port and requester.
    logged: HashMap<(Lid, Requester), Instant>,
    /// The last renewal of each port.
    renewed: HashMap<Lid, Instant>,
}

impl BadMKeyLog {
    /// True if a port that repeats trap 256 needs the lease of its M_Key renewed. One without a lease
    /// period keeps its key.
    pub(super) fn needs_renewal(
        &mut self,
        notice: &Notice,
        published: Option<&Subnet>,
        now: Instant,
    ) -> bool {
        let Some(subnet) = published else { return false };
        let lease = lease_period(notice.issuer_lid(), subnet);
        if lease.is_zero() || is_by_this_sm(notice, subnet) {
            return false;
        }
        if self.renewed.len() >= MAX_PAIRS {
            self.renewed.clear();
        }
        let last = self.renewed.get(&notice.issuer_lid());
        let is_due =
            last.is_none_or(|&last| now.duration_since(last) >= lease / RENEWALS_PER_LEASE);
        if is_due {
            self.renewed.insert(notice.issuer_lid(), now);
        }
        is_due
    }

    /// Logs a notice of trap 256. Returns true if another requester than this SM was refused, so
    /// that the lease of the port's M_Key must be renewed.
    pub(super) fn received(&mut self, notice: &Notice, published: Option<&Subnet>) -> bool {
        let requester = published.map_or(Requester::Unknown, |subnet| requester(notice, subnet));
        let is_own = published.is_some_and(|subnet| is_by_this_sm(notice, subnet));
        let issuer = notice.issuer_lid();
        let method = Method(notice.method());
        let attribute = AttrId::name(notice.attr_id());
        let request = format!("{method}({attribute}, modifier 0x{:x})", notice.attr_mod());
        let port = place(issuer, published);
        if !self.is_due((issuer, requester)) {
            debug!("{port} refused {request} again: wrong M_Key");
        } else if is_own {
            warn!("{port} refused {request} of this SM: it holds another M_Key than known");
        } else {
            let from = describe(requester, published);
            warn!(
                "{port} refused {request} from {from}: wrong M_Key; check what runs there, or give \
                 that SM the m_key of this one"
            );
        }
        !is_own && published.is_some()
    }

    fn is_due(&mut self, pair: (Lid, Requester)) -> bool {
        let now = Instant::now();
        if self.logged.len() >= MAX_PAIRS {
            self.logged.clear();
        }
        let last = self.logged.get(&pair);
        let is_due = last.is_none_or(|&last| now.duration_since(last) >= LOG_INTERVAL);
        if is_due {
            self.logged.insert(pair, now);
        }
        is_due
    }
}

fn place(lid: Lid, published: Option<&Subnet>) -> String {
    let port = published.and_then(|subnet| {
        let port = subnet.plan.lids.port(lid)?;
        Some(format!("{} (LID {lid})", subnet.fabric.describe(port)))
    });
    port.unwrap_or_else(|| format!("the port with LID {lid}"))
}

fn describe(requester: Requester, published: Option<&Subnet>) -> String {
    match requester {
        Requester::Port(port) => {
            published.map_or_else(String::new, |subnet| subnet.fabric.describe(port))
        }
        Requester::Lid(lid) => format!("the unknown LID {lid}"),
        Requester::Unknown => "an unknown sender".to_owned(),
    }
}

/// The lease period of the M_Key of a port; 0 if that does not end, or the port is unknown.
fn lease_period(lid: Lid, subnet: &Subnet) -> Duration {
    let port = subnet.plan.lids.port(lid);
    let info = port.and_then(|port| subnet.fabric.port(port).info());
    Duration::from_secs(info.map_or(0, |info| info.m_key_lease_period().into()))
}

/// True if a port refused a request of this SM, which does not know its key.
fn is_by_this_sm(notice: &Notice, subnet: &Subnet) -> bool {
    requester(notice, subnet) == Requester::Port(subnet.fabric.local())
}

fn requester(notice: &Notice, subnet: &Subnet) -> Requester {
    let fabric = &subnet.fabric;
    if !notice.is_directed() {
        let lid = notice.subject_lid();
        return subnet.plan.lids.port(lid).map_or(Requester::Lid(lid), Requester::Port);
    }
    let victim = subnet.plan.lids.port(notice.issuer_lid());
    let sender = victim.and_then(|port| follow_back(fabric, port, notice.return_path()));
    sender.map_or(Requester::Unknown, Requester::Port)
}

/// The port that sent a request by directed route, which the nodes on its way received by the ports
/// `path`.
fn follow_back(fabric: &Fabric, victim: PortId, path: &[u8]) -> Option<PortId> {
    let mut at = victim;
    for &entry in path.iter().rev() {
        let port = fabric.port_of(fabric.port(at).node, PortNum(entry))?;
        at = fabric.port(port).peer?;
    }
    (!path.is_empty()).then(|| fabric.owner(at))
}

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
pub(super) struct BadMKeyLog(HashMap<(Lid, Requester), Instant>);

impl BadMKeyLog {
    /// Logs a notice of trap 256. Returns true if another requester than this SM was refused, so
    /// that the lease of the port's M_Key must be renewed.
    pub(super) fn received(&mut self, notice: &Notice, published: Option<&Subnet>) -> bool {
        let requester = published.map_or(Requester::Unknown, |subnet| requester(notice, subnet));
        let is_own =
            published.is_some_and(|subnet| requester == Requester::Port(subnet.fabric.local()));
        let issuer = notice.issuer_lid();
        let method = Method(notice.method());
        let (id, modifier) = (notice.attr_id(), notice.attr_mod());
        let request = format!("{method}({}, modifier 0x{modifier:x})", AttrId::name(id));
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
        if self.0.len() >= MAX_PAIRS {
            self.0.clear();
        }
        let last = self.0.get(&pair);
        let is_due = last.is_none_or(|&last| now.duration_since(last) >= LOG_INTERVAL);
        if is_due {
            self.0.insert(pair, now);
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

//! The M_Key of the local port. A subnet manager that does not know it is not to be master: the
//! port has been protected by a manager with another key, and so have all others.

use crate::fabric::Fabric;
use crate::ids::Lid;
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::transport::client::SmpClient;
use crate::transport::transactions::SmpRequest;
use crate::wire::attr::{AttrId, PhysState, PortInfo, PortState};
use crate::wire::smp::{DirectedRoute, SmpRoute};
use tracing::warn;

/// True if the local port hides its M_Key and refuses a Set. The Set would change nothing; its
/// refusal starts the lease period of the key, unless another manager renews it.
pub(super) async fn is_locked(client: &SmpClient, keys: &MKeys, fabric: &Fabric) -> bool {
    let owner = fabric.owner(fabric.local());
    let Some(mut info) = fabric.port(owner).info().filter(|info| keys.is_hidden(info)) else {
        return false;
    };
    info.set_port_state(PortState::NoChange);
    info.set_phys_state(PhysState::NoChange);
    info.set_client_reregister(false);
    let route = SmpRoute::Directed(DirectedRoute::LOCAL);
    let num = fabric.port(owner).num.0;
    let set = SmpRequest::set(route, AttrId::PORT_INFO, num.into(), info.0);
    client.call(&set.with_m_key(keys.of_port(fabric, owner))).await.is_err()
}

/// Reports that another manager or program changed the port of this SM, which is configured again;
/// returns the changes. The port does not tell who did it; other SMs that the sweep found are named.
/// Before this SM has configured the subnet as master, the port is as another master has left it.
pub(super) fn report_foreign_changes(last: &Observation, now: &Observation) -> Option<String> {
    let changes = foreign_changes(&own_info(last)?, &own_info(now)?).join(", ");
    if changes.is_empty() {
        return None;
    }
    let others = now
        .managers
        .iter()
        .map(|(port, info)| format!("{} ({})", info.guid(), now.fabric.node_of(*port).name()));
    let others: Vec<String> = others.collect();
    let seen = if others.is_empty() {
        "no other subnet manager is seen".to_owned()
    } else {
        format!("other subnet managers: {}", others.join(", "))
    };
    warn!(
        "another manager or program changed the port of this SM: {changes}; it is configured \
         again; {seen}; with an m_key the port refuses such requests and names their sender"
    );
    Some(changes)
}

/// PortInfo of the local port.
fn own_info(observation: &Observation) -> Option<PortInfo> {
    let fabric = &observation.fabric;
    fabric.port(fabric.owner(fabric.local())).info()
}

/// The attributes of the local port that another manager or program has set, in words: those that
/// differ between what this SM set last and what the port shows `now`. A port that was reset shows
/// none of them.
fn foreign_changes(last: &PortInfo, now: &PortInfo) -> Vec<String> {
    let mut changes = Vec::new();
    if now.lid() == Lid(0) && now.master_sm_lid() == Lid(0) {
        return changes;
    }
    if now.lid() != last.lid() {
        changes.push(format!("LID {} instead of {}", now.lid(), last.lid()));
    }
    if now.lmc() != last.lmc() {
        changes.push(format!("LMC {} instead of {}", now.lmc(), last.lmc()));
    }
    if now.master_sm_lid() != last.master_sm_lid() {
        changes.push(format!(
            "master SM at LID {} instead of {}",
            now.master_sm_lid(),
            last.master_sm_lid()
        ));
    }
    if now.m_key() != last.m_key() && now.m_key().is_set() {
        changes.push("another M_Key".to_owned());
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_others_set_are_named() {
        let mut last = PortInfo::default();
        last.set_lid(Lid(3));
        last.set_master_sm_lid(Lid(3));
        let mut now = last;
        now.set_lid(Lid(7));
        now.set_master_sm_lid(Lid(9));
        let expected = ["LID 7 instead of 3", "master SM at LID 9 instead of 3"];
        assert_eq!(foreign_changes(&last, &now), expected);
        assert_eq!(foreign_changes(&last, &last), [""; 0]);
        assert_eq!(foreign_changes(&last, &PortInfo::default()), [""; 0], "the port was reset");
    }
}

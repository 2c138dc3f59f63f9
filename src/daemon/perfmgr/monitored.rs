//! Capabilities and redirections of the agents of the ports, as the performance manager knows them.

use crate::ids::{Guid, Lid, PortNum};
use crate::perfmgr::counters::PerfCapabilities;
use crate::perfmgr::database::Database;
use crate::perfmgr::redirection::{RedirectedPort, Redirection};
use std::collections::BTreeMap;

/// The agent of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct PerfAgent {
    /// From ClassPortInfo; `None` if it was not read.
    pub capabilities: Option<PerfCapabilities>,
    /// LID of the port, and the address at which its agent answers.
    pub redirection: Option<(Lid, Redirection)>,
}

/// The agents by node GUID and port; those of a switch by the port that was asked.
#[derive(Debug, Default)]
pub(super) struct Monitored(BTreeMap<(Guid, PortNum), PerfAgent>);

impl Monitored {
    pub(super) fn agent(&self, node: Guid, port: PortNum) -> PerfAgent {
        self.0.get(&(node, port)).copied().unwrap_or_default()
    }

    pub(super) fn set_capabilities(&mut self, node: Guid, port: PortNum, found: PerfCapabilities) {
        self.0.entry((node, port)).or_default().capabilities = Some(found);
    }

    /// Stores a redirection. The capabilities are those of the agent there, which are unknown.
    pub(super) fn redirect(&mut self, node: Guid, port: PortNum, from: Lid, to: Redirection) {
        let agent = PerfAgent { capabilities: None, redirection: Some((from, to)) };
        self.0.insert((node, port), agent);
    }

    /// Forgets the redirection of a port whose agent does not answer.
    pub(super) fn forget_redirection(&mut self, node: Guid, port: PortNum) {
        if self.agent(node, port).redirection.is_some() {
            self.0.remove(&(node, port));
        }
    }

    /// Forgets a node that has left the fabric: one with the same GUID may have another agent.
    pub(super) fn remove_node(&mut self, node: Guid) {
        self.0.retain(|(guid, _), _| *guid != node);
    }

    /// Forgets all redirections, or those of the node with this GUID or name.
    pub(super) fn clear_redirections(&mut self, node: Option<&str>, database: &Database) {
        let digits = node.and_then(|text| text.strip_prefix("0x"));
        let guid = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).map(Guid);
        self.0.retain(|&(other, _), agent| {
            let is_meant = match (node, guid) {
                (None, _) => true,
                (_, Some(guid)) => other == guid,
                (Some(name), None) => database.node(other).is_some_and(|node| node.name == name),
            };
            agent.redirection.is_none() || !is_meant
        });
    }

    /// All redirected ports.
    pub(super) fn redirections(&self) -> Vec<RedirectedPort> {
        let redirected = self.0.iter().filter_map(|(&(node, port), agent)| {
            let (from, to) = agent.redirection?;
            Some(RedirectedPort { node, port, from, to })
        });
        redirected.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Pkey;

    const TO: Redirection = Redirection { lid: Lid(9), qpn: 5, pkey: Pkey(0xFFFF), pkey_index: 0 };

    #[test]
    fn redirections_are_cleared_by_node() {
        let mut monitored = Monitored::default();
        for guid in [1, 2] {
            monitored.redirect(Guid(guid), PortNum(1), Lid(3), TO);
        }
        monitored.set_capabilities(Guid(3), PortNum(0), PerfCapabilities(1));
        let mut database = Database::default();
        database.activate(Guid(2), "two", 1, false, chrono::Utc::now());
        monitored.clear_redirections(Some("0x1"), &database);
        assert_eq!(monitored.redirections().len(), 1);
        monitored.clear_redirections(Some("other"), &database);
        assert_eq!(monitored.redirections().len(), 1);
        monitored.clear_redirections(Some("two"), &database);
        assert!(monitored.redirections().is_empty());
        monitored.forget_redirection(Guid(3), PortNum(0));
        let kept = monitored.agent(Guid(3), PortNum(0)).capabilities;
        assert_eq!(kept, Some(PerfCapabilities(1)));
    }
}

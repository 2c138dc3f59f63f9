//! Log lines about ports whose M_Key is unknown, each once. No line contains a key.

use crate::apply::ApplyReport;
use crate::fabric::{Fabric, PortId};
use crate::ids::Guid;
use crate::observe::SweepError;
use crate::observe::m_keys::MKeys;
use crate::wire::attr::{AttrId, PortInfo};
use std::collections::HashSet;
use tracing::warn;

pub(super) const REMEDY: &str = "enter its M_Key in the file guid2mkey, or set m_key to it";

/// The ports that were reported as protected by an unknown M_Key.
#[derive(Default)]
pub(super) struct KeyLog(HashSet<Guid>);

impl KeyLog {
    /// Logs the ports that hide their M_Key and did not accept a Set.
    pub(super) fn refused(&mut self, fabric: &Fabric, keys: &MKeys, report: &ApplyReport) {
        let unanswered = report.unacknowledged.failed.iter().map(|(set, _)| set);
        let sets =
            unanswered.chain(&report.unacknowledged.unsent).chain(&report.unacknowledged.delayed);
        let ports: HashSet<PortId> = sets
            .filter(|set| set.attr_id == AttrId::PORT_INFO)
            .map(|set| fabric.owner(set.slot(fabric)))
            .collect();
        let mut refused = HashSet::new();
        for port in fabric.end_ports().filter(|port| ports.contains(port)) {
            let guid = fabric.port(port).guid;
            let Some(info) = fabric.port(port).info().filter(|info| keys.is_hidden(info)) else {
                continue;
            };
            if !self.0.contains(&guid) {
                let device = fabric.describe(port);
                warn!(
                    "{device}, port GUID {guid}, accepts no changes: it has an unknown M_Key, {}; {}",
                    protection(&info),
                    remedy(&info)
                );
            }
            refused.insert(guid);
        }
        self.0 = refused;
    }
}

fn protection(info: &PortInfo) -> String {
    let level = info.m_key_protect_bits();
    match info.m_key_lease_period() {
        0 => format!("protection level {level}, no lease period"),
        seconds => format!("protection level {level}, lease period {seconds} s"),
    }
}

fn remedy(info: &PortInfo) -> String {
    match info.m_key_lease_period() {
        0 => REMEDY.to_owned(),
        _ => format!("{REMEDY}, or wait until its lease ends and it shows the key"),
    }
}

/// The explanation of a failed sweep that an unknown M_Key may cause; empty for others.
pub(super) fn local_hint(problem: &SweepError) -> &'static str {
    match problem {
        SweepError::LocalUnresponsive(_) => {
            "; if another SM protects this port by an M_Key, m_key must be the same for both SMs"
        }
        SweepError::LocalProtected => {
            "; another SM has set it: m_key must be the same for both SMs. This SM manages nothing until \
             then, or until that SM has ended and the lease period of the key is over"
        }
        _ => "",
    }
}

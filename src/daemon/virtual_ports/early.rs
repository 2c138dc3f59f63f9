//! The discovery of vports before the first subnet of a new master. Its first plan waits for them for a
//! moment, because a second plan for them would take longer; if they take longer, they are discovered while
//! it is programmed. Only their P_Keys, LIDs and ACTIVE need the subnet.
//!
//! Ports in INIT carry no data, so that enabling virtualization on them disturbs nobody. All other ports
//! wait for the subnet.

use super::{ENABLE, VirtualPortManager, is_used};
use crate::daemon::messages::FirstSweep;
use std::sync::Arc;

/// True if vports can be discovered before the first subnet. With M_Keys they cannot: ports get theirs
/// while the subnet is programmed, and do not answer requests with another one.
pub fn is_early(first: &FirstSweep) -> bool {
    let options = &first.options;
    is_used(options) && options.virt_enabled == ENABLE && !first.m_keys.is_in_use()
}

impl VirtualPortManager {
    /// Discovers the vports of a fabric that is being planned, once.
    pub(super) async fn discover_early(&mut self, first: Arc<FirstSweep>) {
        let last = self.first_sweep.replace(first.clone());
        if last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &first)) {
            return;
        }
        let is_changed = self.is_changed_by(&first, last.is_some()).await;
        let is_planned = first.discovery_ended();
        if is_changed && !is_planned {
            self.request_plan();
        }
        self.log.failures(&first.fabric, &self.ports);
        self.publish(true);
    }

    /// Discovers the vports of a fabric. True if they are not those known before. `is_repeated`: the plan of
    /// the fabric before was rejected.
    async fn is_changed_by(&mut self, first: &FirstSweep, is_repeated: bool) -> bool {
        self.mode = Some(first.options.virt_enabled);
        self.ports.observe_first(&first.fabric);
        if is_repeated {
            self.ports.request_polls();
        }
        if self.ports.due().is_empty() {
            return false;
        }
        let FirstSweep { fabric, options, m_keys, disabled_ports, .. } = first;
        let made = self.discover(fabric, options, m_keys.clone(), disabled_ports).await;
        self.keep_discovered(&made)
    }
}

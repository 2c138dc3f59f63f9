//! A master with another SM_Key: a subnet manager that has just started does not become a second one.

use super::{Exit, Manager};
use crate::config::options::Options;
use crate::daemon::sm_loop::mastership;
use crate::manage::loop_status::ForeignMaster;
use crate::observe::Observation;
use crate::sm::role::RoleEvent;
use crate::wire::attr::SmState;
use std::time::Duration;
use tokio::time::Instant;
use tracing::error;

/// Pause between the sweeps of an SM that waits beside a master with another SM_Key, if
/// `sweep_interval` is 0.
const FOREIGN_MASTER_INTERVAL: Duration = Duration::from_secs(10);

/// The remedies of an administrator against two masters with different SM_Keys.
const FOREIGN_MASTER_REMEDY: &str = "this SM stays in DISCOVERING until that one is gone. Set sm_key \
    to the same value for all SMs of the subnet, and enter this port in sm_key_peers of that SM if it \
    shows its key to some SMs only; to become master beside it, start with --ignore-other-sm";

impl Manager {
    /// The master with another SM_Key that keeps this SM, which has just started, from becoming master
    /// too, with the name of its node. An SM that has been master or standby already ignores SMs with
    /// another key: else any host could keep a standby from taking over. One with the published default
    /// key ignores them as OpenSM does.
    pub(super) fn blocking_master(&self, observation: &Observation) -> Option<ForeignMaster> {
        let own = self.context.sm_status.borrow().voter();
        let is_newcomer = own.state == SmState::Discovering && !self.has_taken_part;
        let has_default_key = own.sm_key == Options::default().sm_key;
        if !is_newcomer || has_default_key || self.options.ignore_other_sm {
            return None;
        }
        let peers = mastership::peers(observation);
        if own.survey(&peers).0 != RoleEvent::SweepAlone {
            return None;
        }
        let peer = own.foreign_master(&peers)?;
        let fabric = &observation.fabric;
        let port = fabric.port_by_guid(peer.guid());
        let node = port.map(|port| fabric.node_of(port).name().to_string());
        Some(ForeignMaster {
            guid: peer.guid(),
            node: node.unwrap_or_default(),
            priority: peer.info.priority(),
        })
    }

    /// Stays in DISCOVERING beside a master with another SM_Key, and looks again later.
    pub(super) fn wait_for_foreign_master(&mut self, master: ForeignMaster) -> Option<Exit> {
        let problem = format!(
            "the SM at port GUID {} ({}), priority {}, is master with another SM_Key: two masters \
             would both write to the devices",
            master.guid, master.node, master.priority
        );
        if self.monitor.set_foreign_master(Some(master)) {
            error!("{problem}; {FOREIGN_MASTER_REMEDY}");
        }
        if self.once {
            return Some(Exit::SubnetDown(problem));
        }
        let pause = self.interval().unwrap_or(FOREIGN_MASTER_INTERVAL);
        self.next_sweep = Some(Instant::now() + pause);
        self.reconfigurer.needs_heavy_sweep = true;
        None
    }
}

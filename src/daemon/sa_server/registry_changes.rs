//! What follows from changes of the registry: reports to subscribers and in the activity report, and
//! the file on disk.

use super::SaServer;
use crate::config::options::ActivitySubjects;
use crate::daemon::activity::ActivityReport;
use crate::daemon::process::trap_log;
use crate::manage::activity::SubnetActivity;
use crate::sa::registry::{GroupActivity, GroupChange, Registry};
use tokio::time::Instant;

impl SaServer {
    /// Handles changes of the registry: reports them to subscribers, schedules the write to disk.
    pub(super) fn registry_changed(&mut self) {
        if let Some(activity) = &self.outputs.activity {
            report_activities(activity, self.responder.get().registry_mut());
        }
        let events = self.responder.get().registry_mut().take_group_events();
        if !events.is_empty()
            && let Some(subnet) = self.own_subnet()
        {
            events.iter().for_each(trap_log::reporting_group);
            let registry = self.responder.get().registry_mut();
            let now = Instant::now().into_std();
            self.dispatcher.group_events(registry, &subnet, &events, now);
        }
        if self.responder.get().registry().has_unexported_changes() {
            self.outputs.replicas.send_replace(());
        }
        if let Some(options) = &self.snapshots.options {
            self.registered.db_file.watch(self.responder.get().registry(), options);
        }
    }
}

/// Reports the changes of multicast groups since the last call, and records further ones if they are to be reported.
fn report_activities(activities: &ActivityReport, registry: &mut Registry) {
    registry.record_group_activities(activities.wants(ActivitySubjects::MULTICAST));
    let (changes, lost) = registry.take_group_activities();
    activities.lost(lost);
    for GroupActivity { mlid, mgid, change } in changes {
        activities.send(match change {
            GroupChange::Created => {
                SubnetActivity::MulticastGroup { mlid, mgid, is_deleted: false }
            }
            GroupChange::Deleted => SubnetActivity::MulticastGroup { mlid, mgid, is_deleted: true },
            GroupChange::Joined(port_guid) => {
                SubnetActivity::MulticastMember { mlid, mgid, port_guid, has_joined: true }
            }
            GroupChange::Left(port_guid) => {
                SubnetActivity::MulticastMember { mlid, mgid, port_guid, has_joined: false }
            }
        });
    }
}

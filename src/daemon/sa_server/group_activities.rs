//! Changes of multicast groups, for the activity report.

use crate::config::options::ActivitySubjects;
use crate::daemon::activity::ActivityReport;
use crate::manage::activity::SubnetActivity;
use crate::sa::registry::{GroupActivity, GroupChange, Registry};

/// Reports the changes of multicast groups since the last call, and records further ones if they are to be reported.
pub(super) fn report_activities(activities: &ActivityReport, registry: &mut Registry) {
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

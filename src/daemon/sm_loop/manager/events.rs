//! Descriptions of events for the time line of a recording.

use crate::daemon::messages::SmEvent;
use crate::daemon::sm_loop::mastership::{Due, PollEvent};
use crate::observe::traps::TrapEvent;
use crate::record::entry::EventKind;

/// Kind and text of an event.
pub(super) fn describe(event: &SmEvent) -> (EventKind, String) {
    match event {
        SmEvent::Trap(trap) => {
            let TrapEvent { issuer, number, subject, port, .. } = trap;
            (EventKind::Trap, format!("{number} from LID {issuer} about LID {subject} port {port}"))
        }
        SmEvent::Role(event, peer) => {
            (EventKind::Role, format!("the SM at port GUID {} requests: {event}", peer.guid()))
        }
        SmEvent::MembershipChanged => (EventKind::Registry, "multicast groups changed".into()),
        SmEvent::AliasesChanged => (EventKind::Registry, "alias GUIDs changed".into()),
        SmEvent::Reload => (EventKind::Command, "SIGHUP: read the configuration, sweep".into()),
        SmEvent::Resweep => (EventKind::Command, "sweep".into()),
        SmEvent::LightSweep => (EventKind::Command, "light sweep".into()),
        SmEvent::Sweeping(true) => (EventKind::Command, "allow sweeps".into()),
        SmEvent::Sweeping(false) => (EventKind::Command, "inhibit sweeps".into()),
        SmEvent::Reroute => (EventKind::Command, "plan all routes again".into()),
        SmEvent::Quarantine((guid, num)) => {
            (EventKind::Command, format!("quarantine the link at {guid}[{num}]"))
        }
        SmEvent::Release((guid, num)) => {
            (EventKind::Command, format!("release the link at {guid}[{num}]"))
        }
        SmEvent::SetPriority(_, priority) => {
            (EventKind::Command, format!("set priority {priority}"))
        }
        SmEvent::Dump(_) => (EventKind::Command, "write dump files".into()),
        SmEvent::HandOver(_, to) => (
            EventKind::Command,
            match to {
                Some(guid) => format!("hand over to the SM at port GUID {guid}"),
                None => "hand over".into(),
            },
        ),
        SmEvent::PortClosed(reason) => (EventKind::Daemon, format!("the port is closed: {reason}")),
    }
}

/// Text of work that is due because of other SMs; `None` for the check of the local port every
/// second.
pub(super) fn describe_due(due: &Due) -> Option<&'static str> {
    match due {
        Due::Poll(PollEvent::Due) => Some("poll the master"),
        Due::Poll(PollEvent::Reply(_)) => Some("the master answered a poll"),
        Due::Look => Some("query the other SMs"),
        Due::PortCheck => None,
    }
}

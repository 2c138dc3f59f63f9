//! Descriptions of events for the time line of a recording.

use crate::daemon::messages::SmEvent;
use crate::manage::action::OperatorAction;
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
        SmEvent::VirtualPortsChanged => (EventKind::Registry, "vports changed".into()),
        SmEvent::AliasesChanged => (EventKind::Registry, "alias GUIDs changed".into()),
        SmEvent::Reload => (EventKind::Command, "SIGHUP: read the configuration, sweep".into()),
        SmEvent::Operator(_, action) => (EventKind::Command, describe_action(action)),
        SmEvent::PortClosed(reason) => (EventKind::Daemon, format!("the port is closed: {reason}")),
    }
}

fn describe_action(action: &OperatorAction) -> String {
    match action {
        OperatorAction::Resweep => "sweep".into(),
        OperatorAction::LightSweep => "light sweep".into(),
        OperatorAction::Sweeping(true) => "allow sweeps".into(),
        OperatorAction::Sweeping(false) => "inhibit sweeps".into(),
        OperatorAction::Reroute => "plan all routes again".into(),
        OperatorAction::Quarantine(guid, num) => format!("quarantine the link at {guid}[{num}]"),
        OperatorAction::Release(guid, num) => format!("release the link at {guid}[{num}]"),
        OperatorAction::WhatIf(guid, num) => format!("plan without the link at {guid}[{num}]"),
        OperatorAction::Priority(priority) => format!("set priority {priority}"),
        OperatorAction::Dump => "write dump files".into(),
        OperatorAction::Handover(Some(guid)) => format!("hand over to the SM at port GUID {guid}"),
        OperatorAction::Handover(None) => "hand over".into(),
        other => other.name().into(),
    }
}

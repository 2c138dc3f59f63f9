//! Follow-up work of tasks, and the causes of events.

use super::TaskKind;
use crate::daemon::messages::SmEvent;
use crate::ids::Guid;
use crate::manage::action::OperatorAction;
use crate::manage::loop_status::{Cause, Causes};
use std::collections::BTreeSet;

/// The work that follows from a task.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct FollowUp {
    pub tasks: BTreeSet<TaskKind>,
    /// Switches for a focused sweep, by node GUID.
    pub suspects: BTreeSet<Guid>,
    pub causes: Causes,
}

impl FollowUp {
    pub fn nothing() -> Self {
        Self::default()
    }

    pub fn task(kind: TaskKind) -> Self {
        Self::default().and(kind, true)
    }

    /// Adds a task if it is needed.
    pub fn and(mut self, kind: TaskKind, is_needed: bool) -> Self {
        if is_needed {
            self.tasks.insert(kind);
        }
        self
    }

    pub fn because_of(mut self, cause: Cause) -> Self {
        self.causes.insert(cause);
        self
    }

    pub fn with_suspects(mut self, suspects: impl IntoIterator<Item = Guid>) -> Self {
        self.suspects.extend(suspects);
        self
    }

    pub fn merge(mut self, other: Self) -> Self {
        self.tasks.extend(other.tasks);
        self.suspects.extend(other.suspects);
        self.causes.extend(other.causes);
        self
    }
}

/// Why the work that an event requests is done; `None` for events without sweeps and plans.
pub(super) fn cause_of(event: &SmEvent) -> Option<Cause> {
    match event {
        SmEvent::Trap(_) => Some(Cause::Trap),
        SmEvent::Role(..) => Some(Cause::Role),
        SmEvent::MembershipChanged | SmEvent::AliasesChanged => Some(Cause::SaClients),
        SmEvent::VirtualPortsChanged => Some(Cause::VirtualPorts),
        SmEvent::Reload => Some(Cause::Reload),
        SmEvent::Operator(_, action) => match action {
            OperatorAction::Resweep
            | OperatorAction::LightSweep
            | OperatorAction::Reroute
            | OperatorAction::Quarantine(..)
            | OperatorAction::Release(..) => Some(Cause::Request),
            _ => None,
        },
        SmEvent::PortClosed(_) => None,
    }
}

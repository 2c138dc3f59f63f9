//! The work of the SM loop, and the order in which it is done: pure, without I/O and clock.
//!
//! Events, expired timers and finished tasks add work ([`Agenda::add`], [`Agenda::expired`],
//! [`Agenda::absorb`]); [`Agenda::next`] takes the most urgent task from it. Work of the same kind is
//! merged, so that a storm of traps causes one sweep. The order, the roles in which each task is done,
//! and the work that it makes unnecessary are the table [`RULES`].
//!
//! `testdata` has scenarios: commands, and the tasks that follow.

#[cfg(test)]
mod scenarios;
mod work;

pub use work::FollowUp;
use work::cause_of;

use super::link_storm::LinkStorm;
use super::stages::mastership::Due;
use super::timers::Timer;
use crate::daemon::messages::SmEvent;
use crate::ids::{Guid, Lid, PortNum};
use crate::manage::action::{OperatorAction, RequestId};
use crate::manage::loop_status::{Cause, Causes};
use crate::observe::traps::{ChangedAttributes, TrapEvent};
use crate::sm::peer::Peer;
use crate::sm::role::RoleEvent;
use crate::wire::attr::SmState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tokio::time::Instant;

/// Ports that report errors of their link, by LID and number, with the number of traps.
pub type LinkErrors = BTreeMap<(Lid, PortNum), u32>;

/// Ports whose attributes changed, by LID.
pub type ChangedPorts = BTreeMap<Lid, ChangedAttributes>;

/// A task of the SM loop.
#[derive(Debug)]
pub enum Task {
    /// The port was closed, for this reason: the daemon ends.
    End(String),
    /// Read the configuration again.
    Reload,
    /// Carry out the action of an operator.
    Operator(RequestId, OperatorAction),
    /// Change the role as another SM requests it.
    Role(RoleEvent, Peer),
    /// Work that is due because of other SMs or of the local port.
    Watch(Due),
    LinkErrors(LinkErrors),
    /// Wait until this time for further events: links change in a storm.
    Collect(Instant),
    /// Sweep the neighbourhood of these switches.
    FocusedSweep(Vec<Guid>),
    HeavySweep,
    /// Read the attributes of ports that traps report as changed.
    LocalChanges(ChangedPorts),
    /// Plan for the last snapshot and program it.
    Configure,
    /// Plan and program changed multicast groups.
    Multicast,
    /// Confirm the last focused sweep by a light one.
    Confirm,
    LightSweep,
    /// End the quarantines of links that were calm.
    ReleaseLinks,
    /// Balance the routes again.
    Balance,
    /// Compute the baseline of the next plan again.
    RenewBaseline,
    /// Wait for an event or a deadline.
    Wait,
}

/// The kinds of tasks, the most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TaskKind {
    End,
    Reload,
    Operator,
    Role,
    Watch,
    LinkErrors,
    FocusedSweep,
    HeavySweep,
    LocalChanges,
    Configure,
    Multicast,
    Confirm,
    LightSweep,
    ReleaseLinks,
    Balance,
    RenewBaseline,
}

/// The roles in which a task is done. In others, its work is dropped: a change of the role is followed
/// by a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Roles {
    Any,
    /// MASTER and DISCOVERING.
    Sweeping,
    Master,
}

impl Roles {
    fn contain(self, role: SmState) -> bool {
        match self {
            Self::Any => true,
            Self::Sweeping => matches!(role, SmState::Master | SmState::Discovering),
            Self::Master => role == SmState::Master,
        }
    }
}

struct Rule {
    kind: TaskKind,
    roles: Roles,
    /// The work is dropped while an operator inhibits sweeps.
    is_inhibited: bool,
    /// Work that this task does as well.
    includes: &'static [TaskKind],
}

const fn rule(
    kind: TaskKind,
    roles: Roles,
    is_inhibited: bool,
    includes: &'static [TaskKind],
) -> Rule {
    Rule { kind, roles, is_inhibited, includes }
}

/// The order of tasks. Changes of the fabric that traps report come before other sweeps, so that routes
/// over lost links are repaired before the rest is read.
#[rustfmt::skip]
const RULES: [Rule; 16] = {
    use Roles::{Any, Master, Sweeping};
    use TaskKind as T;
    [
        rule(T::End,           Any,      false, &[]),
        rule(T::Reload,        Any,      false, &[]),
        rule(T::Operator,      Any,      false, &[]),
        rule(T::Role,          Any,      false, &[]),
        rule(T::Watch,         Any,      false, &[]),
        rule(T::LinkErrors,    Sweeping, false, &[]),
        rule(T::FocusedSweep,  Master,   true,  &[T::Configure, T::Multicast]),
        rule(T::HeavySweep,    Sweeping, true,  &[T::LocalChanges, T::Configure, T::Multicast]),
        rule(T::LocalChanges,  Sweeping, true,  &[]),
        rule(T::Configure,     Master,   true,  &[T::Multicast]),
        rule(T::Multicast,     Master,   false, &[]),
        rule(T::Confirm,       Sweeping, true,  &[]),
        rule(T::LightSweep,    Sweeping, true,  &[]),
        rule(T::ReleaseLinks,  Any,      false, &[]),
        rule(T::Balance,       Master,   true,  &[]),
        rule(T::RenewBaseline, Any,      false, &[]),
    ]
};

/// The part of the loop's state that decides what may be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Situation {
    pub role: SmState,
    /// There is a snapshot, and changed links have not postponed other work for too long.
    pub may_focus: bool,
    /// An operator inhibits sweeps.
    pub are_sweeps_inhibited: bool,
}

/// The work that events, timers and finished tasks request. Each queue is bounded by what it is about:
/// ports and switches of the fabric; requests of other SMs and of operators, which are few.
#[derive(Debug, Default)]
pub struct Agenda {
    /// The kinds of tasks that need no data.
    due: BTreeSet<TaskKind>,
    port_closed: Option<String>,
    /// Requests of operators, in order.
    operator: VecDeque<(RequestId, OperatorAction)>,
    /// Changes of the role that other SMs request, in order.
    roles: VecDeque<(RoleEvent, Peer)>,
    watch: VecDeque<Due>,
    link_errors: LinkErrors,
    /// Switches for a focused sweep, by node GUID.
    suspects: BTreeSet<Guid>,
    changed_ports: ChangedPorts,
    /// Why there is work.
    causes: Causes,
    /// Arrival of the first trap whose change is not in the devices' tables yet.
    trap_arrived: Option<Instant>,
    storm: LinkStorm,
}

impl Agenda {
    /// The agenda at the start of the daemon.
    pub fn at_start() -> Self {
        let mut agenda = Self::default();
        agenda.due.insert(TaskKind::HeavySweep);
        agenda.causes.insert(Cause::Start);
        agenda
    }

    /// Adds the work of an event. `switch_of` returns the switch that a trap is about, if it is known.
    pub fn add(
        &mut self,
        event: SmEvent,
        now: Instant,
        switch_of: impl Fn(&TrapEvent) -> Option<Guid>,
    ) {
        self.causes.extend(cause_of(&event));
        match event {
            SmEvent::Trap(trap) => self.add_trap(trap, now, switch_of),
            SmEvent::Role(event, peer) => self.roles.push_back((event, peer)),
            SmEvent::MembershipChanged => self.request(TaskKind::Multicast),
            SmEvent::AliasesChanged | SmEvent::VirtualPortsChanged => {
                self.request(TaskKind::Configure);
            }
            SmEvent::Reload => {
                self.request(TaskKind::Reload);
                self.request(TaskKind::HeavySweep);
            }
            SmEvent::Operator(_, OperatorAction::Resweep) => self.request(TaskKind::HeavySweep),
            SmEvent::Operator(_, OperatorAction::LightSweep) => self.request(TaskKind::Confirm),
            SmEvent::Operator(_, OperatorAction::Reroute) => self.request(TaskKind::Configure),
            SmEvent::Operator(request, action) => self.operator.push_back((request, action)),
            SmEvent::PortClosed(reason) => self.port_closed = Some(reason),
        }
    }

    fn add_trap(
        &mut self,
        trap: TrapEvent,
        now: Instant,
        switch_of: impl Fn(&TrapEvent) -> Option<Guid>,
    ) {
        if trap.reports_changes() {
            self.changed_ports.entry(trap.subject).or_default().merge(trap.changed);
        } else if trap.reports_errors() {
            self.link_errors.insert((trap.subject, trap.port), trap.count);
        } else if trap.calls_for_sweep() {
            self.storm.changed(now);
            self.trap_arrived = self.trap_arrived.or(trap.arrived);
            match switch_of(&trap) {
                Some(guid) => drop(self.suspects.insert(guid)),
                None => self.request(TaskKind::HeavySweep),
            }
        }
    }

    /// Adds the work of a timer.
    pub fn expired(&mut self, timer: Timer) {
        match timer {
            Timer::Look => self.watch.push_back(Due::Look),
            Timer::PortCheck => self.watch.push_back(Due::PortCheck),
            Timer::Sweep => {
                self.causes.insert(Cause::Timer);
                self.request(TaskKind::LightSweep);
            }
            Timer::Balancing => self.request(TaskKind::Balance),
            Timer::Renewal => self.request(TaskKind::RenewBaseline),
            Timer::Release => {
                self.causes.insert(Cause::Timer);
                self.request(TaskKind::ReleaseLinks);
            }
        }
    }

    /// Adds work that is due because of other SMs.
    pub fn watch(&mut self, due: Due) {
        self.watch.push_back(due);
    }

    /// Adds the work that follows from a task.
    pub fn absorb(&mut self, follow_up: FollowUp) {
        let FollowUp { tasks, suspects, causes } = follow_up;
        debug_assert!(tasks.iter().all(|&kind| has_no_data(kind)), "a task without its data");
        self.due.extend(tasks);
        self.suspects.extend(suspects);
        self.causes.extend(causes);
    }

    /// Adds a task that needs no data.
    fn request(&mut self, kind: TaskKind) {
        debug_assert!(has_no_data(kind), "{kind:?} needs data");
        self.due.insert(kind);
    }

    /// Takes the most urgent task. Work that is not done in the present situation is dropped.
    pub fn next(&mut self, situation: &Situation, now: Instant) -> Task {
        if !situation.may_focus && !self.suspects.is_empty() {
            self.suspects.clear();
            self.request(TaskKind::HeavySweep);
        }
        for rule in &RULES {
            if !self.is_due(rule.kind) {
                continue;
            }
            let is_inhibited = rule.is_inhibited && situation.are_sweeps_inhibited;
            if is_inhibited || !rule.roles.contain(situation.role) {
                self.drop_work(rule.kind);
                continue;
            }
            if rule.kind == TaskKind::FocusedSweep
                && let Some(until) = self.storm.collect_until(now)
            {
                return Task::Collect(until);
            }
            for &kind in rule.includes {
                self.drop_work(kind);
            }
            if let Some(task) = self.take(rule.kind, now) {
                return task;
            }
        }
        debug_assert!(self.is_empty(), "work that no rule mentions: {self:?}");
        Task::Wait
    }

    fn is_due(&self, kind: TaskKind) -> bool {
        match kind {
            TaskKind::End => self.port_closed.is_some(),
            TaskKind::Operator => !self.operator.is_empty(),
            TaskKind::Role => !self.roles.is_empty(),
            TaskKind::Watch => !self.watch.is_empty(),
            TaskKind::LinkErrors => !self.link_errors.is_empty(),
            TaskKind::FocusedSweep => !self.suspects.is_empty(),
            TaskKind::LocalChanges => !self.changed_ports.is_empty(),
            _ => self.due.contains(&kind),
        }
    }

    fn drop_work(&mut self, kind: TaskKind) {
        match kind {
            TaskKind::End => self.port_closed = None,
            TaskKind::Operator => self.operator.clear(),
            TaskKind::Role => self.roles.clear(),
            TaskKind::Watch => self.watch.clear(),
            TaskKind::LinkErrors => self.link_errors.clear(),
            TaskKind::FocusedSweep => self.suspects.clear(),
            TaskKind::LocalChanges => self.changed_ports.clear(),
            _ => drop(self.due.remove(&kind)),
        }
    }

    /// Takes the work of a kind, of requests the first one.
    fn take(&mut self, kind: TaskKind, now: Instant) -> Option<Task> {
        self.due.remove(&kind);
        Some(match kind {
            TaskKind::End => Task::End(self.port_closed.take()?),
            TaskKind::Reload => Task::Reload,
            TaskKind::Operator => {
                let (request, action) = self.operator.pop_front()?;
                Task::Operator(request, action)
            }
            TaskKind::Role => {
                let (event, peer) = self.roles.pop_front()?;
                Task::Role(event, peer)
            }
            TaskKind::Watch => Task::Watch(self.watch.pop_front()?),
            TaskKind::LinkErrors => Task::LinkErrors(std::mem::take(&mut self.link_errors)),
            TaskKind::FocusedSweep => {
                self.storm.sweeping(now);
                Task::FocusedSweep(std::mem::take(&mut self.suspects).into_iter().collect())
            }
            TaskKind::HeavySweep => Task::HeavySweep,
            TaskKind::LocalChanges => Task::LocalChanges(std::mem::take(&mut self.changed_ports)),
            TaskKind::Configure => Task::Configure,
            TaskKind::Multicast => Task::Multicast,
            TaskKind::Confirm => Task::Confirm,
            TaskKind::LightSweep => Task::LightSweep,
            TaskKind::ReleaseLinks => Task::ReleaseLinks,
            TaskKind::Balance => Task::Balance,
            TaskKind::RenewBaseline => Task::RenewBaseline,
        })
    }

    pub fn is_empty(&self) -> bool {
        RULES.iter().all(|rule| !self.is_due(rule.kind))
    }

    /// True if traps reported changes at known switches.
    pub fn has_suspects(&self) -> bool {
        !self.suspects.is_empty()
    }

    pub fn is_heavy_sweep_due(&self) -> bool {
        self.is_due(TaskKind::HeavySweep)
    }

    /// True if a heavy or focused sweep is requested.
    pub fn needs_sweep(&self) -> bool {
        self.has_suspects() || self.is_heavy_sweep_due()
    }

    /// True for work that comes before multicast groups: the fabric or the role has changed.
    pub fn is_urgent(&self) -> bool {
        self.needs_sweep()
            || [TaskKind::End, TaskKind::Reload, TaskKind::Role]
                .into_iter()
                .any(|kind| self.is_due(kind))
    }

    /// Takes the causes of the work that begins.
    pub fn take_causes(&mut self) -> Causes {
        std::mem::take(&mut self.causes)
    }

    /// Forgets why there was work: nothing is left of it.
    pub fn clear_causes(&mut self) {
        self.causes.clear();
        self.trap_arrived = None;
    }

    /// Arrival of the first trap whose change is not in the devices' tables yet.
    pub fn trap_arrived(&self) -> Option<Instant> {
        self.trap_arrived
    }

    /// Records that the changes that traps reported are in the devices' tables.
    pub fn traps_handled(&mut self) {
        self.trap_arrived = None;
    }

    /// True while many links change.
    pub fn is_storm(&self, now: Instant) -> bool {
        self.storm.is_storm(now)
    }
}

/// True for tasks that are requested by their kind alone.
fn has_no_data(kind: TaskKind) -> bool {
    !matches!(
        kind,
        TaskKind::End
            | TaskKind::Operator
            | TaskKind::Role
            | TaskKind::Watch
            | TaskKind::LinkErrors
            | TaskKind::FocusedSweep
            | TaskKind::LocalChanges
    )
}

//! Scenarios of the agenda: the files of `testdata`. Each has blocks of commands, a line `----`, and the
//! tasks that follow; UPDATE_GOLDEN=1 rewrites the tasks.
//!
//! | command | effect |
//! |---|---|
//! | `role ROLE`, `snapshot yes`, `sweeps no` | the situation |
//! | `advance MS` | time passes |
//! | `trap NUMBER LID [PORT COUNT]` | a trap; switches have the LIDs below 100 |
//! | `storm COUNT` | traps of a switch about its links |
//! | `event NAME`, `action NAME`, `timer NAME` | adds the work of an event, an action or a timer |
//! | `follow TASK...` | a task is followed by others; `suspect:GUID` is a switch to sweep |
//! | `next` | takes the most urgent task |
//! | `all` | takes tasks until there is nothing to do |
//! | `causes` | shows why there is work |

use super::*;
use crate::scenario_files;
use crate::wire::attr::SmInfo;
use crate::wire::smp::{DirectedRoute, SmpRoute};
use std::fmt::Write;
use std::time::Duration;

/// The name of the folder below the root of the repository.
const FOLDER: &str = "src/daemon/sm_loop/agenda/testdata";

struct Scenario {
    agenda: Agenda,
    situation: Situation,
    now: Instant,
}

impl Scenario {
    fn new() -> Self {
        let situation =
            Situation { role: SmState::Master, may_focus: true, are_sweeps_inhibited: false };
        Self { agenda: Agenda::default(), situation, now: Instant::now() }
    }

    /// Performs a command. Returns its output.
    fn perform(&mut self, command: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            ["start"] => self.agenda = Agenda::at_start(),
            ["role", role] => self.situation.role = role_of(role),
            ["snapshot", answer] => self.situation.may_focus = answer == "yes",
            ["sweeps", answer] => self.situation.are_sweeps_inhibited = answer == "no",
            ["advance", ms] => self.now += Duration::from_millis(number(ms)),
            ["trap", kind, lid] => self.trap(kind, lid, "0", "1"),
            ["storm", traps] => (0..number(traps)).for_each(|_| self.trap("128", "1", "0", "1")),
            ["trap", kind, lid, port, count] => self.trap(kind, lid, port, count),
            ["event", name] => self.add(event(name)),
            ["action", name] => self.add(SmEvent::Operator(RequestId(1), action(name))),
            ["timer", name] => self.agenda.expired(timer(name)),
            ["follow", ref tasks @ ..] => self.agenda.absorb(follow_up(tasks)),
            ["causes"] => {
                let names: Vec<&str> =
                    self.agenda.causes.iter().map(|cause| cause.name()).collect();
                return format!("{}\n", names.join(" "));
            }
            ["next"] => return format!("{}\n", self.next()),
            ["all"] => {
                let mut tasks = String::new();
                while !self.agenda.is_empty() {
                    writeln!(tasks, "{}", self.next()).expect("a string");
                }
                return tasks;
            }
            _ => panic!("unknown command: {command}"),
        }
        String::new()
    }

    fn next(&mut self) -> String {
        match self.agenda.next(&self.situation, self.now) {
            Task::Collect(until) => {
                let wait = until - self.now;
                self.now = until;
                format!("Collect for {} ms", wait.as_millis())
            }
            Task::Role(event, _) => format!("Role({event})"),
            Task::Operator(_, action) => format!("Operator({})", action.name()),
            Task::FocusedSweep(guids) => {
                let guids: Vec<u64> = guids.into_iter().map(|guid| guid.0).collect();
                format!("FocusedSweep({guids:?})")
            }
            Task::LocalChanges(ports) => {
                let lids: Vec<u16> = ports.into_keys().map(|lid| lid.0).collect();
                format!("LocalChanges({lids:?})")
            }
            Task::LinkErrors(errors) => {
                let ports = errors.into_iter();
                let ports = ports.map(|((lid, port), count)| format!("{lid}[{port}]: {count}"));
                format!("LinkErrors({})", ports.collect::<Vec<_>>().join(", "))
            }
            task => format!("{task:?}"),
        }
    }

    fn trap(&mut self, kind: &str, lid: &str, port: &str, count: &str) {
        let lid = Lid(number(lid) as u16);
        self.add(SmEvent::Trap(TrapEvent {
            issuer: lid,
            subject: lid,
            number: number(kind) as u16,
            port: PortNum(number(port) as u8),
            count: number(count) as u32,
            ..TrapEvent::default()
        }));
    }

    fn add(&mut self, event: SmEvent) {
        self.agenda.add(event, self.now, |trap| {
            (trap.subject.0 < 100).then_some(Guid(trap.subject.0.into()))
        });
    }
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|error| panic!("{word:?}: {error}"))
}

fn role_of(name: &str) -> SmState {
    let roles = [SmState::Discovering, SmState::Standby, SmState::Master, SmState::NotActive];
    let found = roles.into_iter().find(|role| role.to_string() == name);
    found.unwrap_or_else(|| panic!("unknown role {name}"))
}

fn event(name: &str) -> SmEvent {
    match name {
        "reload" => SmEvent::Reload,
        "membership" => SmEvent::MembershipChanged,
        "aliases" => SmEvent::AliasesChanged,
        "vports" => SmEvent::VirtualPortsChanged,
        "port-closed" => SmEvent::PortClosed("it was unplugged".into()),
        "handover" => SmEvent::Role(RoleEvent::Handover, peer()),
        "disable" => SmEvent::Role(RoleEvent::Disable, peer()),
        _ => panic!("unknown event {name}"),
    }
}

fn peer() -> Peer {
    Peer { info: SmInfo::default(), route: SmpRoute::Directed(DirectedRoute::LOCAL) }
}

fn action(name: &str) -> OperatorAction {
    let link = (Guid(7), PortNum(3));
    let actions = [
        OperatorAction::Resweep,
        OperatorAction::LightSweep,
        OperatorAction::Reroute,
        OperatorAction::Sweeping(true),
        OperatorAction::Priority(9),
        OperatorAction::Dump,
        OperatorAction::Handover(None),
        OperatorAction::Quarantine(link.0, link.1),
        OperatorAction::Release(link.0, link.1),
    ];
    let found = actions.into_iter().find(|action| action.name() == name);
    found.unwrap_or_else(|| panic!("unknown action {name}"))
}

fn timer(name: &str) -> Timer {
    let found = Timer::ALL.into_iter().find(|timer| format!("{timer:?}") == name);
    found.unwrap_or_else(|| panic!("unknown timer {name}"))
}

fn follow_up(words: &[&str]) -> FollowUp {
    let mut follow_up = FollowUp::nothing();
    for word in words {
        if let Some(guid) = word.strip_prefix("suspect:") {
            follow_up.suspects.insert(Guid(number(guid)));
            continue;
        }
        let kinds = RULES.iter().map(|rule| rule.kind);
        let kind = kinds.into_iter().find(|kind| format!("{kind:?}") == *word);
        follow_up.tasks.insert(kind.unwrap_or_else(|| panic!("unknown task {word}")));
    }
    follow_up
}

/// The text of a scenario with the tasks that follow now. Blank lines separate its blocks.
fn played(text: &str) -> String {
    let mut scenario = Scenario::new();
    let mut blocks: Vec<String> = Vec::new();
    for block in text.trim().split("\n\n") {
        let mut played = String::new();
        let mut tasks = String::new();
        for line in block.lines().take_while(|line| *line != "----") {
            writeln!(played, "{line}").expect("a string");
            if !line.starts_with('#') {
                tasks += &scenario.perform(line);
            }
        }
        blocks.push(format!("{played}----\n{tasks}"));
    }
    blocks.join("\n")
}

#[test]
fn scenarios_lead_to_the_recorded_tasks() {
    scenario_files::check(FOLDER, played);
}

/// The order of tasks, the roles in which they are done, whether operators can inhibit them, and the
/// tasks that they include.
const TABLE: &str = "
    End             Any       -
    Reload          Any       -
    Operator        Any       -
    Role            Any       -
    Watch           Any       -
    LinkErrors      Sweeping  -
    FocusedSweep    Master    inhibited  Configure Multicast
    HeavySweep      Sweeping  inhibited  LocalChanges Configure Multicast
    LocalChanges    Sweeping  inhibited
    Configure       Master    inhibited  Multicast
    Multicast       Master    -
    Confirm         Sweeping  inhibited
    LightSweep      Sweeping  inhibited
    ReleaseLinks    Any       -
    Balance         Master    inhibited
    RenewBaseline   Any       -
";

#[test]
fn the_order_of_tasks_is_that_of_the_table() {
    let rows = RULES.iter().map(|rule| {
        let inhibited = if rule.is_inhibited { "inhibited" } else { "-" };
        let includes: Vec<String> = rule.includes.iter().map(|kind| format!("{kind:?}")).collect();
        let row = format!("{:?} {:?} {inhibited} {}", rule.kind, rule.roles, includes.join(" "));
        row.trim_end().to_owned()
    });
    let expected = TABLE.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let expected: Vec<String> = expected.filter(|line| !line.is_empty()).collect();
    assert_eq!(rows.collect::<Vec<_>>(), expected);
}

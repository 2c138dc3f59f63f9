//! Plays a scenario.

use super::format::{Block, SEPARATOR, Scenario};
use super::steps::Site;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use testkit::Sm;
use testkit::memory_network::{MemoryNetwork, Sharing};
use tokio::time::{Instant, sleep};
use torus_sm::incidents::book::IncidentList;
use torus_sm::incidents::incident::{Incident, IncidentSeverity};
use torus_sm::manage::verdict::{HealthVerdict, StateSummary};
use torus_sm::wire::attr::SmState;

/// Places of the daemons.
const HOMES: [[u16; 3]; 2] = [[0, 0, 0], [2, 0, 0]];
/// Simulated time without a change of the incidents after which they are final.
const QUIET_TIME: Duration = Duration::from_secs(40);
/// Longest time until they are.
const MAX_TIME: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Plain,
    Restarts,
    Takeovers,
}

pub(super) struct Player {
    mode: Mode,
    site: Site,
    /// `None` only while it restarts.
    sm: Option<Sm>,
    /// The place of `sm` in [`HOMES`].
    home: usize,
    standby: Option<(Sm, Sharing)>,
    sharing: Option<Sharing>,
    network: MemoryNetwork,
    /// Openings of the incidents before the steps.
    openings: BTreeMap<String, u32>,
}

/// A daemon at a place, with its folder.
fn start(site: &Site, home: usize) -> Sm {
    let cache = site.cluster.cache_dir(HOMES[home]);
    std::fs::create_dir_all(cache).expect("a folder");
    // The second one stands by for the first one.
    site.start(HOMES[home], if home == 0 { 9 } else { 8 })
}

fn list(sm: &Sm) -> Arc<IncidentList> {
    sm.management.as_ref().expect("not taken").live.incidents.borrow().clone()
}

impl Player {
    /// The text of the scenario with the incidents that follow.
    pub(super) async fn play(scenario: Scenario, mode: Mode) -> String {
        let (first, others) = scenario.blocks.split_first().expect("a block");
        let site = Site::new(&first.steps());
        let has_faults = first.steps().iter().any(|(step, _)| *step == "faulty");
        site.settle().await;
        let sm = Some(start(&site, 0));
        let network = MemoryNetwork::default();
        let mut player = Self {
            mode,
            site,
            sm,
            home: 0,
            standby: None,
            sharing: None,
            network,
            openings: BTreeMap::new(),
        };
        if mode == Mode::Takeovers {
            player.sharing = Some(player.share(player.sm(), 0));
            sleep(Duration::from_secs(5)).await;
            player.stand_by().await;
        }
        let name = scenario.path.display();
        let mut blocks = vec![player.shown(first).await];
        if !has_faults {
            assert_eq!(list(player.sm()).open, [], "{name} begins with incidents");
        }
        for block in others {
            player.mark();
            player.site.take(&block.steps(), player.sm.as_ref().expect("it runs")).await;
            blocks.push(player.shown(block).await);
            player.renew(block).await;
        }
        let open = &list(player.sm()).open;
        assert!(open.is_empty(), "{name} ends with open incidents, {mode:?}:\n{open:#?}");
        blocks.join("\n")
    }

    fn share(&self, sm: &Sm, home: usize) -> Sharing {
        let names = ["a", "b"];
        self.network.share(&sm.sharing, names[home], &names)
    }

    /// Starts the other daemon, which becomes standby, or gets the mastership from this one.
    async fn stand_by(&mut self) {
        let other = start(&self.site, 1 - self.home);
        let sharing = self.share(&other, 1 - self.home);
        let limit = Instant::now() + MAX_TIME;
        while other.state() != SmState::Standby && self.sm().state() != SmState::Standby {
            assert!(Instant::now() < limit, "neither daemon is standby");
            sleep(Duration::from_millis(100)).await;
        }
        // It has all state of the master.
        sleep(Duration::from_secs(5)).await;
        if self.sm().state() == SmState::Master {
            self.standby = Some((other, sharing));
            return;
        }
        self.home = 1 - self.home;
        let former = self.sm.replace(other).expect("it runs");
        let former_sharing = self.sharing.replace(sharing).expect("it runs");
        self.standby = Some((former, former_sharing));
    }

    /// Restarts the daemon, or lets the standby take over, unless the fabric is well. The incidents stay.
    async fn renew(&mut self, block: &Block) {
        let before = list(self.sm());
        if before.open.is_empty() || self.mode == Mode::Plain {
            return;
        }
        drop(self.sharing.take());
        if let Some(sm) = self.sm.take() {
            sm.kill().await;
        }
        match self.standby.take() {
            None => self.sm = Some(start(&self.site, self.home)),
            Some((standby, sharing)) => {
                self.home = 1 - self.home;
                self.sm = Some(standby);
                self.sharing = Some(sharing);
                self.until_master().await;
            }
        }
        if self.mode == Mode::Takeovers {
            self.stand_by().await;
        }
        self.until_quiet().await;
        let after = list(self.sm());
        let steps = block.lines.join("\n");
        let mode = self.mode;
        assert_eq!(
            causes(&after),
            causes(&before),
            "after {mode:?} at:\n{steps}\n{:#?}",
            after.open
        );
        for (incident, old) in after.open.iter().zip(&before.open) {
            assert_eq!(
                (incident.opened, incident.openings),
                (old.opened, old.openings),
                "{mode:?} at:\n{steps}\n{incident:#?}\nbefore: {old:#?}"
            );
        }
    }

    fn sm(&self) -> &Sm {
        self.sm.as_ref().expect("it runs")
    }

    async fn until_master(&self) {
        let limit = Instant::now() + MAX_TIME;
        while self.sm().state() != SmState::Master {
            assert!(Instant::now() < limit, "the standby is {}", self.sm().state());
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Notes which incidents there were.
    fn mark(&mut self) {
        let list = list(self.sm());
        let known = list.open.iter().chain(&list.closed);
        self.openings = known.map(|it| (it.id.clone(), it.openings)).collect();
    }

    /// The incidents that opened and ended again since [`Self::mark`].
    fn passing(&self) -> String {
        let list = list(self.sm());
        let is_new =
            |it: &&Arc<Incident>| self.openings.get(&it.id).is_none_or(|&n| n < it.openings);
        let passing = list.closed.iter().filter(is_new);
        passing.map(|it| format!("meanwhile {} {}\n", it.kind.name(), it.id)).collect()
    }

    /// Waits until the incidents do not change any more.
    async fn until_quiet(&self) {
        let start = Instant::now();
        let mut since = start;
        let mut last = text(&list(self.sm()));
        while since.elapsed() < QUIET_TIME {
            assert!(start.elapsed() < MAX_TIME, "the incidents change without end: {last}");
            sleep(Duration::from_millis(500)).await;
            let now = text(&list(self.sm()));
            if now != last {
                since = Instant::now();
                last = now;
            }
        }
    }

    /// The steps of a block, and what followed.
    async fn shown(&self, block: &Block) -> String {
        self.until_quiet().await;
        let list = list(self.sm());
        let input = block.lines.join("\n");
        let state = self.sm().state().to_string();
        let is_up = self.sm().subnet.borrow().is_some();
        let count = |severity| list.open.iter().filter(|it| it.severity == severity).count();
        let first = list.open.first().map_or("", |first| first.headline.as_str());
        let summary = StateSummary {
            sm_state: &state,
            is_up,
            critical: count(IncidentSeverity::Critical),
            warning: count(IncidentSeverity::Warning),
            first,
        };
        let (verdict, _) = summary.verdict();
        let is_well = list.open.is_empty() && state == "MASTER";
        assert_eq!(verdict == HealthVerdict::Ok, is_well, "{summary:?}");
        let out =
            format!("{input}\n{SEPARATOR}\n{}\n{}{}", verdict.name(), text(&list), self.passing());
        without_days(&out.replace(&self.site.cluster.dir().display().to_string(), "DIR"))
    }
}

/// The text with `DAY` in place of the days on which certificates end.
fn without_days(text: &str) -> String {
    let mut parts = text.split("ends on ");
    let mut out = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let rest = part.get("2026-01-31".len()..).expect("a day and a line break");
        out.push_str("ends on DAY");
        out.push_str(rest);
    }
    out
}

/// The open incidents without what the routes in force, which may be others after a restart, add.
fn causes(list: &IncidentList) -> String {
    text(list).lines().filter(|line| !line.starts_with("  risk: ")).collect::<Vec<_>>().join("\n")
}

/// The open incidents, each with the number of its opening.
fn text(list: &IncidentList) -> String {
    let mut out = String::new();
    for incident in &list.open {
        let Incident { id, severity, kind, headline, repair, openings, .. } = &**incident;
        let severity = severity.name();
        let kind = kind.name();
        let again =
            if *openings > 1 { format!(", opened {openings} times") } else { String::new() };
        writeln!(out, "{severity} {kind} {id}{again}\n  {headline}").expect("a string");
        for risk in &incident.risks {
            writeln!(out, "  risk: {risk}").expect("a string");
        }
        writeln!(out, "  repair: {repair}").expect("a string");
    }
    out
}

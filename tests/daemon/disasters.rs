//! Disasters: random fabrics, bursts of random faults and reloads, and simulated hours of quiet,
//! with the whole daemon on a paused clock. After each quiet period the devices must be in order,
//! as [`checks`] defines it. Seeds from 1000000 on are those of tori with several dead switches and
//! cables ([`damage`]), where the manager is succeeded after each burst, too ([`succession`]);
//! those from 2000000 on are those of hosts with virtual ports ([`vports`]).
//!
//! TORUS_SM_DISASTERS=7 runs seed 7 and shortens its list of events if it fails; 100..200 runs a
//! range. `scripts/disasters` runs many in parallel processes. TORUS_SM_DISASTER_EVENTS names a file
//! with other events for the fabric of a seed, TORUS_SM_DISASTER_LOG=debug prints the log,
//! =trace each MAD, too.

mod checks;
mod damage;
mod disk;
mod members;
mod scenario;
mod succession;
mod vports;

use crate::own_failures::INJECTED;
use checks::{Memories, check};
use disk::CacheDisk;
use members::Member;
use scenario::{Burst, FIRST_DAMAGE_SEED, Scenario};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;
use testkit::dice::Dice;
use testkit::{SimCluster, Sm};
use tokio::time::{Instant, sleep};
use torus_sm::daemon::messages::SmEvent;
use torus_sm::ids::Guid;
use torus_sm::sim::console;

/// Seeds of a usual run.
const SEEDS: Range<u64> = 0..300;
/// Seeds that found defects, which a usual run has, too.
const FOUND_DEFECTS: [u64; 19] = [
    439, 523, 807, 1382, 2076, 2350, 3559, 3998, 4569, 4909, 5557, 5592, 6535, 7123, 7350, 7723,
    8030, 8665, 9784,
];
/// Seeds of tori with several dead switches and cables.
const DAMAGE_SEEDS: Range<u64> = FIRST_DAMAGE_SEED..FIRST_DAMAGE_SEED + 12;
/// Seeds of hosts with virtual ports.
const VPORT_SEEDS: Range<u64> = vports::FIRST_SEED..vports::FIRST_SEED + 10;
/// Time limit until the devices are in order after the last fault.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(240);
/// The time that flapping links and storms of traps may last.
const AFTERMATH: Duration = Duration::from_secs(60);
/// Multicast groups, and the largest number of hosts that join some of them.
const GROUPS: u64 = 3;
const MAX_MEMBERS: usize = 6;

/// Panics of all threads: the daemon contains those of its tasks.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn record_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let show = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // Other tests run in this process, and cause panics on purpose.
            let text = panic.to_string();
            if !text.contains(INJECTED) {
                PANICS.lock().expect("no panic").push(text);
            }
            show(panic);
        }));
    });
}

/// A daemon with its fabric and the hosts in multicast groups.
struct Disaster<'a> {
    scenario: &'a Scenario,
    cluster: SimCluster,
    sm: Sm,
    reload_fails: Arc<AtomicU64>,
    members: Vec<Member>,
    memories: Memories,
    /// The cache folder, if the scenario has errors of it.
    disk: Option<CacheDisk>,
}

/// Starts the manager at the origin, whose options change with each reload that succeeds.
fn start_home(scenario: &Scenario, cluster: &SimCluster, reload_fails: &Arc<AtomicU64>) -> Sm {
    let fails = reload_fails.clone();
    let options = succession::home_options(scenario, cluster);
    let mut next = options.clone();
    let reload = move || {
        if fails.swap(0, Ordering::Relaxed) > 0 {
            return Err("opensm.conf:1:1: nonsense".to_owned());
        }
        next.sweep_interval = if next.sweep_interval == 10 { 7 } else { 10 };
        Ok(next.clone().into())
    };
    cluster.start_with([0; 3], options, Box::new(reload))
}

impl<'a> Disaster<'a> {
    fn start(scenario: &'a Scenario) -> Self {
        let cluster = scenario.cluster();
        let has_disk = scenario.has_disk_errors();
        let disk = has_disk.then(|| CacheDisk::new(cluster.cache_dir([0; 3])));
        let reload_fails = Arc::<AtomicU64>::default();
        if scenario.is_damaged_torus() {
            // For guid2lid.
            std::fs::create_dir_all(cluster.cache_dir([0; 3])).expect("a folder");
        }
        let sm = start_home(scenario, &cluster, &reload_fails);
        let dice = &mut Dice::new(scenario.seed ^ 1);
        let hosts: Vec<Guid> = cluster.hosts().collect();
        let member = |_| {
            let groups = (0..GROUPS as usize).filter(|_| dice.below(2) == 0).collect();
            Member::start(&cluster, dice.pick(&hosts), groups)
        };
        let members: Vec<Member> = (0..MAX_MEMBERS.min(hosts.len())).map(member).collect();
        let memories = Memories::default();
        Self { scenario, cluster, sm, reload_fails, members, memories, disk }
    }

    async fn faults(&mut self) -> Vec<String> {
        check(self.scenario, &self.cluster, &self.sm, &self.members, &mut self.memories).await
    }

    /// Waits until the devices are in order.
    async fn recover(&mut self) -> Result<(), String> {
        let start = Instant::now();
        let mut pause = Duration::from_millis(500);
        loop {
            let faults = self.faults().await;
            if faults.is_empty() {
                return Ok(());
            }
            if start.elapsed() >= RECOVERY_TIMEOUT {
                return Err(format!("not recovered: {faults:#?}"));
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(20));
        }
    }

    async fn event(&mut self, event: &str) {
        if let Some(duration) = console::pause(event) {
            sleep(duration).await;
        } else if let Some(error) = event.strip_prefix("disk ") {
            self.disk.iter().for_each(|disk| disk.event(error));
        } else if event.starts_with("hup") {
            self.reload_fails.store(u64::from(event == "hup bad"), Ordering::Relaxed);
            self.sm.tell(SmEvent::Reload);
        } else {
            // Some commands fail, such as plugging in a cable that is plugged in.
            let _ = console::run_line(&self.cluster.fabric, event);
        }
    }

    async fn burst(&mut self, burst: &Burst) -> Result<(), String> {
        for event in &burst.events {
            self.event(event).await;
        }
        for event in burst.end(&self.cluster) {
            self.event(&event).await;
        }
        sleep(AFTERMATH).await;
        self.recover().await?;
        sleep(burst.quiet).await;
        let faults = self.faults().await;
        if !faults.is_empty() {
            return Err(format!("recovered, then lost again: {faults:#?}"));
        }
        self.cluster.fabric.reset_counters();
        self.sm.tell(SmEvent::Reload);
        sleep(Duration::from_secs(2)).await;
        let sets = self.cluster.fabric.sets();
        if sets > 0 {
            return Err(format!("{sets} Sets on an unchanged fabric"));
        }
        self.check_files()
    }

    /// guid2lid has the LIDs of the published subnet.
    fn check_files(&self) -> Result<(), String> {
        let subnet = self.sm.subnet.borrow().clone();
        let (Some(disk), Some(subnet)) = (&self.disk, subnet) else { return Ok(()) };
        if self.sm.refused.borrow().is_some() {
            return Ok(());
        }
        let faults = disk.faults(&subnet.fabric, self.scenario.lmc);
        if faults.is_empty() { Ok(()) } else { Err(format!("{faults:#?}")) }
    }

    async fn run(mut self) -> Result<(), String> {
        self.recover().await.map_err(|error| format!("before the first fault: {error}"))?;
        for (burst, number) in self.scenario.bursts.iter().zip(1..) {
            let outcome = self.burst(burst).await;
            outcome.map_err(|error| format!("after burst {number}: {error}"))?;
            if self.scenario.is_damaged_torus() {
                let after = |error| format!("succession after burst {number}: {error}");
                self = self.succeed(number).await.map_err(after)?;
                self.recover().await.map_err(after)?;
            }
        }
        Ok(())
    }
}

fn run(scenario: &Scenario) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let outcome = runtime.block_on(async { Disaster::start(scenario).run().await });
    let panics = std::mem::take(&mut *PANICS.lock().expect("no panic"));
    if panics.is_empty() { outcome } else { Err(format!("{panics:#?}, {outcome:?}")) }
}

/// The scenario without the events that its failure does not need.
fn shortened(scenario: &Scenario) -> Scenario {
    let mut shortest = scenario.clone();
    let mut length = shortest.events().div_ceil(2);
    while length > 0 {
        let mut at = 0;
        while at < shortest.events() {
            let shorter = shortest.filtered(|number| !(at..at + length).contains(&number));
            if run(&shorter).is_err() {
                shortest = shorter;
            } else {
                at += length;
            }
        }
        length /= 2;
    }
    let needed = shortest.bursts.iter().rposition(|burst| !burst.events.is_empty());
    shortest.bursts.truncate(needed.map_or(0, |last| last + 1));
    if run(&shortest).is_err() { shortest } else { scenario.clone() }
}

/// Number of tests that share the seeds of a usual run.
const SHARES: usize = 4;

/// The seeds of a usual run that one of its tests has.
fn share(number: usize) -> Vec<u64> {
    SEEDS.chain(FOUND_DEFECTS).skip(number).step_by(SHARES).collect()
}

/// The seeds that TORUS_SM_DISASTERS names, if it is set.
fn named_seeds() -> Option<Vec<u64>> {
    let text = std::env::var("TORUS_SM_DISASTERS").ok()?;
    let number = |text: &str| text.parse::<u64>().expect("TORUS_SM_DISASTERS is N or N..M");
    Some(match text.split_once("..") {
        Some((first, end)) => (number(first)..number(end)).collect(),
        None => vec![number(&text)],
    })
}

fn describe(scenario: &Scenario, failure: &str) -> String {
    let Scenario { seed, shape, engine, lmc, qos, .. } = scenario;
    let hosts = shape.hosts;
    let cables = shape.parallel;
    format!(
        "seed {seed} ({shape}, {hosts} hosts, {cables} cables, {engine}, LMC {lmc}, QoS {qos}): \
         {failure}\n{}replay: TORUS_SM_DISASTERS={seed} cargo test --test daemon disasters::",
        scenario.text()
    )
}

/// Runs a seed; the description of its failure.
fn survive(seed: u64, shorten: bool) -> Option<String> {
    let mut scenario = Scenario::draw(seed);
    if let Ok(file) = std::env::var("TORUS_SM_DISASTER_EVENTS") {
        let text = std::fs::read_to_string(&file).expect("TORUS_SM_DISASTER_EVENTS is a file");
        scenario.bursts = scenario::bursts(&text);
        return run(&scenario).err().map(|failure| describe(&scenario, &failure));
    }
    let failure = run(&scenario).err()?;
    if !shorten {
        return Some(describe(&scenario, &failure));
    }
    let shortest = shortened(&scenario);
    let failure = run(&shortest).err().unwrap_or(failure);
    Some(describe(&shortest, &failure))
}

/// Prints the log of the daemon if TORUS_SM_DISASTER_LOG names a level.
fn show_log() {
    if let Ok(level) = std::env::var("TORUS_SM_DISASTER_LOG") {
        let level = level.parse::<tracing::Level>().expect("TORUS_SM_DISASTER_LOG is a level");
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    }
}

/// Routes lead around damage that the rules of torus-2QoS exclude, in a quarter of these scenarios at least.
#[test]
fn damaged_tori_survive_disasters() {
    if named_seeds().is_some() {
        return;
    }
    record_panics();
    let repaired = AtomicUsize::new(0);
    let count = (DAMAGE_SEEDS.end - DAMAGE_SEEDS.start) as usize;
    let outcomes = testkit::in_parallel(count, |index| {
        let before = checks::repaired_checks();
        let failure = survive(DAMAGE_SEEDS.start + index as u64, false);
        repaired.fetch_add(usize::from(checks::repaired_checks() > before), Ordering::Relaxed);
        failure.iter().for_each(|failure| eprintln!("{failure}"));
        failure
    });
    assert_eq!(outcomes.iter().flatten().count(), 0, "some of {count} seeds failed");
    let repaired = repaired.into_inner();
    assert!(4 * repaired >= count, "{repaired} of {count} scenarios repair routes");
}

#[test]
fn virtual_ports_survive_disasters() {
    if named_seeds().is_some() {
        return;
    }
    record_panics();
    let count = (VPORT_SEEDS.end - VPORT_SEEDS.start) as usize;
    let outcomes = testkit::in_parallel(count, |index| {
        let failure = survive(VPORT_SEEDS.start + index as u64, false);
        failure.iter().for_each(|failure| eprintln!("{failure}"));
        failure
    });
    assert_eq!(outcomes.iter().flatten().count(), 0, "some of {count} seeds failed");
}

/// Runs seeds one after the other, so that a panic belongs to one of them.
fn all_survive(seeds: &[u64]) {
    record_panics();
    let shorten = seeds.len() == 1;
    let mut failed = 0;
    for failure in seeds.iter().filter_map(|&seed| survive(seed, shorten)) {
        eprintln!("{failure}");
        failed += 1;
    }
    let count = seeds.len();
    println!("{} of {count} seeds passed", count - failed);
    assert_eq!(failed, 0, "{failed} of {count} seeds failed");
}

fn share_survives(number: usize) {
    if named_seeds().is_none() {
        all_survive(&share(number));
    }
}

#[test]
fn the_daemon_survives_disasters() {
    show_log();
    all_survive(&named_seeds().unwrap_or_else(|| share(0)));
}

#[test]
fn the_daemon_survives_disasters_of_the_second_share() {
    share_survives(1);
}

#[test]
fn the_daemon_survives_disasters_of_the_third_share() {
    share_survives(2);
}

#[test]
fn the_daemon_survives_disasters_of_the_fourth_share() {
    share_survives(3);
}

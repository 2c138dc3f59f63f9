//! The daemon under injected faults: MADs are lost, a switch does not respond, a link flaps. A seed
//! determines the faults, and the clock is paused. Once the link is stable, the subnet is up around
//! the silent switch although MADs are still lost; once the switch responds, the whole subnet is up
//! with the right tables; and once no MAD is lost any more, it stays up.
//!
//! TORUS_SM_SEED=N runs one seed; TORUS_SM_LOG=1 shows the daemon's log.

use std::time::Duration;
use testkit::dice::Dice;
use testkit::{SimCluster, Sm, settle};
use tokio::time::{Instant, sleep};
use torus_sm::config::options::Options;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::sim::console;
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::{NodeKind, SmState};

const SEEDS: u64 = 200;
/// Time limit for recovery: a few sweep intervals, and retries.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(120);

/// The faults of a seed.
#[derive(Debug)]
struct Adversity {
    shape: &'static str,
    silent: Guid,
    flapping: (Guid, PortNum),
    period: Duration,
    flaps: u32,
    /// The faults begin before the daemon starts, or only once the subnet is up.
    from_the_start: bool,
}

fn cluster(shape: &str, seed: u64) -> SimCluster {
    let shape: Shape = shape.parse().expect("a shape");
    SimCluster::new(shape, Hardware::default(), seed)
}

fn draw(seed: u64) -> (SimCluster, Adversity) {
    let mut dice = Dice::new(seed);
    let shape = dice.pick(&["4x3x1", "3x3x2", "5x3x1", "3x3x3", "6x5x1"]);
    let cluster = cluster(shape, seed);
    let nodes = &cluster.topology.nodes;
    // If the switch next to the daemon were silent, the daemon would reach no other node.
    let own = cluster.shape.switch_guid([0; 3]);
    let is_switch =
        |guid: Guid| nodes.iter().any(|node| node.guid == guid && node.kind == NodeKind::Switch);
    let switches: Vec<Guid> =
        nodes.iter().map(|node| node.guid).filter(|&guid| is_switch(guid) && guid != own).collect();
    let ends = |cable: &[(usize, PortNum); 2]| cable.map(|(node, num)| (nodes[node].guid, num));
    let cables: Vec<_> = cluster.topology.cables.iter().map(ends).collect();
    let between: Vec<_> =
        cables.iter().filter(|cable| cable.iter().all(|end| is_switch(end.0))).collect();
    let adversity = Adversity {
        shape,
        silent: dice.pick(&switches),
        flapping: dice.pick(&between)[dice.below(2) as usize],
        period: Duration::from_millis(5 + dice.below(3000)),
        // An even number: in the end the link is up.
        flaps: 2 * (1 + dice.below(20) as u32),
        from_the_start: dice.below(2) == 0,
    };
    (cluster, adversity)
}

/// Waits until there are no faults; the last faults if that does not happen.
async fn recovered(cluster: &SimCluster, sm: &Sm) -> Result<Duration, Vec<String>> {
    let is_well = || sm.state() == SmState::Master && sm.engine() == "torus-2QoS";
    until_none(|| cluster.faults(sm), is_well).await
}

/// Waits until there are no faults and the subnet is up.
async fn until_none(
    faults: impl Fn() -> Vec<String>,
    is_well: impl Fn() -> bool,
) -> Result<Duration, Vec<String>> {
    let start = Instant::now();
    loop {
        let faults = faults();
        if faults.is_empty() && is_well() {
            return Ok(start.elapsed());
        }
        if start.elapsed() >= RECOVERY_TIMEOUT {
            return Err(faults);
        }
        sleep(Duration::from_millis(500)).await;
    }
}

async fn survive(seed: u64) -> Result<Duration, String> {
    let (cluster, adversity) = draw(seed);
    let failure = |what: &str, detail: &dyn std::fmt::Debug| {
        let shape = adversity.shape;
        Err(format!("seed {seed}, {shape}, {adversity:?}: {what}: {detail:?}"))
    };
    let start = async || {
        let sm = cluster.start([0; 3], cluster.options());
        settle().await;
        sm
    };
    let healthy = if adversity.from_the_start { None } else { Some(start().await) };
    if let Some(faults) = healthy.as_ref().map(|sm| cluster.faults(sm)).filter(|f| !f.is_empty()) {
        return failure("not up on a healthy fabric", &faults);
    }
    cluster.fabric.set_loss(0.1);
    cluster.fabric.silence(adversity.silent);
    let (guid, num) = adversity.flapping;
    cluster.fabric.flap(guid, num, adversity.period, adversity.flaps);
    let sm = match healthy {
        Some(sm) => sm,
        None => start().await,
    };
    sleep(adversity.period * adversity.flaps + Duration::from_secs(30)).await;
    let beside = || cluster.faults_beside(&sm, adversity.silent);
    if let Err(faults) = until_none(beside, || sm.state() == SmState::Master).await {
        return failure("not up around the silent switch while MADs are lost", &faults);
    }
    cluster.fabric.revive(adversity.silent);
    let took = match recovered(&cluster, &sm).await {
        Ok(took) => took,
        Err(faults) => return failure("not recovered while MADs are lost", &faults),
    };
    cluster.fabric.set_loss(0.0);
    if let Err(faults) = recovered(&cluster, &sm).await {
        return failure("not recovered", &faults);
    }
    // The subnet stays up, and no work is left.
    sleep(RECOVERY_TIMEOUT).await;
    let faults = cluster.faults(&sm);
    if !faults.is_empty() {
        return failure("recovered, then lost again", &faults);
    }
    match cluster.sets_of_another_sweep(&sm).await {
        0 => Ok(took),
        sets => failure("Sets on an unchanged fabric", &sets),
    }
}

fn run(seed: u64) -> Result<Duration, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(survive(seed))
}

/// Number of tests that share the seeds.
const SHARES: usize = 3;

/// Runs the seed that TORUS_SM_SEED names, or a share of all.
fn run_share(share: usize) {
    let named = std::env::var("TORUS_SM_SEED").ok();
    let seeds = match named.map(|text| text.parse::<u64>().expect("TORUS_SM_SEED is a number")) {
        Some(seed) if share == 0 => vec![seed],
        Some(_) => return,
        None => (0..SEEDS).skip(share).step_by(SHARES).collect(),
    };
    let outcomes: Vec<_> = seeds.iter().map(|&seed| run(seed)).collect();
    let failures: Vec<&String> =
        outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    for failure in &failures {
        eprintln!("{failure}");
    }
    let slowest = outcomes.iter().flatten().max();
    println!("{} seeds, the slowest recovery took {slowest:?}", outcomes.len());
    assert!(failures.is_empty(), "{} of {} seeds failed", failures.len(), outcomes.len());
}

#[test]
fn the_daemon_recovers_from_the_faults_of_random_seeds() {
    run_share(0);
}

#[test]
fn the_daemon_recovers_from_the_faults_of_other_random_seeds() {
    run_share(1);
}

#[test]
fn the_daemon_recovers_from_the_faults_of_further_random_seeds() {
    run_share(2);
}

/// Console commands while MADs are in motion, and the commands that repair lasting faults.
struct FaultScript {
    dice: Dice,
    cables: Vec<[String; 2]>,
    nodes: Vec<String>,
    undo: Vec<String>,
}

impl FaultScript {
    fn new(cluster: &SimCluster, seed: u64) -> Self {
        let nodes = &cluster.topology.nodes;
        let end = |&(node, num): &(usize, PortNum)| format!("{}[{num}]", nodes[node].guid);
        let cables = cluster.topology.cables.iter().map(|cable| [end(&cable[0]), end(&cable[1])]);
        let dice = Dice::new(seed);
        let undo = Vec::new();
        let names = nodes.iter().map(|node| node.guid.to_string()).collect();
        Self { dice, cables: cables.collect(), nodes: names, undo }
    }

    fn line(&mut self) -> String {
        let cable = self.dice.below(self.cables.len() as u64) as usize;
        let port = self.cables[cable][self.dice.below(2) as usize].clone();
        let [other, _] = self.dice.pick(&self.cables);
        let node = self.dice.pick(&self.nodes);
        let few = self.dice.below(10);
        let ms = self.dice.below(400);
        match self.dice.below(26) {
            0..=2 => format!("link {port} down"),
            3..=6 => format!("link {port} up"),
            7 => format!("flap {port} {ms}ms {}", few + 1),
            8 => {
                let line = format!("swap {port} {other}");
                self.undo.push(line.clone());
                line
            }
            9..=10 => format!("silent {node}"),
            11..=14 => format!("back {node}"),
            15 => format!("reboot {node}"),
            16 => format!("loss {few}%"),
            17 => format!("loss {port} {}%", few * 10),
            18 => format!("delay {}us", ms * few),
            19 => format!("corrupt {few}% answers"),
            20 => format!("duplicate {few}%"),
            21 => format!("error {port} {}", few * 10),
            22 => format!("error {port} {} 0x15", few * 10),
            23 => format!("inject {port} SymbolErrorCounter {few}"),
            24 => format!("clear {port}"),
            _ => format!("garbage {node}"),
        }
    }
}

/// The simulator and the daemon survive 2,000 faults, and after all repairs the fabric is in order.
#[tokio::test(start_paused = true)]
async fn the_daemon_survives_2000_console_faults() {
    let seed = std::env::var("TORUS_SM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let cluster = cluster("4x3x2", seed);
    let options = Options { exit_on_fatal: false, ..cluster.options() };
    let sm = cluster.start([0; 3], options);
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let mut storm = FaultScript::new(&cluster, seed);
    let mut done = 0;
    let mut refused = 0;
    while done < 2000 {
        let line = storm.line();
        match console::run_line(&cluster.fabric, &line) {
            Ok(_) => done += 1,
            // The command was rejected, such as plugging in a link that is plugged in.
            Err(_) => {
                refused += 1;
                if line.starts_with("swap") {
                    storm.undo.pop();
                }
            }
        }
        assert!(refused < 4000, "{refused} lines were refused, {line} the last");
        sleep(Duration::from_millis(storm.dice.below(100))).await;
    }
    let run = |line: &str| console::run_line(&cluster.fabric, line).expect(line);
    // Links that still flap become stable.
    sleep(Duration::from_secs(10)).await;
    storm.undo.iter().rev().for_each(|line| drop(run(line)));
    run("repair");
    assert_eq!(run("show faults"), "none\n");
    if let Err(faults) = recovered(&cluster, &sm).await {
        panic!("seed {seed}: not recovered: {faults:?}");
    }
}

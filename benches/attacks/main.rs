//! Attacks by one or several hosts of a simulated fabric: the effect on a quiet client, on the time of a reroute
//! and on the memory of the process, beside the calm and beside the same flood aimed at a host that
//! runs no subnet manager. The requests are pseudo-random with a fixed seed.
//!
//! ```text
//! cargo bench --bench attacks [-- [OPTIONS] ATTACK|all [SHAPE [HOSTS [RATE [SECONDS [SEED]]]]]]
//! ```
//!
//! Prints for each attack the replies and the 99th percentile of the quiet client's latency, the time
//! from the loss of a link to the last block of a forwarding table (the median of three links), and
//! the memory: the peak above calm, and what is left of it 10 s after the attacker has left; and
//! whether these are within the limits (`verdict`). Exit status 1 if one is not.
//!
//! By default, the simulator and the clients run in the same process as the daemon, so that times and
//! memory are upper bounds; memory includes that of the simulated kernel, which keeps unfinished RMPP
//! messages for 40 s, as Linux does. With `--over=embedded` (the embedded simulator) or
//! `--over=ibsim`, the subnet manager, the fabric and each client are processes of their own
//! (`processes`), and `--sm=opensm` attacks Debian's opensm instead of torus-sm.

mod clients;
mod floods;
mod processes;
mod rmpp;
mod verdict;

use floods::{ATTACKS, Attack, Attacker, Packet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::sa_client::{Client, DEFAULT_PREFIX, path_query, with_tid};
use testkit::torus::random::Random;
use testkit::{SimCluster, bench_argument};
use tokio::time::{Instant, sleep, timeout};
use torus_sm::daemon::process::memory;
use torus_sm::ids::{Guid, Lid, PortNum, Sl};
use torus_sm::sim::SimFabric;
use torus_sm::transport::{Address, Agent, MadPort, Outgoing};
use torus_sm::wire::attr::AttrId;
use verdict::{Cost, Report};

/// Requests of the quiet client in a second, one at a time.
const QUIET_RATE: u32 = 200;
/// Cables that are lost, one after the other, at the first ports of one switch. A single one that is
/// lost again and again would be quarantined.
const REROUTES: u8 = 3;
/// Time after which a request of the quiet client counts as lost.
const LOST: Duration = Duration::from_secs(1);
/// Time without a write after which the daemon is idle.
const IDLE: Duration = Duration::from_millis(700);
/// Time after which the memory of an attack must be given back.
const RETURN_TIME: Duration = Duration::from_secs(10);

struct Settings {
    shape: String,
    hosts: u8,
    /// MADs of the attacker in a second.
    rate: u32,
    seconds: u32,
    seed: u64,
}

fn main() {
    if let Some(role) = clients::role() {
        return clients::run(&role);
    }
    let settings = Settings {
        shape: bench_argument(1, "4x4x4"),
        hosts: number(2, "1") as u8,
        rate: number(3, "5000") as u32,
        seconds: number(4, "5") as u32,
        seed: number(5, "1"),
    };
    let wanted = bench_argument(0, "all");
    let attacks = ATTACKS
        .into_iter()
        .filter(|attack| wanted == "all" || format!("{attack:?}").eq_ignore_ascii_case(&wanted));
    let is_kept: Vec<bool> = match processes::Site::of_arguments() {
        Some(site) => attacks.filter_map(|attack| site.run(attack, &settings)).collect(),
        None => in_process(attacks, &settings),
    };
    if is_kept.contains(&false) {
        std::process::exit(1);
    }
}

fn number(index: usize, default: &str) -> u64 {
    bench_argument(index, default).parse::<u64>().expect("a number")
}

/// Attacks a daemon in this process. Returns for each attack whether the limits were kept.
fn in_process(attacks: impl Iterator<Item = Attack>, settings: &Settings) -> Vec<bool> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    // As in the process of the daemon.
    runtime.spawn(memory::return_unused());
    attacks.map(|attack| runtime.block_on(run(attack, settings))).collect()
}

async fn run(attack: Attack, settings: &Settings) -> bool {
    let cluster = SimCluster::healthy(&settings.shape, settings.hosts);
    let sm = cluster.start([0; 3], cluster.options());
    while sm.generation() == 0 {
        sleep(Duration::from_millis(10)).await;
    }
    sleep(IDLE).await;
    let quiet = Client::at(&cluster, [1, 1, 0], true);
    let victim = cluster.host_lid([0, 1, 0]);
    let mut hosts: Vec<Guid> = cluster.hosts().collect();
    let hosts = hosts.split_off(hosts.len() - attack.parts().len());
    let attackers: Vec<_> = hosts.iter().map(|&host| attach(&cluster, host)).collect();
    let site = Site { cluster: &cluster, quiet: &quiet, settings };
    let calm = site.measure().await;
    let aside = site.measure_under(attack, &attackers, victim).await;
    let attacked = site.measure_under(attack, &attackers, quiet.sa.lid).await;
    for &host in &hosts {
        assert!(cluster.fabric.unlink(host, PortNum(1)));
    }
    drop(attackers);
    sleep(attack.return_time()).await;
    let left = resident_memory().saturating_sub(calm.memory);
    sm.stop().await;
    Report { name: format!("{attack:?}"), calm, aside, attacked, left }.print()
}

/// An attacking host, and the client by which it sends.
fn attach(cluster: &SimCluster, host: Guid) -> (Arc<Client>, Attacker) {
    let client = Client::attach(&cluster.fabric, host);
    let lid = cluster.fabric.port_info(host, PortNum(1)).expect("a port").lid();
    let own = Attacker { node: host, guid: client.guid, lid };
    (Arc::new(client), own)
}

/// Where the costs of an attack are measured.
struct Site<'a> {
    cluster: &'a SimCluster,
    quiet: &'a Client,
    settings: &'a Settings,
}

impl Site<'_> {
    /// [`Self::measure`] while each attacker sends to a LID.
    async fn measure_under(
        &self,
        attack: Attack,
        attackers: &[(Arc<Client>, Attacker)],
        to: Lid,
    ) -> Cost {
        let stop = Arc::new(AtomicBool::new(false));
        let floods: Vec<_> = (attack.parts().into_iter().zip(attackers).zip(self.settings.seed..))
            .map(|((part, attacker), seed)| {
                let flood = Flood {
                    attack: part,
                    client: attacker.0.clone(),
                    own: attacker.1,
                    to,
                    fabric: self.cluster.fabric.clone(),
                    random: Random::new(seed),
                };
                tokio::spawn(flood.run(self.settings.rate, stop.clone()))
            })
            .collect();
        let cost = self.measure().await;
        stop.store(true, Ordering::Relaxed);
        for flood in floods {
            flood.await.expect("the flood does not panic");
        }
        cost
    }

    /// The latency of the quiet client, then the reroutes.
    async fn measure(&self) -> Cost {
        let quiet = self.quiet;
        let mut latencies = Vec::new();
        let mut memory = 0;
        let mut sent = 0;
        let query = path_query(DEFAULT_PREFIX, [quiet.guid, quiet.guid]);
        let end = Instant::now() + Duration::from_secs(self.settings.seconds.into());
        while Instant::now() < end {
            sent += 1;
            let start = Instant::now();
            quiet.send(&with_tid(query, sent as u64), LOST, 0);
            if let Ok((_, Some(_))) = timeout(LOST, quiet.reply()).await {
                latencies.push(start.elapsed());
            }
            memory = memory.max(resident_memory());
            sleep(Duration::from_secs(1) / QUIET_RATE).await;
        }
        let p99 = p99(&mut latencies);
        let mut reroutes = Vec::new();
        for num in 1..=REROUTES {
            reroutes.push(reroute(self.cluster, PortNum(num)).await);
        }
        let reroute = median(reroutes);
        memory = memory.max(resident_memory());
        Cost { replies: latencies.len(), sent, p99, reroute, memory }
    }
}

/// The packets of one attacker to a LID.
struct Flood {
    attack: Attack,
    client: Arc<Client>,
    own: Attacker,
    to: Lid,
    fabric: SimFabric,
    random: Random,
}

impl Flood {
    /// Sends at `rate` until `is_over`.
    async fn run(mut self, rate: u32, is_over: Arc<AtomicBool>) {
        let start = Instant::now();
        let mut sent = 0_u64;
        while !is_over.load(Ordering::Relaxed) {
            let due = (start.elapsed().as_secs_f64() * f64::from(rate)) as u64;
            for serial in sent..due {
                self.send(serial);
            }
            sent = due;
            sleep(Duration::from_millis(1)).await;
        }
    }

    fn send(&mut self, serial: u64) {
        let (agent, mad) = match self.attack.packet(serial, self.own, self.to, &mut self.random) {
            Packet::Raw(mad) => {
                let to = Address::gsi(self.to, Sl(0));
                assert!(self.fabric.send_raw(self.own.node, PortNum(1), to, mad));
                return;
            }
            Packet::Agent(Agent::Sa, mad) => (Agent::Sa, with_tid(mad, self.random.number() >> 33)),
            Packet::Agent(agent, mad) => (agent, mad),
        };
        let to = match agent {
            Agent::Sa => Address::gsi(self.to, Sl(0)),
            _ => Address::smi(self.to),
        };
        let out = Outgoing { agent, to, timeout: None, retries: 0, mad: &mad.0 };
        // A malformed MAD may be refused, as by the kernel.
        let _ = self.client.port.post(&out);
    }
}

/// Time from the loss of a link of the switch in the middle to the last block of a linear forwarding
/// table.
async fn reroute(cluster: &SimCluster, num: PortNum) -> Duration {
    let guid = cluster.shape.switch_guid(cluster.shape.radix.map(|radix| radix / 2));
    cluster.fabric.reset_counters();
    let start = Instant::now();
    assert!(cluster.fabric.unlink(guid, num));
    let mut blocks = 0;
    let mut last = start;
    while (blocks == 0 && start.elapsed() < Duration::from_secs(20)) || last.elapsed() < IDLE {
        sleep(Duration::from_micros(200)).await;
        let [_, now] = cluster.fabric.requests(AttrId::LINEAR_FT);
        if now != blocks {
            (blocks, last) = (now, Instant::now());
        }
    }
    assert!(cluster.fabric.relink(guid, num));
    sleep(2 * IDLE).await;
    last - start
}

/// The median of these times; [`LOST`] if there are none.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or(LOST)
}

/// The 99th percentile; [`LOST`] if there is no latency.
fn p99(latencies: &mut [Duration]) -> Duration {
    latencies.sort();
    latencies.get(latencies.len() * 99 / 100).copied().unwrap_or(LOST)
}

/// Resident memory of this process in KiB.
fn resident_memory() -> u64 {
    memory::resident().unwrap_or(0) >> 10
}

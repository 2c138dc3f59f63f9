//! Attacks by one host of a simulated fabric: the effect on a quiet client, on the time of a reroute
//! and on the memory of the process, beside the calm and beside the same flood aimed at a host that
//! runs no subnet manager. The requests are pseudo-random with a fixed seed.
//!
//! ```text
//! cargo bench --bench attacks [-- ATTACK|all [SHAPE [HOSTS [RATE [SECONDS [SEED]]]]]]
//! ```
//!
//! Prints for each attack the replies and the 99th percentile of the quiet client's latency, the time
//! from the loss of a link to the last block of a forwarding table, and the memory: the peak above
//! calm, and what is left of it 10 s after the attacker has left. The simulator and the clients run in
//! the same process, so that times and memory are upper bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::sa_client::joins::CREATE_GROUP;
use testkit::sa_client::{Client, DEFAULT_PREFIX, path_query, request, with_tid};
use testkit::torus::random::Random;
use testkit::{SimCluster, bench_argument};
use tokio::time::{Instant, sleep, timeout};
use torus_sm::ids::{Gid, Guid, Lid, MKey, Pkey, PortNum};
use torus_sm::transport::{Address, Agent, MadPort, Outgoing};
use torus_sm::wire::attr::{AttrId, Notice, TrapNumber};
use torus_sm::wire::mad::{Mad, Method};
use torus_sm::wire::record::{InformInfo, JoinState, McMemberRecord, NodeRecord, ServiceRecord};
use torus_sm::wire::sa::SaAttr;
use torus_sm::wire::smp::{self, DATA_SIZE, SmpRoute};

/// Requests of the quiet client in a second, one at a time.
const QUIET_RATE: u32 = 200;
/// Time after which a request of the quiet client counts as lost.
const LOST: Duration = Duration::from_secs(1);
/// Time without a write after which the daemon is idle.
const IDLE: Duration = Duration::from_millis(700);
/// Time after which the memory of an attack must be given back.
const RETURN_TIME: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attack {
    /// MADs of random contents, of all classes.
    Malformed,
    /// Subscriptions to ever other notices, with joins and leaves that cause reports.
    Subscriptions,
    /// Services with endless leases.
    Services,
    /// Groups that are created and left.
    Joins,
    /// Path queries.
    Queries,
    /// Queries for all nodes.
    Tables,
    /// Traps with changing contents.
    Traps,
    /// Traps that a host cannot have.
    ForgedTraps,
    /// Requests for SMInfo and role changes.
    FalseManager,
}

const ATTACKS: [Attack; 9] = [
    Attack::Malformed,
    Attack::Subscriptions,
    Attack::Services,
    Attack::Joins,
    Attack::Queries,
    Attack::Tables,
    Attack::Traps,
    Attack::ForgedTraps,
    Attack::FalseManager,
];

/// The attacking port.
#[derive(Clone, Copy)]
struct Attacker {
    guid: Guid,
    lid: Lid,
}

impl Attack {
    /// A MAD of the attack to a LID, with its agent.
    fn mad(self, own: Attacker, to: Lid, random: &mut Random) -> (Agent, Mad) {
        let number = random.number();
        match self {
            Self::Malformed => malformed(random),
            Self::Subscriptions if number.is_multiple_of(4) => {
                (Agent::Sa, join(own, number as u16 % 64, number))
            }
            Self::Subscriptions => (Agent::Sa, subscription(number)),
            Self::Services => (Agent::Sa, service(own, number)),
            Self::Joins => (Agent::Sa, join(own, number as u16 % 2048, number)),
            Self::Queries => {
                let peer = Guid(own.guid.0 ^ (number & 0xFF));
                (Agent::Sa, path_query(DEFAULT_PREFIX, [own.guid, peer]))
            }
            Self::Tables => {
                let all =
                    request(SaAttr::NODE_RECORD, Method::GET_TABLE, 0, &NodeRecord::default());
                (Agent::Sa, all)
            }
            Self::Traps => (Agent::SmiLid, trap(to, own.lid, number, TrapNumber::LINK_INTEGRITY)),
            Self::ForgedTraps => {
                let subject = Lid(number as u16 % 64 + 1);
                (Agent::SmiLid, trap(to, subject, number, TrapNumber::LINK_STATE))
            }
            Self::FalseManager => (Agent::SmiLid, role_request(to, number)),
        }
    }
}

fn malformed(random: &mut Random) -> (Agent, Mad) {
    let mut mad = Mad::default();
    for bytes in mad.0.chunks_mut(8) {
        bytes.copy_from_slice(&random.number().to_be_bytes()[..bytes.len()]);
    }
    let is_sa = random.number().is_multiple_of(2);
    mad.0[..3].copy_from_slice(&[1, if is_sa { 3 } else { 1 }, if is_sa { 2 } else { 1 }]);
    // Requests: responses would be matched to the attacker's own.
    mad.0[3] &= 0x7F;
    (if is_sa { Agent::Sa } else { Agent::SmiLid }, mad)
}

fn subscription(number: u64) -> Mad {
    let mut info = InformInfo::default();
    info.set_lid_range_begin(Lid(0xFFFF));
    info.set_is_generic(1);
    info.set_subscribe(1);
    info.set_notice_type(0xFFFF);
    info.set_trap_number(if number.is_multiple_of(2) { 0xFFFF } else { (number >> 8) as u16 });
    info.set_resp_time_value(31);
    info.set_producer_type(0xFF_FFFF);
    request(SaAttr::INFORM_INFO, Method::SET, 0, &info)
}

fn service(own: Attacker, id: u64) -> Mad {
    let mut record = ServiceRecord::default();
    record.set_id(id);
    record.set_gid(Gid::new(DEFAULT_PREFIX, own.guid));
    record.set_lease(ServiceRecord::NO_END);
    let mask = ServiceRecord::ID | ServiceRecord::GID | ServiceRecord::LEASE;
    request(SaAttr::SERVICE_RECORD, Method::SET, mask, &record)
}

/// A join, or a leave, of one of the attacker's groups.
fn join(own: Attacker, group: u16, number: u64) -> Mad {
    let mut mgid = [0; 16];
    mgid[..2].copy_from_slice(&[0xFF, 0x12]);
    mgid[14..].copy_from_slice(&group.to_be_bytes());
    let mut record = McMemberRecord::default();
    record.set_mgid(Gid(mgid));
    record.set_port_gid(Gid::new(DEFAULT_PREFIX, own.guid));
    record.set_join_state(JoinState::FULL);
    record.set_qkey(0x1234);
    record.set_pkey(Pkey::DEFAULT_FULL);
    let method = if number & 0x10_0000 == 0 { Method::SET } else { Method::DELETE };
    request(SaAttr::MC_MEMBER_RECORD, method, CREATE_GROUP, &record)
}

fn trap(to: Lid, subject: Lid, number: u64, kind: u16) -> Mad {
    let mut notice = Notice::default();
    notice.set_is_generic(true);
    notice.set_producer_type(1);
    notice.set_trap_number(kind);
    notice.set_issuer_lid(subject);
    notice.set_subject_lid(subject);
    notice.set_port(PortNum(number as u8));
    let mut data = [0; DATA_SIZE];
    data.copy_from_slice(&notice.0[..DATA_SIZE]);
    let route = SmpRoute::Lid(to);
    smp::request(&route, Method::TRAP, AttrId::NOTICE, 0, MKey::NONE, number, &data)
}

fn role_request(to: Lid, number: u64) -> Mad {
    let method = if number.is_multiple_of(2) { Method::GET } else { Method::SET };
    let (route, modifier) = (SmpRoute::Lid(to), (number >> 8) as u32 % 7);
    smp::request(&route, method, AttrId::SM_INFO, modifier, MKey::NONE, number, &[0x33; DATA_SIZE])
}

struct Settings {
    shape: String,
    hosts: u8,
    /// MADs of the attacker in a second.
    rate: u32,
    seconds: u32,
    seed: u64,
}

/// Times of a quiet client and of a reroute.
#[derive(Clone, Copy)]
struct Cost {
    replies: usize,
    sent: usize,
    p99: Duration,
    reroute: Duration,
    /// Maximum resident memory meanwhile, in KiB.
    memory: u64,
}

fn main() {
    let number = |index, default| bench_argument(index, default).parse::<u64>().expect("a number");
    let settings = Settings {
        shape: bench_argument(1, "4x4x4"),
        hosts: number(2, "1") as u8,
        rate: number(3, "5000") as u32,
        seconds: number(4, "5") as u32,
        seed: number(5, "1"),
    };
    let wanted = bench_argument(0, "all");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    for attack in ATTACKS {
        if wanted == "all" || format!("{attack:?}").eq_ignore_ascii_case(&wanted) {
            runtime.block_on(run(attack, &settings));
        }
    }
}

async fn run(attack: Attack, settings: &Settings) {
    let cluster = SimCluster::healthy(&settings.shape, settings.hosts);
    let sm = cluster.start([0; 3], cluster.options());
    while sm.generation() == 0 {
        sleep(Duration::from_millis(10)).await;
    }
    sleep(IDLE).await;
    let far = cluster.shape.radix.map(|radix| radix - 1);
    let quiet = Client::at(&cluster, [1, 1, 0], true);
    let attacker = Arc::new(Client::at(&cluster, far, false));
    let victim = cluster.host_lid([0, 1, 0]);
    let calm = measure(&cluster, &quiet, settings).await;
    let own = Attacker { guid: attacker.guid, lid: cluster.host_lid(far) };
    let aside = under(attack, (&attacker, own, victim), (&cluster, &quiet), settings).await;
    let here = under(attack, (&attacker, own, attacker.sa.lid), (&cluster, &quiet), settings).await;
    assert!(cluster.fabric.unlink(cluster.shape.host_guid(far, 0), PortNum(1)));
    drop(attacker);
    sleep(RETURN_TIME).await;
    let left = resident_memory().saturating_sub(calm.memory);
    println!("{attack:?}:");
    for (name, cost) in [("calm", calm), ("aimed at a host", aside), ("aimed at the SM", here)] {
        println!(
            "  {name:16} {}/{} replies, p99 {:.1?}, reroute {:.1?}, memory {} KiB",
            cost.replies, cost.sent, cost.p99, cost.reroute, cost.memory
        );
    }
    let above = here.memory.saturating_sub(calm.memory);
    println!("  {above} KiB above calm, {left} KiB of them 10 s after the attacker has left");
    sm.stop().await;
}

/// [`measure`] while the attacker sends to a LID.
async fn under(
    attack: Attack,
    (attacker, own, to): (&Arc<Client>, Attacker, Lid),
    (cluster, quiet): (&SimCluster, &Client),
    settings: &Settings,
) -> Cost {
    let (stop, port) = (Arc::new(AtomicBool::new(false)), attacker.port.clone());
    let (is_over, rate, mut random) = (stop.clone(), settings.rate, Random::new(settings.seed));
    let flood = tokio::spawn(async move {
        let (start, mut sent) = (Instant::now(), 0_u64);
        while !is_over.load(Ordering::Relaxed) {
            let due = (start.elapsed().as_secs_f64() * f64::from(rate)) as u64;
            for _ in sent..due {
                let (agent, mad) = attack.mad(own, to, &mut random);
                let mad =
                    if agent == Agent::Sa { with_tid(mad, random.number() >> 33) } else { mad };
                let address = match agent {
                    Agent::Sa => Address::gsi(to, torus_sm::ids::Sl(0)),
                    _ => Address::smi(to),
                };
                let out = Outgoing { agent, to: address, timeout: None, retries: 0, mad: &mad.0 };
                // A malformed MAD may be refused, as by the kernel.
                let _ = port.post(&out);
            }
            sent = due;
            sleep(Duration::from_millis(1)).await;
        }
    });
    let cost = measure(cluster, quiet, settings).await;
    stop.store(true, Ordering::Relaxed);
    flood.await.expect("the flood does not panic");
    cost
}

/// The latency of the quiet client, then a reroute.
async fn measure(cluster: &SimCluster, quiet: &Client, settings: &Settings) -> Cost {
    let (mut latencies, mut memory, mut sent) = (Vec::new(), 0, 0);
    let query = path_query(DEFAULT_PREFIX, [quiet.guid, quiet.guid]);
    let end = Instant::now() + Duration::from_secs(settings.seconds.into());
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
    latencies.sort();
    let p99 = latencies.get(latencies.len() * 99 / 100).copied().unwrap_or(LOST);
    let reroute = reroute(cluster).await;
    memory = memory.max(resident_memory());
    Cost { replies: latencies.len(), sent, p99, reroute, memory }
}

/// Time from the loss of a link to the last block of a linear forwarding table.
async fn reroute(cluster: &SimCluster) -> Duration {
    let guid = cluster.shape.switch_guid(cluster.shape.radix.map(|radix| radix / 2));
    cluster.fabric.reset_counters();
    let start = Instant::now();
    assert!(cluster.fabric.unlink(guid, PortNum(1)));
    let (mut blocks, mut last) = (0, start);
    while (blocks == 0 && start.elapsed() < Duration::from_secs(20)) || last.elapsed() < IDLE {
        sleep(Duration::from_micros(200)).await;
        let [_, now] = cluster.fabric.requests(AttrId::LINEAR_FT);
        if now != blocks {
            (blocks, last) = (now, Instant::now());
        }
    }
    assert!(cluster.fabric.relink(guid, PortNum(1)));
    sleep(2 * IDLE).await;
    last - start
}

/// Resident memory of this process in KiB.
fn resident_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let words = line.and_then(|line| line.split_whitespace().next());
    words.and_then(|word| word.parse().ok()).unwrap_or(0)
}

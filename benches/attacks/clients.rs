//! Clients in processes of their own: the quiet one, which also observes the reroute, and attackers.
//! The environment variable [`ROLE`] has the role and its parameters.

use super::floods::{Attack, Attacker, Packet};
use super::processes::unix_time;
use super::{IDLE, LOST, QUIET_RATE, REROUTES, p99};
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testkit::sa_client::{DEFAULT_PREFIX, Reply, UmadClient, path_query, request, with_tid};
use testkit::torus::random::Random;
use torus_sm::ids::{Guid, Lid, MKey, Sl};
use torus_sm::transport::{Address, Agent, Outcome};
use torus_sm::wire::attr::AttrId;
use torus_sm::wire::mad::{Mad, Method};
use torus_sm::wire::record::{NodeRecord, PathRecord, Record};
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};
use torus_sm::wire::smp::{self, DATA_SIZE, SmpRoute};

/// `quiet SECONDS SWITCH BLOCKS`, or `attack NAME RATE SEED sm|PORT`. GUIDs are decimal numbers.
pub(super) const ROLE: &str = "TORUS_SM_ATTACK_ROLE";

/// Time limit for a forwarding table block.
const BLOCK_LIMIT: Duration = Duration::from_millis(200);
/// Time limit for a reroute.
const REROUTE_LIMIT: Duration = Duration::from_secs(20);

/// The role of this process, if it is a client.
pub(super) fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

pub(super) fn run(role: &str) {
    let words: Vec<&str> = role.split(' ').collect();
    let client = UmadClient::open();
    match words[0] {
        "quiet" => quiet(
            &client,
            Duration::from_secs(number(&words, 1)),
            Guid(number(&words, 2)),
            number(&words, 3) as u32,
        ),
        "attack" => {
            let attack = Attack::by_name(words[1]).expect("an attack");
            let to = match words[4] {
                "sm" => client.local.sm_lid,
                _ => lid_of(&client, Guid(number(&words, 4))).expect("the SA knows the port"),
            };
            flood(&client, attack, to, number(&words, 2), number(&words, 3));
        }
        other => panic!("there is no role {other}"),
    }
}

fn number(words: &[&str], index: usize) -> u64 {
    words[index].parse::<u64>().expect("a number")
}

/// The reply with the transaction ID of a request, if it comes in time.
fn reply_to(client: &UmadClient, tid: u32, limit: Duration) -> Option<Reply> {
    let end = Instant::now() + limit;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        let reply = client.reply_within(left)?;
        if reply.tid() == tid {
            return Some(reply).filter(|reply| reply.outcome == Outcome::Arrived);
        }
    }
    None
}

fn ask(client: &UmadClient, mad: &Mad, tid: u32, limit: Duration) -> Option<Reply> {
    let mad = with_tid(*mad, tid.into());
    client.send(Agent::Sa, client.sa(), &mad.0, limit, 0);
    reply_to(client, tid, limit)
}

/// The LID of a port, as a path leads to it.
fn lid_of(client: &UmadClient, port: Guid) -> Option<Lid> {
    let query = path_query(DEFAULT_PREFIX, [client.guid(), port]);
    let reply = (1..10).find_map(|tid| ask(client, &query, tid, LOST))?;
    Some(PathRecord::parse(&reply.mad[DATA_OFFSET..]).dlid())
}

/// The LID of a switch.
fn switch_lid(client: &UmadClient, switch: Guid) -> Option<Lid> {
    let mut wanted = NodeRecord::default();
    let mut info = wanted.node_info();
    info.set_node_guid(switch);
    wanted.set_node_info(&info);
    let query = request(SaAttr::NODE_RECORD, Method::GET, NodeRecord::NODE_GUID, &wanted);
    let reply = (1..10).find_map(|tid| ask(client, &query, tid, LOST))?;
    Some(NodeRecord::parse(&reply.mad[DATA_OFFSET..]).lid())
}

/// Asks for paths and prints replies, requests and the 99th percentile of the latency in
/// microseconds. Then, for the loss and the return of each cable, it prints a line when it is ready,
/// waits for changes of the first `blocks` blocks of the forwarding table of `switch`, and prints the
/// time of the last one in microseconds since 1970.
fn quiet(client: &UmadClient, time: Duration, switch: Guid, blocks: u32) {
    // An SM that was put out of action answers nothing: there are no figures then.
    let Some(lid) = switch_lid(client, switch) else { return };
    let query = path_query(DEFAULT_PREFIX, [client.guid(), client.guid()]);
    let mut latencies = Vec::new();
    let mut sent = 0;
    let end = Instant::now() + time;
    while Instant::now() < end {
        sent += 1;
        let start = Instant::now();
        if ask(client, &query, 1000 + sent, LOST).is_some() {
            latencies.push(start.elapsed());
        }
        sleep(Duration::from_secs(1) / QUIET_RATE);
    }
    let mut tables = Tables { client, lid, tid: 1_000_000 };
    print(&format!("{} {sent} {}", latencies.len(), p99(&mut latencies).as_micros()));
    for _ in 0..2 * REROUTES {
        let Some(time) = last_change(&mut tables, blocks) else { return };
        print(&time.as_micros().to_string());
    }
}

/// The time of the last change of the table since 1970; `None` if it does not change.
fn last_change(tables: &mut Tables<'_>, blocks: u32) -> Option<Duration> {
    let mut known: Vec<_> = (0..blocks).map(|block| tables.block(block)).collect();
    print("ready");
    let start = Instant::now();
    let mut last = None;
    while start.elapsed() < REROUTE_LIMIT
        && last.is_none_or(|(changed, _): (Instant, _)| changed.elapsed() < IDLE)
    {
        for (block, known) in (0..blocks).zip(&mut known) {
            let now = tables.block(block);
            if now.is_some() && now != *known {
                *known = now;
                last = Some((Instant::now(), unix_time()));
            }
        }
        sleep(Duration::from_micros(200));
    }
    last.map(|(_, time)| time)
}

fn print(line: &str) {
    println!("{line}");
    let _ = std::io::stdout().flush();
}

/// The forwarding table of a switch.
struct Tables<'a> {
    client: &'a UmadClient,
    lid: Lid,
    tid: u32,
}

impl Tables<'_> {
    fn block(&mut self, block: u32) -> Option<Vec<u8>> {
        self.tid += 1;
        let route = SmpRoute::Lid(self.lid);
        let get = Method::GET;
        let key = MKey::NONE;
        let data = [0; DATA_SIZE];
        let mad = smp::request(
            &route,
            smp::SmpFields {
                method: get,
                attr_id: AttrId::LINEAR_FT,
                attr_mod: block,
                m_key: key,
                tid: self.tid.into(),
            },
            &data,
        );
        self.client.send(Agent::SmiLid, Address::smi(self.lid), &mad.0, BLOCK_LIMIT, 0);
        let reply = reply_to(self.client, self.tid, BLOCK_LIMIT)?;
        Some(Mad::read(&reply.mad).smp_data().to_vec())
    }
}

/// Sends the packets of an attack at `rate` until this process is killed.
fn flood(client: &UmadClient, attack: Attack, to: Lid, rate: u64, seed: u64) {
    let node = client.guid();
    let own = Attacker { node, guid: client.guid(), lid: client.lid() };
    let mut random = Random::new(seed);
    let start = Instant::now();
    let mut sent = 0;
    loop {
        let due = (start.elapsed().as_secs_f64() * rate as f64) as u64;
        for serial in sent..due {
            if let Packet::Agent(agent, mad) = attack.packet(serial, own, to, &mut random) {
                let mad =
                    if agent == Agent::Sa { with_tid(mad, random.number() >> 33) } else { mad };
                let to = match agent {
                    Agent::Sa => Address::gsi(to, Sl(0)),
                    _ => Address::smi(to),
                };
                client.post(agent, to, &mad.0);
            }
        }
        sent = due;
        client.discard_replies();
        sleep(Duration::from_millis(1));
    }
}

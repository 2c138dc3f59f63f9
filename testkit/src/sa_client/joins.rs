//! Many hosts of a simulated fabric that join and leave multicast groups, with the retries of real
//! clients.

use super::{Client, DEFAULT_PREFIX, with_tid};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Gid, Guid, Mlid, Pkey, PortNum};
use torus_sm::sim::SimFabric;
use torus_sm::wire::attr::NodeKind;
use torus_sm::wire::mad::{Header, Mad, Method, Status};
use torus_sm::wire::record::{JoinState, McMemberRecord, Record};
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

/// Components of a request that may create its group.
pub const CREATE_GROUP: u64 = McMemberRecord::MGID
    | McMemberRecord::PORT_GID
    | McMemberRecord::JOIN_STATE
    | McMemberRecord::QKEY
    | McMemberRecord::TRAFFIC_CLASS
    | McMemberRecord::PKEY
    | McMemberRecord::FLOW_LABEL
    | McMemberRecord::SL;

/// Components that identify a member.
const LEAVE: u64 = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;

/// Timeouts and retries of a client.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    pub timeout: Duration,
    /// Number of retransmissions with the same transaction ID.
    pub retries: u32,
    /// Pause after a failure (no reply, or BUSY) until the next attempt, which has another
    /// transaction ID: the first pause, and the limit up to which it doubles with every failure.
    pub pauses: [Duration; 2],
}

impl RetryPolicy {
    /// A program that does nothing but join.
    pub const EAGER: Self = Self {
        timeout: Duration::from_secs(1),
        retries: 3,
        pauses: [Duration::from_millis(20), Duration::from_millis(20)],
    };

    /// Linux: `ib_sa` sends a join eleven times within 3.3 s (older kernels once within 3 s) and
    /// takes any status for an error; IPoIB repeats it after 2 to 16 s.
    pub const LINUX: Self = Self {
        timeout: Duration::from_millis(300),
        retries: 10,
        pauses: [Duration::from_secs(2), Duration::from_secs(16)],
    };

    /// The pause after a failure that `failures` others preceded. Clients and groups differ by up
    /// to 30 ms, so that their next attempts do not coincide.
    pub fn pause(&self, failures: u32, client: usize, group: usize) -> Duration {
        let [first, longest] = self.pauses;
        let offset = (client * 7 + group * 13) as u64 % 30;
        (first * 2_u32.pow(failures.min(10))).min(longest) + Duration::from_millis(offset)
    }
}

/// The MGID of a group by its number.
pub fn mgid(group: usize) -> Gid {
    let mut raw = [0; 16];
    raw[..4].copy_from_slice(&[0xFF, 0x12, 0xA0, 0x1C]);
    raw[8..].copy_from_slice(&(group as u64 + 1).to_be_bytes());
    Gid(raw)
}

/// A request to join (`Method::SET`) or leave (`Method::DELETE`) a group.
pub fn request(method: Method, port: Guid, group: usize, tid: u32) -> Mad {
    let mut record = McMemberRecord::default();
    record.set_mgid(mgid(group));
    record.set_port_gid(Gid::new(DEFAULT_PREFIX, port));
    record.set_join_state(JoinState::FULL);
    record.set_qkey(0x0B1B);
    record.set_pkey(Pkey::DEFAULT_FULL);
    let mask = if method == Method::DELETE { LEAVE } else { CREATE_GROUP };
    let mad = super::request(SaAttr::MC_MEMBER_RECORD, method, mask, &record);
    with_tid(mad, tid.into())
}

/// Node GUID and port GUID of every host.
pub fn hosts(topology: &Topology) -> Vec<(Guid, Guid)> {
    let hosts = topology.nodes.iter().filter(|node| node.kind == NodeKind::Ca);
    hosts.map(|node| (node.guid, node.port_guid(PortNum(1)))).collect()
}

/// Results of many requests.
#[derive(Clone, Debug, Default)]
pub struct JoinStats {
    /// Requests with a good reply.
    pub granted: usize,
    /// BUSY replies, each of which led to another request.
    pub busy: usize,
    /// Timeouts, each of which led to another request.
    pub unanswered: usize,
    /// The status of every other reply.
    pub refused: Vec<u16>,
    /// The longest of `waits`.
    pub longest: Duration,
    /// Times from the first request for a group to its good reply.
    pub waits: Vec<Duration>,
    /// The MLIDs in the replies, by group.
    pub mlids: BTreeMap<usize, BTreeSet<Mlid>>,
}

impl JoinStats {
    fn add(&mut self, other: Self) {
        self.granted += other.granted;
        self.busy += other.busy;
        self.unanswered += other.unanswered;
        self.refused.extend(other.refused);
        self.longest = self.longest.max(other.longest);
        self.waits.extend(other.waits);
        for (group, mlids) in other.mlids {
            self.mlids.entry(group).or_default().extend(mlids);
        }
    }

    /// A quantile of the waits; `share` is from 0 to 1.
    pub fn wait(&mut self, share: f64) -> Duration {
        self.waits.sort_unstable();
        let last = self.waits.len().saturating_sub(1);
        let index = (last as f64 * share).round() as usize;
        self.waits.get(index).copied().unwrap_or(Duration::ZERO)
    }
}

/// Lets every host join (`Method::SET`) or leave (`Method::DELETE`) the groups 0 to `groups` - 1,
/// with at most `window` requests under way per host. Each host begins with a different group.
pub async fn all(
    fabric: &SimFabric,
    hosts: &[(Guid, Guid)],
    method: Method,
    groups: usize,
    window: usize,
) -> JoinStats {
    by(RetryPolicy::EAGER, fabric, hosts, method, groups, window).await
}

/// [`all`] with another retry policy.
pub async fn by(
    policy: RetryPolicy,
    fabric: &SimFabric,
    hosts: &[(Guid, Guid)],
    method: Method,
    groups: usize,
    window: usize,
) -> JoinStats {
    let mut hosts_at_work = JoinSet::new();
    for (index, &(node, _)) in hosts.iter().enumerate() {
        let first = index * 37 % groups.max(1);
        let todo = (0..groups).map(|group| (first + group) % groups).collect();
        let host = JoiningHost::new(policy, Client::attach(fabric, node), index);
        hosts_at_work.spawn(host.run(method, todo, window));
    }
    let mut stats = JoinStats::default();
    while let Some(host) = hosts_at_work.join_next().await {
        stats.add(host.expect("no panic"));
    }
    stats
}

/// A host with requests under way.
struct JoiningHost {
    policy: RetryPolicy,
    index: usize,
    client: Client,
    last_tid: u32,
    stats: JoinStats,
    /// The group of each transaction.
    under_way: HashMap<u32, usize>,
    /// The time of the first request for each group.
    since: HashMap<usize, Instant>,
    /// The number of failures for each group.
    failures: HashMap<usize, u32>,
}

impl JoiningHost {
    fn new(policy: RetryPolicy, client: Client, index: usize) -> Self {
        Self {
            policy,
            index,
            client,
            last_tid: 0,
            stats: JoinStats::default(),
            under_way: HashMap::new(),
            since: HashMap::new(),
            failures: HashMap::new(),
        }
    }

    async fn run(mut self, method: Method, mut todo: VecDeque<usize>, window: usize) -> JoinStats {
        let mut pausing = BTreeSet::<(Instant, usize)>::new();
        loop {
            let now = Instant::now();
            while pausing.first().is_some_and(|&(due, _)| due <= now) {
                pausing.pop_first().into_iter().for_each(|(_, group)| todo.push_front(group));
            }
            while self.under_way.len() < window.max(1)
                && let Some(group) = todo.pop_front()
            {
                self.send(method, group);
            }
            let due = pausing.first().map(|&(due, _)| due);
            if self.under_way.is_empty() && due.is_none() {
                return self.stats;
            }
            tokio::select! {
                (tid, mad) = self.client.reply() => {
                    if let Some(group) = self.take_reply(tid, mad) {
                        pausing.insert((Instant::now() + self.pause(group), group));
                    }
                }
                () = sleep_until(due.unwrap_or(now)), if due.is_some() => {}
            }
        }
    }

    /// The pause before the next request for a group that failed.
    fn pause(&mut self, group: usize) -> Duration {
        let failures = self.failures.entry(group).or_default();
        *failures += 1;
        self.policy.pause(*failures - 1, self.index, group)
    }

    fn send(&mut self, method: Method, group: usize) {
        self.last_tid += 1;
        let mad = request(method, self.client.guid, group, self.last_tid);
        self.since.entry(group).or_insert_with(Instant::now);
        self.under_way.insert(self.last_tid, group);
        self.client.send(&mad, self.policy.timeout, self.policy.retries);
    }

    /// Counts a reply; returns the group if its request has to be repeated.
    fn take_reply(&mut self, tid: u32, mad: Option<Vec<u8>>) -> Option<usize> {
        let group = self.under_way.remove(&tid)?;
        let Some(mad) = mad else {
            self.stats.unanswered += 1;
            return Some(group);
        };
        match Header::read(&mad).status() {
            Status::OK => {
                let record = McMemberRecord::parse(&mad[DATA_OFFSET..]);
                self.stats.granted += 1;
                self.stats.mlids.entry(group).or_default().insert(record.mlid());
                let wait = self.since.get(&group).map(Instant::elapsed).unwrap_or(Duration::ZERO);
                self.stats.longest = self.stats.longest.max(wait);
                self.stats.waits.push(wait);
                None
            }
            Status::BUSY => {
                self.stats.busy += 1;
                Some(group)
            }
            status => {
                self.stats.refused.push(status);
                None
            }
        }
    }
}

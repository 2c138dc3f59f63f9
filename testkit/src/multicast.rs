//! Hosts of a simulated fabric that join multicast groups as the clients of real ones do, and a
//! look at what the switches make of it.
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Gid, Guid, Mlid, Pkey, PortNum, Sl};
use torus_sm::sim::{SimFabric, SimPort};
use torus_sm::transport::{Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing};
use torus_sm::wire::attr::NodeKind;
use torus_sm::wire::mad::{Header, Mad, Method, Status};
use torus_sm::wire::record::{JoinState, McMemberRecord, Record};
use torus_sm::wire::sa::{CLASS_VERSION, DATA_OFFSET, SA_OFFSET, SaAttr, SaHeader};

/// The default subnet prefix.
pub const PREFIX: u64 = 0xfe80_0000_0000_0000;

/// What a client gives along that may be the first in its group.
const CREATE: u64 = McMemberRecord::MGID
    | McMemberRecord::PORT_GID
    | McMemberRecord::JOIN_STATE
    | McMemberRecord::QKEY
    | McMemberRecord::TRAFFIC_CLASS
    | McMemberRecord::PKEY
    | McMemberRecord::FLOW_LABEL
    | McMemberRecord::SL;

/// What names a member that leaves.
const LEAVE: u64 = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;

/// How clients go about it.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// How long they wait for an answer.
    pub timeout: Duration,
    /// How often they send a request again before they give it up.
    pub retries: u32,
    /// From the first failure (silence or BUSY) to the next try under another transaction. It
    /// doubles with each up to the second.
    pub pauses: [Duration; 2],
}

/// A program that has joining for its only work.
pub const IMPATIENT: Habits = Habits {
    timeout: Duration::from_secs(1),
    retries: 3,
    pauses: [Duration::from_millis(20), Duration::from_millis(20)],
};

/// Linux: `ib_sa` sends a join eleven times in 3.3 s (older ones once in 3 s), and has any status for an
/// error; IPoIB tries again after 2 to 16 s.
pub const KERNEL: Habits = Habits {
    timeout: Duration::from_millis(300),
    retries: 10,
    pauses: [Duration::from_secs(2), Duration::from_secs(16)],
};

impl Habits {
    /// The pause after so many failures before this one. It is not the same for all, or they would
    /// all be back together.
    pub fn pause(&self, failures: u32, client: usize, group: usize) -> Duration {
        let [first, longest] = self.pauses;
        let more = (client * 7 + group * 13) as u64 % 30;
        (first * 2_u32.pow(failures.min(10))).min(longest) + Duration::from_millis(more)
    }
}

/// The name of a group.
pub fn mgid(group: usize) -> Gid {
    let mut raw = [0; 16];
    raw[..4].copy_from_slice(&[0xFF, 0x12, 0xA0, 0x1C]);
    raw[8..].copy_from_slice(&(group as u64 + 1).to_be_bytes());
    Gid(raw)
}

/// A request of a port about its membership.
pub fn request(method: Method, port: Guid, group: usize, tid: u32) -> Mad {
    let mut header = Header::default();
    header.set_base_version(1);
    header.set_class(3);
    header.set_class_version(CLASS_VERSION);
    header.set_method(method.0);
    header.set_tid(tid.into());
    header.set_attr_id(SaAttr::MC_MEMBER_RECORD);
    let mut mad = Mad::default();
    mad.set_header(&header);
    let mut sa = SaHeader::default();
    sa.set_component_mask(if method == Method::DELETE { LEAVE } else { CREATE });
    sa.write(&mut mad.0[SA_OFFSET..]);
    let mut record = McMemberRecord::default();
    record.set_mgid(mgid(group));
    record.set_port_gid(Gid::new(PREFIX, port));
    record.set_join_state(JoinState::FULL);
    record.set_qkey(0x0B1B);
    record.set_pkey(Pkey::DEFAULT_FULL);
    mad.0[DATA_OFFSET..DATA_OFFSET + McMemberRecord::STRIDE].copy_from_slice(record.bytes());
    mad
}

/// The end ports of hosts: node and port GUID.
pub fn hosts(topology: &Topology) -> Vec<(Guid, Guid)> {
    let hosts = topology.nodes.iter().filter(|node| node.kind == NodeKind::Ca);
    hosts.map(|node| (node.guid, node.port_guid(PortNum(1)))).collect()
}

/// What became of many requests.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Answered with success.
    pub granted: usize,
    /// Answered with BUSY, and asked again.
    pub busy: usize,
    /// Never answered, and asked again.
    pub unanswered: usize,
    /// Other answers.
    pub refused: Vec<u16>,
    /// From the first sending of a request to its good answer.
    pub longest: Duration,
    /// The same, of all.
    pub waits: Vec<Duration>,
    /// By group: the MLIDs that members were told.
    pub mlids: BTreeMap<usize, BTreeSet<Mlid>>,
}

impl Tally {
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

    /// The wait that this share of the requests (0 to 1) did not exceed.
    pub fn wait(&mut self, share: f64) -> Duration {
        self.waits.sort_unstable();
        let last = self.waits.len().saturating_sub(1);
        let index = (last as f64 * share).round() as usize;
        self.waits.get(index).copied().unwrap_or_default()
    }
}

/// Hears the answers of one host.
struct Ear(mpsc::UnboundedSender<(u32, Option<Vec<u8>>)>);

impl MadSink for Ear {
    fn deliver(&self, delivery: Delivery<'_>) {
        let tid = Header::read(delivery.mad).tid() as u32;
        let mad = (delivery.outcome == Outcome::Arrived).then(|| delivery.mad.to_vec());
        // A host that has all its answers does not listen any more.
        let _ = self.0.send((tid, mad));
    }
    fn idle(&self) {}
    fn closed(&self, _: &str) {}
}

/// Has every one of these hosts send `method` (a join or a leave) for groups 0 to `groups`, with
/// at most `window` requests under way each; each host begins with another group.
pub async fn all(
    fabric: &SimFabric,
    hosts: &[(Guid, Guid)],
    method: Method,
    groups: usize,
    window: usize,
) -> Tally {
    by(IMPATIENT, fabric, hosts, method, (groups, window)).await
}

/// The same by clients with these habits.
pub async fn by(
    habits: Habits,
    fabric: &SimFabric,
    hosts: &[(Guid, Guid)],
    method: Method,
    (groups, window): (usize, usize),
) -> Tally {
    let mut clients = JoinSet::new();
    for (index, &(node, port)) in hosts.iter().enumerate() {
        let first = index * 37 % groups.max(1);
        let todo = (0..groups).map(|group| (first + group) % groups).collect();
        let client = Client::at(habits, fabric, (node, port), index);
        clients.spawn(client.run(method, todo, window));
    }
    let mut tally = Tally::default();
    while let Some(one) = clients.join_next().await {
        tally.add(one.expect("a client does not panic"));
    }
    tally
}

struct Client {
    habits: Habits,
    index: usize,
    port: SimPort,
    guid: Guid,
    to: Address,
    answers: mpsc::UnboundedReceiver<(u32, Option<Vec<u8>>)>,
    last_tid: u32,
    tally: Tally,
    /// By transaction: the group.
    under_way: HashMap<u32, usize>,
    /// By group: when it was asked for first.
    since: HashMap<usize, Instant>,
    /// By group: how often it failed.
    failures: HashMap<usize, u32>,
}

impl Client {
    fn at(habits: Habits, fabric: &SimFabric, (node, guid): (Guid, Guid), index: usize) -> Self {
        let (ear, answers) = mpsc::unbounded_channel();
        let port = fabric.attach(node, PortNum(1), Arc::new(Ear(ear)), false);
        let info = fabric.port_info(node, PortNum(1)).expect("the host is there");
        Self {
            habits,
            index,
            port: port.expect("the host is there"),
            guid,
            to: Address::gsi(info.master_sm_lid(), Sl(0)),
            answers,
            last_tid: 0,
            tally: Tally::default(),
            under_way: HashMap::new(),
            since: HashMap::new(),
            failures: HashMap::new(),
        }
    }

    async fn run(mut self, method: Method, mut todo: VecDeque<usize>, window: usize) -> Tally {
        let mut pausing = BTreeSet::<(Instant, usize)>::new();
        loop {
            let now = Instant::now();
            while pausing.first().is_some_and(|&(due, _)| due <= now) {
                pausing.pop_first().into_iter().for_each(|(_, group)| todo.push_front(group));
            }
            while self.under_way.len() < window.max(1)
                && let Some(group) = todo.pop_front()
            {
                self.ask(method, group);
            }
            let due = pausing.first().map(|&(due, _)| due);
            if self.under_way.is_empty() && due.is_none() {
                return self.tally;
            }
            tokio::select! {
                answer = self.answers.recv() => {
                    let (tid, mad) = answer.expect("the port lives");
                    if let Some(group) = self.hear(tid, mad) {
                        pausing.insert((Instant::now() + self.pause(group), group));
                    }
                }
                () = sleep_until(due.unwrap_or(now)), if due.is_some() => {}
            }
        }
    }

    /// The pause before the group is asked for again.
    fn pause(&mut self, group: usize) -> Duration {
        let failures = self.failures.entry(group).or_default();
        *failures += 1;
        self.habits.pause(*failures - 1, self.index, group)
    }

    fn ask(&mut self, method: Method, group: usize) {
        self.last_tid += 1;
        let mad = request(method, self.guid, group, self.last_tid);
        self.since.entry(group).or_insert_with(Instant::now);
        self.under_way.insert(self.last_tid, group);
        let Habits { timeout, retries, .. } = self.habits;
        let (agent, timeout) = (Agent::Sa, Some(timeout));
        let out = Outgoing { agent, to: self.to, timeout, retries, mad: &mad.0 };
        self.port.post(&out).expect("the port takes it");
    }

    /// Takes an answer; the group if it is to be asked for again.
    fn hear(&mut self, tid: u32, mad: Option<Vec<u8>>) -> Option<usize> {
        let group = self.under_way.remove(&tid)?;
        let Some(mad) = mad else {
            self.tally.unanswered += 1;
            return Some(group);
        };
        match Header::read(&mad).status() {
            Status::OK => {
                let record = McMemberRecord::parse(&mad[DATA_OFFSET..]);
                self.tally.granted += 1;
                self.tally.mlids.entry(group).or_default().insert(record.mlid());
                let wait = self.since.get(&group).map(Instant::elapsed).unwrap_or_default();
                self.tally.longest = self.tally.longest.max(wait);
                self.tally.waits.push(wait);
                None
            }
            Status::BUSY => {
                self.tally.busy += 1;
                Some(group)
            }
            status => {
                self.tally.refused.push(status);
                None
            }
        }
    }
}

/// The multicast forwarding tables of all switches, as they hold them.
pub struct Tables<'a> {
    topology: &'a Topology,
    /// By node: masks by MLID - 0xC000, empty for hosts.
    masks: Vec<Vec<u16>>,
    /// By end of a cable: the other one.
    peers: HashMap<(usize, u8), (usize, u8)>,
}

impl<'a> Tables<'a> {
    /// Reads them. Ports beyond 15 are not looked at.
    pub fn read(fabric: &SimFabric, topology: &'a Topology) -> Self {
        let masks = topology.nodes.iter().map(|node| {
            assert!(node.kind != NodeKind::Switch || node.num_ports < 16, "one position is read");
            fabric.mft(node.guid, 0).unwrap_or_default()
        });
        let ends = topology.cables.iter().flat_map(|&[a, b]| [(a, b), (b, a)]);
        let peers = ends.map(|(a, b)| ((a.0, a.1.0), (b.0, b.1.0))).collect();
        Self { topology, masks: masks.collect(), peers }
    }

    fn ports(&self, node: usize, mlid: Mlid) -> impl Iterator<Item = u8> + use<> {
        let index = usize::from(mlid.0 - Mlid::FIRST.0);
        let mask = self.masks[node].get(index).copied().unwrap_or(0);
        (0..16).filter(move |port| mask >> port & 1 == 1)
    }

    /// The hosts (node GUIDs) that have a place in the tree of `mlid`.
    ///
    /// # Errors
    /// What is wrong with it: it is no tree, or there are several.
    pub fn members(&self, mlid: Mlid) -> Result<BTreeSet<Guid>, String> {
        let switches: Vec<usize> =
            (0..self.masks.len()).filter(|&node| self.ports(node, mlid).next().is_some()).collect();
        let mut members = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut next: Vec<(usize, Option<u8>)> =
            switches.first().map(|&s| (s, None)).into_iter().collect();
        while let Some((node, came)) = next.pop() {
            if !seen.insert(node) {
                return Err(format!(
                    "{mlid}: a packet comes to {} twice",
                    self.topology.nodes[node].guid
                ));
            }
            for port in self.ports(node, mlid).filter(|&port| Some(port) != came) {
                let Some(&(peer, peer_port)) = self.peers.get(&(node, port)) else {
                    return Err(format!("{mlid}: no cable at port {port}"));
                };
                let other = &self.topology.nodes[peer];
                if other.kind == NodeKind::Ca {
                    members.insert(other.guid);
                } else if self.ports(peer, mlid).any(|port| port == peer_port) {
                    next.push((peer, Some(peer_port)));
                } else {
                    return Err(format!(
                        "{mlid}: {} takes nothing from port {peer_port}",
                        other.guid
                    ));
                }
            }
        }
        if seen.len() != switches.len() {
            return Err(format!(
                "{mlid}: {} of {} switches are apart",
                switches.len() - seen.len(),
                switches.len()
            ));
        }
        Ok(members)
    }

    /// MLIDs with an entry anywhere.
    pub fn mlids(&self) -> BTreeSet<Mlid> {
        let used = self.masks.iter().flat_map(|masks| masks.iter().zip(Mlid::FIRST.0..));
        used.filter(|(mask, _)| **mask != 0).map(|(_, mlid)| Mlid(mlid)).collect()
    }
}

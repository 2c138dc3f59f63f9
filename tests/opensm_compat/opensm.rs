//! OpenSM's results for a fabric that ibsim simulates, and comparison with ours.

use super::sa_queries::{Answer, Question, ask};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use testkit::dumps::{Mfts, mfts};
use testkit::torus::random::Random;
use testkit::torus::subnet::{Case, Subnet};
use testkit::{Ibsim, Running};
use torus_sm::fabric::{PortId, ibnet};
use torus_sm::ids::{Mlid, Sl};
use torus_sm::plan::routing::Routing;
use torus_sm::plan::routing::torus::Torus;
use torus_sm::wire::attr::NodeKind;

/// The required programs.
pub(crate) const PROGRAMS: [&str; 2] = ["ibsim", "opensm"];

/// Time limit for OpenSM's routing, which usually takes half a second.
const ROUTING_TIMEOUT: Duration = Duration::from_secs(120);

/// Time limit until OpenSM's multicast tables are right.
const MULTICAST_TIMEOUT: Duration = Duration::from_secs(15);

/// Number of path SLs compared per fabric; all of them on smaller fabrics.
const PATHS: usize = 2000;

/// A running OpenSM.
pub(crate) struct OpenSm {
    _process: Running,
    pub sim: Ibsim,
    /// OpenSM has routed the fabric; else it rejected it.
    pub routed: bool,
}

impl OpenSm {
    /// Starts OpenSM and waits until it has routed or rejected the fabric.
    pub(crate) fn start(case: &Case) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let net = folder.path().join("fabric.net");
        fs::write(&net, ibnet::write(&case.topology)).expect("a file");
        let sim = Ibsim::start(&net);
        let path = |name: &str| sim.dir().join(name);
        fs::write(path("torus-2QoS.conf"), &case.config).expect("a file");
        let options = format!("max_op_vls {}\nlmc {}\n", case.max_op_vls, case.lmc);
        fs::write(path("opensm.conf"), options).expect("a file");
        let host = format!("H-{:016x}", case.topology.nodes[case.local].guid.0);
        let opensm = sim
            .command(&host, &testkit::tool("opensm").expect("checked before"))
            .args(["-R", "torus-2QoS,no_fallback", "-Q", "-D", "0x43", "-d", "2"])
            .arg("-F")
            .arg(path("opensm.conf"))
            .arg("--torus_config")
            .arg(path("torus-2QoS.conf"))
            .arg("--dump_files_dir")
            .arg(sim.dir())
            .arg("-f")
            .arg(path("opensm.log"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("opensm starts");
        let mut process = Running(opensm);
        let routed = routes(&mut process, &path("opensm.log"));
        Self { _process: process, sim, routed }
    }

    /// Coordinates by switch GUID, from `opensm-torus.dump`.
    pub(crate) fn coordinates(&self) -> BTreeMap<u64, String> {
        let file = self.sim.dir().join("opensm-torus.dump");
        let text = fs::read_to_string(file).expect("a dump of the torus");
        let line = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            let at = words.next()?.to_owned();
            let guid = words.nth(1)?.strip_prefix("0x")?;
            Some((u64::from_str_radix(guid, 16).ok()?, at))
        };
        text.lines().map(|text| line(text).unwrap_or_else(|| panic!("{text}"))).collect()
    }
}

/// Waits for the result: true when the subnet is up, false when no engine routes the fabric.
fn routes(opensm: &mut Running, log: &Path) -> bool {
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.contains("No routing engine able") {
            return false;
        }
        if text.contains("SUBNET UP") {
            return true;
        }
        let status = opensm.0.try_wait().expect("a child of ours");
        assert!(status.is_none(), "OpenSM leaves with {status:?}:\n{text}");
        assert!(start.elapsed() < ROUTING_TIMEOUT, "OpenSM does not come to an end:\n{text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The result of a comparison.
#[derive(Default)]
pub(crate) struct Comparison {
    /// OpenSM routes the fabric.
    pub routed: bool,
    /// Number of path SLs, and of multicast trees, that were compared.
    pub paths: usize,
    pub trees: usize,
    /// A description of the differences.
    pub differences: String,
}

/// Routes a case by both programs and compares all results.
pub(crate) fn compare(case: &Case) -> Comparison {
    let theirs = OpenSm::start(case);
    let mut subnet = Subnet::new(case);
    let routed = theirs.routed;
    // The repair must not change what OpenSM routes, and routes what OpenSM refuses.
    subnet.options.torus_repair = routed;
    let differ = |differences| Comparison { routed, differences, ..Comparison::default() };
    let ours = match (subnet.route(None), routed) {
        (Ok(ours), true) => ours,
        (Err(_), false) => return differ(String::new()),
        (Ok(_), false) => return differ("OpenSM refuses, we route".to_owned()),
        (Err(refusal), true) => return differ(format!("OpenSM routes, {refusal:#?}")),
    };
    let dump = |name| theirs.sim.dir().join(name);
    let sl_to_vls = testkit::dumps::read_sl_to_vls(&dump("opensm-sl2vl.dump"));
    let places = testkit::dumps::differences(&subnet.coordinates(&ours), &theirs.coordinates());
    let lfts = testkit::dumps::differences(
        &subnet.lfts(&ours),
        &testkit::dumps::read_lfts(&dump("opensm-lfts.dump")),
    );
    let vls = testkit::dumps::differences(&subnet.sl_to_vls(&ours, &sl_to_vls), &sl_to_vls);
    let log = fs::read_to_string(dump("opensm.log")).expect("a log");
    let notes: Vec<String> = ours.notes.iter().map(|note| format!(": {note}")).collect();
    let named = missing_parts(notes.iter().map(String::as_str));
    let lines: Vec<_> = missing_parts(log.lines()).symmetric_difference(&named).cloned().collect();
    let missing = if lines.is_empty() { String::new() } else { format!("{lines:#?}\n") };
    let mut result = differ(format!("{places}{lfts}{vls}{missing}"));
    if let Some(at) = client(case, &subnet, &ours) {
        compare_answers(case, (&subnet, &ours), (&theirs, &at), &mut result);
    }
    result
}

/// The lines about missing switches and links of a torus, without the names of switches that ours
/// have at their end.
fn missing_parts<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let found = lines.filter_map(|line| line.split_once(": Missing torus "));
    found.map(|(_, part)| part.split(" (\"").next().unwrap_or_default().to_owned()).collect()
}

/// End ports at switches of the torus.
fn routed_ports(subnet: &Subnet, routing: &Routing) -> Vec<PortId> {
    let switches: BTreeSet<_> =
        Torus::of(routing).expect("routed by torus-2QoS").switches().map(|(_, id)| id).collect();
    let is_placed = |&port: &PortId| {
        subnet.fabric.switch_behind(port).is_some_and(|switch| switches.contains(&switch))
    };
    subnet.fabric.end_ports().filter(is_placed).collect()
}

/// A channel adapter, other than OpenSM's, that can query OpenSM. There is none if OpenSM is at a
/// switch outside the torus, and has cut itself off.
fn client(case: &Case, subnet: &Subnet, routing: &Routing) -> Option<String> {
    let home = case.topology.nodes[case.local].guid;
    let ports = routed_ports(subnet, routing);
    if !ports.contains(&subnet.fabric.local()) {
        return None;
    }
    let mut nodes = ports.into_iter().map(|port| subnet.fabric.node_of(port));
    let node = nodes.find(|node| node.kind() == NodeKind::Ca && node.guid() != home)?;
    Some(format!("H-{:016x}", node.guid().0))
}

/// Groups of a fabric, each as its members: all hosts, and three random selections from all end
/// ports, including those outside the torus.
fn groups(subnet: &Subnet, random: &mut Random) -> Vec<Vec<PortId>> {
    let everybody: Vec<PortId> = subnet.fabric.end_ports().collect();
    let is_host = |port: &PortId| subnet.fabric.node_of(*port).kind() == NodeKind::Ca;
    let mut groups = vec![everybody.iter().copied().filter(is_host).collect()];
    for share in [10, 30, 60] {
        let mut group = everybody.clone();
        random.shuffle(&mut group);
        group.truncate(1 + group.len() * share / 100);
        groups.push(group);
    }
    groups
}

/// Queries OpenSM for paths, with and without a requested SL, and joins groups; compares the
/// answers, and the multicast tables once OpenSM has written them.
fn compare_answers(
    case: &Case,
    (subnet, ours): (&Subnet, &Routing),
    (theirs, at): (&OpenSm, &str),
    result: &mut Comparison,
) {
    let guid = |port: PortId| subnet.fabric.port(port).guid;
    let mut random = Random::new(case.topology.cables.len() as u64);
    let ports = routed_ports(subnet, ours);
    let pairs = ports.iter().flat_map(|&from| ports.iter().map(move |&to| (from, to)));
    let mut pairs: Vec<(PortId, PortId)> = pairs.collect();
    if pairs.len() > PATHS {
        random.shuffle(&mut pairs);
        pairs.truncate(PATHS);
    }
    let mut questions = Vec::new();
    let mut expected = Vec::new();
    for (from, to) in pairs {
        let wanted = random.percent(30).then(|| Sl(random.below(16) as u8));
        let sl = ours.policy.path_sl(from, to, wanted.unwrap_or(Sl(0)));
        let is_refused = wanted.is_some_and(|wanted| wanted != sl);
        questions.push(Question::Path { from: guid(from), to: guid(to), sl: wanted });
        expected.push(if is_refused { Answer::NO_RECORDS } else { Answer::granted(sl.0.into()) });
    }
    result.paths = questions.len();
    let groups = groups(subnet, &mut random);
    for (group, members) in (0u32..).zip(&groups) {
        let join = |&port: &PortId| Question::Join { group, member: guid(port) };
        questions.extend(members.iter().map(join));
    }
    let mut answers = ask(&theirs.sim, at, &questions);
    let joins = answers.split_off(expected.len());
    for ((question, our), their) in questions.iter().zip(&expected).zip(&answers) {
        if our != their {
            result.differences += &format!("{question:x?}: ours {our:x?}, theirs {their:x?}\n");
        }
    }
    let mut joins = joins.into_iter();
    let mut wanted = Mfts::new();
    for members in &groups {
        let joined: Vec<(PortId, Answer)> = members.iter().copied().zip(&mut joins).collect();
        let refused = joined.iter().find(|(_, answer)| answer.status != 0);
        assert!(refused.is_none(), "a join is refused: {refused:x?}");
        let mlid = Mlid(joined[0].1.value);
        assert!(joined.iter().all(|(_, answer)| answer.value == mlid.0), "{joined:x?}");
        let tree = ours.policy.multicast_tree(mlid, members).expect("the engine has trees");
        for (switch, mask) in &tree.switches {
            let switch = subnet.fabric.switch(*switch).guid().0;
            wanted.insert((mlid.0, switch), mask.iter().collect());
        }
        result.trees += 1;
    }
    result.differences += &differing_trees(&wanted, &theirs.sim.dir().join("opensm.mcfdbs"));
}

/// Compares with OpenSM's dump as soon as it is complete.
fn differing_trees(ours: &Mfts, dump: &Path) -> String {
    let start = Instant::now();
    loop {
        let theirs = mfts(&fs::read_to_string(dump).unwrap_or_default());
        let differences = testkit::dumps::differences(ours, &theirs);
        if differences.is_empty() || start.elapsed() > MULTICAST_TIMEOUT {
            return differences;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

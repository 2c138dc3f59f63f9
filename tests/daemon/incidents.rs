//! Incidents of the whole daemon: each fault gives exactly one, which closes when it is repaired.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::thread::ThreadId;
use std::time::Duration;
use testkit::memory_network::MemoryNetwork;
use testkit::sa_client::joins;
use testkit::{SimCluster, Sm, settle};
use tokio::time::{Instant, sleep};
use torus_sm::config::options::Options;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::fabric::End;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::incidents::incident::{Incident, Kind};
use torus_sm::sim::SetFault;
use torus_sm::wire::attr::{AttrId, SmState};
use torus_sm::wire::mad::Method;

const HOME: [u16; 3] = [0, 0, 0];
/// A switch that is not that of the subnet manager, nor beside it.
const FAR: [u16; 3] = [3, 2, 0];
/// One beside neither.
const OTHER: [u16; 3] = [1, 3, 0];
/// Longest time from a trap to a shown incident.
const PROMPT: Duration = Duration::from_millis(100);

async fn start(cluster: &SimCluster, options: Options) -> Sm {
    let sm = cluster.start(HOME, options);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.faults(&sm), [] as [String; 0]);
    assert_eq!(kinds(&sm), [], "{:#?}", open(&sm));
    sm
}

fn open(sm: &Sm) -> Vec<Arc<Incident>> {
    sm.management.as_ref().expect("not taken").live.incidents.borrow().open.clone()
}

fn kinds(sm: &Sm) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = open(sm).iter().map(|incident| incident.kind).collect();
    kinds.sort_unstable();
    kinds
}

/// Waits until exactly incidents of these kinds are open, for at most `limit`. Returns the time it took.
#[track_caller]
fn until<'a>(
    sm: &'a Sm,
    expected: &'a [Kind],
    limit: Duration,
) -> impl Future<Output = Duration> + 'a {
    let caller = std::panic::Location::caller();
    async move {
        let start = Instant::now();
        while kinds(sm) != expected {
            let found = open(sm);
            assert!(start.elapsed() < limit, "{caller}: {expected:?} within {limit:?}: {found:#?}");
            sleep(Duration::from_millis(5)).await;
        }
        start.elapsed()
    }
}

/// Waits, and checks that nothing else follows.
async fn stays(sm: &Sm, expected: &[Kind]) {
    for _ in 0..30 {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(kinds(sm), expected, "{:#?}", open(sm));
    }
}

fn ports(cluster: &SimCluster, guid: Guid) -> Vec<PortNum> {
    let node = cluster.topology.nodes.iter().find(|node| node.guid == guid).expect("a node");
    (1..=node.num_ports).map(PortNum).collect()
}

/// Takes all links of a node down, as a device without power does.
fn power_off(cluster: &SimCluster, guid: Guid) {
    for num in ports(cluster, guid) {
        cluster.fabric.unlink(guid, num);
    }
}

fn power_on(cluster: &SimCluster, guid: Guid) {
    for num in ports(cluster, guid) {
        cluster.fabric.relink(guid, num);
    }
}

/// The port of a switch with a cable to another switch, and that of the other switch.
fn cable(cluster: &SimCluster, guid: Guid, nth: usize) -> [End; 2] {
    let is_host = |end: &End| cluster.hosts().any(|host| host == end.0);
    let links = cluster.fabric.links().into_iter();
    let mut own =
        links.filter(|ends| ends.iter().any(|end| end.0 == guid) && !ends.iter().any(is_host));
    own.nth(nth).expect("a cable to a switch")
}

#[tokio::test(start_paused = true)]
async fn a_dead_switch_with_four_hosts_is_one_incident() {
    let cluster = SimCluster::healthy("6x5x1", 4);
    let sm = start(&cluster, cluster.options()).await;
    let dead = cluster.shape.switch_guid(FAR);
    power_off(&cluster, dead);
    let time = until(&sm, &[Kind::LostSwitch], Duration::from_secs(5)).await;
    assert!(time <= PROMPT, "{time:?}");
    stays(&sm, &[Kind::LostSwitch]).await;
    let incident = open(&sm)[0].clone();
    assert_eq!(incident.id, format!("node-{dead}"));
    let takes = &incident.takes;
    assert_eq!(
        (takes.switches, takes.hosts, takes.lids, takes.links),
        (1, 4, 5, 8),
        "{incident:#?}"
    );
    assert!(incident.rerouted.is_some(), "{incident:#?}");
    assert!(incident.repair.contains("check the power of the switch"), "{incident:#?}");
    power_on(&cluster, dead);
    until(&sm, &[], Duration::from_secs(30)).await;
    stays(&sm, &[]).await;
    let sources = sm.management.as_ref().expect("not taken");
    let closed = sources.live.incidents.borrow().closed.clone();
    assert_eq!(closed.len(), 1, "no other was open meanwhile: {closed:#?}");
}

/// The time from the loss of a switch to a shown incident on the real clock, with the simulated fabric on
/// the same threads. It depends on the machine, and is printed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_to_a_shown_incident_is_printed() {
    let cluster = SimCluster::healthy("6x5x1", 4);
    let sm = cluster.start(HOME, cluster.options());
    let mut subnet = sm.subnet.clone();
    subnet.wait_for(Option::is_some).await.expect("the daemon runs");
    let mut shown = sm.management.as_ref().expect("not taken").live.incidents.clone();
    let dead = cluster.shape.switch_guid(FAR);
    let mut times = Vec::new();
    // A third time within a minute would be flapping cables.
    for _ in 0..2 {
        let start = std::time::Instant::now();
        power_off(&cluster, dead);
        let is_shown = |list: &Arc<torus_sm::incidents::book::IncidentList>| {
            list.open.iter().any(|incident| incident.kind == Kind::LostSwitch)
        };
        shown.wait_for(is_shown).await.expect("the daemon runs");
        times.push(start.elapsed());
        power_on(&cluster, dead);
        shown.wait_for(|list| list.open.is_empty()).await.expect("the daemon runs");
    }
    println!("from a dead switch to its incident: {times:?}");
}

/// The log of a dead switch at the default level: one line that names the problem, besides those that
/// OpenSM writes about traps and ports, too.
#[tokio::test(start_paused = true)]
async fn a_dead_switch_with_four_hosts_is_one_line_in_the_log() {
    let Some(lines) = Lines::of_this_thread() else { return };
    let cluster = SimCluster::healthy("6x5x1", 4);
    let sm = start(&cluster, cluster.options()).await;
    lines.take();
    power_off(&cluster, cluster.shape.switch_guid(FAR));
    until(&sm, &[Kind::LostSwitch], Duration::from_secs(5)).await;
    stays(&sm, &[Kind::LostSwitch]).await;
    let log = lines.take();
    let is_of_opensm = |line: &&str| {
        line.trim_start().starts_with("INFO") || line.contains("Received Generic Notice")
    };
    let problems: Vec<&str> = log.lines().filter(|line| !is_of_opensm(line)).collect();
    assert_eq!(problems.len(), 1, "{log}");
    assert!(
        problems[0].contains("incident node-") && problems[0].contains("with 4 hosts"),
        "{log}"
    );
    println!("{log}");
}

/// A flapping cable: one line when it is lost, one when it flaps, and one, of level INFO, at its end.
#[tokio::test(start_paused = true)]
async fn a_flapping_cable_is_two_lines_in_the_log_and_one_at_its_end() {
    let Some(lines) = Lines::of_this_thread() else { return };
    let cluster = SimCluster::healthy("6x5x1", 1);
    let sm = start(&cluster, cluster.options()).await;
    let [(guid, num), _] = cable(&cluster, cluster.shape.switch_guid(FAR), 0);
    cluster.fabric.flap(guid, num, Duration::from_millis(300), 41);
    until(&sm, &[Kind::FlappingCable], Duration::from_secs(10)).await;
    let incident = open(&sm)[0].clone();
    assert_eq!(incident.openings, 1, "{incident:#?}");
    let earlier = incident.evidence.iter().any(|line| line.starts_with("earlier: the cable "));
    assert!(earlier, "{incident:#?}");
    sleep(Duration::from_secs(15)).await;
    cluster.fabric.relink(guid, num);
    until(&sm, &[], Duration::from_secs(200)).await;
    let log = lines.take();
    let incidents: Vec<&str> =
        log.lines().filter(|line| line.contains("incident cable-")).collect();
    let [lost, flaps, over] = incidents[..] else { panic!("{incidents:#?}") };
    assert!(lost.contains("WARN") && lost.contains(" is lost; "), "{lost}");
    assert!(flaps.contains("WARN") && flaps.contains(" flaps; "), "{flaps}");
    assert!(over.contains("INFO") && over.contains(" has ended after "), "{over}");
}

/// What the threads of this process have logged.
static LOG: LazyLock<Mutex<HashMap<ThreadId, Vec<u8>>>> = LazyLock::new(Mutex::default);

/// The log of a thread.
struct Lines(ThreadId);

impl Lines {
    /// `None` after printing SKIPPED if another subscriber has the log.
    fn of_this_thread() -> Option<Self> {
        // Subscribers of single threads do not get what other threads have logged first.
        static IS_OURS: OnceLock<bool> = OnceLock::new();
        let is_ours = IS_OURS.get_or_init(|| {
            let subscriber = tracing_subscriber::fmt()
                .with_max_level(tracing::Level::INFO)
                .with_ansi(false)
                .without_time()
                .with_writer(|| LogWriter)
                .finish();
            tracing::subscriber::set_global_default(subscriber).is_ok()
        });
        if !is_ours {
            println!("SKIPPED: another subscriber has the log (TORUS_SM_LOG)");
        }
        is_ours.then(|| Self(std::thread::current().id()))
    }

    fn take(&self) -> String {
        let bytes = LOG.lock().expect("no panic").remove(&self.0);
        String::from_utf8(bytes.unwrap_or_default()).expect("text")
    }
}

struct LogWriter;

impl std::io::Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let thread = std::thread::current().id();
        LOG.lock().expect("no panic").entry(thread).or_default().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_host_and_a_cut_cable_are_two_incidents() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let sm = start(&cluster, cluster.options()).await;
    let host = cluster.shape.host_guid(FAR, 0);
    power_off(&cluster, host);
    let time = until(&sm, &[Kind::LostHost], Duration::from_secs(5)).await;
    assert!(time <= PROMPT, "{time:?}");
    let [(guid, num), _] = cable(&cluster, cluster.shape.switch_guid(OTHER), 0);
    cluster.fabric.unlink(guid, num);
    let both = [Kind::LostHost, Kind::LostCable];
    let time = until(&sm, &both, Duration::from_secs(5)).await;
    assert!(time <= PROMPT, "{time:?}");
    stays(&sm, &both).await;
    cluster.fabric.relink(guid, num);
    // They may flap for a minute.
    until(&sm, &[Kind::LostHost], Duration::from_secs(80)).await;
    power_on(&cluster, host);
    until(&sm, &[], Duration::from_secs(80)).await;
}

#[tokio::test(start_paused = true)]
async fn a_flapping_cable_is_named_until_it_is_calm() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let sm = start(&cluster, cluster.options()).await;
    let ends = cable(&cluster, cluster.shape.switch_guid(FAR), 0);
    cluster.fabric.flap(ends[0].0, ends[0].1, Duration::from_millis(300), 41);
    until(&sm, &[Kind::FlappingCable], Duration::from_secs(10)).await;
    let incident = open(&sm)[0].clone();
    assert!(incident.id.starts_with("cable-"), "{incident:#?}");
    // It ends down, or up: in each case it is plugged in again.
    sleep(Duration::from_secs(15)).await;
    cluster.fabric.relink(ends[0].0, ends[0].1);
    assert_eq!(kinds(&sm), [Kind::FlappingCable]);
    until(&sm, &[], Duration::from_secs(200)).await;
}

#[tokio::test(start_paused = true)]
async fn a_degraded_cable_is_named_with_both_rates() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let sm = start(&cluster, cluster.options()).await;
    let [(guid, num), _] = cable(&cluster, cluster.shape.switch_guid(FAR), 0);
    assert!(cluster.fabric.degrade(guid, num, 1, 1));
    until(&sm, &[Kind::DegradedCable], Duration::from_secs(30)).await;
    let incident = open(&sm)[0].clone();
    assert!(incident.headline.contains("1x SDR instead of 4x QDR"), "{incident:#?}");
    stays(&sm, &[Kind::DegradedCable]).await;
    assert!(cluster.fabric.degrade(guid, num, 3, 7));
    until(&sm, &[], Duration::from_secs(30)).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_switch_is_one_incident_with_the_host_behind_it() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let sm = start(&cluster, cluster.options()).await;
    let silent = cluster.shape.switch_guid(FAR);
    cluster.fabric.silence(silent);
    until(&sm, &[Kind::SilentSwitch], Duration::from_secs(60)).await;
    stays(&sm, &[Kind::SilentSwitch]).await;
    cluster.fabric.revive(silent);
    until(&sm, &[], Duration::from_secs(120)).await;
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_guid_names_both_places() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let sm = start(&cluster, cluster.options()).await;
    let [one, two] = [FAR, OTHER].map(|at| cluster.shape.host_guid(at, 0));
    assert!(cluster.fabric.set_reported_guid(two, one));
    cluster.fabric.reboot(two);
    until(&sm, &[Kind::DuplicateGuid], Duration::from_secs(60)).await;
    let duplicate = open(&sm)[0].clone();
    assert_eq!(duplicate.headline.matches("behind").count(), 2, "{duplicate:#?}");
    assert!(cluster.fabric.set_reported_guid(two, two));
    cluster.fabric.reboot(two);
    until(&sm, &[], Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn a_switch_that_refuses_sets_is_named() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    let refusing = cluster.shape.switch_guid(FAR);
    assert!(cluster.fabric.fail_sets(refusing, AttrId::SL_TO_VL, SetFault::Refused(0x1C)));
    let sm = cluster.start(HOME, cluster.options());
    until(&sm, &[Kind::RefusingDevice], Duration::from_secs(10)).await;
    assert!(open(&sm)[0].evidence[0].contains("0x001c"), "{:#?}", open(&sm));
    cluster.fabric.revive(refusing);
    until(&sm, &[], Duration::from_secs(600)).await;
}

/// Exchanges the plugs at the second ends of two cables.
fn swap(cluster: &SimCluster, one: [End; 2], other: [End; 2]) {
    for (guid, num) in [one[0], other[0]] {
        cluster.fabric.unlink(guid, num);
    }
    cluster.fabric.connect(one[0], other[1]);
    cluster.fabric.connect(other[0], one[1]);
}

#[tokio::test(start_paused = true)]
async fn swapped_cables_are_named_with_the_plugs_to_exchange() {
    let cluster = SimCluster::healthy("6x6x1", 1);
    let sm = start(&cluster, cluster.options()).await;
    let [one, other] =
        [(FAR, 0), (OTHER, 1)].map(|(at, nth)| cable(&cluster, cluster.shape.switch_guid(at), nth));
    swap(&cluster, one, other);
    until(&sm, &[Kind::SwappedCables], Duration::from_secs(30)).await;
    stays(&sm, &[Kind::SwappedCables]).await;
    let incident = open(&sm)[0].clone();
    assert!(incident.repair.starts_with("exchange these two plugs: "), "{incident:#?}");
    swap(&cluster, [one[0], other[1]], [other[0], one[1]]);
    until(&sm, &[], Duration::from_secs(30)).await;
}

#[tokio::test(start_paused = true)]
async fn cables_that_were_swapped_before_the_start_are_found_from_the_torus() {
    let mut shape: torus_sm::sim::generate::Shape = "6x6x1".parse().expect("a shape");
    shape.hosts = 1;
    let mut topology = shape.build().expect("it fits");
    let between = |cable: &[(usize, PortNum); 2], at: [u16; 3]| {
        let guid = shape.switch_guid(at);
        let is_host = |node: usize| topology.nodes[node].num_ports == 1;
        cable.iter().any(|&(node, _)| topology.nodes[node].guid == guid)
            && !cable.iter().any(|&(node, _)| is_host(node))
    };
    let found = [FAR, [1, 4, 0]]
        .map(|at| topology.cables.iter().position(|cable| between(cable, at)).expect("a cable"));
    let [one, other] = found;
    (topology.cables[one][1], topology.cables[other][1]) =
        (topology.cables[other][1], topology.cables[one][1]);
    let cluster = SimCluster::wired(shape, topology, Default::default(), 1);
    let options = Options { torus_repair: true, ..cluster.options() };
    let sm = cluster.start(HOME, options);
    until(&sm, &[Kind::SwappedCables], Duration::from_secs(10)).await;
    assert_eq!(sm.engine(), "torus-2QoS");
    let incident = open(&sm)[0].clone();
    assert!(incident.repair.starts_with("exchange these two plugs: "), "{incident:#?}");
}

#[tokio::test(start_paused = true)]
async fn incidents_survive_a_restart() {
    let cluster = SimCluster::healthy("6x5x1", 1);
    std::fs::create_dir(cluster.cache_dir(HOME)).expect("a folder");
    let sm = start(&cluster, cluster.options()).await;
    let dead = cluster.shape.switch_guid(FAR);
    power_off(&cluster, dead);
    until(&sm, &[Kind::LostSwitch], Duration::from_secs(5)).await;
    settle().await;
    let before = open(&sm)[0].clone();
    sm.kill().await;
    let again = cluster.start(HOME, cluster.options());
    until(&again, &[Kind::LostSwitch], Duration::from_secs(10)).await;
    stays(&again, &[Kind::LostSwitch]).await;
    let after = open(&again)[0].clone();
    assert_eq!((after.opened, after.openings), (before.opened, 1));
    power_on(&cluster, dead);
    until(&again, &[], Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn incidents_survive_a_takeover() {
    const STANDBY: [u16; 3] = [2, 0, 0];
    let cluster = SimCluster::healthy("6x5x1", 1);
    let network = MemoryNetwork::default();
    let options =
        |sm_priority| Options { sm_priority, sminfo_polling_timeout: 1000, ..cluster.options() };
    let master = cluster.start(HOME, options(9));
    let sharing = network.share(&master.sharing, "a", &["a", "b"]);
    settle().await;
    let standby = cluster.start(STANDBY, options(1));
    let _standby_sharing = network.share(&standby.sharing, "b", &["a", "b"]);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(standby.state(), SmState::Standby);
    let dead = cluster.shape.switch_guid(FAR);
    power_off(&cluster, dead);
    until(&master, &[Kind::LostSwitch], Duration::from_secs(5)).await;
    sleep(Duration::from_secs(5)).await;
    let before = open(&master)[0].clone();
    assert_eq!(kinds(&standby), [], "the master watches the fabric");
    drop(sharing);
    master.kill().await;
    until(&standby, &[Kind::LostSwitch], Duration::from_secs(60)).await;
    assert_eq!(open(&standby)[0].opened, before.opened);
    power_on(&cluster, dead);
    until(&standby, &[], Duration::from_secs(60)).await;
}

/// Groups for all multicast entries of the switches but that of the IPoIB broadcast group.
#[tokio::test(start_paused = true)]
async fn full_multicast_tables_are_one_incident_until_groups_end() {
    const ENTRIES: u16 = 32;
    let shape = "4x4x1".parse().expect("a shape");
    let hardware = Hardware { multicast_fdb_cap: ENTRIES, ..Hardware::default() };
    let cluster = SimCluster::new(shape, hardware, 1);
    let sm = start(&cluster, cluster.options()).await;
    let hosts = joins::hosts(&cluster.topology);
    // Each group has other members: equal ones could share an MLID.
    for (first, count) in (1..=usize::from(ENTRIES)).enumerate() {
        let members = [hosts[first % 16], hosts[(first * 5 + 1) % 16]];
        joins::all(&cluster.fabric, &members, Method::SET, count, 1).await;
    }
    until(&sm, &[Kind::FullTable], Duration::from_secs(30)).await;
    let headline = open(&sm)[0].headline.clone();
    assert!(headline.starts_with("all 31 MLIDs of groups are in use"), "{headline}");
    joins::all(&cluster.fabric, &hosts, Method::DELETE, usize::from(ENTRIES), 1).await;
    until(&sm, &[], Duration::from_secs(30)).await;
}

/// More partitions than the P_Key tables of hosts have entries.
#[tokio::test(start_paused = true)]
async fn full_pkey_tables_are_one_incident_until_the_partitions_fit() {
    const ENTRIES: usize = 32;
    let shape = "4x4x1".parse().expect("a shape");
    let hardware = Hardware { partition_cap: ENTRIES as u16, ..Hardware::default() };
    let cluster = SimCluster::new(shape, hardware, 1);
    let file = cluster.file("partitions.conf");
    let partitions = |count: usize| -> String {
        let lines = (1..count).map(|key| format!("p{key}={:#x}: ALL=full;\n", 0x100 + key));
        std::iter::once("Default=0x7fff: ALL=full;\n".to_owned()).chain(lines).collect()
    };
    std::fs::write(&file, partitions(ENTRIES + 3)).expect("a file");
    let partition_config_file = Some(file.display().to_string());
    let options = Options { partition_config_file, ..cluster.options() };
    let same = options.clone();
    let reload = Box::new(move || Ok(same.clone().into()));
    let sm = cluster.start_with(HOME, options, reload);
    until(&sm, &[Kind::FullTable], Duration::from_secs(30)).await;
    let headline = open(&sm)[0].headline.clone();
    assert!(headline.starts_with("P_Key tables of 32 ports are full, the first: "), "{headline}");
    std::fs::write(&file, partitions(ENTRIES)).expect("a file");
    sm.tell(SmEvent::Reload);
    until(&sm, &[], Duration::from_secs(60)).await;
}

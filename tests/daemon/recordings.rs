//! Recordings of the flight recorder, and their replay.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use testkit::sa_client::joins;
use testkit::{SimCluster, Sm, settle};
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::offline::replay::{self, ReplayComparison};
use torus_sm::record::Recording;
use torus_sm::record::entry::{EntryBody, EventKind};
use torus_sm::sim::VportSpec;
use torus_sm::wire::mad::Method;

const ORIGIN: [u16; 3] = [0, 0, 0];

/// Options whose files do not depend on the machine.
fn options(cluster: &SimCluster) -> Options {
    let partition_config_file = None;
    let qos_policy_file = None;
    Options { partition_config_file, qos_policy_file, ..cluster.options() }
}

fn read(path: &Path) -> Recording {
    Recording::decode(&fs::read(path).expect("a file")).expect("a recording")
}

/// Writes a recording on command.
fn record(sm: &Sm) -> Recording {
    read(&sm.recordings.write("a test").expect("a recording"))
}

/// The recordings in a directory, oldest first.
fn recordings(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "recording")).collect();
    paths.sort_unstable();
    paths
}

/// Repeats a recording on a thread of its own, since it has a runtime of its own.
async fn repeat(recording: Recording) -> Vec<ReplayComparison> {
    let repeated = tokio::task::spawn_blocking(move || replay::replay(&recording));
    repeated.await.expect("no panic").expect("a valid recording")
}

fn differences(comparisons: &[ReplayComparison]) -> Vec<&str> {
    comparisons.iter().flat_map(ReplayComparison::differences).collect()
}

fn has_event(recording: &Recording, kind: EventKind, text: &str) -> bool {
    recording.entries.iter().any(|entry| match &entry.body {
        EntryBody::Event(found, event) => *found == kind && event.contains(text),
        EntryBody::Mad(_) => false,
    })
}

/// Loses a cable and a switch, moves a host, and lets hosts join a group.
async fn faults(cluster: &SimCluster) {
    let shape = &cluster.shape;
    let hosts = [[1, 1, 0], [2, 2, 0]].map(|at| shape.host_guid(at, 0));
    let ends: Vec<_> = hosts.iter().map(|&host| (host, Guid(host.0 + 1))).collect();
    let stats = joins::all(&cluster.fabric, &ends, Method::SET, 1, 1).await;
    assert_eq!(stats.granted, hosts.len());
    sleep(Duration::from_secs(1)).await;
    assert!(cluster.fabric.unlink(shape.switch_guid([1, 0, 0]), PortNum(1)));
    sleep(Duration::from_secs(11)).await;
    cluster.fabric.split(&[shape.switch_guid([3, 2, 0])]);
    sleep(Duration::from_secs(30)).await;
    cluster.fabric.heal();
    sleep(Duration::from_secs(30)).await;
}

#[tokio::test(start_paused = true)]
async fn a_recording_repeats_the_plans_of_the_daemon() {
    for engine in ["torus-2QoS", "minhop"] {
        let cluster = SimCluster::healthy("4x4x1", 1);
        let routing_engine = Some(engine.to_owned());
        let sm = cluster.start(ORIGIN, Options { routing_engine, ..options(&cluster) });
        settle().await;
        faults(&cluster).await;
        let recording = record(&sm);
        assert!(recording.header.plans.len() >= 3, "{}", recording.header.plans.len());
        assert!(!recording.header.plans[0].groups.is_empty() || engine == "minhop");
        assert!(has_event(&recording, EventKind::Trap, "128 from LID "));
        assert!(has_event(&recording, EventKind::SweepBegan, "heavy"));
        assert!(has_event(&recording, EventKind::PlanAccepted, engine));
        assert!(has_event(&recording, EventKind::Registry, "multicast groups changed"));
        let comparisons = repeat(recording).await;
        let is_equal = comparisons.iter().all(ReplayComparison::is_equal);
        assert!(is_equal, "{engine}: {:?}", differences(&comparisons));
        // Min Hop keeps routes of the plan before the first recorded one.
        assert!(engine == "minhop" || differences(&comparisons).is_empty());
    }
}

/// Recordings do not have vports: the differences that follow from that are explained, and are no failure.
#[tokio::test(start_paused = true)]
async fn a_replay_without_the_vports_of_the_daemon_says_so() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    for host in cluster.hosts() {
        let mut vports = VportSpec::of_port(Guid(host.0 + 1), 2);
        vports[1].lid_required = true;
        assert!(cluster.fabric.set_virtual_ports(host, PortNum(1), vports));
    }
    let sm = cluster.start(ORIGIN, Options { virt_enabled: 2, ..options(&cluster) });
    settle().await;
    sleep(Duration::from_secs(5)).await;
    let comparisons = repeat(record(&sm)).await;
    assert!(comparisons.len() >= 2 && comparisons.iter().all(ReplayComparison::is_equal));
    assert!(!differences(&comparisons).is_empty());
}

#[tokio::test(start_paused = true)]
async fn recordings_without_the_beginning_start_from_a_snapshot() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let bounds = Options { recorder_size: 1, recorder_time: 1, ..options(&cluster) };
    let sm = cluster.start(ORIGIN, bounds);
    settle().await;
    for _ in 0..20 {
        faults(&cluster).await;
        assert!(cluster.fabric.relink(cluster.shape.switch_guid([1, 0, 0]), PortNum(1)));
        sleep(Duration::from_secs(60)).await;
    }
    let recording = record(&sm);
    assert!(recording.first > 1000, "{}", recording.first);
    assert!(recording.header.devices.is_some());
    assert!(recording.header.plans.iter().all(|plan| plan.number > 10));
    let comparisons = repeat(recording).await;
    assert_eq!(differences(&comparisons), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn another_answer_or_configuration_is_a_difference() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let sm = cluster.start(ORIGIN, options(&cluster));
    settle().await;
    let recording = record(&sm);
    assert_eq!(differences(&repeat(recording.clone()).await), [""; 0]);
    let mut other = recording.clone();
    let text = &mut other.header.configurations[0].options;
    *text = text.replace("\nroutine_engine torus-2QoS", "").replace("torus-2QoS", "minhop");
    let found = repeat(other).await;
    assert_eq!(differences(&found), ["minhop routes the fabric, recorded is torus-2QoS"]);
    let mut other = recording;
    let guid = cluster.shape.host_guid([2, 1, 0], 0);
    other.entries.iter_mut().for_each(|entry| {
        if let EntryBody::Mad(mad) = &mut entry.body
            && mad.mad.0[64..].windows(8).any(|bytes| bytes == guid.0.to_be_bytes())
        {
            mad.mad.0[64 + 3] ^= 2;
        }
    });
    let found = repeat(other).await;
    let found = differences(&found);
    assert!(found[0].starts_with(&format!("{guid} ")), "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn failed_sweeps_are_recorded_once() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let sm = cluster.start(ORIGIN, options(&cluster));
    settle().await;
    assert!(recordings(cluster.dir()).is_empty());
    let switch = cluster.shape.switch_guid([0, 0, 0]);
    let attribute = torus_sm::wire::attr::AttrId::LINEAR_FT;
    assert!(cluster.fabric.unlink(cluster.shape.switch_guid([1, 0, 0]), PortNum(1)));
    assert!(cluster.fabric.fail_sets(switch, attribute, torus_sm::sim::SetFault::Refused(0x0C)));
    sleep(Duration::from_secs(120)).await;
    let files = recordings(cluster.dir());
    println!("{files:?} {:?}", files.first().map(|f| read(f).header.reason));
    assert_eq!(files.len(), 1);
    let recording = read(&files[0]);
    assert!(
        recording.header.reason.starts_with("the sweep failed: "),
        "{}",
        recording.header.reason
    );
    assert!(has_event(&recording, EventKind::Failed, "not acknowledged"));
    drop(sm);
}

//! The activity report of whole daemons on simulated fabrics.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use testkit::reloadable::ReloadableSm;
use testkit::sa_client::joins;
use testkit::{SimCluster, Sm, settle};
use tokio::time::sleep;
use torus_sm::config::options::{ActivitySubjects, Options, parse::find};
use torus_sm::config::partitions::PartitionsConfig;
use torus_sm::daemon::activity::FILE_NAME;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::daemon::sm_loop::context::Configuration;
use torus_sm::ids::PortNum;
use torus_sm::manage::event::Event;
use torus_sm::wire::mad::Method;

const ORIGIN: [u16; 3] = [0, 0, 0];

fn subjects(text: &str) -> ActivitySubjects {
    let mut options = Options::default();
    find("activity_report_subjects").expect("a key").set(&mut options, text).expect("valid");
    options.activity_report_subjects
}

fn options(cluster: &SimCluster, text: &str) -> Options {
    Options { activity_report_subjects: subjects(text), ..cluster.options() }
}

/// The records without time and process ID, after the daemon has ended.
async fn records(cluster: &SimCluster, sm: Sm) -> Vec<String> {
    sm.stop().await;
    read(&cluster.file(FILE_NAME))
}

fn read(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).expect("the report");
    let (heading, rest) = text.split_once('\n').expect("a heading");
    assert!(heading.starts_with("# torus-sm activity report, format 1"), "{heading}");
    let fields = rest.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap_or(line).to_owned());
    fields.collect()
}

/// Numbers of records by the number of the activity.
fn counts(records: &[String]) -> BTreeMap<u8, usize> {
    let mut counts = BTreeMap::new();
    for record in records {
        let id = record.split(' ').next().and_then(|id| id.parse().ok()).expect("a number");
        *counts.entry(id).or_default() += 1;
    }
    counts
}

fn starting<'a>(records: &'a [String], text: &str) -> Vec<&'a str> {
    records.iter().filter(|record| record.starts_with(text)).map(String::as_str).collect()
}

fn partitions(text: &str) -> Arc<PartitionsConfig> {
    let (config, found) = PartitionsConfig::parse(Path::new("partitions.conf"), text);
    Arc::new(config.unwrap_or_else(|| panic!("{found:?}")))
}

#[tokio::test(start_paused = true)]
async fn joins_and_leaves_are_reported_with_their_groups_and_trees() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let sm = cluster.start(ORIGIN, options(&cluster, "mc"));
    settle().await;
    let hosts = joins::hosts(&cluster.topology);
    joins::all(&cluster.fabric, &hosts, Method::SET, 2, 1).await;
    settle().await;
    joins::all(&cluster.fabric, &hosts[1..], Method::DELETE, 2, 1).await;
    settle().await;
    joins::all(&cluster.fabric, &hosts[..1], Method::DELETE, 2, 1).await;
    settle().await;
    let records = records(&cluster, sm).await;
    let joined = 2 * hosts.len();
    let found = counts(&records);
    // The broadcast group of the default partition stays.
    assert_eq!((found[&1], found[&2]), (2 * joined, 1 + 2 + 2), "{records:#?}");
    assert!(found[&8] >= 2, "{found:?}");
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [1, 2, 8]);
    let is = |state: &str| records.iter().filter(|record| record.ends_with(state)).count();
    assert_eq!((is("join_state=1"), is("join_state=-1")), (joined, joined));
    assert_eq!((is("change=0"), is("change=1")), (1 + 2, 2));
    let group = joins::mgid(1);
    let member = format!("mgid={group} port_guid={} join_state=1", hosts[3].1);
    assert!(records.iter().any(|record| record.contains(&member)), "{member}: {records:#?}");
}

#[tokio::test(start_paused = true)]
async fn changed_partitions_are_reported() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = options(&cluster, "prtn");
    let mut configs = vec![
        partitions("Default=0x7fff: ALL=full; two words=0x5: ALL=full;"),
        partitions("Default=0x7fff: ALL=full; second=0x6: ALL=full;"),
    ];
    let same = options.clone();
    let reload = move || Ok(Configuration::with_partitions(same.clone(), configs.remove(0)));
    let sm = cluster.start_with(ORIGIN, options, Box::new(reload));
    settle().await;
    sm.tell(SmEvent::Reload);
    settle().await;
    sm.tell(SmEvent::Reload);
    settle().await;
    let records = records(&cluster, sm).await;
    assert_eq!(starting(&records, "4 ").len(), 3, "{records:#?}");
    assert_eq!(starting(&records, "4 prtn_create pkey=0x0005 prtn_name=\"two words\"").len(), 1);
    assert_eq!(starting(&records, "5 prtn_delete pkey=0x0005 delete_reason=0").len(), 1);
    let at_the_end: Vec<&str> = starting(&records, "5 ").into_iter().skip(1).collect();
    let expected =
        ["5 prtn_delete pkey=0x0006 delete_reason=2", "5 prtn_delete pkey=0x7fff delete_reason=2"];
    assert_eq!(at_the_end, expected);
    // Every end port, switches included, gets each key once.
    let ports = cluster.topology.nodes.len();
    let added = starting(&records, "3 prtn_guid_add");
    let of = |pkey: &str| added.iter().filter(|record| record.contains(pkey)).count();
    assert_eq!([of("pkey=0x8005"), of("pkey=0x8006"), of("pkey=0xffff")], [ports; 3], "{added:#?}");
    let host =
        cluster.topology.nodes.iter().find(|node| node.guid == cluster.hosts().next().unwrap());
    let guid = host.expect("a host").port_guid(PortNum(1));
    let index = format!("3 prtn_guid_add port_guid={guid} pkey=0x8005 block_index=0 pkey_index=1");
    assert!(added.contains(&&*index), "{index}: {added:#?}");
    assert_eq!(counts(&records).into_keys().collect::<Vec<_>>(), [3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn engines_and_the_unicast_cache_are_reported() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = Options {
        routing_engine: Some("ftree,minhop".into()),
        use_ucast_cache: true,
        ..options(&cluster, "routing")
    };
    let sm = cluster.start(ORIGIN, options);
    settle().await;
    // A host that leaves is routed by the cache, a lost link between switches is not.
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    assert!(cluster.fabric.unlink(host, PortNum(1)));
    sleep(Duration::from_secs(5)).await;
    assert!(cluster.fabric.unlink(cluster.shape.switch_guid([2, 2, 0]), PortNum(1)));
    sleep(Duration::from_secs(5)).await;
    let records = records(&cluster, sm).await;
    let of = |text: &str| starting(&records, text).len();
    assert_eq!(of("10 routing_failed routing_engine_name=ftree"), 2, "{records:#?}");
    assert_eq!(of("9 routing_succeed routing_engine_name=minhop"), 2);
    assert_eq!(of("11 ucast_cache_invalidated"), 1);
    let mut order: Vec<&str> =
        records.iter().filter_map(|record| record.split(' ').next()).collect();
    // More than one sweep may see the host leave.
    order.dedup();
    assert_eq!(order[..6], ["10", "9", "12", "11", "10", "9"], "{records:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_fabric_that_no_engine_routes_is_reported() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = Options {
        routing_engine: Some("ftree,no_fallback".into()),
        ..options(&cluster, "routing")
    };
    let sm = cluster.start(ORIGIN, options);
    settle().await;
    let records = records(&cluster, sm).await;
    assert!(!records.is_empty());
    let failed = |record: &String| record == "10 routing_failed routing_engine_name=ftree";
    assert!(records.iter().all(failed), "{records:#?}");
}

#[tokio::test(start_paused = true)]
async fn without_subjects_there_is_no_file_and_a_reload_starts_and_ends_it() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let mut sm = ReloadableSm::start(&cluster, ORIGIN, options(&cluster, "none"));
    settle().await;
    let hosts = joins::hosts(&cluster.topology);
    joins::all(&cluster.fabric, &hosts[..1], Method::SET, 1, 1).await;
    assert!(!cluster.file(FILE_NAME).exists());
    sm.reload(|options| options.activity_report_subjects = subjects("mc,virt"));
    settle().await;
    joins::all(&cluster.fabric, &hosts[1..2], Method::SET, 1, 1).await;
    settle().await;
    sm.reload(|options| options.activity_report_subjects = subjects("none"));
    settle().await;
    joins::all(&cluster.fabric, &hosts[2..3], Method::SET, 1, 1).await;
    settle().await;
    // The same record is an event of the management interface.
    let mut events = sm.sm.management.take().expect("the sources").events;
    let reported = |event: &Event| match event {
        Event::Activity { id: 1, fields, .. } => Some(fields["port_guid"].clone()),
        _ => None,
    };
    let mut joined = Vec::new();
    while let Ok(Some(timed)) = tokio::time::timeout(Duration::from_millis(1), events.recv()).await
    {
        joined.extend(reported(&timed.event));
    }
    assert_eq!(joined, [hosts[1].1.to_string()]);
    let records = records(&cluster, sm.sm).await;
    let members = starting(&records, "1 ");
    assert!(members.len() == 1 && members[0].contains(&joined[0]), "{records:#?}");
}

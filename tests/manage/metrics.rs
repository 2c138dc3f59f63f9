//! `/metrics`: values, and the grammar of the text formats.

use crate::client::Managed;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use testkit::sa_client::{Client, DEFAULT_PREFIX, path_query, with_tid};
use torus_sm::contained;

/// The samples of a text in Prometheus' format 0.0.4 by name and labels. Panics where the text
/// breaks the rules of the format or the conventions for names.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut families = BTreeSet::new();
    let mut family = String::new();
    let mut kind = String::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a help text");
            assert!(families.insert(name.to_owned()), "{name} stands twice");
            assert!(!help.trim().is_empty(), "{line}");
            (family, kind) = (name.to_owned(), String::new());
        } else if let Some(words) = line.strip_prefix("# TYPE ") {
            let (name, word) = words.split_once(' ').expect("a type");
            assert_eq!(name, family, "the type follows the help");
            assert!(["counter", "gauge", "histogram"].contains(&word), "{line}");
            assert_eq!(word == "counter", name.ends_with("_total"), "{name} is a {word}");
            kind = word.to_owned();
        } else {
            let (name, value) = line.rsplit_once(' ').expect("a sample");
            let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
            check_name(name, &family, &kind);
            assert!(samples.insert(name.to_owned(), value).is_none(), "{name} stands twice");
        }
    }
    samples
}

fn check_name(name: &str, family: &str, kind: &str) {
    let (bare, labels) = name.split_once('{').unwrap_or((name, ""));
    assert!(
        bare.bytes().all(|byte| byte.is_ascii_lowercase() || b"_0123456789".contains(&byte)),
        "{bare}"
    );
    let suffixes: &[&str] =
        if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
    let belongs = suffixes.iter().any(|suffix| bare == format!("{family}{suffix}"));
    assert!(belongs, "{name} is not a sample of the {kind} {family}");
    if labels.is_empty() {
        return;
    }
    let labels = labels.strip_suffix('}').expect("a closing brace");
    for label in labels.split("\",").map(|label| label.trim_end_matches('"')) {
        let (name, value) = label.split_once("=\"").expect("a label");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert!(!value.contains(['"', '\n']), "{value}");
    }
}

/// The bring-up of a large fabric takes a while, and its SMPs are what an operator watches then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_of_smps_move_during_a_sweep() {
    let managed = Managed::start("3x3x2").await;
    let figures = || {
        let samples = parse(&managed.get("/metrics").body);
        let sum = |start: &str| -> f64 {
            samples.iter().filter(|(name, _)| name.starts_with(start)).map(|(_, count)| count).sum()
        };
        let sweeps = sum("torus_sm_sweep_duration_seconds_count{kind=\"heavy\"");
        (sweeps, sum("torus_sm_smp_requests_total{attribute=\"NodeInfo\""))
    };
    let (sweeps, before) = figures();
    managed.cluster.fabric.set_delay(Duration::from_millis(100));
    assert_eq!(managed.post("/v1/actions/resweep", "").status, 202);
    loop {
        let (sweeps_now, now) = figures();
        assert_eq!(sweeps_now, sweeps, "the sweep ended, and the counters did not move");
        if now > before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_have_values_in_a_valid_text() {
    let managed = Managed::start("3x3x2").await;
    let response = managed.get("/metrics");
    assert!(response.head.contains("content-type: text/plain; version=0.0.4"), "{}", response.head);
    let samples = parse(&response.body);
    let value = |name: &str| *samples.get(name).unwrap_or_else(|| panic!("{name}: {samples:?}"));
    assert_eq!(value("torus_sm_state{state=\"MASTER\"}"), 1.0);
    assert_eq!(value("torus_sm_state{state=\"STANDBY\"}"), 0.0);
    assert_eq!(value("torus_sm_subnet_up"), 1.0);
    assert_eq!(value("torus_sm_nodes{kind=\"switch\"}"), 18.0);
    assert_eq!(value("torus_sm_nodes{kind=\"ca\"}"), 18.0);
    let links = managed.cluster.topology.cables.len() as f64;
    assert_eq!(value("torus_sm_links{state=\"ACTIVE\"}"), links);
    let sweeps = "torus_sm_sweep_duration_seconds";
    assert_eq!(value(&format!("{sweeps}_count{{kind=\"heavy\",cause=\"start\"}}")), 1.0);
    let last = format!("{sweeps}_bucket{{le=\"+Inf\",kind=\"heavy\",cause=\"start\"}}");
    assert_eq!(value(&last), 1.0);
    assert!(value("torus_sm_smp_requests_total{attribute=\"NodeInfo\",method=\"get\"}") >= 36.0);
    let results = "torus_sm_smp_results_total{attribute=\"NodeInfo\",method=\"get\",result=";
    assert!(value(&format!("{results}\"answered\"}}")) >= 36.0);
    let response = |method: &str| {
        value(&format!("torus_sm_smp_response_seconds_count{{method=\"{method}\"}}"))
    };
    let answered = samples.iter().filter(|(name, _)| {
        name.starts_with("torus_sm_smp_results_total{") && name.ends_with("result=\"answered\"}")
    });
    let answered: f64 = answered.map(|(_, count)| count).sum();
    assert!(answered > 100.0);
    assert_eq!(response("get") + response("set"), answered, "each response has its time");
    assert_eq!(value("torus_sm_ports{state=\"ACTIVE\"}"), 2.0 * links);
    assert!(value("torus_sm_ports{state=\"DOWN\"}") > 0.0, "ports without a cable");
    let times = ["planning", "verification", "programming"]
        .map(|name| value(&format!("torus_sm_{name}_duration_seconds_sum")));
    assert!(times.iter().all(|&time| time > 0.0) && times[1] < times[0], "{times:?}");
    assert_eq!(value("torus_sm_sa_queued_requests"), 0.0);
    assert!(value("process_resident_memory_bytes") > 1e6);
    // Bounds ascend, and each bucket includes those below it.
    let buckets =
        samples.iter().filter(|(name, _)| name.starts_with("torus_sm_planning_duration_seconds_b"));
    assert_eq!(buckets.count(), torus_sm::histogram::BUCKETS + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_of_the_sa_have_times() {
    let managed = Managed::start("3x3x1").await;
    let client = Client::at(&managed.cluster, [1, 1, 0], true);
    let query = path_query(DEFAULT_PREFIX, [client.guid, client.guid]);
    for tid in 1..=200 {
        client.send(&with_tid(query, tid), crate::client::LIMIT, 0);
        assert!(client.reply().await.1.is_some());
    }
    let samples = parse(&managed.get("/metrics").body);
    let count =
        |by: &str| samples[&format!("torus_sm_sa_response_seconds_count{{answered_by=\"{by}\"}}")];
    // Most are answered by readers. Of the answers of each, the first and then every 64th is timed; their
    // threads have four sets of counters.
    let readers = count("reader");
    let queue = count("queue");
    assert!((1.0..=8.0).contains(&readers), "{readers} of readers, {queue} of the queue");
    assert!(queue + 64.0 * readers >= 200.0, "{readers} of readers, {queue} of the queue");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contained_panics_are_counted() {
    let managed = Managed::start("3x3x1").await;
    let metric = || parse(&managed.get("/metrics").body)["torus_sm_contained_panics_total"] as u64;
    let status = || managed.json("/v1/status")["contained_panics"].as_u64().expect("a number");
    let before = (metric(), status());
    let panic = contained::run(|| -> u8 { panic!("a defect, put in by a test") });
    assert!(panic.is_err());
    assert_eq!((metric(), status()), (before.0 + 1, before.1 + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openmetrics_is_sent_to_clients_that_accept_it() {
    let managed = Managed::start("3x3x1").await;
    let accept = "accept: application/openmetrics-text; version=1.0.0,text/plain;q=0.5";
    let response = managed.raw(&format!("GET /metrics HTTP/1.1\r\nhost: x\r\n{accept}\r\n\r\n"));
    assert!(
        response.head.contains("content-type: application/openmetrics-text"),
        "{}",
        response.head
    );
    assert!(response.body.ends_with("# EOF\n"));
    assert!(response.body.contains("# TYPE torus_sm_traps counter\n"), "{}", response.body);
}

/// The names of metrics in a text, such as those of expressions.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("torus_sm_") || word.starts_with("process_")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alerts_and_dashboard_use_metrics_that_exist() {
    let managed = Managed::start("3x3x1").await;
    let body = managed.get("/metrics").body;
    let families: BTreeSet<&str> =
        body.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let exists = |name: &str| {
        let stem = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        families.contains(name) || stem.is_some_and(|stem| families.contains(stem))
    };
    for file in ["etc/prometheus-alerts.yml", "etc/grafana-dashboard.json"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let text = std::fs::read_to_string(path).expect("a file");
        let used = names(&text);
        assert!(used.len() > 8, "{file}: {used:?}");
        let unknown: Vec<_> = used.iter().filter(|name| !exists(name)).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}

//! The performance manager: counters, rates, metrics and commands.

use crate::client::Managed;
use serde_json::Value;
use testkit::SimCluster;
use torus_sm::config::options::Options;
use torus_sm::ids::PortNum;
use torus_sm::sim::console::run_line;

/// A daemon that sweeps the counters only on request.
pub(crate) async fn managed(change: impl FnOnce(&mut Options)) -> Managed {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let dump = cluster.file("counters.log").display().to_string();
    let mut options = Options {
        perfmgr: true,
        perfmgr_sweep_time_s: 60_000,
        event_db_dump_file: Some(dump),
        ..cluster.options()
    };
    change(&mut options);
    Managed::start_configured(cluster, options, |_| ()).await
}

async fn command(managed: &Managed, text: &str) {
    let body = format!("{{\"command\":\"{text}\"}}");
    let response = managed.post("/v1/actions/perfmgr", &body);
    assert_eq!(response.status, 202, "{text}: {}", response.body);
}

pub(crate) async fn sweep(managed: &Managed) -> Value {
    let before = managed.json("/v1/perfmgr")["sweeps"].as_u64();
    command(managed, "sweep").await;
    managed.until(|| managed.json("/v1/perfmgr")["sweeps"].as_u64() > before).await;
    managed.json("/v1/perfmgr")
}

pub(crate) fn set(managed: &Managed, port: u8, name: &str, value: u64) {
    let line = format!("counters set 0,0/{port} {name}={value}");
    run_line(&managed.cluster.fabric, &line).expect("a counter");
}

/// The counters of a port of the first switch.
fn port(managed: &Managed, port: u8) -> Value {
    let switch = managed.cluster.shape.switch_guid([0, 0, 0]);
    let reply = managed.json(&format!("/v1/counters?node={switch}&port={port}"));
    reply["ports"][0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_go_on_when_counters_are_cleared() {
    let managed = managed(|_| ()).await;
    set(&managed, 1, "SymbolErrorCounter", 50_000);
    set(&managed, 2, "LinkDownedCounter", 3);
    let report = sweep(&managed).await;
    // 9 hosts with a port each; 9 switches with 7 ports besides port 0, which is no enhanced one.
    assert_eq!(report["last_sweep"]["ports"], 9 + 9 * 7, "{report}");
    assert_eq!(report["last_sweep"]["failed"], 0, "{report}");
    assert_eq!(report["last_sweep"]["cleared"], 1, "{report}");
    assert_eq!(port(&managed, 1)["errors"]["symbol_err_cnt"], 50_000);
    set(&managed, 1, "SymbolErrorCounter", 10);
    // Cleared by someone else, and counting again.
    set(&managed, 2, "LinkDownedCounter", 2);
    sweep(&managed).await;
    assert_eq!(port(&managed, 1)["errors"]["symbol_err_cnt"], 50_010);
    assert_eq!(port(&managed, 2)["errors"]["link_downed"], 5);
    let errors = managed.json("/v1/counters?errors_only=true");
    assert_eq!(errors["ports"].as_array().map(Vec::len), Some(2), "{errors}");
    command(&managed, "clear_counters").await;
    managed.until(|| port(&managed, 1)["errors"]["symbol_err_cnt"] == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rates_and_metrics_follow_the_traffic() {
    let managed = managed(|_| ()).await;
    sweep(&managed).await;
    assert!(port(&managed, 7)["rates"].is_null(), "a single reading has no rate");
    sweep(&managed).await;
    // Queries and replies of the performance manager itself cross the port of the SM's host.
    let rates = port(&managed, 7)["rates"].clone();
    assert!(rates["transmit_bytes_per_second"].as_f64() > Some(0.0), "{rates}");
    let links = managed.json("/v1/links");
    let is_busy = |link: &Value| link["rates"][0].as_f64() > Some(0.0);
    assert!(links["links"].as_array().expect("a list").iter().any(is_busy));
    let ports = managed.json("/v1/ports?node=h0-0-0-0");
    assert!(ports["ports"][0]["counters"]["data"]["xmit_pkts"].as_u64() > Some(100), "{ports}");
    let metrics = managed.get("/metrics").body;
    let switch = managed.cluster.shape.switch_guid([0, 0, 0]);
    let name = format!("torus_sm_port_transmit_bytes_total{{node=\"{switch}\",port=\"7\"}} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&name)).expect("a sample");
    assert!(value.parse::<f64>().is_ok_and(|bytes| bytes > 1000.0), "{value}");
    assert!(metrics.contains("torus_sm_perfmgr_sweeps_total 2\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dumps_have_both_formats_and_commands_are_checked() {
    let managed = managed(|options| options.perfmgr_ignore_cas = true).await;
    set(&managed, 1, "PortRcvErrors", 4);
    let report = sweep(&managed).await;
    assert_eq!(report["last_sweep"]["ports"], 9 * 7, "hosts are left out: {report}");
    let path = managed.cluster.file("counters.log");
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    command(&managed, "dump_counters mach").await;
    managed.until(|| read().contains("\tsymbol_err_cnt\t")).await;
    assert_eq!(read().lines().filter(|line| line.contains("\tTRUE\t")).count(), 9 * 7);
    command(&managed, "dump_counters").await;
    managed.until(|| read().contains("     rcv_err              : 4\n")).await;
    let printed = managed.get("/v1/counters?format=opensm&errors_only=true").body;
    assert!(printed.starts_with("\"sw 0,0,0\" 0x200000 active TRUE port 1\n"), "{printed}");
    for (path, status) in [
        ("/v1/counters?node=nobody", 404),
        ("/v1/counters?format=xml", 400),
        ("/v1/counters?port=x", 400),
    ] {
        assert_eq!(managed.get(path).status, status, "{path}");
    }
    let response = managed.post("/v1/actions/perfmgr", "{\"command\":\"explode\"}");
    assert_eq!(response.status, 400);
    assert!(response.error().contains("\"explode\" option not found"), "{}", response.error());
    command(&managed, "disable").await;
    managed.until(|| managed.json("/v1/perfmgr")["enabled"] == false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_leave_are_removed_or_kept() {
    for keeps in [false, true] {
        let managed = managed(|options| options.perfmgr_rm_nodes = !keeps).await;
        sweep(&managed).await;
        let host = managed.cluster.shape.host_guid([2, 2, 0], 0);
        assert!(managed.cluster.fabric.unlink(host, PortNum(1)));
        let path = format!("/v1/nodes?node={host}");
        managed.until(|| managed.get(&path).status == 404).await;
        sweep(&managed).await;
        let counters = managed.get(&format!("/v1/counters?node={host}"));
        assert_eq!(counters.status, if keeps { 200 } else { 404 });
        if keeps {
            assert_eq!(counters.json()["ports"][0]["active"], false);
            command(&managed, "clear_inactive").await;
            let gone = || managed.get(&format!("/v1/counters?node={host}")).status == 404;
            managed.until(gone).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirected_agents_are_asked_where_they_answer() {
    let managed = managed(|_| ()).await;
    let shape = &managed.cluster.shape;
    let fabric = &managed.cluster.fabric;
    let [host, other] = [[1, 1, 0], [2, 2, 0]].map(|at| shape.host_guid(at, 0));
    assert!(fabric.redirect_perf(host, other, PortNum(1), 0x123));
    run_line(fabric, "counters set h1-1/1 SymbolErrorCounter=7").expect("a counter");
    let errors = || {
        let reply = managed.json(&format!("/v1/counters?node={host}"));
        reply["ports"][0]["errors"]["symbol_err_cnt"].clone()
    };
    let report = sweep(&managed).await;
    assert_eq!(report["last_sweep"]["failed"], 0, "{report}");
    assert_eq!(errors(), 7);
    let [redirection] = &report["redirections"].as_array().expect("a list")[..] else {
        panic!("{report}")
    };
    assert_eq!(redirection["node"], host.to_string());
    assert_eq!(redirection["to_queue_pair"], 0x123);
    let lid = managed.json(&format!("/v1/nodes?node={other}"))["nodes"][0]["lids"][0].clone();
    assert_eq!(redirection["to_lid"], lid);
    // The agent is back at its node: what was known about it is forgotten.
    assert!(fabric.revive(host));
    let report = sweep(&managed).await;
    assert!(report["last_sweep"]["failed"].as_u64() > Some(0), "{report}");
    assert_eq!(report["redirections"], serde_json::json!([]));
    run_line(fabric, "counters set h1-1/1 SymbolErrorCounter=9").expect("a counter");
    let report = sweep(&managed).await;
    assert_eq!(report["last_sweep"]["failed"], 0, "{report}");
    assert_eq!(errors(), 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirections_are_not_followed_if_that_is_disabled() {
    let managed = managed(|options| options.perfmgr_redir = false).await;
    let shape = &managed.cluster.shape;
    let fabric = &managed.cluster.fabric;
    let [host, other] = [[1, 1, 0], [2, 2, 0]].map(|at| shape.host_guid(at, 0));
    assert!(fabric.redirect_perf(host, other, PortNum(1), 0x123));
    let report = sweep(&managed).await;
    assert_eq!(report["last_sweep"]["failed"], 1, "{report}");
    assert_eq!(report["redirections"], serde_json::json!([]));
}

//! Actions and their results.

use crate::client::Managed;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::SimCluster;
use torus_sm::config::options::Options;
use torus_sm::daemon::sm_loop::manager::Exit;
use torus_sm::wire::attr::AttrId;

/// Requests an action; returns the number of the last event before it.
fn accepted(managed: &Managed, action: &str, body: &str) -> u64 {
    let response = managed.post(&format!("/v1/actions/{action}"), body);
    assert_eq!(response.status, 202, "{}", response.body);
    let reply = response.json();
    assert_eq!(reply["accepted"], action);
    reply["after_event"].as_u64().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resweep_and_reroute_say_what_they_did() {
    let managed = Managed::start("3x3x1").await;
    let nodes = managed.cluster.topology.nodes.len() as u64;
    managed.cluster.fabric.reset_counters();
    let after = accepted(&managed, "resweep", "");
    let sweep = managed.event(after, "sweep_finished").await;
    assert_eq!((&sweep["sweep"], &sweep["causes"]), (&json!("heavy"), &json!(["request"])));
    let plan = managed.event(after, "reconfigured").await;
    assert_eq!((&plan["result"], &plan["causes"]), (&json!("up"), &json!(["request"])));
    assert!(managed.cluster.fabric.requests(AttrId::NODE_INFO)[0] >= nodes, "it read all nodes");
    managed.cluster.fabric.reset_counters();
    let after = accepted(&managed, "reroute", "{}");
    let plan = managed.event(after, "reconfigured").await;
    assert_eq!((&plan["result"], &plan["sets"]), (&json!("up"), &json!(0)), "nothing differs");
    assert_eq!(managed.cluster.fabric.requests(AttrId::NODE_INFO)[0], 0, "there was no sweep");
    let requested = managed.events(after).into_iter().find(|e| e["event"] == "action_requested");
    assert_eq!(requested.map(|event| event["action"].clone()), Some(json!("reroute")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reload_reports_errors_and_keeps_the_configuration() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let fails = Arc::new(AtomicBool::new(true));
    let (options, is_wrong) = (cluster.options(), fails.clone());
    let reloaded = Options { sm_priority: 7, ..options.clone() };
    let reload = move || match is_wrong.load(Ordering::Relaxed) {
        true => Err("opensm.conf:3:1: wrong".to_owned()),
        false => Ok(reloaded.clone().into()),
    };
    let managed = Managed::start_with(cluster, options, Box::new(reload)).await;
    let after = accepted(&managed, "reload", "");
    let event = managed.event(after, "config_rejected").await;
    assert_eq!(event["problem"], "opensm.conf:3:1: wrong");
    managed.until(|| !managed.json("/v1/status")["configuration"]["error"].is_null()).await;
    fails.store(false, Ordering::Relaxed);
    let after = accepted(&managed, "reload", "");
    managed.event(after, "config_reloaded").await;
    managed.until(|| managed.json("/v1/status")["sm"]["priority"] == 7).await;
    assert_eq!(managed.json("/v1/status")["configuration"]["error"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn priority_dump_and_exit_take_effect() {
    let managed = Managed::start("3x3x1").await;
    accepted(&managed, "priority", "{\"priority\": 9}");
    managed.until(|| managed.json("/v1/status")["sm"]["priority"] == 9).await;
    assert_eq!(managed.sm.portrait.borrow().sm_info().priority(), 9, "other SMs see it");
    let routes = managed.cluster.file("opensm-lfts.dump");
    assert!(!routes.exists(), "the log flags do not ask for it");
    accepted(&managed, "dump", "");
    managed.until(|| routes.exists()).await;
    accepted(&managed, "exit", "");
    let exit = tokio::time::timeout(crate::client::LIMIT, managed.sm.stop()).await;
    assert_eq!(exit, Ok(Exit::Clean));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn actions_that_are_not_possible_are_refused() {
    let managed = Managed::start("3x3x1").await;
    let refused = |action: &str, body: &str, status: u16, text: &str| {
        let response = managed.post(&format!("/v1/actions/{action}"), body);
        assert_eq!(response.status, status, "{action}: {}", response.body);
        assert!(response.error().contains(text), "{action}: {}", response.body);
    };
    refused("priority", "{\"priority\": 16}", 400, "16 is not 0 to 15");
    refused("priority", "{}", 400, "missing field `priority`");
    refused("resweep", "[]", 400, "takes no body");
    refused("loglevel", "{\"flags\": 3}", 409, "the log");
    refused("handover", "{\"to\": \"switch\"}", 400, "'switch' is not a GUID");
    refused("release", "{\"guid\": \"0x1\", \"port\": 0}", 400, "port 0 is not 1 to 254");
    refused(
        "release",
        "{\"guid\": \"0x1\", \"port\": 1}",
        409,
        "node 0x0000000000000001 is quarantined",
    );
    refused("shutdown", "", 404, "/v1/openapi.json");
    assert_eq!(managed.get("/v1/actions/exit").status, 405);
    assert!(managed.get("/v1/actions/exit").head.contains("allow: post"));
    // A HANDOVER without another SM is accepted and has no effect.
    accepted(&managed, "handover", "");
    accepted(&managed, "reroute", "");
    assert_eq!(managed.json("/v1/status")["sm"]["state"], "MASTER");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_hands_over_as_requested() {
    let managed = Managed::start("3x3x1").await;
    let options = managed.cluster.options();
    let standby = managed.cluster.start([1, 0, 0], options);
    managed.until(|| managed.json("/v1/status")["other_sms"][0]["state"] == "STANDBY").await;
    let guid = standby.portrait.borrow().guid;
    let unknown = accepted(&managed, "handover", "{\"to\": \"0x1\"}");
    accepted(&managed, "handover", &format!("{{\"to\": \"{guid}\"}}"));
    let role = managed.event(unknown, "role_changed").await;
    // The successor hands back to the better SM after its first sweep.
    assert_eq!(role["state"], "STANDBY");
}

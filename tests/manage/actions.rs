//! Actions and their results.

use crate::client::Managed;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::SimCluster;
use torus_sm::config::options::Options;
use torus_sm::daemon::sm_loop::run::Exit;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::wire::attr::{AttrId, SmState};

/// Requests an action; returns the number of the last event before it.
fn accepted(managed: &Managed, action: &str, body: &str) -> u64 {
    requested(managed, action, body)["after_event"].as_u64().expect("a number")
}

/// Requests an action; returns the reply.
fn requested(managed: &Managed, action: &str, body: &str) -> Value {
    let response = managed.post(&format!("/v1/actions/{action}"), body);
    assert_eq!(response.status, 202, "{}", response.body);
    let reply = response.json();
    assert_eq!(reply["accepted"], action);
    reply
}

/// The result of an action: what was done, or why it had no effect.
async fn result(managed: &Managed, action: &str, body: &str) -> Result<String, String> {
    let reply = requested(managed, action, body);
    let after = reply["after_event"].as_u64().expect("a number");
    let mut ended = Value::Null;
    managed
        .until(|| {
            let events = managed.events(after).into_iter();
            let is_result = |event: &Value| {
                ["action_done", "action_failed"].iter().any(|name| event["event"] == *name)
                    && event["request"] == reply["request"]
            };
            ended = events.into_iter().find(is_result).unwrap_or_default();
            !ended.is_null()
        })
        .await;
    assert_eq!(ended["action"], action);
    match ended["text"].as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(ended["problem"].as_str().expect("a reason").to_owned()),
    }
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
    let options = cluster.options();
    let is_wrong = fails.clone();
    let reloaded = Options { sm_priority: 7, ..options.clone() };
    let reload = move || {
        if is_wrong.load(Ordering::Relaxed) {
            Err("opensm.conf:3:1: wrong".to_owned())
        } else {
            Ok(reloaded.clone().into())
        }
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
    let done = result(&managed, "priority", "{\"priority\": 9}").await;
    assert_eq!(done.as_deref(), Ok("priority 9"));
    managed.until(|| managed.json("/v1/status")["sm"]["priority"] == 9).await;
    assert_eq!(managed.sm.portrait.borrow().sm_info().priority(), 9, "other SMs see it");
    let routes = managed.cluster.file("opensm-lfts.dump");
    assert!(!routes.exists(), "the log flags do not ask for it");
    let done = result(&managed, "dump", "").await.expect("the folder can be written");
    assert!(done.starts_with("dump files written to "), "{done}");
    let text = std::fs::read_to_string(&routes).expect("it is complete when the action is done");
    assert!(text.contains("0x0001"), "{text}");
    // The result of a dump that fails has the reason.
    std::fs::remove_file(&routes).expect("a file");
    std::fs::create_dir(&routes).expect("a folder in its place");
    let problem = result(&managed, "dump", "").await.expect_err("a folder is in the way");
    assert!(problem.contains("opensm-lfts.dump"), "{problem}");
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
        "no link at 0x0000000000000001[1] is quarantined",
    );
    refused(
        "quarantine",
        "{\"guid\": \"0x1\", \"port\": 1}",
        409,
        "0x0000000000000001[1] has no link",
    );
    refused("record", "{\"now\": 1}", 400, "takes no body");
    refused("shutdown", "", 404, "/v1/openapi.json");
    assert_eq!(managed.get("/v1/actions/exit").status, 405);
    assert!(managed.get("/v1/actions/exit").head.contains("allow: post"));
    let problem = result(&managed, "handover", "").await.expect_err("there is no other SM");
    assert!(problem.starts_with("there is no standby SM: start one"), "{problem}");
    let problem = result(&managed, "perfmgr", "{\"command\": \"sweep\"}").await;
    assert!(problem.is_err_and(|text| text.contains("'torus-sm perfmgr enable'")));
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
    let unknown = result(&managed, "handover", "{\"to\": \"0x1\"}").await;
    let unknown = unknown.expect_err("no SM");
    assert!(unknown.starts_with("there is no SM at port GUID 0x0000000000000001"), "{unknown}");
    // Of two SMs with priority 0, the lower port GUID wins.
    let body = format!("{{\"to\": \"{guid}\"}}");
    let lower = result(&managed, "handover", &body).await.expect_err("it would come back");
    assert!(lower.contains("would lose the next election"), "{lower}");
    assert_eq!(managed.sm.state(), SmState::Master, "nothing was sent");
    assert_eq!(
        result(&managed, "priority", "{\"priority\": 3}").await.as_deref(),
        Ok("priority 3")
    );
    let lower = result(&managed, "handover", "").await.expect_err("it would come back");
    assert!(lower.ends_with("raise the priority of the other"), "{lower}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handover_is_done_when_the_other_is_master() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    // A higher SM takes its role at once unless the master keeps it by a high priority as master.
    let options = Options { master_sm_priority: 14, ..cluster.options() };
    let managed = Managed::start_configured(cluster, options.clone(), |_| ()).await;
    let standby = managed.cluster.start([1, 0, 0], Options { sm_priority: 3, ..options });
    managed.until(|| managed.json("/v1/status")["other_sms"][0]["state"] == "STANDBY").await;
    let guid = standby.portrait.borrow().guid;
    let done = result(&managed, "handover", "").await.expect("it takes over");
    assert_eq!(done, format!("handed over to the SM at port GUID {guid}, which is MASTER now"));
    assert_eq!((standby.state(), managed.sm.state()), (SmState::Master, SmState::Standby));
    // The status of the standby shows the master as such.
    managed.until(|| managed.json("/v1/status")["other_sms"][0]["state"] == "MASTER").await;
    assert_eq!(managed.json("/v1/status")["other_sms"][0]["priority"], 14);
    let late = managed.post("/v1/actions/handover", "");
    assert!(late.error().contains("not master: its state is STANDBY"), "{late:?}");
}

/// Node GUIDs of the ends of the links in a reply of `/v1/quarantine`.
fn quarantined(managed: &Managed) -> Vec<Value> {
    managed.json("/v1/quarantine")["links"].as_array().expect("a list").clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_quarantines_a_link_and_releases_it() {
    let managed = Managed::start("4x4x1").await;
    let tables = managed.cluster.tables();
    let switch = managed.cluster.shape.switch_guid([1, 2, 0]);
    let body = format!("{{\"guid\": \"{switch}\", \"port\": 1}}");
    let after = accepted(&managed, "quarantine", &body);
    let event = managed.event(after, "link_quarantined").await;
    assert_eq!(event["reason"], "an operator requests it");
    assert_eq!(event["calm_seconds"], Value::Null);
    let plan = managed.event(after, "reconfigured").await;
    assert_eq!((&plan["result"], &plan["causes"]), (&json!("up"), &json!(["request"])));
    let links = quarantined(&managed);
    assert_eq!((links.len(), &links[0]["cause"]), (1, &json!("operator")), "{links:?}");
    assert!(managed.cluster.tables() != tables, "the link is not used");
    assert_eq!(managed.cluster.faults(&managed.sm), [""; 0]);
    let faults = managed.json("/v1/status")["device_faults"].to_string();
    assert!(faults.contains("quarantined by an operator; it is treated as down"), "{faults}");
    let again = managed.post("/v1/actions/quarantine", &body);
    assert_eq!((again.status, again.error().contains("has quarantined")), (409, true));
    // It stays so, whatever sweeps find.
    let after = accepted(&managed, "resweep", "");
    managed.event(after, "reconfigured").await;
    assert_eq!(quarantined(&managed), links);
    let after = accepted(&managed, "release", &body);
    managed.event(after, "link_released").await;
    managed.until(|| quarantined(&managed).is_empty()).await;
    managed.until(|| managed.cluster.tables() == tables).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loss_of_a_link_is_planned_and_nothing_is_written() {
    let managed = Managed::start("4x4x1").await;
    let tables = managed.cluster.tables();
    let before = managed.json("/v1/status")["routing"]["generation"].clone();
    let switch = managed.cluster.shape.switch_guid([1, 2, 0]);
    let after = accepted(&managed, "what-if", &format!("{{\"guid\": \"{switch}\", \"port\": 1}}"));
    let event = managed.event(after, "action_done").await;
    assert_eq!(event["action"], "what-if");
    let text = event["text"].as_str().expect("a text");
    for part in [
        "without the cable ",
        ": torus-2QoS routes the rest; verified, no credit loop; longest path ",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(text.contains("on one link, now "), "{text}");
    assert!(managed.cluster.tables() == tables);
    assert_eq!(managed.json("/v1/status")["routing"]["generation"], before);
    // The cable of a host.
    let host = managed.cluster.shape.host_guid([2, 2, 0], 0);
    let after = accepted(&managed, "what-if", &format!("{{\"guid\": \"{host}\", \"port\": 1}}"));
    let event = managed.event(after, "action_done").await;
    let text = event["text"].as_str().expect("a text");
    assert!(text.contains("1 node is CUT OFF: \"h2-2-0-0 HCA-1\" (LID "), "{text}");
    // That of this SM.
    let own = managed.cluster.shape.host_guid([0; 3], 0);
    let after = accepted(&managed, "what-if", &format!("{{\"guid\": \"{own}\", \"port\": 1}}"));
    let event = managed.event(after, "action_failed").await;
    let problem = event["problem"].as_str().expect("a text");
    assert!(problem.contains("this SM at port 1 of \"h0-0-0-0 HCA-1\" (LID "), "{problem}");
    assert!(
        problem.contains("would be cut off from all other nodes: its only cable leads to port "),
        "{problem}"
    );
    let after =
        accepted(&managed, "what-if", &format!("{{\"guid\": \"{switch}\", \"port\": 200}}"));
    let event = managed.event(after, "action_failed").await;
    assert!(event["problem"].to_string().contains("has no link"), "{event}");
}

/// The nodes that only a link reaches are named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_alone_leads_to_a_switch_is_told_with_what_is_behind_it() {
    let cluster = SimCluster::healthy("3x1x1", 1);
    let options = Options { routing_engine: Some("minhop".into()), ..cluster.options() };
    let same = options.clone();
    let managed =
        Managed::start_with(cluster, options, Box::new(move || Ok(same.clone().into()))).await;
    let [near, far] = [[0, 0, 0], [1, 0, 0]].map(|at| managed.cluster.shape.switch_guid(at));
    // Of the ring, a line is left: 0 - 2 - 1.
    let links = managed.cluster.fabric.links();
    let direct = links
        .iter()
        .find(|ends| ends.iter().any(|end| end.0 == near) && ends.iter().any(|end| end.0 == far));
    let [end, _] = *direct.expect("a cable");
    assert!(managed.cluster.fabric.unlink(end.0, end.1));
    managed.until(|| managed.json("/v1/fabric")["links"] == links.len() - 1).await;
    let is_last = |ends: &&[(Guid, PortNum); 2]| {
        ends.iter().any(|end| end.0 == far)
            && !ends.iter().any(|end| end.0 == near)
            && ends.iter().all(|end| !managed.cluster.hosts().any(|host| host == end.0))
    };
    let [end, _] = **links.iter().find(is_last).as_ref().expect("a cable");
    let body = format!("{{\"guid\": \"{}\", \"port\": {}}}", end.0, end.1);
    let after = accepted(&managed, "what-if", &body);
    let event = managed.event(after, "action_failed").await;
    let problem = event["problem"].as_str().expect("a text");
    assert!(problem.contains(", 2 nodes would be cut off"), "{problem}");
    for name in ["\"sw 1,0,0\" (LID ", "\"h1-0-0-0 HCA-1\" (LID "] {
        assert!(problem.contains(name), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_is_needed_is_not_quarantined() {
    let cluster = SimCluster::healthy("3x1x1", 1);
    let options = Options { routing_engine: Some("minhop".into()), ..cluster.options() };
    let same = options.clone();
    let managed =
        Managed::start_with(cluster, options, Box::new(move || Ok(same.clone().into()))).await;
    let host = managed.cluster.shape.host_guid([0; 3], 0);
    // The link of the SM itself.
    let body = format!("{{\"guid\": \"{host}\", \"port\": 1}}");
    let after = accepted(&managed, "quarantine", &body);
    let event = managed.event(after, "link_needed").await;
    assert_eq!(event["reason"], "an operator requests it");
    assert!(quarantined(&managed).is_empty());
    let sweep = accepted(&managed, "resweep", "");
    managed.event(sweep, "reconfigured").await;
    let events = managed.events(after);
    let needed = events.iter().filter(|event| event["event"] == "link_needed");
    assert_eq!(needed.count(), 1, "the request is dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recording_is_written_on_request() {
    let managed = Managed::start("3x3x1").await;
    let after = accepted(&managed, "record", "");
    let event = managed.event(after, "recording_written").await;
    assert_eq!(event["reason"], "operator");
    let path = event["path"].as_str().expect("a path");
    assert!(std::fs::metadata(path).is_ok_and(|file| file.len() > 1000), "{event}");
    let soon = managed.post("/v1/actions/record", "");
    assert_eq!((soon.status, soon.error().contains("less than 1 s ago")), (409, true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_recording_is_written_while_the_recorder_is_off() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = Options { recorder_size: 0, ..cluster.options() };
    let managed = Managed::start_configured(cluster, options, |_| ()).await;
    let off = managed.post("/v1/actions/record", "");
    assert_eq!((off.status, off.error().contains("set recorder_size")), (409, true), "{off:?}");
}

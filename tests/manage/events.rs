//! The stream of events.

use crate::client::Managed;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use testkit::SimCluster;
use torus_sm::config::options::Options;

/// Breaks a cable between switches; returns the GUID of one.
pub(crate) fn break_cable(managed: &Managed) -> torus_sm::ids::Guid {
    let links = managed.cluster.fabric.links();
    let switch = managed.cluster.shape.switch_guid([1, 1, 0]);
    let hosts: Vec<_> = managed.cluster.hosts().collect();
    let is_between = |ends: &&[(torus_sm::ids::Guid, torus_sm::ids::PortNum); 2]| {
        ends.iter().any(|end| end.0 == switch) && ends.iter().all(|end| !hosts.contains(&end.0))
    };
    let [end, _] = *links.iter().find(is_between).expect("a cable");
    assert!(managed.cluster.fabric.unlink(end.0, end.1));
    switch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_cable_is_told_from_the_trap_to_the_new_routes() {
    let managed = Managed::start("3x3x2").await;
    let start = managed.events(0);
    let names: Vec<&str> = start.iter().filter_map(|event| event["event"].as_str()).collect();
    for name in ["role_changed", "sweep_started", "sweep_finished", "reconfigured", "subnet_up"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert!(start.iter().zip(1..).all(|(event, number)| event["number"] == number));
    let last = start.len() as u64;
    let switch = break_cable(&managed).to_string();
    let lost = managed.event(last, "link_lost").await;
    let ends = lost["ends"].as_array().expect("two ends");
    assert!(ends.iter().any(|end| end["guid"] == switch), "{lost}");
    let trap = managed.event(last, "trap").await;
    assert_eq!(trap["number"], 128);
    let is_done = |event: &Value| event["event"] == "reconfigured" && event["result"] == "up";
    managed.until(|| managed.events(last).iter().any(is_done)).await;
    let events = managed.events(last);
    let plan = events.iter().find(|event| is_done(event)).expect("just found");
    assert!(plan["causes"].as_array().expect("causes").contains(&json!("trap")), "{plan}");
    assert!(plan["lft_blocks"].as_u64() > Some(0), "{plan}");
    let time = plan["trap_to_tables_seconds"].as_f64().expect("tables were written after a trap");
    assert!(time > 0.0 && time < 30.0, "{plan}");
    let status = managed.json("/v1/status");
    assert_eq!(
        status["reconfigurations"].as_array().expect("a list").last().unwrap()["result"],
        "up"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_follow_and_resume() {
    let managed = Managed::start("3x3x1").await;
    let last = managed.events(0).len() as u64;
    let (lines, resumed) = tokio::task::block_in_place(|| {
        let mut stream = managed.connect();
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n").expect("it reads");
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head).expect("a head");
        }
        assert!(head.to_lowercase().contains("content-type: text/event-stream"), "{head}");
        assert_eq!(managed.post("/v1/actions/resweep", "").status, 202);
        let mut lines = String::new();
        while !lines.contains("event: reconfigured\n") {
            assert_ne!(reader.read_line(&mut lines).expect("events"), 0, "{lines}");
        }
        let id = format!("last-event-id: {}\r\n", last + 1);
        let request = "GET /v1/events?follow=false HTTP/1.1\r\nhost: x\r\n";
        (lines, managed.raw(&format!("{request}{id}\r\n")))
    });
    assert!(lines.contains("event: action_requested\ndata: {"), "{lines}");
    assert!(lines.contains("event: sweep_finished\n"), "{lines}");
    assert!(lines.contains(&format!("id: {}\n", last + 1)), "{lines}");
    assert!(resumed.body.starts_with(&format!("id: {}\n", last + 2)), "{}", resumed.body);
    let wrong = managed.raw("GET /v1/events HTTP/1.1\r\nhost: x\r\nlast-event-id: x\r\n\r\n");
    assert_eq!((wrong.status, wrong.error()), (400, "Last-Event-ID is not a number".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_plan_names_causes_and_repairs() {
    let cluster = SimCluster::healthy("5x5x1", 1);
    let options = Options { torus_repair: false, ..cluster.options() };
    let managed = Managed::start_configured(cluster, options, |_| ()).await;
    let last = managed.events(0).len() as u64;
    // Two cables of a ring: a single one is routed around.
    for x in [0, 2] {
        let a = [x, 0, 0];
        let b = [x + 1, 0, 0];
        let guids = [a, b].map(|at| managed.cluster.shape.switch_guid(at));
        let links = managed.cluster.fabric.links();
        let is_it = |ends: &&[(torus_sm::ids::Guid, torus_sm::ids::PortNum); 2]| {
            ends.iter().all(|end| guids.contains(&end.0))
        };
        let [end, _] = *links.iter().find(is_it).expect("a cable");
        assert!(managed.cluster.fabric.unlink(end.0, end.1));
    }
    let status = |managed: &Managed| managed.json("/v1/status");
    let named = |managed: &Managed| {
        let status = status(managed);
        (status["refused"].is_object() || status["routing"]["failed"] != json!([]))
            .then_some(status)
    };
    managed.until(|| named(&managed).is_some()).await;
    let status = status(&managed);
    let text = format!("{}{}", status["refused"], status["routing"]["failed"]);
    assert!(text.contains("ring"), "{status}");
    managed.until(|| managed.events(last).iter().any(|event| event["event"] == "link_lost")).await;
}

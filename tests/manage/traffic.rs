//! The load of links under patterns of traffic: `/v1/traffic`, and the page that shows it.

use crate::browser::Browser;
use crate::client::Managed;
use crate::page::served_with;
use serde_json::Value;
use std::collections::BTreeMap;
use testkit::SimCluster;
use torus_sm::config::options::Options;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::ids::Sl;
use torus_sm::sim::generate::Shape;
use torus_sm::sim::{Forwarding, PacketClass, Traffic, TrafficPattern, Transport, VendorProfile};

const PATTERNS: [(&str, TrafficPattern); 3] = [
    ("pattern=all-to-all", TrafficPattern::AllToAll),
    ("pattern=shift&number=5", TrafficPattern::Shift(5)),
    ("pattern=hot-spot&number=3", TrafficPattern::HotSpot(3)),
];

async fn managed() -> Managed {
    let shape = Shape { hosts: 1, parallel: 2, ..Shape::torus([4, 4, 1]) };
    let cluster = SimCluster::new(shape, Hardware::default(), 1);
    let profile: VendorProfile = "mlnx:adaptive-routing-revised,out-of-order".parse().expect("it");
    cluster.fabric.set_vendor_profiles(profile);
    let routing_engine = Some("ar_torus,no_fallback".to_owned());
    let options = Options { routing_engine, ..cluster.options() };
    let managed = served_with(cluster, options).await;
    let is_on = || {
        let adaptive = managed.json("/v1/adaptive");
        let switches = adaptive["switches"].as_array().cloned().unwrap_or_default();
        switches.len() == 16 && switches.iter().all(|switch| switch["state"] == "on")
    };
    managed.until(is_on).await;
    managed
}

/// The loads of a reply that are not 0, by the end that sends.
fn loads(reply: &Value, by: &str) -> BTreeMap<(String, u64), f64> {
    let links = reply["links"].as_array().expect("links");
    let ends = links.iter().flat_map(|link| {
        [0, 1].map(|end| {
            let name = &link["ends"][end];
            let guid = name["guid"].as_str().expect("a GUID").to_owned();
            let load = link[by][end].as_f64().expect("a load");
            ((guid, name["port"].as_u64().expect("a port")), load)
        })
    });
    ends.filter(|(_, load)| *load > 0.0).collect()
}

/// The static loads are those of packets in the simulator; adaptive ones have the same sum, and the least
/// maximum that two cables to each neighbour allow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_are_those_of_packets() {
    let managed = managed().await;
    for (query, pattern) in PATTERNS {
        let reply = managed.json(&format!("/v1/traffic?{query}"));
        let packet = PacketClass { transport: Transport::Connection, sl: Sl(0) };
        let traffic = Traffic { pattern, packets: 1, packet, seed: 1 };
        let sent = managed.cluster.fabric.send_traffic(&traffic, Forwarding::Plain);
        let walked = sent.loads.iter();
        let walked: BTreeMap<(String, u64), f64> = walked
            .map(|(end, load)| ((end.0.to_string(), u64::from(end.1.0)), *load as f64))
            .collect();
        let by_static = loads(&reply, "by_static");
        assert_eq!(by_static, walked, "{query}");
        assert_eq!(reply["busiest_static"], sent.highest() as f64, "{query}");
        let by_adaptive = loads(&reply, "by_adaptive");
        let sums = [&by_static, &by_adaptive].map(|loads| loads.values().sum::<f64>());
        assert!((sums[0] - sums[1]).abs() < 1e-6, "{query}: {sums:?}");
        let busiest = reply["busiest_adaptive"].as_f64().expect("adaptive routing is on");
        assert!(busiest <= sent.highest() as f64, "{query}: {busiest}");
    }
    // A random destination is each other one at the same rate.
    let uniform = managed.json("/v1/traffic?pattern=uniform");
    let all = managed.json("/v1/traffic?pattern=all-to-all");
    let scaled = uniform["busiest_static"].as_f64().expect("a load") * 15.0;
    assert!((scaled - all["busiest_static"].as_f64().expect("a load")).abs() < 1e-6);
    assert_eq!(uniform["hosts"], 16);
    let problem = managed.get("/v1/traffic?pattern=tornado");
    assert_eq!(problem.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_colours_links_by_the_load_of_a_pattern() {
    let managed = managed().await;
    let shift = managed.json("/v1/traffic?pattern=shift");
    tokio::task::block_in_place(|| {
        let Some(mut browser) = Browser::open(managed.url()) else { return };
        browser.wait_for("counts", "16 switches");
        for mode in ["static", "adaptive"] {
            browser.evaluate(&format!(
                "(() => {{ const select = byId('colour'); \
                 select.value = 'traffic/shift/by_{mode}'; \
                 select.dispatchEvent(new Event('change')); }})()"
            ));
            let busiest = shift[format!("busiest_{mode}")].as_f64().expect("a load");
            browser.wait_for("legend", &format!("{busiest:.1} flows"));
        }
        browser.screenshot("traffic");
        assert_eq!(browser.exceptions(), [""; 0]);
    });
}

//! Routes around damage in status, metrics, events and on the page.

use crate::client::Managed;
use serde_json::Value;
use testkit::SimCluster;
use torus_sm::ids::PortNum;

fn metric(managed: &Managed, name: &str) -> f64 {
    let metrics = managed.get("/metrics").body;
    let mut values = metrics.lines().filter_map(|line| line.strip_prefix(&format!("{name} ")));
    values.next_back().expect(name).parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_is_shown_from_its_begin_to_its_end() {
    let cluster = SimCluster::healthy("6x6x1", 1);
    let dead = [[1, 2, 0], [4, 4, 0], [3, 1, 0]].map(|at| cluster.shape.switch_guid(at));
    let options = cluster.options();
    let managed = Managed::start_configured(cluster, options, |_| ()).await;
    let repair = || managed.json("/v1/status")["routing"]["repair"].clone();
    let events = |kind: &str| -> Vec<Value> {
        managed.events(0).into_iter().filter(|event| event["event"] == kind).collect()
    };
    assert!(repair().is_null());
    assert_eq!(metric(&managed, "torus_sm_routes_repaired"), 0.0);
    for (number, &switch) in dead.iter().enumerate() {
        (1..=4).for_each(|num| assert!(managed.cluster.fabric.unlink(switch, PortNum(num))));
        if number > 0 {
            let missing = format!("{} switches are missing", number + 1);
            let has_it = || repair()["summary"].as_str().is_some_and(|it| it.contains(&missing));
            managed.until(has_it).await;
        } else {
            managed.until(|| managed.json("/v1/status")["fabric"]["switches"] == 35).await;
        }
    }
    let view = repair();
    let number = |name: &str| view[name].as_f64().expect(name);
    assert_eq!(number("pairs"), (33 * 32) as f64);
    assert_eq!((number("unrouted"), &view["restored_by"]), (0.0, &serde_json::json!([])));
    assert!(number("detours") > 0.0, "{view}");
    assert!(number("mean_hops") >= number("mean_undamaged_hops"), "{view}");
    assert!(number("longest_hops") >= number("mean_hops"), "{view}");
    // The numbers are those of the summary.
    let summary = view["summary"].as_str().expect("text");
    let lengths = format!(
        "(mean {:.1} hops instead of {:.1}, longest {})",
        number("mean_hops"),
        number("mean_undamaged_hops"),
        number("longest_hops")
    );
    assert!(summary.contains(&lengths), "{summary}: {lengths}");
    assert_eq!(metric(&managed, "torus_sm_routes_repaired"), 1.0);
    assert_eq!(metric(&managed, "torus_sm_repair_detours"), number("detours"));
    assert_eq!(metric(&managed, "torus_sm_repair_longest_hops"), number("longest_hops"));
    assert_eq!(metric(&managed, "torus_sm_repair_unrouted_pairs"), 0.0);
    assert_eq!(metric(&managed, "torus_sm_unrouted_host_pairs"), 0.0);
    // Each hop of a detour is a use of a cable.
    let cables = managed.json("/v1/torus")["detour_cables"].as_array().expect("cables").clone();
    let uses = |cable: &Value| ["detours", "detours_back"].map(|way| cable[way].as_u64());
    let uses: u64 = cables.iter().flat_map(uses).map(|count| count.expect("a number")).sum();
    let hops = number("mean_hops") * number("detours");
    assert!((uses as f64 - hops).abs() < 0.5, "{uses} uses, {hops} hops");
    managed.until(|| !events("repair_changed").is_empty()).await;
    let changed = events("repair_changed").pop().expect("an event");
    assert_eq!((&changed["summary"], &changed["detours"]), (&view["summary"], &view["detours"]));
    assert_eq!(events("repair_began").len(), 1);
    assert_eq!(events("repair_ended").len(), 0);
    for switch in dead {
        (1..=4).for_each(|num| assert!(managed.cluster.fabric.relink(switch, PortNum(num))));
    }
    managed.until(|| !events("repair_ended").is_empty()).await;
    assert_eq!(managed.json("/v1/torus")["detour_cables"], serde_json::json!([]));
    assert!(repair().is_null());
    assert_eq!(metric(&managed, "torus_sm_routes_repaired"), 0.0);
}

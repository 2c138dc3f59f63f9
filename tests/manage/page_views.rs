//! How the page shows the state of the fabric: incidents, selected links, fat trees, phones, age of data.

use crate::browser::Browser;
use crate::client::Managed;
use crate::events::break_cable;
use crate::page::{served, served_with};
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use testkit::SimCluster;
use torus_sm::config::options::Options;
use torus_sm::ids::PortNum;
use torus_sm::manage::server::network::NetworkConfig;
use torus_sm::sim::generate::FabricShape;

/// A script that calls `canvas`' place of the middle of the first link of a kind.
const FIRST_SWITCH_LINK: &str =
    "model.links.find((link) => link.nodes.every((node) => node.kind === 'switch'))";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incidents_are_shown_and_lead_to_their_places() {
    let managed = served(SimCluster::healthy("4x4x1", 2)).await;
    let dead = managed.cluster.shape.switch_guid([2, 2, 0]);
    tokio::task::block_in_place(|| {
        let Some(mut browser) = Browser::open(managed.url()) else { return };
        browser.wait_for("counts", "16 switches");
        browser.wait_for("incidents", "the fabric is well");
        assert_eq!(browser.evaluate("document.getElementById('loading').hidden"), true);
        assert_eq!(browser.evaluate("document.getElementById('worst').hidden"), true);
        browser.screenshot("healthy");
        for num in 1..=8 {
            managed.cluster.fabric.unlink(dead, PortNum(num));
        }
        browser.wait_for("incidents", "is lost, with 2 hosts");
        browser.wait_for("worst", "check the power of the switch");
        browser.wait_for("role", "degraded (1)");
        browser.wait_for("counts", "lost");
        browser.screenshot("faulty");
        // The key shows the place of the first incident.
        let before = browser.evaluate("drawing.view()");
        browser.press("i");
        let after = browser.evaluate("drawing.view()");
        assert!(after["scale"].as_f64() > before["scale"].as_f64(), "{before} {after}");
        browser.screenshot("incident");
        browser.press("0");
        browser.prefer_dark(true);
        browser.evaluate("new Promise((done) => setTimeout(done, 200))");
        browser.screenshot("dark");
        // A page that is loaded later knows the place of the lost switch all the same.
        browser.evaluate("location.reload()");
        browser.wait_for("incidents", "is lost, with 2 hosts");
        browser.wait_for("counts", "lost");
        let places = browser.evaluate("[...model.lostPlaces.values()].map(String).join()");
        assert_eq!(places, "2,2,0");
        assert_eq!(browser.exceptions(), [""; 0]);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_selected_link_has_state_and_counters() {
    let managed = served(SimCluster::healthy("4x4x1", 1)).await;
    managed.until(|| !managed.json("/v1/ports")["ports"][1]["counters"].is_null()).await;
    tokio::task::block_in_place(|| {
        let Some(mut browser) = Browser::open(managed.url()) else { return };
        browser.wait_for("counts", "16 switches");
        browser.evaluate(&format!("selectLink({FIRST_SWITCH_LINK})"));
        browser.wait_for("selected", "ACTIVE, LinkUp");
        let text = browser.wait_for("selected", "Errors");
        assert!(!text.contains("Quarantine"), "there is no token: {text}");
        // The link under the pointer is the one that is drawn there.
        let found = browser.evaluate(&format!(
            "(() => {{ const link = {FIRST_SWITCH_LINK}; const [x, y] = drawing.middleOf(link); \
             return drawing.linkAt(x, y).key === link.key; }})()"
        ));
        assert_eq!(found, true);
        browser.screenshot("link");
        let switch = break_cable(&managed);
        browser.wait_for("incidents", "is lost");
        let lost = format!(
            "selectLink([...model.lost.values()].find((l) => l.ends.some((e) => e.guid === '{switch}')))"
        );
        browser.evaluate(&format!(
            "new Promise((done) => {{ const wait = () => model.lost.size ? done() : setTimeout(wait, 50); wait(); }})\
             .then(() => {lost})"
        ));
        browser.wait_for("selected", "lost");
        assert_eq!(browser.exceptions(), [""; 0]);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loss_of_a_selected_link_is_planned_before_it_is_pulled() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let options = cluster.options();
    let token = cluster.file("token");
    std::fs::write(&token, "a-token-of-some-length\n").expect("a file");
    std::fs::set_permissions(&token, Permissions::from_mode(0o600)).expect("our file");
    let managed = Managed::start_configured(cluster, options, |config| {
        let address = "127.0.0.1:0".parse().expect("an address");
        config.network = Some(NetworkConfig { address, token_file: Some(token), tls: None });
    })
    .await;
    tokio::task::block_in_place(|| {
        let url = format!("{}#token=a-token-of-some-length", managed.url());
        let Some(mut browser) = Browser::open(&url) else { return };
        browser.wait_for("counts", "16 switches");
        browser.evaluate(&format!("selectLink({FIRST_SWITCH_LINK})"));
        browser.wait_for("selected", "What if it is pulled?");
        browser.evaluate(
            "[...document.querySelectorAll('#selected button')].find((b) => b.textContent.startsWith('What')).click()",
        );
        let text = browser.wait_for("selected", "verified, no credit loop");
        assert!(text.contains("torus-2QoS routes the rest"), "{text}");
        browser.screenshot("what-if");
        assert_eq!(browser.exceptions(), [""; 0]);
    });
}

/// The label of the SM covers no title and no number of a plane.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_of_managers_leave_the_titles_of_planes_free() {
    let managed = served(SimCluster::healthy("4x4x8", 1)).await;
    tokio::task::block_in_place(|| {
        let Some(mut browser) = Browser::open(managed.url()) else { return };
        browser.wait_for("counts", "128 switches");
        let overlaps = browser.evaluate(
            "(() => { const places = drawing.labelPlaces(); return drawing.titleBoxes().filter((box) => \
             places.some(([x, y, width, height]) => x < box[2] && x + width > box[0] && y < box[3] && y + height > box[1])).length \
             + 100 * (places.length !== 1); })()",
        );
        assert_eq!(overlaps, 0);
        let above = browser.evaluate("labelPlace([50, 50], 20, [[60, 50, 100, 70]]).join()");
        assert_eq!(above, "58,31");
        browser.screenshot("planes");
        assert_eq!(browser.exceptions(), [""; 0]);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fat_tree_is_drawn_in_rows() {
    let shape: FabricShape = "fattree:8x3".parse().expect("a shape");
    let topology = shape.build().expect("it fits");
    let torus = "3x3x1".parse().expect("a shape");
    let cluster = SimCluster::wired(torus, topology, Default::default(), 1);
    let options = Options { routing_engine: Some("ftree".to_owned()), ..cluster.options() };
    let managed = served_with(cluster, options).await;
    tokio::task::block_in_place(|| {
        let Some(mut browser) = Browser::open(managed.url()) else { return };
        browser.wait_for("counts", "11 switches");
        browser.wait_for("engine", "ftree");
        let rows = browser.evaluate("drawing.rows()");
        let titles: Vec<&str> =
            rows.as_array().expect("rows").iter().filter_map(|row| row[1].as_str()).collect();
        assert_eq!(titles.len(), 2, "{titles:?}");
        assert!(titles[0].starts_with("switches with hosts: "), "{titles:?}");
        browser.screenshot("fat-tree");
        assert_eq!(browser.exceptions(), [""; 0]);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_phone_shows_the_drawing_above_the_lists() {
    let managed = served(SimCluster::healthy("4x4x1", 1)).await;
    let switch = break_cable(&managed);
    managed.until(|| managed.json("/v1/incidents")["open"][0].is_object()).await;
    tokio::task::block_in_place(|| {
        let Some(mut browser) = Browser::open(managed.url()) else { return };
        browser.become_phone();
        browser.wait_for("counts", "16 switches");
        browser.wait_for("worst", "is lost");
        // The cable was lost before the page was loaded.
        browser.wait_for("counts", "1 lost");
        let overflow = browser.evaluate("document.documentElement.scrollWidth - window.innerWidth");
        assert!(overflow.as_i64().is_some_and(|pixels| pixels <= 0), "{overflow}");
        browser.evaluate("drawing.fit()");
        browser.evaluate("new Promise((done) => setTimeout(done, 200))");
        browser.screenshot("phone");
        assert_eq!(browser.exceptions(), [""; 0], "{switch}");
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_data_is_greyed() {
    let managed = served(SimCluster::healthy("3x3x1", 1)).await;
    tokio::task::block_in_place(|| {
        let Some(mut browser) = Browser::open(managed.url()) else { return };
        browser.wait_for("counts", "9 switches");
        assert_eq!(browser.evaluate("document.body.classList.contains('stale')"), false);
        // The daemon does not answer any more.
        browser.evaluate("window.fetch = () => Promise.reject(new Error('no connection'))");
        browser.wait_for("age", "data of ");
        let is_stale: Value = browser.evaluate("document.body.classList.contains('stale')");
        assert_eq!(is_stale, true);
        browser.screenshot("stale");
    });
}

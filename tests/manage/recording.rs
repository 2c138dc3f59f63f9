//! Recordings on the page: the daemon's own one, an uploaded one, and a document without a daemon.

use crate::browser::Browser;
use crate::client::Managed;
use crate::events::break_cable;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use testkit::SimCluster;
use torus_sm::ids::PortNum;
use torus_sm::manage::server::network::NetworkConfig;

const TOKEN: &str = "a-token-of-some-length";

/// A daemon whose page may act, on a torus of which a cable was lost.
async fn damaged(shape: &str) -> Managed {
    let cluster = SimCluster::healthy(shape, 1);
    let options = cluster.options();
    let token = cluster.file("token");
    fs::write(&token, format!("{TOKEN}\n")).expect("a file");
    fs::set_permissions(&token, Permissions::from_mode(0o600)).expect("our file");
    let managed = Managed::start_configured(cluster, options, |config| {
        let address = "127.0.0.1:0".parse().expect("an address");
        config.network = Some(NetworkConfig { address, token_file: Some(token), tls: None });
    })
    .await;
    break_cable(&managed);
    managed.until(|| managed.json("/v1/incidents")["open"][0].is_object()).await;
    managed.until(|| managed.json("/v1/torus")["missing_cables"][0].is_object()).await;
    managed
}

/// The index of the first and the last frame whose state, written by an expression of `frame`, holds.
fn frames_with(browser: &mut Browser, condition: &str) -> Vec<usize> {
    let found = browser.evaluate(&format!(
        "recording.frames().map((frame, index) => [frame, index]).filter(([frame]) => {condition}).map(([, index]) => index)"
    ));
    let found = found.as_array().expect("indices").iter();
    found.filter_map(Value::as_u64).map(|index| index as usize).collect()
}

fn slide_to(browser: &mut Browser, index: usize) {
    browser.evaluate(&format!(
        "(() => {{ const slider = document.getElementById('recording-slider'); slider.value = {index}; \
         slider.dispatchEvent(new Event('input')); }})()"
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_minutes_are_played_with_a_slider() {
    let managed = damaged("4x4x2").await;
    let links = managed.cluster.topology.cables.len();
    tokio::task::block_in_place(|| {
        let url = format!("{}#token={TOKEN}", managed.url());
        let Some(mut browser) = Browser::open(&url) else { return };
        browser.wait_for("counts", &format!("{} links, 1 lost", links - 1));
        browser.evaluate("document.getElementById('recording-own').click()");
        browser.wait_for("role", "RECORDING");
        browser.wait_for("recording-time", " UTC");
        assert!(browser.text("incidents").contains("is lost"), "{}", browser.text("incidents"));
        browser.wait_for("counts", &format!("{} links, 1 lost", links - 1));
        browser.wait_for("faults", "lost link");
        browser.screenshot("recording-lost");
        let whole = frames_with(&mut browser, "frame.plan === 0 && !frame.incidents.length");
        slide_to(&mut browser, *whole.first().expect("the fabric was whole"));
        browser.wait_for("counts", &format!("32 switches, 32 hosts, {links} links"));
        assert!(!browser.text("counts").contains("lost"), "{}", browser.text("counts"));
        browser.wait_for("incidents", "none");
        browser.wait_for("engine", "torus-2QoS");
        browser.wait_for("legend", "LIDs");
        let programmed = frames_with(&mut browser, "frame.sets.LinearForwardingTable > 0");
        slide_to(&mut browser, programmed[0]);
        browser.wait_for("recording-event", "LinearForwardingTable");
        browser.screenshot("recording-whole");
        browser.evaluate("selectLink(model.links[0])");
        browser.wait_for("selected", "State");
        browser.evaluate("document.getElementById('recording-close').click()");
        browser.wait_for("role", "MASTER");
        browser.wait_for("counts", "1 lost");
        assert_eq!(browser.evaluate("document.body.classList.contains('recorded')"), false);
        assert_eq!(browser.exceptions(), [""; 0]);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_are_read_or_rejected_with_the_reason() {
    let managed = damaged("3x3x1").await;
    let bytes = managed.sm.recordings.contents("a test").expect("a recording");
    tokio::task::block_in_place(|| {
        let url = format!("{}#token={TOKEN}", managed.url());
        let Some(mut browser) = Browser::open(&url) else { return };
        browser.wait_for("counts", "1 lost");
        browser.evaluate("recording.load(new Blob(['opensm log']))");
        let problem = browser.wait_for("recording-problem", "not shown");
        assert!(
            problem.ends_with("the recording: byte 0: this is not a recording of torus-sm"),
            "{problem}"
        );
        let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
        browser.evaluate(&format!(
            "recording.load(new Blob([new Uint8Array([{}])]))",
            numbers.join(",")
        ));
        browser.wait_for("recording-about", "; a test");
        browser.evaluate("document.getElementById('recording-play').click()");
        browser.wait_for("recording-play", "Pause");
        // It begins anew, and the first frames follow each other.
        browser.wait_for("recording-place", "2 of ");
        browser.evaluate("document.getElementById('recording-play').click()");
        browser.wait_for("recording-play", "Play");
        assert_eq!(browser.exceptions(), [""; 0]);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_plays_without_a_daemon() {
    let managed = damaged("4x4x1").await;
    let far = managed.cluster.shape.switch_guid([3, 3, 0]);
    for port in 1..=5 {
        managed.cluster.fabric.unlink(far, PortNum(port));
    }
    managed.until(|| managed.json("/v1/fabric")["switches"] == 15).await;
    managed.until(|| managed.json("/v1/incidents").to_string().contains("lost_switch")).await;
    let bytes = managed.sm.recordings.contents("a lost switch").expect("a recording");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lost.recording");
    fs::write(&file, bytes).expect("a file");
    let program = env!("CARGO_BIN_EXE_torus-sm");
    let page = Command::new(program).args(["replay", "--page"]).arg(&file).output();
    let page = page.expect("the program").stdout;
    let document = folder.path().join("page.html");
    fs::write(&document, page).expect("a file");
    drop(managed);
    tokio::task::block_in_place(|| {
        let Some(mut browser) = Browser::open(&format!("file://{}", document.display())) else {
            return;
        };
        browser.wait_for("role", "RECORDING");
        browser.wait_for("counts", "15 switches, 15 hosts");
        browser.wait_for("incidents", "\"sw 3,3,0\"");
        browser.screenshot("recording-document");
        // Backwards, forwards.
        slide_to(&mut browser, 0);
        browser.evaluate("document.getElementById('recording-next').click()");
        browser.wait_for("recording-place", "2 of ");
        assert_eq!(browser.evaluate("document.getElementById('recording-close').hidden"), true);
        assert_eq!(browser.exceptions(), [""; 0]);
    });
}

/// The endpoint needs a token, one recording is replayed at a time, and the recorder may be off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_endpoint_tells_why_it_does_not_replay() {
    let managed = damaged("3x3x1").await;
    let replayed = managed.post("/v1/replay", "");
    assert_eq!(replayed.status, 200, "{}", replayed.body);
    let view = replayed.json();
    let frames = view["frames"].as_array().expect("frames");
    assert!(frames.len() > 2 && frames.iter().all(|frame| frame["time"].is_string()), "{view}");
    let rejected = managed.post("/v1/replay", "torus-sm recording\n\u{9}");
    assert_eq!(rejected.status, 400);
    assert!(rejected.body.contains("the format has version 9"), "{}", rejected.body);
    assert_eq!(managed.get("/v1/replay").status, 405);
}

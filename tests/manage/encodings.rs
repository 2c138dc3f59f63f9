//! HEAD, compressed replies, and filters.

use crate::client::Managed;
use flate2::read::GzDecoder;
use serde_json::Value;
use std::io::{Read as _, Write as _};

/// The bytes of a reply: its head in lower case, and its body.
fn bytes(managed: &Managed, request: &str) -> (String, Vec<u8>) {
    tokio::task::block_in_place(|| {
        let mut stream = managed.connect();
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).expect("the server closes the connection");
        let end = reply.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let body = reply.split_off(end + 4);
        (String::from_utf8(reply).expect("text").to_lowercase(), body)
    })
}

fn request(method: &str, path: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{more}\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn head_is_answered_without_a_body() {
    let managed = Managed::start("3x3x1").await;
    for path in ["/", "/v1/status", "/v1/nodes", "/metrics", "/v1/events", "/healthz"] {
        let (head, body) = bytes(&managed, &request("HEAD", path, ""));
        assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
        assert!(head.contains("\r\ncontent-type: "), "{path}: {head}");
        assert!(body.is_empty(), "{path}: {body:?}");
    }
    let (head, body) = bytes(&managed, &request("HEAD", "/v1/nothing", ""));
    assert!(head.starts_with("http/1.1 404") && body.is_empty(), "{head}");
    let (head, _) = bytes(&managed, &request("HEAD", "/v1/actions/resweep", ""));
    assert!(head.starts_with("http/1.1 405"), "{head}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_replies_are_compressed_for_clients_that_accept_it() {
    let managed = Managed::start("6x6x1").await;
    let (plain_head, plain) = bytes(&managed, &request("GET", "/v1/ports", ""));
    assert!(!plain_head.contains("content-encoding"), "{plain_head}");
    let accept = "accept-encoding: gzip, br\r\n";
    let (head, body) = bytes(&managed, &request("GET", "/v1/ports", accept));
    assert!(head.contains("\r\ncontent-encoding: gzip\r\n"), "{head}");
    assert!(head.contains("\r\nvary: accept, accept-encoding\r\n"), "{head}");
    assert!(head.contains(&format!("\r\ncontent-length: {}\r\n", body.len())), "{head}");
    assert!(body.len() * 4 < plain.len(), "{} of {} bytes", body.len(), plain.len());
    let mut restored = Vec::new();
    GzDecoder::new(&body[..]).read_to_end(&mut restored).expect("gzip");
    let values = [plain, restored].map(|body| serde_json::from_slice::<Value>(&body));
    let [plain, restored] = values.map(|value| value.expect("JSON"));
    assert_eq!(plain, restored);
    let (head, _) = bytes(&managed, &request("GET", "/healthz", accept));
    assert!(!head.contains("content-encoding"), "{head}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_events_are_filtered() {
    let managed = Managed::start("3x3x1").await;
    let count = |path: &str| managed.json(path)["nodes"].as_array().map(Vec::len);
    assert_eq!(count("/v1/nodes?kind=switch"), Some(9));
    assert_eq!(count("/v1/nodes?kind=ca"), Some(9));
    assert_eq!(count("/v1/nodes?kind=router"), Some(0));
    for path in ["/v1/nodes?kind=x", "/v1/incidents?severity=x", "/v1/incidents?kind=x"] {
        assert_eq!(managed.get(path).status, 400, "{path}");
    }
    let open = managed.json("/v1/incidents?severity=critical&kind=lost_switch");
    assert_eq!(open["open"].as_array().map(Vec::len), Some(0));
    let all = managed.events(0);
    let accept = "accept: application/x-ndjson\r\n";
    let path = "/v1/events?after=0&follow=false&event=role_changed,reconfigured";
    let reply = managed.raw(&request("GET", path, accept));
    let names: Vec<Value> = reply
        .body
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["event"].clone())
        .collect();
    let is_wanted = |name: &Value| *name == "role_changed" || *name == "reconfigured";
    let wanted = all.iter().filter(|event| is_wanted(&event["event"])).count();
    assert!(wanted > 0 && wanted < all.len(), "{all:?}");
    assert!(names.len() >= wanted && names.iter().all(is_wanted), "{names:?}");
}

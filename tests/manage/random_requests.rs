//! Random requests: each is answered or refused, and the daemon goes on.

use crate::client::{Managed, Response};
use crate::page::served;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use testkit::SimCluster;

/// Requests to change.
const SEEDS: [&str; 6] = [
    "GET /v1/status HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    "GET /v1/routes?from=1&to=2&sl=3 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    "GET /v1/events?after=0&follow=false HTTP/1.1\r\nhost: 127.0.0.1\r\nlast-event-id: 3\r\n\r\n",
    "GET /v1/counters?node=0x1&port=2&errors_only=true&format=opensm HTTP/1.1\r\nhost: [::1]\r\n\r\n",
    "POST /v1/actions/loglevel HTTP/1.1\r\nhost: localhost\r\ncontent-length: 11\r\n\r\n{\"flags\":3}",
    "POST /v1/actions/perfmgr HTTP/1.1\r\nhost: localhost\r\ncontent-length: 26\r\n\r\n\
     {\"command\":\"sweep_time 9\"}",
];

/// A change of a request: bytes from a place on are replaced, inserted or left out.
#[derive(Clone, Debug)]
struct Change {
    at: prop::sample::Index,
    removed: usize,
    inserted: Vec<u8>,
}

fn change() -> impl Strategy<Value = Change> {
    let words: Vec<Vec<u8>> =
        ["\r\n", "\0", " ", "%", "?", "&", "=", "0x", "\"", "{", "65536", "\u{e9}"]
            .iter()
            .map(|word| word.as_bytes().to_vec())
            .collect();
    let inserted = prop_oneof![
        prop::sample::select(words),
        prop::collection::vec(any::<u8>(), 0..6),
        Just(vec![b'a'; 20_000]),
    ];
    (any::<prop::sample::Index>(), 0_usize..12, inserted)
        .prop_map(|(at, removed, inserted)| Change { at, removed, inserted })
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec(change(), 1..4);
    (prop::sample::select(SEEDS.to_vec()), changes).prop_map(|(seed, changes)| {
        let mut text = seed.as_bytes().to_vec();
        for Change { at, removed, inserted } in changes {
            let at = at.index(text.len() + 1);
            let end = (at + removed).min(text.len());
            text.splice(at..end, inserted);
        }
        text
    })
}

/// Time for a reply: requests that are incomplete get none in it.
const REPLY_TIME: Duration = Duration::from_millis(250);

/// Status of the reply; 0 without one.
fn status(mut stream: impl Read + Write, request: &[u8]) -> u16 {
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(request);
    Response::read(LossyText(stream)).status
}

/// A stream whose bytes above 127 are replaced, as replies may quote parts of a request.
struct LossyText<S>(S);

impl<S: Read> Read for LossyText<S> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.0.read(buffer)?;
        buffer[..length].iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'?');
        Ok(length)
    }
}

fn ask_unix(managed: &Managed, request: &[u8]) -> u16 {
    let stream = managed.connect();
    stream.set_read_timeout(Some(REPLY_TIME)).expect("a limit");
    status(stream, request)
}

fn ask_tcp(managed: &Managed, request: &[u8]) -> u16 {
    let address = managed.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(REPLY_TIME)).expect("a limit");
    status(stream, request)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_requests_are_answered_or_refused() {
    let managed = served(SimCluster::healthy("3x3x1", 1)).await;
    let mut runner = TestRunner::new(Config { cases: 120, ..Config::default() });
    tokio::task::block_in_place(|| {
        let ran = runner.run(&request(), |request| {
            for status in [ask_unix(&managed, &request), ask_tcp(&managed, &request)] {
                prop_assert!(
                    [0, 200, 202, 400, 403, 404, 405, 408, 409, 413, 431, 414, 501, 503, 505]
                        .contains(&status),
                    "{}",
                    status
                );
            }
            Ok(())
        });
        ran.unwrap_or_else(|problem| panic!("{problem}"));
    });
    assert_eq!(managed.json("/v1/status")["sm"]["subnet_up"], true);
}

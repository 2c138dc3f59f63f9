//! Clients that send garbage, too much, too slowly or nothing: the daemon goes on, and other
//! clients are served.

use crate::client::{LIMIT, Managed, Response};
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_and_excess_are_refused() {
    let managed = Managed::start("3x3x1").await;
    for (request, status) in [
        ("\r\n\r\n\r\n".to_owned() + &"\u{0}".repeat(100), 400),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), 400),
        ("BREW /v1/status HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 405),
        (format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(100_000)), 0),
        (format!("GET /v1/status HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(500)), 431),
        ("GET /v1/status?x=1 HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 400),
        ("GET /v1/routes?from=1&to=%ff HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 404),
        ("GET /../../etc/passwd HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 404),
        (
            "POST /v1/actions/loglevel HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n"
                .to_owned(),
            400,
        ),
        (
            "POST /v1/actions/loglevel HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\n{\"f"
                .to_owned(),
            400,
        ),
    ] {
        let start: String = request.chars().take(60).collect();
        let response = tokio::task::block_in_place(|| {
            let mut stream = managed.connect();
            // The server may close the connection before it has read all.
            let _ = stream.write_all(request.as_bytes());
            Response::read(stream)
        });
        match status {
            // hyper ends a line that is too long with 414 or 431.
            0 => assert!([414, 431].contains(&response.status), "{start:?}: {response:?}"),
            status => assert_eq!(response.status, status, "{start:?}: {response:?}"),
        }
    }
    assert_eq!(managed.get("/v1/status").status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_giant_body_is_refused_at_its_limit() {
    let managed = Managed::start("3x3x1").await;
    let sent = tokio::task::block_in_place(|| {
        let mut stream = managed.connect();
        let head =
            "POST /v1/actions/priority HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("it reads the head");
        let block = vec![b' '; 1 << 16];
        let blocks = (0..1000).take_while(|_| stream.write_all(&block).is_ok()).count();
        (blocks, Response::read(stream))
    });
    let (blocks, response) = sent;
    assert!(blocks < 100, "{blocks} blocks of 64 KiB were taken");
    // The reply may be lost with the connection, which the server closes with unread data.
    assert!([413, 0].contains(&response.status), "{response:?}");
    assert_eq!(managed.json("/v1/status")["sm"]["priority"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_clients_are_disconnected() {
    let managed = Managed::start("3x3x1").await;
    let (took, silent) = tokio::task::block_in_place(|| {
        let start = Instant::now();
        let mut slow = managed.connect();
        let mut silent = managed.connect();
        slow.write_all(b"GET /v1/status HTTP/1.1\r\nhost: ").expect("it reads");
        let mut rest = Vec::new();
        while start.elapsed() < LIMIT && slow.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(200));
        }
        let _ = silent.read_to_end(&mut rest);
        (start.elapsed(), rest)
    });
    assert!(took < LIMIT, "they were not disconnected");
    assert!(silent.is_empty() || silent.starts_with(b"HTTP/1.1 408"), "{silent:?}");
    assert_eq!(managed.get("/v1/status").status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_connections_do_not_stop_the_daemon() {
    let managed = Managed::start("3x3x2").await;
    let connections: Vec<_> = (0..200).map(|_| managed.connect()).collect();
    let last = managed.cluster.fabric.sets();
    let links = managed.cluster.fabric.links();
    let hosts: Vec<_> = managed.cluster.hosts().collect();
    let cable = links.iter().find(|ends| ends.iter().all(|end| !hosts.contains(&end.0)));
    let [end, _] = *cable.expect("a cable between switches");
    let generation = managed.sm.generation();
    assert!(managed.cluster.fabric.unlink(end.0, end.1));
    managed.until(|| managed.sm.generation() > generation).await;
    assert!(managed.cluster.fabric.sets() > last, "the routes were written");
    let mut waiting: Vec<std::os::unix::net::UnixStream> = connections;
    for stream in &waiting {
        stream.set_nonblocking(true).expect("a mode");
    }
    // They are accepted one after the other, most of them after the routes.
    let mut refused = 0;
    managed
        .until(|| {
            waiting.retain_mut(|stream| {
                let mut reply = [0; 64];
                let count = stream.read(&mut reply).unwrap_or(0);
                let is_refused = reply[..count].starts_with(b"HTTP/1.1 503");
                refused += usize::from(is_refused);
                !is_refused
            });
            refused >= 50
        })
        .await;
    drop(waiting);
    // All are closed by now.
    managed.until(|| managed.get("/v1/status").status == 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_at_full_speed_get_replies() {
    let managed = std::sync::Arc::new(Managed::start("3x3x2").await);
    let paths = ["/v1/status", "/v1/links", "/v1/ports", "/metrics", "/v1/sa", "/v1/groups"];
    let readers: Vec<_> = paths
        .map(|path| {
            let managed = managed.clone();
            tokio::task::spawn_blocking(move || {
                for _ in 0..30 {
                    let mut stream = managed.connect();
                    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
                    stream.write_all(request.as_bytes()).expect("it reads");
                    let response = Response::read(stream);
                    assert_eq!(response.status, 200, "{path}: {}", response.body);
                }
            })
        })
        .into();
    for reader in readers {
        reader.await.expect("all replies");
    }
    assert!(managed.json("/v1/status")["management"]["requests"].as_u64() >= Some(180));
}

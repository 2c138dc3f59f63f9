//! A daemon on a simulated fabric with its management interface, and a client that can misbehave.

use serde_json::Value;
use std::io::{Read, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use testkit::{SimCluster, Sm};
use torus_sm::config::options::Options;
use torus_sm::daemon::sm_loop::context::ReloadFn;
use torus_sm::manage::server::{ManageServer, ServerConfig};

/// Time for anything that a test waits for.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A daemon with its management interface. Its clock is real, since the server's is.
pub(crate) struct Managed {
    pub(crate) cluster: SimCluster,
    pub(crate) sm: Sm,
    server: ManageServer,
}

impl Managed {
    /// A master on a torus with one host at each switch.
    pub(crate) async fn start(shape: &str) -> Self {
        let cluster = SimCluster::healthy(shape, 1);
        let options = cluster.options();
        let same = options.clone();
        Self::start_with(cluster, options, Box::new(move || Ok(same.clone().into()))).await
    }

    pub(crate) async fn start_with(
        cluster: SimCluster,
        options: Options,
        reload: ReloadFn,
    ) -> Self {
        Self::start_on(cluster, options, reload, |_| ()).await
    }

    /// A master with these options, whose server `change` configures.
    pub(crate) async fn start_configured(
        cluster: SimCluster,
        options: Options,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Self {
        let same = options.clone();
        Self::start_on(cluster, options, Box::new(move || Ok(same.clone().into())), change).await
    }

    async fn start_on(
        cluster: SimCluster,
        options: Options,
        reload: ReloadFn,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Self {
        let mut sm = cluster.start_with([0, 0, 0], options, reload);
        let mut config = ServerConfig {
            folder: cluster.dir().join("run"),
            group: None,
            read_all: false,
            network: None,
            event_file: None,
            on_thread_start: || (),
            program: env!("CARGO_BIN_EXE_torus-sm").into(),
        };
        change(&mut config);
        let sources = sm.management.take().expect("nobody has taken it");
        let server = ManageServer::start(sources, &config).expect("a socket");
        let mut subnet = sm.subnet.clone();
        let up = subnet.wait_for(Option::is_some);
        tokio::time::timeout(LIMIT, up).await.expect("SUBNET UP").expect("it runs");
        let managed = Self { cluster, sm, server };
        // The snapshot is published at the end of the pass.
        managed.until(|| managed.json("/v1/status")["routing"]["in_use"].is_string()).await;
        managed
    }

    /// The address of the page.
    pub(crate) fn url(&self) -> &str {
        self.server.url().expect("a TCP address")
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.server.path()).expect("the server listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        stream.set_write_timeout(Some(LIMIT)).expect("a limit");
        stream
    }

    /// The reply to a request as it is sent.
    pub(crate) fn raw(&self, request: &str) -> Response {
        tokio::task::block_in_place(|| {
            let mut stream = self.connect();
            stream.write_all(request.as_bytes()).expect("the server reads");
            Response::read(stream)
        })
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.raw(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"))
    }

    /// The reply to a GET, which must succeed.
    pub(crate) fn json(&self, path: &str) -> Value {
        let response = self.get(path);
        assert_eq!(response.status, 200, "{path}: {}", response.body);
        response.json()
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Response {
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
        self.raw(&(head + body))
    }

    /// The events after a number, those that the daemon keeps.
    pub(crate) fn events(&self, after: u64) -> Vec<Value> {
        let path = format!("/v1/events?after={after}&follow=false");
        let accept = "accept: application/x-ndjson";
        let response = self.raw(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n{accept}\r\n\r\n"));
        assert_eq!(response.status, 200, "{}", response.body);
        let lines = response.body.lines().filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Waits until a condition holds.
    pub(crate) async fn until(&self, mut holds: impl FnMut() -> bool) {
        let deadline = tokio::time::Instant::now() + LIMIT;
        while !holds() {
            assert!(tokio::time::Instant::now() < deadline, "it does not become true");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for an event of this name after a number.
    pub(crate) async fn event(&self, after: u64, name: &str) -> Value {
        let mut found = None;
        self.until(|| {
            found = self.events(after).into_iter().find(|event| event["event"] == name);
            found.is_some()
        })
        .await;
        found.expect("just found")
    }
}

/// A reply.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    /// Reads a reply until the server closes the connection.
    pub(crate) fn read(mut stream: impl Read) -> Self {
        let mut text = Vec::new();
        // The server resets a connection whose request it has not read to the end.
        let _ = stream.read_to_end(&mut text);
        let text = String::from_utf8(text).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_str(), ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        let head = head.to_lowercase();
        let body = if head.contains("transfer-encoding: chunked") {
            unchunk(body)
        } else {
            body.to_owned()
        };
        Self { status, head, body }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The text of an error.
    pub(crate) fn error(&self) -> String {
        self.json()["error"].as_str().expect("an error").to_owned()
    }
}

/// Joins the chunks of a body (RFC 9112, 7.1).
fn unchunk(mut body: &str) -> String {
    let mut joined = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let Ok(length @ 1..) = usize::from_str_radix(length, 16) else { break };
        joined.push_str(&rest[..length]);
        body = rest[length..].trim_start_matches("\r\n");
    }
    joined
}

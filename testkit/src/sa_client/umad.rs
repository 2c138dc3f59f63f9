//! A client at the umad port of this process.
//!
//! A library is preloaded at process start only, so the client is the test program itself, started
//! once more inside the fabric: [`run_inside`] has it run a single test that is otherwise ignored.

use crate::process::test_name;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use torus_sm::ids::{Guid, Lid, Sl};
use torus_sm::transport::sysfs::{LocalPort, Sysfs};
use torus_sm::transport::umad::UmadPort;
use torus_sm::transport::{Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing};
use torus_sm::wire::mad::{Header, Mad};

/// Time limit for a reply or the timeout of a request, which the port reports.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the ignored test `name` of the module `module` (`module_path!()`) of this test program
/// inside a fabric: `command` starts the program there. Returns its output.
///
/// # Panics
/// The test fails or does not exist.
pub fn run_inside(mut command: Command, module: &str, name: &str) -> String {
    let output = command
        .args(["--ignored", "--exact", "--nocapture", "--test-threads=1"])
        .arg(test_name(module, name))
        .output()
        .expect("the test program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{module}::{name} failed:\n{text}\n{errors}");
    assert!(text.contains("1 passed"), "{module}::{name} did not run:\n{text}");
    text
}

/// A reply, or the request itself if it timed out.
pub struct Reply {
    pub outcome: Outcome,
    pub mad: Vec<u8>,
}

impl Reply {
    /// The transaction ID without the upper half, in which the kernel puts the agent.
    pub fn tid(&self) -> u32 {
        Header::read(&self.mad).tid() as u32
    }

    pub fn status(&self) -> u16 {
        Header::read(&self.mad).status()
    }
}

/// A client at the first usable port.
pub struct UmadClient {
    pub local: LocalPort,
    port: UmadPort,
    replies: mpsc::Receiver<Reply>,
}

impl UmadClient {
    /// Opens the port.
    ///
    /// # Panics
    /// This process does not run inside a simulated fabric and would use the machine's adapters, or
    /// there is no usable port.
    pub fn open() -> Self {
        assert!(is_inside(), "this process runs inside no simulated fabric");
        let ports = Sysfs::default().ports().expect("the preloaded library shows a port");
        let local = ports.first_usable().expect("the port has a link").clone();
        let (sender, replies) = mpsc::channel();
        let sink = Arc::new(Replies(Mutex::new(sender)));
        let port = UmadPort::open(&local, sink).expect("the port opens");
        Self { local, port, replies }
    }

    pub fn guid(&self) -> Guid {
        self.local.guid
    }

    pub fn lid(&self) -> Lid {
        self.local.lid
    }

    /// Address of the subnet administrator.
    pub fn sa(&self) -> Address {
        Address::gsi(self.local.sm_lid, Sl(0))
    }

    pub fn send(&self, agent: Agent, to: Address, mad: &[u8], timeout: Duration, retries: u32) {
        let out = Outgoing { agent, to, timeout: Some(timeout), retries, mad };
        self.port.post(&out).expect("the port accepts the request");
    }

    /// Waits for the next reply.
    pub fn reply(&self) -> Reply {
        self.replies.recv_timeout(REPLY_TIMEOUT).expect("a reply or a timeout")
    }

    /// The next reply or timeout, if it comes within `limit`.
    pub fn reply_within(&self, limit: Duration) -> Option<Reply> {
        self.replies.recv_timeout(limit).ok()
    }

    /// Discards the replies received so far.
    pub fn discard_replies(&self) {
        while self.replies.try_recv().is_ok() {}
    }

    /// Sends a MAD without waiting for anything. The port may refuse it, as the kernel refuses
    /// malformed MADs.
    pub fn post(&self, agent: Agent, to: Address, mad: &[u8]) {
        let _ = self.port.post(&Outgoing { agent, to, timeout: None, retries: 0, mad });
    }

    /// Sends a request to the subnet administrator and waits for its reply.
    ///
    /// # Panics
    /// The request times out.
    pub fn call(&self, mad: &Mad) -> Reply {
        self.send(Agent::Sa, self.sa(), &mad.0, Duration::from_secs(2), 3);
        let reply = self.reply();
        assert_eq!(reply.outcome, Outcome::Arrived, "{mad:?}");
        reply
    }
}

/// True in a process that was started with ibsim's library or that of `torus-sm sim`.
pub fn is_inside() -> bool {
    let libraries = std::env::var("LD_PRELOAD").unwrap_or_default();
    ["umad2sim", "torus_sm_preload"].iter().any(|name| libraries.contains(name))
}

struct Replies(Mutex<mpsc::Sender<Reply>>);

impl MadSink for Replies {
    fn deliver(&self, delivery: Delivery<'_>) {
        if let Ok(replies) = self.0.lock() {
            let reply = Reply { outcome: delivery.outcome, mad: delivery.mad.to_vec() };
            let _ = replies.send(reply);
        }
    }
    fn idle(&self) {}
    fn closed(&self, _: &str) {}
}

//! Letters to devices and to the subnet administrator, sent from inside a simulated fabric.
//!
//! A library is preloaded at process start only. Who sends is therefore the test program once
//! more, run by `torus-sm sim exec`; it is told by `--ignored` and `--exact` to run [`sends`] and
//! nothing else, finds its letters in a file, and leaves the replies in another.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use testkit::{Simulator, test_name};
use torus_sm::ids::{Gid, Lid, Sl};
use torus_sm::transport::sysfs::Sysfs;
use torus_sm::transport::umad::UmadPort;
use torus_sm::transport::{Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing};
use torus_sm::wire::mad::{Header, MAD_SIZE, Mad, Method};
use torus_sm::wire::record::Record;
use torus_sm::wire::sa::{
    CLASS_VERSION, DATA_OFFSET, RMPP_OFFSET, RmppHeader, SA_OFFSET, SaHeader,
};
use torus_sm::wire::smp::{self, SmpRoute};

/// The status of what stands for a reply that does not come; no MAD has it.
pub(crate) const UNANSWERED: u16 = 0xFFFF;

/// Names the file of letters; that of the replies has another ending.
const LETTERS: &str = "TORUS_LETTERS";

/// A MAD and where it goes.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    /// LID of a device; `None` for the subnet administrator.
    pub device: Option<Lid>,
    pub mad: Vec<u8>,
}

impl Letter {
    /// Get of an SMP attribute.
    pub(crate) fn to_device(lid: Lid, attribute: u16, modifier: u32) -> Self {
        let route = SmpRoute::Lid(lid);
        let mad = smp::request(&route, Method::GET, attribute, modifier, 0, 0, &[0; 64]);
        Self { device: Some(lid), mad: mad.0.to_vec() }
    }

    /// A request to the subnet administrator; with `sm_key` 1, OpenSM's default, a trusted one.
    pub(crate) fn to_sa<R: Record>(
        (attribute, method): (u16, Method),
        (mask, record): (u64, &R),
        sm_key: u64,
    ) -> Self {
        let mut header = Header::default();
        header.set_base_version(1);
        header.set_class(3);
        header.set_class_version(CLASS_VERSION);
        header.set_method(method.0);
        header.set_attr_id(attribute);
        let mut mad = Mad::default();
        mad.set_header(&header);
        let mut sa = SaHeader::default();
        sa.set_component_mask(mask);
        sa.set_sm_key(sm_key);
        sa.write(&mut mad.0[SA_OFFSET..]);
        mad.0[DATA_OFFSET..DATA_OFFSET + R::STRIDE].copy_from_slice(record.bytes());
        Self { device: None, mad: mad.0.to_vec() }
    }

    /// The same with GIDs behind its record of type `R`, as a message of RMPP.
    pub(crate) fn with_gids<R: Record>(mut self, gids: &[Gid]) -> Self {
        self.mad.truncate(DATA_OFFSET + R::STRIDE);
        gids.iter().for_each(|gid| self.mad.extend_from_slice(&gid.0));
        RmppHeader::message(self.mad.len() - DATA_OFFSET).write(&mut self.mad[RMPP_OFFSET..]);
        self
    }

    fn line(&self) -> String {
        format!("{} {}", self.device.map_or(0, |lid| lid.0), hex(&self.mad))
    }

    fn of(line: &str) -> Self {
        let (lid, mad) = line.split_once(' ').expect("a LID and a MAD");
        let lid: u16 = lid.parse().expect("a LID");
        Self { device: (lid != 0).then_some(Lid(lid)), mad: bytes(mad) }
    }
}

/// Bytes as text, trailing zeros left out.
fn hex(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let digits = bytes[..end].iter().map(|byte| format!("{byte:02x}"));
    format!("{}:{}", bytes.len(), digits.collect::<String>())
}

fn bytes(text: &str) -> Vec<u8> {
    let (length, digits) = text.split_once(':').expect("a length");
    let pair = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("a byte");
    let mut bytes: Vec<u8> = (0..digits.len()).step_by(2).map(pair).collect();
    bytes.resize(length.parse().expect("a length"), 0);
    bytes
}

/// Sends letters from the node `at`, `window` of them under way at a time; the replies are in
/// their order.
pub(crate) fn send(sim: &Simulator, at: &str, window: usize, letters: &[Letter]) -> Vec<Vec<u8>> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let file = sim.dir.path().join(format!("letters-{serial}.out"));
    let lines: Vec<String> = letters.iter().map(Letter::line).collect();
    fs::write(&file, format!("{window}\n{}", lines.join("\n"))).expect("a file");
    let output = sim
        .command(at, &std::env::current_exe().expect("this program has a path"))
        .args(["--ignored", "--exact", "--nocapture", "--test-threads=1"])
        .arg(test_name(module_path!(), "sends"))
        .env(LETTERS, &file)
        .output()
        .expect("the program starts again");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "sending from {at} in {} fails:\n{text}\n{errors}",
        sim.dir.path().display()
    );
    let replies = fs::read_to_string(file.with_extension("in")).expect("replies");
    let replies: Vec<Vec<u8>> = replies.lines().map(bytes).collect();
    assert_eq!(replies.len(), letters.len());
    replies
}

/// Collects the replies of a port.
struct Replies(Mutex<mpsc::Sender<(Outcome, Vec<u8>)>>);

impl MadSink for Replies {
    fn deliver(&self, delivery: Delivery<'_>) {
        if let Ok(replies) = self.0.lock() {
            let _ = replies.send((delivery.outcome, delivery.mad.to_vec()));
        }
    }
    fn idle(&self) {}
    fn closed(&self, _: &str) {}
}

/// A port inside the fabric.
struct Postman {
    port: UmadPort,
    manager: Lid,
    /// Where the key of the default partition is, by which all reach the subnet administrator, or
    /// another if there is none: OpenSM has others before it at times.
    pkey_index: u16,
    replies: mpsc::Receiver<(Outcome, Vec<u8>)>,
}

impl Postman {
    fn new() -> Self {
        let ports = Sysfs::default().ports().expect("the library shows a port");
        let local = ports.first_usable().expect("it has a link").clone();
        let (sender, replies) = mpsc::channel();
        let sink = Arc::new(Replies(Mutex::new(sender)));
        let port = UmadPort::open(&local, sink).expect("the port opens");
        let pkeys = format!("/sys/class/infiniband/{}/ports/{}/pkeys", local.device, local.port);
        let key = |index: u16| {
            let key = fs::read_to_string(format!("{pkeys}/{index}")).expect("a P_Key");
            u16::from_str_radix(key.trim().trim_start_matches("0x"), 16).expect("a P_Key") & 0x7FFF
        };
        let find = |is_wanted: fn(u16) -> bool| (0..64).find(|&index| is_wanted(key(index)));
        let pkey_index = find(|key| key == 0x7FFF).or_else(|| find(|key| key != 0));
        let pkey_index = pkey_index.expect("a P_Key");
        Self { port, manager: local.sm_lid, pkey_index, replies }
    }

    fn post(&self, letter: &Letter, tid: usize) {
        let mut mad = letter.mad.clone();
        let mut header = Header::read(&mad);
        header.set_tid(tid as u64);
        header.write(&mut mad);
        let (agent, to) = match letter.device {
            Some(lid) => (Agent::SmiLid, Address::smi(lid)),
            None => {
                let to = Address::gsi(self.manager, Sl(0));
                (Agent::Sa, Address { pkey_index: self.pkey_index, ..to })
            }
        };
        let timeout = Some(Duration::from_secs(2));
        let out = Outgoing { agent, to, timeout, retries: 2, mad: &mad };
        self.port.post(&out).expect("the letter is sent");
    }

    /// The next reply, by the number of its letter.
    fn reply(&self) -> (usize, Vec<u8>) {
        let (outcome, mut reply) =
            self.replies.recv_timeout(Duration::from_secs(60)).expect("a reply");
        let mut header = Header::read(&reply);
        if outcome == Outcome::Unanswered {
            header.set_status(UNANSWERED);
            reply.resize(MAD_SIZE, 0);
            header.write(&mut reply);
        }
        (((header.tid() & 0xFFFF_FFFF) - 1) as usize, reply)
    }
}

#[test]
#[ignore = "needs the library: run by the comparison with OpenSM"]
fn sends() {
    // Without the library this would reach for the adapters of this machine.
    let is_inside = std::env::var("LD_PRELOAD").is_ok_and(|all| all.contains("torus_sm_preload"));
    let Some(file) = std::env::var_os(LETTERS).map(PathBuf::from).filter(|_| is_inside) else {
        return;
    };
    let text = fs::read_to_string(&file).expect("letters");
    let (window, lines) = text.split_once('\n').expect("a window");
    let window: usize = window.parse().expect("a number");
    let letters: Vec<Letter> = lines.lines().map(Letter::of).collect();
    let postman = Postman::new();
    let mut replies = vec![None; letters.len()];
    for turn in 0..letters.len() + window {
        // The place in the window that this letter takes must be free.
        if turn >= window {
            let (number, reply) = postman.reply();
            assert!(replies[number].replace(reply).is_none(), "two replies");
        }
        if let Some(letter) = letters.get(turn) {
            postman.post(letter, turn + 1);
        }
    }
    let line = |reply: Option<Vec<u8>>| hex(&reply.expect("a reply to each"));
    let lines: Vec<String> = replies.into_iter().map(line).collect();
    fs::write(file.with_extension("in"), lines.join("\n")).expect("a file");
}

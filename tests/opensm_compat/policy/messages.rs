//! Messages to devices and to the subnet administrator from inside a simulated fabric: the inner
//! test [`sends`] reads its messages from a file, and writes the replies to another.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use testkit::sa_client::{UmadClient, is_inside, request, run_inside, with_sm_key};
use testkit::{Simulator, own_program};
use torus_sm::ids::{Gid, Lid, MKey, SmKey};
use torus_sm::transport::{Address, Agent, Outcome};
use torus_sm::wire::mad::{Header, MAD_SIZE, Method};
use torus_sm::wire::record::Record;
use torus_sm::wire::sa::{DATA_OFFSET, RMPP_OFFSET, RmppHeader};
use torus_sm::wire::smp::{self, SmpRoute};

/// The status of the placeholder for a reply that timed out; no MAD has it.
pub(crate) const UNANSWERED: u16 = 0xFFFF;

/// Environment variable with the path of the message file; that of the replies has another
/// extension.
const MESSAGES: &str = "TORUS_MESSAGES";

/// A MAD and its destination.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// LID of a device; `None` for the subnet administrator.
    pub device: Option<Lid>,
    pub mad: Vec<u8>,
}

impl Message {
    /// Get of an SMP attribute.
    pub(crate) fn to_device(lid: Lid, attribute: u16, modifier: u32) -> Self {
        let route = SmpRoute::Lid(lid);
        let mad = smp::request(
            &route,
            smp::SmpFields {
                method: Method::GET,
                attr_id: attribute,
                attr_mod: modifier,
                m_key: MKey::NONE,
                tid: 0,
            },
            &[0; 64],
        );
        Self { device: Some(lid), mad: mad.0.to_vec() }
    }

    /// A request to the subnet administrator; with `sm_key` 1, OpenSM's default, a trusted one.
    pub(crate) fn to_sa<R: Record>(
        (attribute, method): (u16, Method),
        (mask, record): (u64, &R),
        sm_key: u64,
    ) -> Self {
        let mad = with_sm_key(request(attribute, method, mask, record), SmKey(sm_key));
        Self { device: None, mad: mad.0.to_vec() }
    }

    /// The request with GIDs after its record of type `R`, as an RMPP message.
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

/// Bytes as text, without trailing zeros.
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

/// Sends messages from the node `at`, `window` of them under way at a time; the replies are in the
/// order of the messages.
pub(crate) fn send(sim: &Simulator, at: &str, window: usize, messages: &[Message]) -> Vec<Vec<u8>> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let file = sim.dir.path().join(format!("messages-{serial}.out"));
    let lines: Vec<String> = messages.iter().map(Message::line).collect();
    fs::write(&file, format!("{window}\n{}", lines.join("\n"))).expect("a file");
    let mut command = sim.command(at, &own_program());
    command.env(MESSAGES, &file);
    run_inside(command, module_path!(), "sends");
    let replies = fs::read_to_string(file.with_extension("in")).expect("replies");
    let replies: Vec<Vec<u8>> = replies.lines().map(bytes).collect();
    assert_eq!(replies.len(), messages.len());
    replies
}

/// A client at the port of this process, and the index of the P_Key that its requests carry.
struct Sender {
    client: UmadClient,
    pkey_index: u16,
}

impl Sender {
    fn open() -> Self {
        let client = UmadClient::open();
        let pkey_index = pkey_index(&client);
        Self { client, pkey_index }
    }

    fn send(&self, message: &Message, tid: usize) {
        let mut mad = message.mad.clone();
        let mut header = Header::read(&mad);
        header.set_tid(tid as u64);
        header.write(&mut mad);
        let (agent, to) = match message.device {
            Some(lid) => (Agent::SmiLid, Address::smi(lid)),
            None => (Agent::Sa, Address { pkey_index: self.pkey_index, ..self.client.sa() }),
        };
        self.client.send(agent, to, &mad, Duration::from_secs(2), 2);
    }

    /// The next reply, and the number of its message.
    fn reply(&self) -> (usize, Vec<u8>) {
        let mut reply = self.client.reply();
        if reply.outcome == Outcome::Unanswered {
            let mut header = Header::read(&reply.mad);
            header.set_status(UNANSWERED);
            reply.mad.resize(MAD_SIZE, 0);
            header.write(&mut reply.mad);
        }
        (reply.tid() as usize - 1, reply.mad)
    }
}

/// The index of the default partition's P_Key, by which every port reaches the SA, or of the first
/// P_Key if the port is not in that partition. OpenSM sometimes puts other P_Keys before it.
fn pkey_index(client: &UmadClient) -> u16 {
    let device = &client.local.device;
    let port = client.local.port;
    let table = format!("/sys/class/infiniband/{device}/ports/{port}/pkeys");
    let key = |index: u16| {
        let key = fs::read_to_string(format!("{table}/{index}")).expect("a P_Key");
        u16::from_str_radix(key.trim().trim_start_matches("0x"), 16).expect("a P_Key") & 0x7FFF
    };
    let find = |is_wanted: fn(u16) -> bool| (0..64).find(|&index| is_wanted(key(index)));
    find(|key| key == 0x7FFF).or_else(|| find(|key| key != 0)).expect("a P_Key")
}

#[test]
#[ignore = "needs the library: run by the comparison with OpenSM"]
fn sends() {
    let Some(file) = std::env::var_os(MESSAGES).map(PathBuf::from).filter(|_| is_inside()) else {
        return;
    };
    let text = fs::read_to_string(&file).expect("messages");
    let (window, lines) = text.split_once('\n').expect("a window");
    let window: usize = window.parse().expect("a number");
    let messages: Vec<Message> = lines.lines().map(Message::of).collect();
    let sender = Sender::open();
    let mut replies = vec![None; messages.len()];
    for turn in 0..messages.len() + window {
        // A slot of the window must be free.
        if turn >= window {
            let (number, reply) = sender.reply();
            assert!(replies[number].replace(reply).is_none(), "two replies");
        }
        if let Some(message) = messages.get(turn) {
            sender.send(message, turn + 1);
        }
    }
    let line = |reply: Option<Vec<u8>>| hex(&reply.expect("a reply to each"));
    let lines: Vec<String> = replies.into_iter().map(line).collect();
    fs::write(file.with_extension("in"), lines.join("\n")).expect("a file");
}

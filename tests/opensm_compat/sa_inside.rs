//! Asking the subnet administrator of a fabric that ibsim simulates, from inside that fabric.
//!
//! A library is preloaded at process start only. Who asks is therefore the test program once more,
//! with the shim; it is told by `--ignored` and `--exact` to run [`asks`] and nothing else, finds its
//! questions in a file, and leaves its answers in another.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use testkit::{Ibsim, test_name};
use torus_sm::ids::{Gid, Guid, Lid, Pkey, Sl};
use torus_sm::transport::sysfs::Sysfs;
use torus_sm::transport::umad::UmadPort;
use torus_sm::transport::{Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing};
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::{JoinState, McMemberRecord, PathRecord, Record, Selector};
use torus_sm::wire::sa::{CLASS_VERSION, DATA_OFFSET, SA_OFFSET, SaAttr, SaHeader};

/// Names the file of questions; that of the answers has another ending.
const QUESTIONS: &str = "TORUS_QUESTIONS";

const PREFIX: u64 = 0xfe80_0000_0000_0000;

/// MGID of the first group: link-local, none of IP's.
const FIRST_GROUP: (u64, u64) = (0xff12_7045_fe80_0000, 0x7045_0000);

/// Requests under way at a time; ibsim and its shim bear 256.
const WINDOW: usize = 64;

/// A request to the subnet administrator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question {
    /// A path between two end ports, maybe with this SL.
    Path { from: Guid, to: Guid, sl: Option<Sl> },
    /// A port becomes a full member of a group, which is created if there is none.
    Join { group: u32, member: Guid },
}

/// What comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    /// Status of the MAD.
    pub status: u16,
    /// SL of the path or MLID of the group; 0 with an error.
    pub value: u16,
}

impl Answer {
    /// There is no such record (IBA vol. 1, 15.4.4).
    pub(crate) const NO_RECORDS: Self = Self { status: 0x0300, value: 0 };

    /// Success.
    pub(crate) fn granted(value: u16) -> Self {
        Self { status: 0, value }
    }
}

/// Asks the subnet administrator from the node `at`, all questions in their order.
pub(crate) fn ask(sim: &Ibsim, at: &str, questions: &[Question]) -> Vec<Answer> {
    let file = sim.dir().join("inquiry.questions");
    let lines: Vec<String> = questions.iter().map(|question| question.line()).collect();
    fs::write(&file, lines.join("\n")).expect("a file");
    let program = std::env::current_exe().expect("this program has a path");
    let output = sim
        .command(at, &program)
        .args(["--ignored", "--exact", "--nocapture", "--test-threads=1"])
        .arg(test_name(module_path!(), "asks"))
        .env(QUESTIONS, &file)
        .output()
        .expect("the program starts again");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "asking fails:\n{text}\n{errors}");
    let answers = fs::read_to_string(file.with_extension("answers")).expect("answers");
    let numbers = |line: &str| -> Option<Answer> {
        let (status, value) = line.split_once(' ')?;
        Some(Answer { status: status.parse().ok()?, value: value.parse().ok()? })
    };
    let answers: Vec<Answer> =
        answers.lines().map(|line| numbers(line).expect("an answer")).collect();
    assert_eq!(answers.len(), questions.len());
    answers
}

impl Question {
    fn line(&self) -> String {
        match self {
            Self::Path { from, to, sl: None } => format!("path {} {}", from.0, to.0),
            Self::Path { from, to, sl: Some(sl) } => format!("path {} {} {}", from.0, to.0, sl.0),
            Self::Join { group, member } => format!("join {group} {}", member.0),
        }
    }

    fn of(line: &str) -> Self {
        let mut words = line.split(' ');
        let kind = words.next();
        let numbers: Vec<u64> = words.map(|word| word.parse().expect("a number")).collect();
        match (kind, &numbers[..]) {
            (Some("path"), [from, to, sl @ ..]) => {
                let sl = sl.first().map(|&sl| Sl(sl as u8));
                Self::Path { from: Guid(*from), to: Guid(*to), sl }
            }
            (Some("join"), [group, member]) => {
                Self::Join { group: *group as u32, member: Guid(*member) }
            }
            _ => panic!("no question: {line}"),
        }
    }

    fn mad(&self, tid: usize) -> Mad {
        match *self {
            Self::Path { from, to, sl } => {
                let mut record = PathRecord::default();
                record.set_sgid(Gid::new(PREFIX, from));
                record.set_dgid(Gid::new(PREFIX, to));
                record.set_numb_path(1);
                let mut mask = PathRecord::SGID | PathRecord::DGID | PathRecord::NUMB_PATH;
                if let Some(sl) = sl {
                    record.set_sl(sl);
                    mask |= PathRecord::SL;
                }
                request((SaAttr::PATH_RECORD, Method::GET), tid, mask, &record)
            }
            Self::Join { group, member } => {
                let mut record = McMemberRecord::default();
                let low = Guid(FIRST_GROUP.1 + u64::from(group));
                record.set_mgid(Gid::new(FIRST_GROUP.0, low));
                record.set_port_gid(Gid::new(PREFIX, member));
                record.set_join_state(JoinState::FULL);
                record.set_pkey(Pkey::DEFAULT_FULL);
                record.set_qkey(0x1b);
                // What every port can do: 256 bytes, 2.5 Gb/s.
                record.set_mtu_selector(Selector::Exactly);
                record.set_mtu(1);
                record.set_rate_selector(Selector::Exactly);
                record.set_rate(2);
                let named = McMemberRecord::MGID
                    | McMemberRecord::PORT_GID
                    | McMemberRecord::JOIN_STATE
                    | McMemberRecord::PKEY
                    | McMemberRecord::QKEY
                    | McMemberRecord::MTU_SELECTOR
                    | McMemberRecord::MTU
                    | McMemberRecord::RATE_SELECTOR
                    | McMemberRecord::RATE
                    | McMemberRecord::SL
                    | McMemberRecord::FLOW_LABEL
                    | McMemberRecord::TRAFFIC_CLASS;
                request((SaAttr::MC_MEMBER_RECORD, Method::SET), tid, named, &record)
            }
        }
    }

    fn answer(&self, reply: &[u8]) -> Answer {
        let status = Header::read(reply).status();
        let data = &reply[DATA_OFFSET..];
        let value = match self {
            _ if status != 0 => 0,
            Self::Path { .. } => PathRecord::parse(data).sl().0.into(),
            Self::Join { .. } => McMemberRecord::parse(data).mlid().0,
        };
        Answer { status, value }
    }
}

fn request<R: Record>(what: (u16, Method), tid: usize, mask: u64, record: &R) -> Mad {
    let mut header = Header::default();
    header.set_base_version(1);
    header.set_class(3);
    header.set_class_version(CLASS_VERSION);
    header.set_method(what.1.0);
    header.set_tid(tid as u64);
    header.set_attr_id(what.0);
    let mut mad = Mad::default();
    mad.set_header(&header);
    let mut sa = SaHeader::default();
    sa.set_component_mask(mask);
    sa.write(&mut mad.0[SA_OFFSET..]);
    mad.0[DATA_OFFSET..DATA_OFFSET + R::STRIDE].copy_from_slice(record.bytes());
    mad
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
struct Asker {
    port: UmadPort,
    manager: Lid,
    replies: mpsc::Receiver<(Outcome, Vec<u8>)>,
}

impl Asker {
    fn new() -> Self {
        let ports = Sysfs::default().ports().expect("the shim shows a port");
        let local = ports.first_usable().expect("it has a link").clone();
        let (sender, replies) = mpsc::channel();
        let sink = Arc::new(Replies(Mutex::new(sender)));
        let port = UmadPort::open(&local, sink).expect("the port opens");
        Self { port, manager: local.sm_lid, replies }
    }

    fn post(&self, mad: &Mad) {
        let (to, timeout) = (Address::gsi(self.manager, Sl(0)), Some(Duration::from_secs(5)));
        let out = Outgoing { agent: Agent::Sa, to, timeout, retries: 3, mad: &mad.0 };
        self.port.post(&out).expect("the request is sent");
    }

    /// The next reply, by the number of its question.
    fn reply(&self) -> (usize, Vec<u8>) {
        let (outcome, reply) = self.replies.recv_timeout(Duration::from_secs(60)).expect("a reply");
        assert_eq!(outcome, Outcome::Arrived);
        let tid = Header::read(&reply).tid() & 0xFFFF_FFFF;
        (tid as usize - 1, reply)
    }
}

/// True in a process that was started with the shim. Without it this would reach for the adapters
/// of this machine.
fn is_inside() -> bool {
    std::env::var("LD_PRELOAD").is_ok_and(|library| library.contains("umad2sim"))
}

#[test]
#[ignore = "needs the shim: run by the comparisons with OpenSM"]
fn asks() {
    let Some(file) = std::env::var_os(QUESTIONS).map(PathBuf::from).filter(|_| is_inside()) else {
        return;
    };
    let text = fs::read_to_string(&file).expect("questions");
    let questions: Vec<Question> = text.lines().map(Question::of).collect();
    let asker = Asker::new();
    let mut answers = vec![None; questions.len()];
    for done in 0..questions.len() + WINDOW {
        if let Some(question) = questions.get(done) {
            asker.post(&question.mad(done + 1));
        }
        if (WINDOW..questions.len() + WINDOW).contains(&done) {
            let (number, reply) = asker.reply();
            let answer = questions[number].answer(&reply);
            assert!(answers[number].replace(answer).is_none(), "two replies");
        }
    }
    let line = |answer: Option<Answer>| {
        let answer = answer.expect("a reply to each");
        format!("{} {}", answer.status, answer.value)
    };
    let lines: Vec<String> = answers.into_iter().map(line).collect();
    fs::write(file.with_extension("answers"), lines.join("\n")).expect("a file");
}

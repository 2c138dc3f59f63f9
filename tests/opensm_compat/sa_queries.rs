//! Queries to the subnet administrator of a fabric that ibsim simulates, from inside that fabric:
//! the inner test [`asks`] reads its queries from a file, and writes the answers to another.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use testkit::sa_client::{DEFAULT_PREFIX, UmadClient, is_inside, request, run_inside, with_tid};
use testkit::{Ibsim, own_program};
use torus_sm::ids::{Gid, Guid, Lid, Pkey, Sl};
use torus_sm::transport::{Agent, Outcome};
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::{JoinState, McMemberRecord, PathRecord, Record, Selector};
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

/// Environment variable with the path of the query file; that of the answers has another extension.
const QUESTIONS: &str = "TORUS_QUESTIONS";

/// MGID of the first group: link-local, not IPoIB's.
const FIRST_GROUP: (u64, u64) = (0xff12_7045_fe80_0000, 0x7045_0000);

/// Requests under way at a time; ibsim and its library support 256.
const WINDOW: usize = 64;

/// A request to the subnet administrator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question {
    /// A path between two end ports, with this SL if given.
    Path { from: Guid, to: Guid, sl: Option<Sl> },
    /// A path between two LIDs.
    LidPath { from: Lid, to: Lid },
    /// A join of a port as a full member of a group, which is created if it does not exist.
    Join { group: u32, member: Guid },
}

/// The answer to a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    /// Status of the MAD.
    pub status: u16,
    /// SL of the path or MLID of the group; 0 with an error.
    pub value: u16,
}

impl Answer {
    /// No such record (IBA vol. 1, 15.4.4).
    pub(crate) const NO_RECORDS: Self = Self { status: 0x0300, value: 0 };

    pub(crate) fn granted(value: u16) -> Self {
        Self { status: 0, value }
    }
}

/// Sends all queries from the node `at`, in order.
pub(crate) fn ask(sim: &Ibsim, at: &str, questions: &[Question]) -> Vec<Answer> {
    let file = sim.dir().join("inquiry.questions");
    let lines: Vec<String> = questions.iter().map(|question| question.line()).collect();
    fs::write(&file, lines.join("\n")).expect("a file");
    let mut command = sim.command(at, &own_program());
    command.env(QUESTIONS, &file);
    run_inside(command, module_path!(), "asks");
    let answers = fs::read_to_string(file.with_extension("answers")).expect("answers");
    let numbers = |line: &str| -> Option<Answer> {
        let (status, value) = line.split_once(' ')?;
        Some(Answer { status: status.parse().ok()?, value: value.parse().ok()? })
    };
    let answers: Vec<Answer> =
        answers.lines().map(|line| numbers(line).expect("a reply")).collect();
    assert_eq!(answers.len(), questions.len());
    answers
}

impl Question {
    fn line(&self) -> String {
        match self {
            Self::Path { from, to, sl: None } => format!("path {} {}", from.0, to.0),
            Self::Path { from, to, sl: Some(sl) } => format!("path {} {} {}", from.0, to.0, sl.0),
            Self::LidPath { from, to } => format!("lids {} {}", from.0, to.0),
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
            (Some("lids"), [from, to]) => {
                Self::LidPath { from: Lid(*from as u16), to: Lid(*to as u16) }
            }
            (Some("join"), [group, member]) => {
                Self::Join { group: *group as u32, member: Guid(*member) }
            }
            _ => panic!("no question: {line}"),
        }
    }

    fn mad(&self, tid: usize) -> Mad {
        with_tid(self.request(), tid as u64)
    }

    fn request(&self) -> Mad {
        match *self {
            Self::Path { from, to, sl } => {
                let mut record = PathRecord::default();
                record.set_sgid(Gid::new(DEFAULT_PREFIX, from));
                record.set_dgid(Gid::new(DEFAULT_PREFIX, to));
                record.set_numb_path(1);
                let mut mask = PathRecord::SGID | PathRecord::DGID | PathRecord::NUMB_PATH;
                if let Some(sl) = sl {
                    record.set_sl(sl);
                    mask |= PathRecord::SL;
                }
                request(SaAttr::PATH_RECORD, Method::GET, mask, &record)
            }
            Self::LidPath { from, to } => {
                let mut record = PathRecord::default();
                record.set_slid(from);
                record.set_dlid(to);
                record.set_numb_path(1);
                let mask = PathRecord::SLID | PathRecord::DLID | PathRecord::NUMB_PATH;
                request(SaAttr::PATH_RECORD, Method::GET, mask, &record)
            }
            Self::Join { group, member } => {
                let mut record = McMemberRecord::default();
                let low = Guid(FIRST_GROUP.1 + u64::from(group));
                record.set_mgid(Gid::new(FIRST_GROUP.0, low));
                record.set_port_gid(Gid::new(DEFAULT_PREFIX, member));
                record.set_join_state(JoinState::FULL);
                record.set_pkey(Pkey::DEFAULT_FULL);
                record.set_qkey(0x1b);
                // Supported by every port: 256 bytes, 2.5 Gb/s.
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
                request(SaAttr::MC_MEMBER_RECORD, Method::SET, named, &record)
            }
        }
    }

    fn answer(&self, reply: &[u8]) -> Answer {
        let status = Header::read(reply).status();
        let data = &reply[DATA_OFFSET..];
        let value = match self {
            _ if status != 0 => 0,
            Self::Path { .. } | Self::LidPath { .. } => PathRecord::parse(data).sl().0.into(),
            Self::Join { .. } => McMemberRecord::parse(data).mlid().0,
        };
        Answer { status, value }
    }
}

#[test]
#[ignore = "needs the shim: run by the comparisons with OpenSM"]
fn asks() {
    let Some(file) = std::env::var_os(QUESTIONS).map(PathBuf::from).filter(|_| is_inside()) else {
        return;
    };
    let text = fs::read_to_string(&file).expect("questions");
    let questions: Vec<Question> = text.lines().map(Question::of).collect();
    let client = UmadClient::open();
    let mut answers = vec![None; questions.len()];
    for done in 0..questions.len() + WINDOW {
        if let Some(question) = questions.get(done) {
            let agent = Agent::Sa;
            let timeout = Duration::from_secs(5);
            client.send(agent, client.sa(), &question.mad(done + 1).0, timeout, 3);
        }
        if (WINDOW..questions.len() + WINDOW).contains(&done) {
            let reply = client.reply();
            assert_eq!(reply.outcome, Outcome::Arrived);
            let number = reply.tid() as usize - 1;
            let answer = questions[number].answer(&reply.mad);
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

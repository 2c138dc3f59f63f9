//! A simulated fabric with either subnet manager, and the tables and answers that result.

use super::messages::{self, Message};
use super::questions::{NOBODY, Question, settled};
use super::random_case::{Case, end_ports};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use testkit::Running;
use testkit::Simulator;
use torus_sm::fabric::ibnet;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::fabric::topology::{Topology, TopologyNode};
use torus_sm::ids::{Guid, Lid, PortNum};
use torus_sm::wire::attr::{AttrId, NodeKind, PortInfo};
use torus_sm::wire::mad::{Header, Method};
use torus_sm::wire::record::{McMemberRecord, Record};
use torus_sm::wire::sa::{DATA_OFFSET, SA_OFFSET, SaAttr, SaHeader};
use torus_sm::wire::smp;

/// Time limit for every step, which usually takes a second.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Offset of LocalPortNum in PortInfo.
const LOCAL_PORT: usize = 28;

/// Number of LIDs of a port in the ideal subnet: those of the greatest LMC of a case.
pub(crate) const STRIDE: u16 = 8;

/// The subnet manager of a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Maker {
    TorusSm,
    OpenSm,
}

impl Maker {
    fn program(self) -> PathBuf {
        match self {
            Self::TorusSm => testkit::torus_sm(),
            Self::OpenSm => testkit::tool("opensm").expect("checked before"),
        }
    }
}

/// The LIDs of a subnet and those of the ideal subnet, in which ports have LIDs in the order of
/// their GUIDs.
pub(crate) struct Lids {
    /// The first LID and the number of LIDs of each port.
    real: BTreeMap<Guid, (Lid, u16)>,
    order: Vec<Guid>,
}

impl Lids {
    fn order(topology: &Topology) -> Vec<Guid> {
        let mut order: Vec<Guid> = end_ports(topology).into_iter().map(|(_, guid)| guid).collect();
        order.sort_unstable();
        order
    }

    /// The highest LID.
    fn highest(&self) -> u16 {
        self.real.values().map(|(first, count)| first.0 + count - 1).max().unwrap_or(0)
    }

    /// A LID of the ideal subnet.
    pub(crate) fn ideal(topology: &Topology, port: Guid, offset: u16) -> Lid {
        let place = Self::order(topology).binary_search(&port);
        place.map_or(NOBODY, |index| Lid((index as u16 + 1) * STRIDE + offset))
    }

    /// The LID here for one of the ideal subnet.
    pub(crate) fn real(&self, ideal: Lid) -> Lid {
        let index = usize::from(ideal.0 / STRIDE).wrapping_sub(1);
        let base = self.order.get(index).and_then(|guid| self.real.get(guid));
        base.map_or(ideal, |(base, _)| Lid(base.0 + ideal.0 % STRIDE))
    }

    /// The LID of the ideal subnet for one here; 0 stays 0.
    pub(crate) fn ideal_of(&self, lid: Lid) -> Lid {
        let has = |&(base, count): &(Lid, u16)| (base.0..base.0 + count).contains(&lid.0);
        let port = self.real.iter().find(|(_, lids)| has(lids));
        let Some((guid, (base, _))) = port else { return lid };
        let index = self.order.binary_search(guid).expect("a port of the fabric");
        Lid((index as u16 + 1) * STRIDE + lid.0 - base.0)
    }
}

/// An answer of the subnet administrator. The order of its records has no meaning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub status: u16,
    /// Records in ascending order.
    pub records: Vec<Vec<u8>>,
}

impl Answer {
    fn of<R: Record>(reply: &[u8], settle: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let header = Header::read(reply);
        let status = header.status();
        let is_empty = SaHeader::read(&reply[SA_OFFSET..]).attribute_offset() == 0;
        let count = match header.method() & 0x7F {
            _ if status != 0 || is_empty => 0,
            table if [Method::GET_TABLE.0, Method::GET_MULTI.0].contains(&table) => usize::MAX,
            _ => 1,
        };
        let records = reply[DATA_OFFSET..].chunks_exact(R::STRIDE).take(count);
        let mut records: Vec<Vec<u8>> = records.map(settle).collect();
        records.sort_unstable();
        Self { status, records }
    }
}

/// Identifies a table of a device: node, port, attribute, modifier.
pub(crate) type TableKey = (Guid, u8, &'static str, u32);

/// A fabric that is up.
pub(crate) struct Site {
    sim: Simulator,
    manager: Running,
    client: String,
    lids: Lids,
}

impl Site {
    /// Starts a subnet manager and waits for its result.
    ///
    /// # Errors
    /// The log of a subnet manager that does not manage the fabric.
    pub(crate) fn start(maker: Maker, case: &Case) -> Result<Self, String> {
        let files = tempfile::tempdir().expect("a folder");
        let net = files.path().join("fabric.net");
        fs::write(&net, ibnet::write(&case.topology)).expect("a file");
        let sim = Simulator::start(&["--file", net.to_str().expect("text"), "--no-sm"]);
        let folder = sim.dir.path();
        let log = folder.join("sm.log");
        let child = sim
            .command(&case.home, &maker.program())
            .arg("-F")
            .arg(write_files(folder, case))
            .arg("-f")
            .arg(&log)
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("sm.out")).expect("a file"))
            .spawn();
        let mut manager = Running(child.expect("the subnet manager starts"));
        wait_for_verdict(&mut manager, &log)?;
        if maker == Maker::OpenSm {
            settle(&manager, &log);
        }
        let lids = lids(&case.topology, &folder.join("guid2lid"));
        Ok(Self { manager, client: case.client.clone(), lids, sim })
    }

    /// Has the subnet manager read another partitions.conf, and waits until it has swept.
    pub(crate) fn reload(&self, partitions: &str) {
        fs::write(self.folder().join("partition_config_file"), partitions).expect("a file");
        settle(&self.manager, &self.folder().join("sm.log"));
    }

    /// The log of the subnet manager.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder().join("sm.log")).unwrap_or_default()
    }

    /// The folder of the subnet manager's files.
    pub(crate) fn folder(&self) -> &Path {
        self.sim.dir.path()
    }

    /// The tables of all devices, as they hold them.
    pub(crate) fn tables(&self, topology: &Topology) -> BTreeMap<TableKey, Vec<u8>> {
        let keys: Vec<(TableKey, Message)> =
            topology.nodes.iter().flat_map(|node| self.table_requests(topology, node)).collect();
        let messages: Vec<Message> = keys.iter().map(|(_, message)| message.clone()).collect();
        let replies = messages::send(&self.sim, &self.client, 64, &messages);
        let table = |((key, _), reply): ((TableKey, Message), Vec<u8>)| {
            let status = Header::read(&reply).status();
            let data = &reply[smp::DATA_OFFSET..smp::DATA_OFFSET + smp::DATA_SIZE];
            let data = match key.2 {
                _ if status != 0 => format!("status {status:#x}").into_bytes(),
                "PortInfo" => programmed(data),
                _ => data.to_vec(),
            };
            (key, data)
        };
        keys.into_iter().zip(replies).map(table).collect()
    }

    /// Gets of all tables of a node.
    fn table_requests(&self, topology: &Topology, node: &TopologyNode) -> Vec<(TableKey, Message)> {
        let hardware = Hardware::default();
        let index = topology.nodes.iter().position(|other| other.guid == node.guid);
        let is_cabled = |num: u8| {
            num == 0
                || topology
                    .cables
                    .iter()
                    .flatten()
                    .any(|end| Some(end.0) == index && end.1.0 == num)
        };
        let is_switch = node.kind == NodeKind::Switch;
        let first = if is_switch { 0 } else { 1 };
        let ports: Vec<u8> = (first..=node.num_ports).filter(|&num| is_cabled(num)).collect();
        let guid = if is_switch { node.guid } else { node.port_guid(PortNum(1)) };
        let (lid, _) = self.lids.real[&guid];
        let mut messages = Vec::new();
        let mut get = |port: u8, name, attribute, modifier| {
            let message = Message::to_device(lid, attribute, modifier);
            messages.push(((node.guid, port, name, modifier), message));
        };
        for &port in &ports {
            let at = u32::from(port);
            let cap = if is_switch && port > 0 {
                hardware.partition_enforcement_cap
            } else {
                hardware.partition_cap
            };
            let of_port = if is_switch { at } else { 0 };
            for block in 0..u32::from(cap) / 32 {
                get(port, "P_Key table", AttrId::PKEY_TABLE, of_port << 16 | block);
            }
            for block in 1..=4 {
                get(port, "VL arbitration", AttrId::VL_ARBITRATION, block << 16 | of_port);
            }
            get(port, "PortInfo", AttrId::PORT_INFO, at);
            let inputs: &[u8] = if is_switch { &ports } else { &[0] };
            for &input in inputs {
                let modifier = u32::from(input) << 8 | of_port;
                get(port, "SL to VL", AttrId::SL_TO_VL, modifier);
            }
        }
        messages
    }

    /// All that configuration can change at the devices: the whole PortInfo of all ports, SwitchInfo,
    /// forwarding tables and ExtendedPortInfo, and the other tables.
    pub(crate) fn settings(&self, topology: &Topology) -> BTreeMap<TableKey, Vec<u8>> {
        let keys: Vec<(TableKey, Message)> =
            topology.nodes.iter().flat_map(|node| self.setting_requests(node)).collect();
        let messages: Vec<Message> = keys.iter().map(|(_, message)| message.clone()).collect();
        let replies = messages::send(&self.sim, &self.client, 64, &messages);
        let mut settings = self.tables(topology);
        settings.extend(keys.into_iter().zip(replies).map(|((key, _), reply)| {
            let status = Header::read(&reply).status();
            let mut data = reply[smp::DATA_OFFSET..smp::DATA_OFFSET + smp::DATA_SIZE].to_vec();
            if key.2 == "whole PortInfo" {
                // The port by which the request arrived depends on its route.
                data[LOCAL_PORT] = 0;
            }
            (key, if status == 0 { data } else { format!("status {status:#x}").into_bytes() })
        }));
        settings
    }

    /// Gets of the attributes of a node that [`Self::tables`] does not read.
    fn setting_requests(&self, node: &TopologyNode) -> Vec<(TableKey, Message)> {
        let is_switch = node.kind == NodeKind::Switch;
        let guid = if is_switch { node.guid } else { node.port_guid(PortNum(1)) };
        let (lid, _) = self.lids.real[&guid];
        let mut messages = Vec::new();
        let mut get = |port: u8, name, attribute, modifier| {
            let message = Message::to_device(lid, attribute, modifier);
            messages.push(((node.guid, port, name, modifier), message));
        };
        for port in u8::from(!is_switch)..=node.num_ports {
            get(port, "whole PortInfo", AttrId::PORT_INFO, port.into());
            get(port, "ExtendedPortInfo", AttrId::MLNX_EXT_PORT_INFO, port.into());
        }
        if is_switch {
            get(0, "SwitchInfo", AttrId::SWITCH_INFO, 0);
            let blocks = self.lids.highest() / 64;
            (0..=u32::from(blocks)).for_each(|block| get(0, "LFT", AttrId::LINEAR_FT, block));
            get(0, "MFT", AttrId::MULTICAST_FT, 0);
        }
        messages
    }

    /// Answers to queries, `window` of them under way at a time.
    pub(crate) fn ask(&self, questions: &[Question], window: usize) -> Vec<Answer> {
        let messages: Vec<Message> = questions.iter().map(|q| q.message(&self.lids)).collect();
        let replies = messages::send(&self.sim, &self.client, window, &messages);
        let answer = |(question, reply): (&Question, Vec<u8>)| match question {
            Question::Path { .. } => {
                Answer::of::<torus_sm::wire::record::PathRecord>(&reply, |r| {
                    settled(r, &self.lids).bytes().to_vec()
                })
            }
            // The order of paths and their preference differ between the subnet managers.
            Question::Multi { .. } => {
                Answer::of::<torus_sm::wire::record::PathRecord>(&reply, |r| {
                    let mut path = settled(r, &self.lids);
                    path.set_preference(0);
                    path.bytes().to_vec()
                })
            }
            Question::Join { .. } => Answer::of::<McMemberRecord>(&reply, <[u8]>::to_vec),
        };
        questions.iter().zip(replies).map(answer).collect()
    }

    /// All members of all groups that the client may see, as a trusted client gets them; and all
    /// groups, as other clients get them, including those without a member.
    pub(crate) fn groups(&self) -> [Answer; 2] {
        let what = (SaAttr::MC_MEMBER_RECORD, Method::GET_TABLE);
        let messages = [1, 0].map(|key| Message::to_sa(what, (0, &McMemberRecord::default()), key));
        let replies = messages::send(&self.sim, &self.client, 1, &messages);
        let answer = |index: usize| Answer::of::<McMemberRecord>(&replies[index], <[u8]>::to_vec);
        [answer(0), answer(1)]
    }
}

/// The fields of PortInfo that depend on policy: OperationalVLs, VLHighLimit, enforcement.
fn programmed(data: &[u8]) -> Vec<u8> {
    let info = PortInfo::read(data);
    let flag = u8::from;
    vec![
        info.operational_vls(),
        info.vl_high_limit(),
        flag(info.partition_enforcement_in()),
        flag(info.partition_enforcement_out()),
    ]
}

/// Writes all files; returns the path of opensm.conf.
fn write_files(folder: &Path, case: &Case) -> PathBuf {
    let mut options = case.options.clone() + "force_log_flush TRUE\n";
    let mut add = |key: &str, text: Option<&String>| {
        let file = folder.join(key);
        if let Some(text) = text {
            fs::write(&file, text).expect("a file");
        }
        options += &format!("{key} {}\n", file.display());
    };
    add("torus_config", Some(&case.torus));
    add("partition_config_file", case.partitions.as_ref());
    add("qos_policy_file", case.policy.as_ref());
    add("prefix_routes_file", Some(&case.prefix_routes));
    let file = folder.join("opensm.conf");
    fs::write(&file, options).expect("a file");
    file
}

/// Waits until the subnet is up.
///
/// # Errors
/// The log, if the subnet manager ends or rejects the fabric.
fn wait_for_verdict(manager: &mut Running, log: &Path) -> Result<(), String> {
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.contains("SUBNET UP") {
            return Ok(());
        }
        if text.contains("No routing engine able") || text.contains("was not applied") {
            return Err(text);
        }
        if let Some(status) = manager.0.try_wait().expect("a child of ours") {
            let out = fs::read_to_string(log.with_extension("out")).unwrap_or_default();
            return Err(format!("{status}\n{text}{out}"));
        }
        if start.elapsed() > STEP_TIMEOUT {
            return Err(format!("no verdict:\n{text}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Has a subnet manager sweep once more: in its first sweep OpenSM cuts the VL tables to the
/// previous settings of the ports.
fn settle(manager: &Running, log: &Path) {
    let sweeps = || fs::read_to_string(log).unwrap_or_default().matches("SUBNET UP").count();
    let wanted = sweeps() + 2;
    let start = Instant::now();
    while sweeps() < wanted {
        // Signals that arrive during a sweep count as one.
        let pid = Pid::from_raw(manager.0.id() as i32);
        kill(pid, Signal::SIGHUP).expect("it exists");
        assert!(start.elapsed() < STEP_TIMEOUT, "{} does not sweep again", log.display());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The LIDs of all end ports, from the file that either subnet manager keeps.
fn lids(topology: &Topology, file: &Path) -> Lids {
    let order = Lids::order(topology);
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        let entry = |line: &str| {
            let mut words = line.split_whitespace().map(|word| word.trim_start_matches("0x"));
            let guid = u64::from_str_radix(words.next()?, 16).ok()?;
            let mut lid = || u16::from_str_radix(words.next()?, 16).ok();
            let first = lid()?;
            let last = lid()?;
            Some((Guid(guid), (Lid(first), last - first + 1)))
        };
        let real: BTreeMap<Guid, (Lid, u16)> = text.lines().filter_map(entry).collect();
        if order.iter().all(|guid| real.contains_key(guid)) {
            return Lids { real, order };
        }
        assert!(start.elapsed() < STEP_TIMEOUT, "{} lacks ports:\n{text}", file.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

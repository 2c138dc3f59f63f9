//! opensm-sa.dump exchanged between Debian's opensm and torus-sm, in both directions: after one has
//! read the dump of the other, saquery prints the same client records for both.

use crate::saquery::answer::{Answer, Record};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use testkit::sa_client::joins::CREATE_GROUP;
use testkit::sa_client::{DEFAULT_PREFIX, UmadClient, is_inside, request, run_inside};
use testkit::{Running, START_TIMEOUT, Simulator, have, own_program, tool, torus_sm, wait_for};
use torus_sm::ids::{Gid, Guid, Lid, Pkey};
use torus_sm::wire::mad::{Mad, Method};
use torus_sm::wire::record::tables::GuidInfoRecord;
use torus_sm::wire::record::{InformInfo, JoinState, McMemberRecord, ServiceRecord};
use torus_sm::wire::sa::SaAttr;

struct Site {
    sim: Simulator,
}

impl Site {
    /// Starts a manager, which reads the dump `from`, and waits until the subnet is up. Its own
    /// dump goes into the folder `name`.
    fn manage(&self, program: &Path, name: &str, from: Option<&Path>) -> Running {
        let dir = self.folder(name);
        fs::create_dir_all(&dir).expect("a folder");
        let conf = dir.join("opensm.conf");
        // OpenSM writes the file when it sweeps.
        let text = "sa_db_dump TRUE\nsweep_interval 1\nno_clients_rereg TRUE\nsa_key 0x5ec2e7\n";
        fs::write(&conf, text).expect("a file");
        let mut command = self.sim.command("", program);
        command.args(["-d", "2", "-R", "minhop", "-F"]).arg(&conf);
        if let Some(from) = from {
            command.arg("-S").arg(from);
        }
        let child = command
            .arg("-f")
            .arg(dir.join("sm.log"))
            .env("OSM_TMP_DIR", &dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let running = Running(child.expect("the manager starts"));
        wait_for(&dir.join("sm.log"), "SUBNET UP", START_TIMEOUT);
        running
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.sim.dir.path().join(name)
    }

    /// Runs an ignored test of this module, a client, at a host.
    fn inside(&self, at: &str, part: &str) {
        run_inside(self.sim.command(at, &own_program()), module_path!(), part);
    }

    /// The dump of a manager, once it has all records of the clients.
    fn dump(&self, name: &str) -> PathBuf {
        let file = self.folder(name).join("opensm-sa.dump");
        let has_all = |text: &str| {
            let counts = [("mcm_port:", 4), ("InformInfo Record:", 3), ("Service Record:", 2)];
            counts.iter().all(|(start, count)| text.matches(start).count() == *count)
        };
        let patience = Instant::now() + START_TIMEOUT;
        loop {
            let text = fs::read_to_string(&file).unwrap_or_default();
            if has_all(&text) {
                return file;
            }
            assert!(Instant::now() < patience, "{name} has not dumped all:\n{text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// All records that clients wrote, as the manager returns them to a trusted client.
    fn registry(&self) -> BTreeMap<&'static str, Vec<Record>> {
        let tables = ["MCMR", "SR", "IIR", "GIR"];
        let ask = |table: &'static str| {
            let answer =
                Answer::of(&self.sim.run("h0-1", "saquery", &["--smkey", "0x5ec2e7", table]));
            assert_eq!(answer.error, "", "{table}");
            let mut records = answer.records;
            if table == "GIR" {
                // The blocks with an alias.
                records.retain(|record| record.0.iter().any(|field| field.1.ends_with("a1a5")));
            }
            for record in &mut records {
                // OpenSM numbers all subscriptions of a port 0.
                record.set("SubscriberEnum", 0);
            }
            records.sort();
            (table, records)
        };
        tables.into_iter().map(ask).collect()
    }
}

#[test]
fn each_manager_reads_the_dump_of_the_other() {
    if !have(&["opensm", "saquery"]) {
        return;
    }
    let opensm = tool("opensm").expect("checked");
    let site = Site { sim: Simulator::start(&["3x3x1", "--no-sm"]) };
    let first = site.manage(&opensm, "first", None);
    site.inside("h1-0", "inside_writes");
    site.inside("h2-1", "inside_sends_and_hears");
    let dump = site.dump("first");
    let records = site.registry();
    let counts: Vec<usize> = records.values().map(Vec::len).collect();
    assert_eq!(counts, [1, 3, 4, 2], "{records:#?}");
    drop(first);

    let second = site.manage(&torus_sm(), "second", Some(&dump));
    let log = fs::read_to_string(site.folder("second").join("sm.log")).expect("a log");
    let restored = log.lines().find(|line| line.contains("of alias GUIDs")).unwrap_or(&log);
    let counts = "3 groups with 4 members, 3 subscriptions, 2 services (0 ended), 4 blocks of \
                  alias GUIDs; 0 lines were of no use";
    assert!(restored.contains(counts), "{restored}");
    assert_eq!(site.registry(), records);
    let dump = site.dump("second");
    drop(second);

    let _third = site.manage(&opensm, "third", Some(&dump));
    assert_eq!(site.registry(), records);
}

// ---- the clients ----

/// A client at the port of this process.
struct Client(UmadClient);

impl Client {
    /// `None` if this process does not run inside a fabric.
    fn here() -> Option<Self> {
        is_inside().then(|| Self(UmadClient::open()))
    }

    fn gid(&self) -> Gid {
        Gid::new(DEFAULT_PREFIX, self.0.guid())
    }

    /// Sends a request that must be granted.
    fn ask(&self, mad: &Mad) {
        assert_eq!(self.0.call(mad).status(), 0, "{mad:?}");
    }

    fn join(&self, group: u8, state: JoinState) {
        let mut record = McMemberRecord::default();
        record.set_mgid(Gid([0xFF, 0x12, 0x12, 0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, group]));
        record.set_port_gid(self.gid());
        record.set_join_state(state);
        record.set_qkey(0x1234);
        record.set_pkey(Pkey::DEFAULT_FULL);
        self.ask(&request(SaAttr::MC_MEMBER_RECORD, Method::SET, CREATE_GROUP, &record));
    }

    fn subscribe(&self, change: impl Fn(&mut InformInfo)) {
        let mut info = InformInfo::default();
        info.set_lid_range_begin(Lid(0xFFFF));
        info.set_is_generic(1);
        info.set_subscribe(1);
        info.set_notice_type(0xFFFF);
        info.set_trap_number(0xFFFF);
        info.set_resp_time_value(16);
        info.set_producer_type(0xFF_FFFF);
        change(&mut info);
        self.ask(&request(SaAttr::INFORM_INFO, Method::SET, 0, &info));
    }

    fn offer(&self, id: u64, mask: u64, change: impl Fn(&mut ServiceRecord)) {
        let mut record = ServiceRecord::default();
        record.set_id(id);
        record.set_gid(self.gid());
        record.set_pkey(Pkey::DEFAULT_FULL);
        record.set_lease(ServiceRecord::NO_END);
        change(&mut record);
        let mask = mask
            | ServiceRecord::ID
            | ServiceRecord::GID
            | ServiceRecord::PKEY
            | ServiceRecord::LEASE;
        self.ask(&request(SaAttr::SERVICE_RECORD, Method::SET, mask, &record));
    }
}

#[test]
#[ignore = "run inside a fabric, by each_manager_reads_the_dump_of_the_other"]
fn inside_writes() {
    let Some(client) = Client::here() else { return };
    client.join(1, JoinState::FULL);
    client.join(2, JoinState::FULL);
    client.subscribe(|_| ());
    client.subscribe(|info| info.set_trap_number(64));
    client.offer(0x1000_0000_0000_0001, ServiceRecord::KEY | ServiceRecord::NAME, |record| {
        record.set_key(std::array::from_fn(|at| at as u8));
        let mut name = [0; ServiceRecord::NAME_SIZE];
        name[..12].copy_from_slice(b"it's storage");
        record.set_name(name);
        record.set_data(std::array::from_fn(|at| at as u8 + 1));
    });
    client.offer(0x1000_0000_0000_0002, 0, |_| ());
    let mut aliases = GuidInfoRecord::default();
    aliases.set_lid(client.0.lid());
    let mut guids = aliases.guids();
    guids.0[1] = Guid(0xA1A5);
    aliases.set_guids(&guids);
    let mask = GuidInfoRecord::LID | GuidInfoRecord::BLOCK | GuidInfoRecord::GID0 << 1;
    client.ask(&request(SaAttr::GUID_INFO_RECORD, Method::SET, mask, &aliases));
}

#[test]
#[ignore = "run inside a fabric, by each_manager_reads_the_dump_of_the_other"]
fn inside_sends_and_hears() {
    let Some(client) = Client::here() else { return };
    client.join(1, JoinState::SEND_ONLY);
    client.join(2, JoinState::FULL.with(JoinState::NON));
    client.subscribe(|info| {
        info.set_lid_range_begin(Lid(1));
        info.set_lid_range_end(Lid(5));
        info.set_trap_number(128);
        info.set_producer_type(2);
    });
}

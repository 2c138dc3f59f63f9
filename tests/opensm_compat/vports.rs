//! Debian's programs on virtual ports of simulated adapters, as on virtual functions.

use std::fs;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};
use testkit::{Simulator, have};

/// The GUID of a vport that the console command `vport PORT count` makes.
fn guid(host: u64, index: u64) -> u64 {
    host ^ index << 48
}

/// A GID of the default subnet.
fn gid(guid: u64) -> String {
    Ipv6Addr::from(0xfe80 << 112 | u128::from(guid)).to_string()
}

/// The port GUIDs of the hosts of a fabric of 3x3x1 at switches 1,0,0 and 2,2,0.
const HERE: u64 = 0x1000_00c1;
const THERE: u64 = 0x1000_0201;

struct Site {
    sim: Simulator,
}

impl Site {
    /// Two hosts with three vports each; of both, vport 2 is in partition 0x10, too.
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let partitions = folder.path().join("partitions.conf");
        let [here, there] = [HERE, THERE].map(|host| guid(host, 2));
        let text = format!(
            "Default=0x7fff, ipoib: ALL=full;\nred=0x10: {here:#x}=full, {there:#x}=full;\n"
        );
        fs::write(&partitions, text).expect("a file");
        let conf = folder.path().join("opensm.conf");
        let text = format!("virt_enabled 2\npartition_config_file {}\n", partitions.display());
        fs::write(&conf, text).expect("a file");
        let sim = Simulator::start(&["3x3x1", "-F", conf.to_str().expect("UTF-8")]);
        for host in ["h1-0-0", "h2-2-0"] {
            sim.control(&["vport", host, "count", "3"]);
            // The adapter announces its vports when it starts.
            sim.control(&["reboot", host]);
        }
        let site = Self { sim };
        site.wait_until("six vports are ACTIVE", |text| text.matches(" ACTIVE").count() == 6);
        site
    }

    /// Waits for the output of the console command `vport`.
    fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) {
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            let text = self.sim.control(&["vport"]);
            if holds(&text) {
                return;
            }
            assert!(Instant::now() < limit, "{what}: {text}\n{}", self.sim.output());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The output of a program on a vport of the first host.
    fn run(&self, vport: u16, program: &str, args: &[&str]) -> String {
        let output = self.sim.run(&format!("h1-0-0/1/{vport}"), program, args);
        [output.stdout, output.stderr]
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .join("\n")
    }

    fn path(&self, vport: u16, to: u64, more: &[&str]) -> String {
        let ends = format!("{}-{}", gid(guid(HERE, vport.into())), gid(to));
        self.run(vport, "saquery", &[&["-p", "--sgid-to-dgid", &ends], more].concat())
    }
}

/// The value of a field of a record that saquery prints.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let mut lines = text.lines().map(str::trim);
    let value = lines.find_map(|line| Some(line.strip_prefix(name)?.trim_start_matches('.')));
    value.unwrap_or_else(|| panic!("no {name} in {text}"))
}

#[test]
fn programs_on_two_vports_of_a_port_see_each_other() {
    if !have(&["saquery", "osmtest", "ibstat"]) {
        return;
    }
    let site = Site::start();
    for (vport, to) in [(1, guid(HERE, 2)), (2, guid(HERE, 1)), (1, guid(THERE, 1)), (1, THERE)] {
        let shown = site.run(vport, "ibstat", &[]);
        let own = guid(HERE, vport.into());
        assert!(shown.contains(&format!("Port GUID: 0x{own:016x}")), "{shown}");
        assert!(shown.contains("State: Active"), "{shown}");
        let path = site.path(vport, to, &[]);
        assert_eq!(field(&path, "hop_flow_raw"), "0x2", "{path}");
        assert_eq!(field(&path, "dgid"), gid(to));
    }
    // Joins and leaves of groups, as OpenSM's test program makes them.
    for vport in [1, 2] {
        let args = ["-f", "m", "-M", "1", "-i", "inventory", "-l", "osmtest.log"];
        let joined = site.run(vport, "osmtest", &args);
        assert!(joined.contains("TEST \"Multicast\" PASS"), "{joined}");
    }
    // Vports of a partition reach each other in it; others do not learn of such paths.
    let path = site.path(2, guid(THERE, 2), &["--pkey", "0x8010"]);
    assert_eq!(field(&path, "pkey").to_lowercase(), "0x8010", "{path}");
    for (vport, to) in [(1, guid(THERE, 2)), (2, guid(THERE, 1)), (2, THERE)] {
        let path = site.path(vport, to, &["--pkey", "0x8010"]);
        assert!(!path.contains("PathRecord dump"), "{vport}: {path}");
    }
    // A vport with a LID of its own.
    site.sim.control(&["vport", "h1-0-0", "1", "own-lid"]);
    site.wait_until("a LID", |text| text.contains(", LID ") && !text.contains(", LID 0\n"));
    let table = site.sim.control(&["vport", "h1-0-0"]);
    let own = table.lines().find_map(|line| line.split_once(", LID ")).expect("a LID").1;
    let path = site.path(1, guid(THERE, 1), &[]);
    assert_eq!(field(&path, "slid"), own, "{path}");
    let shown = site.run(1, "ibstat", &[]);
    assert!(shown.contains(&format!("Base lid: {own}\n")), "{shown}");
}

//! partitions.conf: the example of opensm(8), typical mistakes as an administrator sees them, and
//! the same file given to Debian's opensm and to torus-sm.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use torus_sm::config::excerpt;
use torus_sm::config::options::Options;
use torus_sm::config::partitions::PartitionsConfig;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::picture::View;
use torus_sm::ids::{Guid, Pkey, PortNum};
use torus_sm::notes::Severity;
use torus_sm::plan::partitions;
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/partitions")
}

/// Between a file and what is said about it.
const RULE: &str = "----------------------------------------\n";

#[test]
fn mistakes_are_explained() {
    let folder = vectors().join("mistakes");
    let mut cases: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= 20);
    for case in cases {
        let golden = fs::read_to_string(&case).unwrap();
        let (text, wanted) = golden.split_once(RULE).unwrap_or((&golden, ""));
        let (config, findings) = PartitionsConfig::parse(Path::new("partitions.conf"), text);
        assert_eq!(
            config.is_none(),
            findings.iter().any(|found| found.severity == Severity::Error),
            "{}",
            case.display()
        );
        let said: Vec<String> = findings.iter().map(|f| excerpt::render(f, text) + "\n").collect();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&case, [text, RULE, &said.concat()].concat()).unwrap();
        } else {
            assert_eq!(said.concat(), wanted, "{}", case.display());
        }
    }
}

/// A 3x1x1 ring whose hosts have the GUIDs of the manual's example, port after port.
#[test]
fn the_example_of_the_manual_takes_effect() {
    let text = fs::read_to_string(vectors().join("opensm.8.conf")).unwrap();
    let (config, findings) = PartitionsConfig::parse(Path::new("partitions.conf"), &text);
    let texts: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["partitions.conf:4:53: `limi` is taken for `limited`"]);
    let options = Options { qos: true, ..Options::default() };
    let (found, notes) = partitions::partitions(&config.expect("no error"), &options, &[]);
    assert_eq!(notes, []);
    let names: Vec<_> = found.iter().map(|part| (part.name.as_str(), part.pkey.0)).collect();
    let expected =
        [("Default", 0x7FFF), ("NewPartition", 1), ("YetAnotherOne", 0x300), ("ShareIO", 0x80)];
    assert_eq!(names, expected);
    let groups: Vec<_> = found[0].groups.iter().map(|g| (g.mgid.to_string(), g.sl.0)).collect();
    let group = |name: &str, sl| (name.to_owned(), sl);
    assert_eq!(
        groups,
        [
            group("ff12:401b:ffff::ffff:ffff", 0),
            group("ff12:401b:ffff::707", 1),
            group("ff12:601b:ffff::16", 0),
            group("ff12:401b:ffff::16", 0),
            group("ff12:601b:ffff::2", 0),
            group("ff12::1", 1),
        ]
    );
    assert_eq!(found[1].groups[0].mgid.to_string(), "ff12:401b:8001::ffff:ffff");
    let random = &found[0].groups[5];
    assert_eq!((random.q_key, random.rate, random.mtu), (0xDEAD_BEEF, 3, 2));

    let shape = Shape { hosts: 8, ..Shape::torus([3, 1, 1]) };
    let mut topology = shape.build().expect("a ring");
    let listed = [
        0x12_3456_u64,
        0x34_5678_9034,
        0x21_34af_2306,
        0x12_3451,
        0x12_3452,
        0x12_3453,
        0x12_3454,
        0x12_3455,
        0x12_3457,
        0x12_3458,
        0x12_3459,
        0x12_345a,
        0x12_345b,
        0x12_345c,
        0x12_345d,
    ];
    let hosts = topology.nodes.iter_mut().filter(|node| node.kind == NodeKind::Ca).skip(1);
    for (node, guid) in hosts.zip(listed) {
        node.port_guids = vec![(PortNum(1), Guid(guid))];
    }
    let fabric = Fabric::from_topology(&topology, 3, &View::default()).expect("node 3 exists");
    let (tables, notes) = partitions::tables(&fabric, &found, &[], &options);
    assert_eq!(notes, []);
    let keys = |guid: u64| -> Vec<u16> {
        let port = fabric.port_by_guid(Guid(guid)).unwrap_or_else(|| panic!("{guid:#x}"));
        tables.keys[port.index()].iter().map(|key| key.0).collect()
    };
    for (guid, expected) in [
        (0x12_3456, vec![0xFFFF, 0x80, 0x8001, 0x300]),
        (0x34_5678_9034, vec![0xFFFF, 1, 0x300]),
        (0x21_34af_2306, vec![0xFFFF, 1, 0x300]),
        (0x12_3451, vec![0xFFFF, 0x8080, 0x300]),
        (0x12_3453, vec![0xFFFF, 0x80, 0x300]),
        (0x12_3455, vec![0xFFFF, 0x8080, 0x300]),
        (0x12_3457, vec![0xFFFF, 0x80, 0x300]),
        (0x12_3458, vec![0xFFFF, 0x8080, 0x300]),
        (0x12_345a, vec![0xFFFF, 0x8080, 0x300]),
        (0x12_345c, vec![0xFFFF, 0x80, 0x300]),
        (0x12_345d, vec![0xFFFF, 0x8080, 0x300]),
    ] {
        let mut found = keys(guid);
        found[1..].sort_unstable_by_key(|key| key & 0x7FFF);
        let mut expected = expected;
        expected[1..].sort_unstable_by_key(|key| key & 0x7FFF);
        assert_eq!(found, expected, "{guid:#x}");
    }
    assert_eq!(tables.service_level(Pkey(0x8001)).0, 0);
}

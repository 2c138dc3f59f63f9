use super::*;
use proptest::prelude::*;

fn read(text: &str) -> Result<Topology, String> {
    parse("f.net".as_ref(), text).map_err(|error| error.to_string())
}

/// Output of Debian's ibnetdiscover.
const DISCOVERED: &str = "\
#
# Topology file: generated on Sat Nov 21 01:00:00 2026
#
# Initiated from node 0000000010000000 port 0000000010000001

vendid=0x2c9
devid=0xbd36
sysimgguid=0x2c902004885b3
switchguid=0x2c902004885b0(2c902004885b1)
Switch\t36 \"S-0002c902004885b0\"\t\t# \"MF0;sw-1:IS5030/U1\" enhanced port 0 lid 4 lmc 0
[7]\t\"H-0000000010000000\"[1](10000009) \t\t# \"host HCA-1\" lid 17 4xQDR
[8]\t\"R-0000000030000000\"[2](30000002) \t\t# \"router\" lid 3 4xQDR

vendid=0x0
devid=0x0
sysimgguid=0x10000000
caguid=0x10000000
Ca\t2 \"H-0000000010000000\"\t\t# \"host HCA-1\"
[1](10000009) \t\"S-0002c902004885b0\"[7]\t\t# lid 17 lmc 1 \"MF0;sw-1:IS5030/U1\" lid 4 4xQDR

rtguid=0x30000000
Rt\t2 \"R-0000000030000000\"\t\t# \"router\"
[2](30000002) \t\"S-0002c902004885b0\"[8]\t\t# lid 3 lmc 0 \"MF0;sw-1:IS5030/U1\" lid 4 4xQDR
";

#[test]
fn output_of_ibnetdiscover_is_parsed() {
    let topology = read(DISCOVERED).expect("well formed");
    let [switch, ca, router] = topology.nodes.as_slice() else { panic!("three nodes") };
    assert_eq!(switch.kind, NodeKind::Switch);
    assert_eq!(switch.guid, Guid(0x0002_c902_0048_85b0));
    assert_eq!(switch.system_guid, Guid(0x0002_c902_0048_85b3));
    assert_eq!(switch.port_guid(PortNum::ZERO), Guid(0x0002_c902_0048_85b1));
    assert_eq!(switch.description, "MF0;sw-1:IS5030/U1");
    assert_eq!((switch.num_ports, switch.lids.as_slice()), (36, &[(PortNum(0), 4, 0)][..]));
    assert_eq!(ca.kind, NodeKind::Ca);
    assert_eq!(ca.port_guid(PortNum(1)), Guid(0x1000_0009));
    assert_eq!(ca.port_guid(PortNum(2)), Guid(0x1000_0002));
    assert_eq!(ca.lids, [(PortNum(1), 17, 1)]);
    assert_eq!(router.kind, NodeKind::Router);
    assert_eq!(router.port_guids, []);
    let p = PortNum;
    assert_eq!(topology.cables, [[(0, p(7)), (1, p(1))], [(0, p(8)), (2, p(2))]]);
}

#[test]
fn files_for_ibsim_are_parsed() {
    let text = "\
# names that are not GUIDs, the default peer port, options, a prefix
width=4
module=\"m\"
Switch 8 \"Switch1\"
[1] \"Hca1\"
# a comment inside the record
[2] \"Hca2\"[2] w=4 s=7

Hca 2 \"Hca1\"
[1] \"Switch1\"[1]

Hca\t2 \"Hca2\" # bare words lid 7
[2] \"m#Switch1\"[2]
switchguid+0x10
Switch 1 \"last\"
";
    let topology = read(text).expect("well formed");
    let nodes: Vec<_> = topology.nodes.iter().map(|n| (n.guid.0, n.description.as_str())).collect();
    let expected = [
        (0x20_0000, "m#Switch1"),
        (0x10_0000, "m#Hca1"),
        (0x10_0003, "bare words"),
        (0x20_0011, "m#last"),
    ];
    assert_eq!(nodes, expected);
    assert_eq!(topology.cables.len(), 2);
}

#[test]
fn errors_have_line_and_column() {
    let cases = [
        ("Switch 3", "f.net:1:9: expected '\"'"),
        ("Switch x \"a\"", "f.net:1:8: expected a number of at most 64 bits"),
        ("Switch 255 \"a\"", "f.net:1:8: a node has 1 to 254 ports"),
        ("Switch 0 \"a\"", "f.net:1:8: a node has 1 to 254 ports"),
        ("Switch 3 \"a", "f.net:1:10: the quotation mark is not closed"),
        ("Switch 3 \"\"", "f.net:1:10: a node needs a name"),
        ("Swtich 3 \"a\"", "\"Swtich\" does not begin a line"),
        ("[1] \"a\"[1]", "f.net:1:1: a cable outside the record of a node"),
        ("Switch 3 \"a\"\n\n[1] \"a\"[2]", "f.net:3:1: a cable outside"),
        ("Switch 3 \"a\"\n[4] \"a\"[2]", "f.net:2:2: port 4: the node has ports 1 to 3"),
        ("Switch 3 \"a\"\n[0] \"a\"[2]", "f.net:2:2: port 0: the node has ports 1 to 3"),
        ("Switch 3 \"a\"\n[1] \"a\"[999]", "f.net:2:9: 999 is not a port number"),
        ("Switch 3 \"a\"\n[1] \"a\"[4]", "f.net:2:5: \"a\" has ports 1 to 3, not 4"),
        ("Switch 3 \"a\"\n[1] \"b\"[1]", "f.net:2:5: no node \"b\" in this file"),
        ("Switch 3 \"a\"\n[1] \"a\"[2] junk", "f.net:2:12: expected an option"),
        ("Switch 3 \"a\"\n\nSwitch 3 \"a\"", "f.net:3:10: node \"a\" is already in line 1"),
        (
            "caguid=0x5\nCa 1 \"a\"\n\nswitchguid=5\nSwitch 1 \"b\"",
            "f.net:5:10: node GUID 0x0000000000000005 is already that of the node in line 2",
        ),
        ("Switch 3 \"a\"\n[1] \"a\"[2]", "does not mention this cable at its port 2"),
        (
            "Switch 3 \"a\"\n[1] \"a\"[2]\n[2] \"a\"[3]\n[3] \"a\"[2]",
            "f.net:2:5: line 3 says that port 2 of \"a\" is cabled to port 3 of \"a\"",
        ),
        (
            "Switch 3 \"a\"\n[1] \"a\"[2]\n[1] \"a\"[2]",
            "f.net:3:5: port 1 is already cabled in line 2",
        ),
        ("switchguid=0", "f.net:1:12: a GUID must not be 0"),
        ("switchguid=0x", "f.net:1:14: expected a hexadecimal number"),
        ("caguid=0x11112222333344445", "f.net:1:10: expected a hexadecimal number"),
        ("Switch 1 \"a\" # \"d\" lid 50000", "f.net:1:24: 50000 is not a unicast LID"),
        ("Switch 1 \"a\" # \"d\" lid 5 lmc 8", "f.net:1:30: 8 is not an LMC"),
        ("include \"x\"", "f.net:1:1: ibsim's \"include\""),
        ("@[1] \"x\"", "f.net:1:1: aliases"),
    ];
    for (text, expected) in cases {
        let error = read(text).expect_err(text);
        assert!(error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn a_loopback_plug_is_a_cable() {
    let topology = read("Switch 3 \"a\"\n[1] \"a\"[1]\n[2] \"a\"[3]\n[3] \"a\"[2]").expect("fine");
    let p = PortNum;
    assert_eq!(topology.cables, [[(0, p(1)), (0, p(1))], [(0, p(2)), (0, p(3))]]);
}

prop_compose! {
    fn nodes()(
        parts in prop::collection::vec(
            (0u8..3, 1u8..40, "[ -!#-~]{0,20}", any::<u64>(), 0u16..0xC000, 0u8..8), 1..12),
    ) -> Vec<TopologyNode> {
        let build = |(index, (kind, num_ports, description, seed, lid, lmc))| {
            let kind = [NodeKind::Switch, NodeKind::Ca, NodeKind::Router][usize::from(kind)];
            let guid = Guid(0x1000 * (index as u64 + 1));
            let port = PortNum(u8::from(kind != NodeKind::Switch));
            let odd_guid = Guid(seed | 1 << 63);
            TopologyNode {
                model: Default::default(),
                kind,
                guid,
                system_guid: if seed % 3 == 0 { guid } else { Guid(seed) },
                description,
                num_ports,
                port_guids: if seed % 2 == 0 { vec![(port, odd_guid)] } else { vec![] },
                lids: if lid > 0 { vec![(port, lid, lmc)] } else { vec![] },
            }
        };
        parts.into_iter().enumerate().map(build).collect()
    }
}

/// A topology in which port 1 of each CA and router has a cable, since files contain the GUIDs and
/// LIDs of cabled ports only.
fn topologies() -> impl Strategy<Value = Topology> {
    (nodes(), any::<u64>()).prop_map(|(mut nodes, seed)| {
        let mut free: Vec<(usize, PortNum)> = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            free.extend((2..=node.num_ports).map(|num| (index, PortNum(num))));
        }
        let len = free.len() as u64;
        for index in 0..free.len() {
            let other = (seed.wrapping_mul(index as u64 + 7) >> 7) % len.max(1);
            free.swap(index, other as usize);
        }
        let mut cables = Vec::new();
        for (index, node) in nodes.iter_mut().enumerate() {
            match free.pop() {
                Some(peer) => cables.push([(index, PortNum(1)), peer]),
                None if node.kind != NodeKind::Switch => {
                    node.port_guids.clear();
                    node.lids.clear();
                }
                None => {}
            }
        }
        let half = free.len() / 2;
        cables.extend(free[..half].chunks_exact(2).map(|pair| [pair[0], pair[1]]));
        let mut topology = Topology { nodes, cables };
        topology.normalize();
        topology
    })
}

proptest! {
    #[test]
    fn written_files_parse_to_the_same_topology(topology in topologies()) {
        prop_assert_eq!(read(&write(&topology)), Ok(topology));
    }

    #[test]
    fn no_text_panics(text in "(Switch |Ca |Rt |\\[|\\]|\"a\"|\"S-1\"|[0-9]{1,3}|lid |lmc |#|\n|=|caguid|\\(|.){0,40}") {
        let _ = read(&text);
    }
}

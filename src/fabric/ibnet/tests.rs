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

/// Seeds of the fuzz target that are outputs of Debian's ibnetdiscover.
macro_rules! seed {
    ($name:literal) => {
        include_str!(concat!("../../../fuzz/corpus/ibnetdiscover/", $name))
    };
}

#[test]
fn cables_between_channel_adapters_are_parsed() {
    let topology = read(seed!("back-to-back")).expect("well formed");
    let p = PortNum;
    assert_eq!(topology.cables, [[(0, p(1)), (1, p(1))]]);
    assert_eq!(topology.nodes[0].description, "b HCA-1");
    assert_eq!(topology.rate(0, p(1)).to_string(), "4xSDR");
    let with_router = "\
Ca\t2 \"H-0000000000bb0000\"\t\t# \"b HCA-1\"
[2](bb0002) \t\"R-0000000000ee0000\"[1] (ee0001) \t\t# lid 2 lmc 0 \"router\" lid 3 4xQDR

Rt\t2 \"R-0000000000ee0000\"\t\t# \"router\"
[1](ee0001) \t\"H-0000000000bb0000\"[2] (bb0002) \t\t# lid 3 lmc 0 \"b HCA-1\" lid 2 4xQDR
[2](ee0002) \t\"S-00000000000d0000\"[1]\t\t# lid 4 lmc 0 \"leaf\" lid 5 4xQDR

Switch\t4 \"S-00000000000d0000\"\t\t# \"leaf\" base port 0 lid 5 lmc 0
[1]\t\"R-0000000000ee0000\"[2](ee0002) \t\t# \"router\" lid 4 4xQDR
";
    let topology = read(with_router).expect("well formed");
    assert_eq!(topology.cables, [[(0, p(2)), (1, p(1))], [(1, p(2)), (2, p(1))]]);
    assert_eq!(topology.nodes[1].lids, [(p(1), 3, 0), (p(2), 4, 0)]);
}

#[test]
fn grouped_output_is_parsed() {
    let p = PortNum;
    let topology = read(seed!("chassis")).expect("well formed");
    assert_eq!(topology.cables, [[(0, p(24)), (1, p(1))]]);
    assert_eq!((topology.nodes[0].guid, topology.nodes[0].lids[0].1), (Guid(0xAA_0000), 1));
    assert_eq!(topology.rate(1, p(1)).to_string(), "4xDDR");
    let topology = read(seed!("grouped")).expect("well formed");
    assert_eq!((topology.nodes.len(), topology.cables.len()), (4, 3));
}

#[test]
fn messages_of_the_tools_are_skipped() {
    let messages = "\
ibwarn: [4711] mad_rpc: _do_madrpc failed; dport (DR path slid 0; dlid 0; 0,1,3)
src/query_smp.c:228; umad (DR path slid 0; dlid 0; 0,1,3 Attr 0x11:0) bad status 110; Connection timed out
/build/rdma-core-44.0/libibnetdisc/ibnetdisc.c:811; Failed to find remote port
ibnetdiscover: iberror: [pid 4711] main: failed: discover failed
";
    let (head, tail) = DISCOVERED.split_at(DISCOVERED.find("[8]").expect("a cable"));
    let expected = read(DISCOVERED);
    assert!(expected.is_ok());
    assert_eq!(read(&format!("{messages}{head}{messages}{tail}{messages}")), expected);
}

#[test]
fn other_lists_are_named() {
    for (text, expected) in [
        (
            seed!("list"),
            "f.net:1:1: this is a list of nodes (ibnetdiscover -l): give the output of",
        ),
        (seed!("ports"), "f.net:1:1: this is a list of ports (ibnetdiscover -p): give"),
        (seed!("iblinkinfo"), "f.net:1:1: this is output of iblinkinfo: give"),
        (
            "0x0000000000bb0001 \"b\"  0  1[  ] ==( 4X 2.5 Gbps)==> 0x1 \"a\"",
            "output of iblinkinfo",
        ),
        ("{ CA Ports:02 SystemGUID:0000 } ", "this is a dump of links (opensm-subnet.lst"),
        ("SW     4 36 0x0002c902004885b0 4x SDR 'sw'", "this is a list of ports"),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.contains(expected), "{text:?}: {error}");
    }
    let cache = include_bytes!("../../../fuzz/corpus/ibnetdiscover/cache");
    assert!(why_no_text(cache).is_some_and(|text| text.contains("ibnetdiscover (--cache)")));
    assert_eq!(why_no_text(b"\xff"), None);
}

#[test]
fn descriptions_keep_their_quotation_marks() {
    let text = "\
Switch\t4 \"S-0000000000000020\"\t\t# \"row \"b\" lid 7\" enhanced port 0 lid 4 lmc 0
[1]\t\"H-0000000000000010\"[1](11) \t\t# \"the \"big\" host\" lid 17 2xHDR

Ca\t1 \"H-0000000000000010\"\t\t# \"the \"big\" host\"
[1](11) \t\"S-0000000000000020\"[1]\t\t# lid 17 lmc 1 \"row \"b\" lid 7\" lid 4 2xHDR
";
    let topology = read(text).expect("well formed");
    let [switch, host] = topology.nodes.as_slice() else { panic!("two nodes") };
    assert_eq!(
        (switch.description.as_str(), &switch.lids[..]),
        ("row \"b\" lid 7", &[(PortNum(0), 4, 0)][..])
    );
    assert_eq!(
        (host.description.as_str(), &host.lids[..]),
        ("the \"big\" host", &[(PortNum(1), 17, 1)][..])
    );
    assert!(switch.model.enhanced_port0);
    assert_eq!(topology.rate(1, PortNum(1)).to_string(), "2xHDR");
}

#[test]
fn rates_are_read_and_written() {
    let topology = read(seed!("speeds")).expect("well formed");
    assert_eq!(rates(&topology), ["4xFDR", "4xEDR"]);
    let written = write(&topology);
    assert!(written.contains(" lid 0 4xEDR\n"), "{written}");
    assert_eq!(read(&written), Ok(topology));
    for rate in ["1xSDR", "12xDDR", "4xHDR", "2xNDR", "4xXDR"] {
        let text = seed!("speeds").replace("4xFDR", rate);
        assert_eq!(rates(&read(&text).expect("well formed"))[0], rate);
    }
    for unknown in ["4x???", "4xFDR10", ""] {
        let text = seed!("speeds").replace("4xFDR", unknown);
        let expected = if unknown == "4xFDR10" { "4xFDR10" } else { "4xQDR" };
        assert_eq!(rates(&read(&text).expect("well formed"))[0], expected);
    }
}

fn rates(topology: &Topology) -> Vec<String> {
    (1..=2).map(|port| topology.rate(0, PortNum(port)).to_string()).collect::<Vec<_>>()
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
        let nodes = parts.into_iter().enumerate().map(|(index, (kind, num_ports, description, seed, lid, lmc))| {
            let kind = [NodeKind::Switch, NodeKind::Ca, NodeKind::Router][usize::from(kind)];
            let guid = Guid(0x1000 * (index as u64 + 1));
            let port = PortNum(u8::from(kind != NodeKind::Switch));
            let odd_guid = Guid(seed | 1 << 63);
            TopologyNode {
                system_guid: if seed % 3 == 0 { guid } else { Guid(seed) },
                description,
                port_guids: if seed % 2 == 0 { vec![(port, odd_guid)] } else { vec![] },
                lids: if lid > 0 { vec![(port, lid, lmc)] } else { vec![] },
                ..TopologyNode::new(kind, guid, num_ports)
            }
        });
        nodes.collect()
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
        let mut topology = Topology { nodes, cables, ..Topology::default() };
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

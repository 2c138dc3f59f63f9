//! The effect of qos-policy.conf on path queries, and in a daemon that reads it.

mod qos_setup;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::SimCluster;
use testkit::sa_client::request;
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::config::qos_policy::QosPolicy;
use torus_sm::config::torus::TorusConfig;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::{Fabric, PortId};
use torus_sm::ids::{Gid, Guid, Lid, Pkey, Sl};
use torus_sm::plan::partitions::{self, Membership, Partition, PartitionMember, PortSelector};
use torus_sm::plan::qos::policy::EffectivePolicy;
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::sim::generate::Shape;
use torus_sm::transport::Address;
use torus_sm::wire::attr::PortInfo;
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::{PathRecord, Record, Selector};
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

const PREFIX: u64 = 0xfe80_0000_0000_0000;
const NO_RECORDS: u16 = 0x0300;

/// The port of the n-th host of the first column.
fn host(shape: &Shape, n: u16) -> Guid {
    Guid(shape.host_guid([0, n, 0], 0).0 + 1)
}

/// A 3x3 torus with its hosts in the default partition and in 0x10, whose paths have SL 8.
fn subnet(policy: &str) -> (Shape, Subnet) {
    let shape = Shape { hosts: 1, ..Shape::torus([3, 3, 1]) };
    let topology = shape.build().expect("a torus");
    let mut fabric =
        Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("node 0 exists");
    let up: Vec<(PortId, PortInfo)> = fabric
        .port_ids()
        .filter_map(|id| {
            let mut info = fabric.port(id).info()?;
            info.set_neighbor_mtu(info.mtu_cap());
            Some((id, info))
        })
        .collect();
    fabric.acknowledge(&up, &[]);
    let options = Options { qos: true, lmc: 1, ..Options::default() };
    let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf());
    let mut partitions = partitions::default(&options);
    partitions.push(Partition {
        name: "gold".into(),
        pkey: Pkey(0x10),
        members: vec![PartitionMember::new(PortSelector::All, Membership::Full)],
        sl: Sl(8),
        groups: Vec::new(),
    });
    let mut subnet = testkit::snapshot::subnet(fabric, options, &config, &partitions);
    let (policy, findings) = QosPolicy::parse(Path::new("qos-policy.conf"), policy);
    let policy = Arc::new(policy.unwrap_or_else(|| panic!("{findings:?}")));
    let keys = &subnet.plan.partitions.keys;
    let (made, notes) = EffectivePolicy::new(policy, &subnet.fabric, keys, &partitions, None);
    assert_eq!(notes, []);
    subnet.qos_policy = Some(Arc::new(made));
    (shape, subnet)
}

/// The paths from host 0 to host 1, or the status.
fn paths(
    place: &(Shape, Subnet),
    method: Method,
    mask: u64,
    set: impl Fn(&mut PathRecord),
) -> Result<Vec<PathRecord>, u16> {
    let (asker, mad) = query(place, method, mask, set);
    let reply = Responder::default().handle(&place.1, &asker, &mad.0, Instant::now());
    let reply = reply.expect("a reply");
    match Header::read(&reply.mad).status() {
        0 => Ok(reply.mad[DATA_OFFSET..].chunks_exact(64).map(PathRecord::parse).collect()),
        status => Err(status),
    }
}

/// Why there is no path from host 0 to host 1, for the log.
fn refusal(place: &(Shape, Subnet), mask: u64, set: impl Fn(&mut PathRecord)) -> Option<String> {
    let (asker, mad) = query(place, Method::GET, mask, set);
    let mut sa = Responder::default();
    let now = Instant::now();
    sa.prepare(&place.1, now);
    sa.refused_path(&place.1, &asker, &mad.0, now)
}

/// A query of host 0 for the paths to host 1.
fn query(
    (shape, subnet): &(Shape, Subnet),
    method: Method,
    mask: u64,
    set: impl Fn(&mut PathRecord),
) -> (Address, Mad) {
    let from = host(shape, 0);
    let to = host(shape, 1);
    let mut wanted = PathRecord::default();
    wanted.set_sgid(Gid::new(PREFIX, from));
    wanted.set_dgid(Gid::new(PREFIX, to));
    set(&mut wanted);
    let mask = PathRecord::SGID | PathRecord::DGID | mask;
    let mad = request(SaAttr::PATH_RECORD, method, mask, &wanted);
    let lid = subnet.plan.lids.base(subnet.fabric.port_by_guid(from).expect("a port"));
    (Address::gsi(lid.expect("a LID"), Sl(0)), mad)
}

fn path(
    place: &(Shape, Subnet),
    mask: u64,
    set: impl Fn(&mut PathRecord),
) -> Result<PathRecord, u16> {
    paths(place, Method::GET, mask, set).map(|records| records[0])
}

const LEVELS: &str = "
qos-levels
    qos-level
        name: DEFAULT
        sl: 0
    end-qos-level
    qos-level
        name: gold
        sl: 8
        mtu-limit: 1024
        rate-limit: 2.5Gbps
        packet-life: 9
    end-qos-level
    qos-level
        name: keyed
        sl: 0
        pkey: 0x10
        path-bits: 1
    end-qos-level
end-qos-levels
qos-match-rules
    qos-match-rule
        qos-class: 1
        qos-level-name: gold
    end-qos-match-rule
    qos-match-rule
        service-id: 0x100-0x1ff
        qos-level-name: keyed
    end-qos-match-rule
end-qos-match-rules
";

const SERVICE: u64 = PathRecord::SERVICE_ID_MSB | PathRecord::SERVICE_ID_LSB;

#[test]
fn a_level_gives_sl_limits_and_lifetime() {
    let place = subnet(LEVELS);
    let usual = path(&place, 0, |_| {}).expect("a path");
    let gold = path(&place, PathRecord::QOS_CLASS, |wanted| wanted.set_qos_class(1));
    let gold = gold.expect("a path");
    // With torus-2QoS the level determines the highest bit of the SL; the others come from the
    // path.
    assert_eq!((usual.sl().0 & 8, gold.sl().0), (0, usual.sl().0 | 8));
    assert_eq!((gold.mtu(), gold.rate(), gold.packet_life()), (3, 2, 9));
    assert!(usual.mtu() > 3 && usual.rate() != 2 && usual.packet_life() != 9);
    let other = path(&place, PathRecord::QOS_CLASS, |wanted| wanted.set_qos_class(2));
    assert_eq!(other.expect("a path").sl(), usual.sl(), "no rule has class 2");
    // The SL of the default level precedes the partition's.
    let in_gold = path(&place, PathRecord::PKEY, |wanted| wanted.set_pkey(Pkey(0x8010)));
    assert_eq!(in_gold.expect("a path").sl(), usual.sl());
}

#[test]
fn paths_outside_the_level_have_no_record() {
    let place = subnet(LEVELS);
    let class = |wanted: &mut PathRecord| wanted.set_qos_class(1);
    let with = |mask: u64, set: &dyn Fn(&mut PathRecord)| {
        let asked = path(&place, PathRecord::QOS_CLASS | mask, |wanted| {
            class(wanted);
            set(wanted);
        });
        asked.map(|record| record.sl().0)
    };
    let sl = with(0, &|_| {}).expect("a path");
    assert_eq!(with(PathRecord::SL, &|wanted| wanted.set_sl(Sl(1))), Err(NO_RECORDS));
    let mtu = PathRecord::MTU_SELECTOR | PathRecord::MTU;
    let more = |wanted: &mut PathRecord| {
        wanted.set_mtu_selector(Selector::GreaterThan);
        wanted.set_mtu(3);
    };
    assert_eq!(with(mtu, &more), Err(NO_RECORDS), "the level ends at 1024 bytes");
    let exactly = |wanted: &mut PathRecord| {
        wanted.set_mtu_selector(Selector::Exactly);
        wanted.set_mtu(3);
    };
    assert_eq!(with(mtu, &exactly), Ok(sl));
    let keyed = |key: u16| {
        path(&place, SERVICE | PathRecord::PKEY, |wanted| {
            wanted.set_service_id(0x150);
            wanted.set_pkey(Pkey(key));
        })
    };
    assert_eq!(keyed(0xFFFF).map(|record| record.pkey().0), Err(NO_RECORDS));
    assert_eq!(keyed(0x8010).map(|record| record.pkey().0), Ok(0x8010));
    let reason = refusal(&place, PathRecord::QOS_CLASS | PathRecord::SL, |wanted| {
        class(wanted);
        wanted.set_sl(Sl(1));
    });
    let reason = reason.expect("the SL is not that of the level");
    let text = "ERR 1F1F: QoS constraints: required PathRecord SL (1) doesn't match QoS policy \
                \"gold\" SL (8) [0x";
    assert!(reason.starts_with(text), "{reason}");
    let reason = refusal(&place, SERVICE | PathRecord::PKEY, |wanted| {
        wanted.set_service_id(0x150);
        wanted.set_pkey(Pkey(0xFFFF));
    });
    let reason = reason.expect("the P_Key is not that of the level");
    let text = "ERR 1F1D: QoS level \"keyed\" doesn't define specified PKey 0xffff for ports 0x";
    assert!(reason.starts_with(text), "{reason}");
    let limit = |wanted: &mut PathRecord| {
        class(wanted);
        more(wanted);
    };
    assert_eq!(refusal(&place, PathRecord::QOS_CLASS | mtu, limit), None, "the client's limit");
}

/// torus-2QoS decides all bits of an SL but the highest one, which is the QoS level.
#[test]
fn an_sl_counts_by_its_highest_bit_with_torus_2qos() {
    let place = subnet(&LEVELS.replace("sl: 0", "sl: 5"));
    let usual = path(&place, 0, |_| {}).expect("a path").sl();
    assert_eq!(usual.0 & 8, 0);
    assert_ne!(usual, Sl(5), "the SL of the level is not that of the path");
    let with = |sl: Sl| path(&place, PathRecord::SL, |wanted| wanted.set_sl(sl));
    assert_eq!(with(usual).map(|record| record.sl()), Ok(usual), "the level of the SL is the same");
    let why =
        |sl: Sl| refusal(&place, PathRecord::SL, |wanted| wanted.set_sl(sl)).unwrap_or_default();
    assert_eq!((with(Sl(5)).err(), with(Sl(8)).err()), (Some(NO_RECORDS), Some(NO_RECORDS)));
    assert!(why(Sl(5)).starts_with("ERR 1F2A: Requested SL (5) doesn't match"), "{}", why(Sl(5)));
    assert!(why(Sl(8)).starts_with("ERR 1F1F: QoS constraints"), "{}", why(Sl(8)));
}

#[test]
fn a_level_chooses_the_key_and_the_path_bits() {
    let place = subnet(LEVELS);
    let keyed = path(&place, SERVICE, |wanted| wanted.set_service_id(0x100)).expect("a path");
    assert_eq!(keyed.pkey(), Pkey(0x10), "as in the level, without the membership bit");
    let count = |mask: u64, id: u64| {
        let all = paths(&place, Method::GET_TABLE, mask, |wanted| wanted.set_service_id(id));
        all.expect("paths").iter().map(|record| record.dlid()).collect::<Vec<Lid>>()
    };
    let to = place.1.fabric.port_by_guid(host(&place.0, 1)).expect("a port");
    let base = place.1.plan.lids.base(to).expect("a LID");
    assert_eq!(count(0, 0).len(), 4, "two LIDs at each end");
    assert_eq!(count(SERVICE, 0x1FF), [Lid(base.0 + 1); 2]);
    assert_eq!(count(SERVICE, 0x200).len(), 4);
    // The path bits hold for queries by DLID, too.
    let to_lid = |lid: u16, id: u64| {
        path(&place, SERVICE | PathRecord::DLID, |wanted| {
            wanted.set_service_id(id);
            wanted.set_dlid(Lid(lid));
        })
    };
    assert_eq!(to_lid(base.0, 0x1FF).map(|record| record.dlid()), Err(NO_RECORDS));
    assert_eq!(to_lid(base.0 + 1, 0x1FF).map(|record| record.dlid()), Ok(Lid(base.0 + 1)));
    assert_eq!(to_lid(base.0, 0x200).map(|record| record.dlid()), Ok(base));
}

#[test]
fn a_reply_has_the_qos_class_of_the_query() {
    let place = subnet(LEVELS);
    let class = path(&place, PathRecord::QOS_CLASS, |wanted| wanted.set_qos_class(1));
    assert_eq!(class.map(|record| (record.qos_class(), record.sl().0 & 8)), Ok((1, 8)));
    let without = path(&place, 0, |wanted| wanted.set_qos_class(1));
    assert_eq!(without.map(|record| record.qos_class()), Ok(0), "not selected");
}

/// A rule about one end applies to both directions of a path: it stays reversible.
#[test]
fn a_rule_by_destination_leaves_the_path_reversible() {
    let to = host(&Shape { hosts: 1, ..Shape::torus([3, 3, 1]) }, 1);
    let place =
        subnet(&format!("qos-ulps\n default : 0\n any, target-port-guid {to} : 8\nend-qos-ulps\n"));
    let usual = subnet(LEVELS);
    let reversible = |place| path(place, PathRecord::REVERSIBLE, |w| w.set_reversible(true));
    let before = reversible(&usual).expect("a path");
    let record = reversible(&place).expect("a path");
    assert!(record.reversible());
    assert_eq!(record.sl().0, before.sl().0 | 8);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_reads_the_policy_and_keeps_it_if_the_next_is_wrong() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let file = cluster.file("qos-policy.conf");
    let write = |text: &str| std::fs::write(&file, text).expect("a file");
    let name = file.display().to_string();
    let options = Options { qos_policy_file: Some(name), ..cluster.options() };
    let same = options.clone();
    let reload = move || Ok(same.clone().into());
    write("qos-ulps\n default : 8\nend-qos-ulps\n");
    let sm = cluster.start_with([0, 0, 0], options, Box::new(reload));
    let sl = || {
        let subnet = sm.subnet.borrow().clone().expect("SUBNET UP");
        let place = (cluster.shape.clone(), (*subnet).clone());
        path(&place, 0, |_| {}).expect("a path").sl().0 & 8
    };
    let passes = async || {
        sm.tell(SmEvent::Reload);
        sleep(Duration::from_secs(30)).await;
    };
    sleep(Duration::from_secs(30)).await;
    assert_eq!(sl(), 8);
    write("qos-ulps\n default : 99\nend-qos-ulps\n");
    passes().await;
    assert_eq!(sl(), 8, "the wrong file is not used");
    write("qos-ulps\n default : 0\nend-qos-ulps\n");
    passes().await;
    assert_eq!(sl(), 0);
    write("qos-ulps\n default : 8\nend-qos-ulps\n");
    passes().await;
    std::fs::remove_file(&file).expect("the file");
    passes().await;
    assert_eq!(sl(), 8, "the policy does not end with its file");
}

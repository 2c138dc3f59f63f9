//! The deployments of the MLNX OFED manual and the examples of opensm(8): a daemon reads their
//! opensm.conf, qos-policy.conf and partitions.conf; the test compares the tables of the devices
//! and the answers to clients.

use super::super::{SERVICE, host, path, subnet};
use super::{arbitration, mapping};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use testkit::{SimCluster, Sm};
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::config::partitions::PartitionsConfig;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::daemon::sm_loop::context::Configuration;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::ids::{Guid, Pkey, PortNum};
use torus_sm::plan::qos::QosConfig;
use torus_sm::sim::generate::Shape;
use torus_sm::wire::record::PathRecord;

/// SLs 0 to 7 have VLs of their own; the others are not used.
const EIGHT: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 15, 15, 15, 15, 15, 15, 15, 15];

/// A daemon that has read these files, on a fabric of 3x3 switches with 15 VLs.
async fn deployed(options: &str, policy: &str, partitions: &str) -> (SimCluster, Sm) {
    let mut shape: Shape = "3x3x1".parse().expect("a shape");
    shape.hosts = 1;
    let hardware =
        Hardware { vl_cap: 5, vl_arb_high_cap: 8, vl_arb_low_cap: 8, ..Hardware::default() };
    let cluster = SimCluster::new(shape, hardware, 1);
    std::fs::write(cluster.file("qos-policy.conf"), policy).expect("a file");
    let mut read = Options {
        qos_policy_file: Some(cluster.file("qos-policy.conf").display().to_string()),
        routing_engine: Some("minhop".into()),
        ..cluster.options()
    };
    let findings = read.read(options, Path::new("opensm.conf"));
    assert!(findings.iter().all(|found| found.message.contains('=')), "{findings:?}");
    let (config, findings) = PartitionsConfig::parse(Path::new("partitions.conf"), partitions);
    assert_eq!(findings, []);
    let partitions = Arc::new(config.expect("partitions"));
    let same = read.clone();
    let reload = move || Ok(Configuration::with_partitions(same.clone(), partitions.clone()));
    let sm = cluster.start_with([0, 0, 0], read, Box::new(reload));
    sleep(Duration::from_secs(30)).await;
    // A reload reads the partitions as well.
    sm.tell(SmEvent::Reload);
    sleep(Duration::from_secs(30)).await;
    (cluster, sm)
}

/// The SL of the path from the first host of the column to the next.
fn sl(cluster: &SimCluster, sm: &Sm, mask: u64, set: impl Fn(&mut PathRecord)) -> u8 {
    let subnet = sm.subnet.borrow().clone().expect("SUBNET UP");
    path(&(cluster.shape.clone(), (*subnet).clone()), mask, set).expect("a path").sl().0
}

/// The ports whose tables are compared: one of a host, and one of a switch.
fn places(cluster: &SimCluster) -> [(Guid, PortNum); 2] {
    let [host, switch] =
        [cluster.shape.host_guid([1, 1, 0], 0), cluster.shape.switch_guid([1, 1, 0])];
    [(host, PortNum(1)), (switch, PortNum(1))]
}

/// `entries`, padded to a table of eight.
fn filled(entries: &[(u8, u8)]) -> Vec<(u8, u8)> {
    let mut filled = entries.to_vec();
    filled.resize(8, (0, 0));
    filled
}

/// "HPC: MPI and Lustre".
#[tokio::test(start_paused = true)]
async fn mpi_and_lustre() {
    let options = "qos_max_vls 8\nqos_high_limit 0\nqos_vlarb_high 2:1\nqos_vlarb_low 0:96,1:224\n\
                   qos_sl2vl 0,1,2,3,4,5,6,7,15,15,15,15,15,15,15,15\n";
    let shape = "3x3x1".parse::<Shape>().map(|shape| Shape { hosts: 1, ..shape }).expect("a shape");
    let others: Vec<Guid> = (0..3).map(|x| Guid(shape.host_guid([x, 2, 0], 0).0 + 1)).collect();
    let second = host(&shape, 1);
    for (stores, servers, expected) in
        [(second, others[0], 1), (others[0], second, 2), (others[0], others[1], 0)]
    {
        let policy = format!(
            "qos-ulps\n  default :0 # default SL (for MPI)\n  any, target-port-guid {stores},{} :1 # \
             SL for Lustre OST\n  any, target-port-guid {servers} :2 # SL for Lustre MDS\n\
             end-qos-ulps\n",
            others[2]
        );
        let (cluster, sm) = deployed(options, &policy, "Default=0x7fff : ALL=full;").await;
        assert_eq!(sl(&cluster, &sm, 0, |_| {}), expected, "{policy}");
        for (guid, num) in places(&cluster) {
            let wanted = (filled(&[(0, 96), (1, 224)]), filled(&[(2, 1)]), 0);
            assert_eq!(arbitration(&cluster, guid, num, (8, 8)), wanted, "{guid}");
        }
        assert_eq!(mapping(&cluster, places(&cluster)[0].0, 0, 0), EIGHT);
        assert_eq!(mapping(&cluster, places(&cluster)[1].0, 2, 1), EIGHT);
        sm.stop().await;
    }
}

/// "EDC SOA (2-tier): IPoIB and SRP".
#[tokio::test(start_paused = true)]
async fn ipoib_and_srp() {
    let options = "qos_max_vls 8\nqos_high_limit 0\nqos_vlarb_high 1:32,2:32\nqos_vlarb_low 0:1,\n\
                   qos_sl2vl 0,1,2,3,4,5,6,7,15,15,15,15,15,15,15,15\n";
    let shape = "3x3x1".parse::<Shape>().map(|shape| Shape { hosts: 1, ..shape }).expect("a shape");
    let srp = host(&shape, 1);
    let policy = format!(
        "qos-ulps\n  default :0\n  ipoib :1\n  sdp :1\n  srp, target-port-guid {srp} :2\n\
         end-qos-ulps\n"
    );
    let (cluster, sm) = deployed(options, &policy, "Default=0x7fff : ALL=full;").await;
    let asked = |mask, set: &dyn Fn(&mut PathRecord)| sl(&cluster, &sm, mask, set);
    assert_eq!(asked(PathRecord::PKEY, &|wanted| wanted.set_pkey(Pkey(0xFFFF))), 1, "IPoIB");
    assert_eq!(asked(SERVICE, &|wanted| wanted.set_service_id(0x1_0016)), 1, "SDP");
    assert_eq!(asked(0, &|_| {}), 2, "SRP");
    for (guid, num) in places(&cluster) {
        let wanted = (filled(&[(0, 1)]), filled(&[(1, 32), (2, 32)]), 0);
        assert_eq!(arbitration(&cluster, guid, num, (8, 8)), wanted, "{guid}");
    }
    assert_eq!(mapping(&cluster, places(&cluster)[0].0, 0, 0), EIGHT);
}

/// "EDC (3-tier): IPoIB, RDS, SRP", with the second partition to which its policy refers.
#[tokio::test(start_paused = true)]
async fn ipoib_rds_and_srp() {
    let options = "qos_max_vls 8\nqos_high_limit 0\nqos_vlarb_high 1:32,2:96,3:96,4:96\n\
                   qos_vlarb_low 0:1\nqos_sl2vl 0,1,2,3,4,5,6,7,15,15,15,15,15,15,15,15\n";
    let shape = "3x3x1".parse::<Shape>().map(|shape| Shape { hosts: 1, ..shape }).expect("a shape");
    let srp = host(&shape, 1);
    let other = host(&shape, 2);
    let policy = format!(
        "qos-ulps\n  default :0\n  ipoib, pkey 0x8001 :1\n  ipoib, pkey 0x8002 :2\n  rds :3\n  \
         srp, target-port-guid {srp}, {other} :4\nend-qos-ulps\n"
    );
    let partitions = "Default=0x7fff,ipoib : ALL=full;PartA=0x8001, sl=1, ipoib : ALL=full;\n\
                      PartB=0x8002, sl=2, ipoib : ALL=full;";
    let (cluster, sm) = deployed(options, &policy, partitions).await;
    let asked = |mask, set: &dyn Fn(&mut PathRecord)| sl(&cluster, &sm, mask, set);
    for (key, expected) in [(0x8001, 1), (0x8002, 2), (0xFFFF, 4)] {
        let got = asked(PathRecord::PKEY, &|wanted| wanted.set_pkey(Pkey(key)));
        assert_eq!(got, expected, "{key:#x}");
    }
    assert_eq!(asked(SERVICE, &|wanted| wanted.set_service_id(0x106_48CA)), 3, "RDS");
    let table = cluster.fabric.pkeys(places(&cluster)[0].0, PortNum(1), 0).expect("a table");
    assert_eq!(table[..8], [0xFF, 0xFF, 0x80, 1, 0x80, 2, 0, 0]);
    for (guid, num) in places(&cluster) {
        let wanted = (filled(&[(0, 1)]), filled(&[(1, 32), (2, 96), (3, 96), (4, 96)]), 0);
        assert_eq!(arbitration(&cluster, guid, num, (8, 8)), wanted, "{guid}");
    }
    let subnet = sm.subnet.borrow().clone().expect("SUBNET UP");
    assert_eq!(subnet.qos_policy.as_ref().map(|policy| policy.policy().rules.len()), Some(4));
}

/// The example of "SL2VL Mapping and VL Arbitration": 8 VLs, of which VL 0 has high priority.
#[tokio::test(start_paused = true)]
async fn tables_of_adapters_and_switches() {
    let of_kind = |kind: &str| {
        format!(
            "qos_{kind}_max_vls 15\nqos_{kind}_high_limit 6\nqos_{kind}_vlarb_high 0:4\n\
             qos_{kind}_vlarb_low 0:0,1:64,2:128,3:192,4:0,5:64,6:64,7:64\n\
             qos_{kind}_sl2vl 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7\n"
        )
    };
    let options = of_kind("ca") + &of_kind("swe");
    let (cluster, _sm) =
        deployed(&options, "qos-ulps\ndefault : 0 #default SL\nend-qos-ulps\n", "").await;
    let low = vec![(0, 0), (1, 64), (2, 128), (3, 192), (4, 0), (5, 64), (6, 64), (7, 64)];
    for (guid, num) in places(&cluster) {
        assert_eq!(arbitration(&cluster, guid, num, (8, 8)), (low.clone(), filled(&[(0, 4)]), 6));
    }
    let wanted = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 7];
    assert_eq!(mapping(&cluster, places(&cluster)[0].0, 0, 0), wanted);
    assert_eq!(mapping(&cluster, places(&cluster)[1].0, 2, 1), wanted);
}

/// "QOS CONFIGURATION" of opensm(8).
#[tokio::test(start_paused = true)]
async fn tables_of_one_kind_of_ports() {
    let options = "qos_high_limit 9\nqos_sw0_max_vls=2\nqos_ca_sl2vl=0,1,2,3,5,5,5,12,12,0,\n\
                   qos_swe_high_limit=0\n";
    let (cluster, _sm) = deployed(options, "qos-ulps\ndefault : 0\nend-qos-ulps\n", "").await;
    let [(adapter, first), (switch, port)] = places(&cluster);
    let wanted = [0, 1, 2, 3, 5, 5, 5, 12, 12, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(mapping(&cluster, adapter, 0, 0), wanted);
    assert_eq!(mapping(&cluster, switch, 2, 1)[3..5], [3, 4], "not those of adapters");
    let limit = |guid, num| cluster.fabric.port_info(guid, num).expect("a port").vl_high_limit();
    assert_eq!((limit(adapter, first), limit(switch, port)), (9, 0));
}

/// "Typical default values" of opensm(8), and those that the manual gives for adapters and
/// switches: the meaning of an empty file.
#[test]
fn default_values_are_those_of_the_manuals() {
    let values = |kind: &str| {
        format!(
            "qos_{kind}max_vls 15\nqos_{kind}high_limit 0\n\
             qos_{kind}vlarb_low 0:0,1:4,2:4,3:4,4:4,5:4,6:4,7:4,8:4,9:4,10:4,11:4,12:4,13:4,14:4\n\
             qos_{kind}vlarb_high 0:4,1:0,2:0,3:0,4:0,5:0,6:0,7:0,8:0,9:0,10:0,11:0,12:0,13:0,14:0\n\
             qos_{kind}sl2vl 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7\n"
        )
    };
    let usual = QosConfig::read(&Options::default());
    for text in [values(""), values("ca_") + &values("swe_")] {
        let (options, findings) = Options::parse(&text, Path::new("opensm.conf"));
        assert_eq!(findings, []);
        assert_eq!(QosConfig::read(&options), usual);
    }
}

/// Rules that the manual calls equivalent, and its shortest files, which are "equivalent to not
/// having a QoS policy file at all".
#[test]
fn equivalent_policies_give_the_same_answers() {
    let ulps =
        |rule: &str| subnet(&format!("qos-ulps\n  default : 0\n  {rule} : 8\nend-qos-ulps\n"));
    let level = |place: &_, mask, key| {
        path(place, mask, |wanted| wanted.set_pkey(Pkey(key))).expect("a path").sl().0 & 8
    };
    for rule in ["ipoib", "ipoib, pkey 0x7fff", "any, pkey 0x7fff"] {
        let place = ulps(rule);
        let answers = [(PathRecord::PKEY, 0xFFFF), (PathRecord::PKEY, 0x8010), (0, 0)]
            .map(|(mask, key)| level(&place, mask, key));
        assert_eq!(answers, [8, 0, 0], "{rule}");
    }
    let (shape, _) = ulps("sdp");
    for (number, expected) in [(1, 8), (2, 0)] {
        let target = host(&shape, number);
        for protocol in ["srp", "any"] {
            let place = ulps(&format!("{protocol}, target-port-guid {target}"));
            assert_eq!(level(&place, 0, 0), expected, "{protocol} {number}");
        }
    }
    let levels =
        "qos-levels\n  qos-level\n    name: DEFAULT\n    sl: 0\n  end-qos-level\nend-qos-levels\n";
    let mut nothing = subnet(levels);
    let shortest = [nothing.clone(), subnet("qos-ulps\n  default : 0 #default SL\nend-qos-ulps\n")];
    nothing.1.qos_policy = None;
    for place in &shortest {
        // The SL of the default level precedes that of the partition, which is 0 here.
        let ask = |place| path(place, PathRecord::PKEY, |wanted| wanted.set_pkey(Pkey(0xFFFF)));
        assert_eq!(ask(place), ask(&nothing));
    }
}

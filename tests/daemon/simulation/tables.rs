//! P_Key and SL to VL tables: changes on a reload, switches with special capabilities.

use super::*;
use torus_sm::wire::attr::PortState;

/// Thirty-nine partitions with all ports as full members, followed by `more`.
fn partitions(more: &str) -> Arc<PartitionsConfig> {
    let many = (1..40).map(|key| format!("={key}, defmember=full: ALL;\n"));
    let text = many.collect::<String>() + more;
    let (config, findings) = PartitionsConfig::parse(Path::new("partitions.conf"), &text);
    Arc::new(config.unwrap_or_else(|| panic!("{findings:?}")))
}

#[tokio::test(start_paused = true)]
async fn a_reload_moves_keys_without_losing_any() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    // One Set at a time, so that every intermediate state is seen.
    let options = Options { max_wire_smps: 1, ..cluster.options() };
    // First P_Key 7 is at index 0; then the default P_Key moves there from the second block, and
    // P_Key 5 leaves all hosts but one.
    let hosts: Vec<Guid> = cluster.hosts().collect();
    let member = Guid(hosts[4].0 + 1);
    let first = partitions("=7, indx0, defmember=full: ALL; Default=0x7fff: ALL=full;");
    let (config, _) = PartitionsConfig::parse(
        Path::new("partitions.conf"),
        &format!("Default=0x7fff: ALL=full; =0x5: {member};"),
    );
    let mut second = (*partitions("")).clone();
    second.definitions.retain(|definition| definition.pkey != Some(Pkey(5)));
    second.definitions.extend(config.expect("no error").definitions);
    let mut next = vec![Arc::new(second), first];
    let same = options.clone();
    let reload = move || {
        let partitions = next.pop().expect("two reloads");
        Ok(Configuration::with_partitions(same.clone(), partitions))
    };
    let sm = cluster.start_with(ORIGIN, options, Box::new(reload));
    settle().await;
    let keys = |guid: Guid| -> Vec<u16> {
        let blocks = (0..2).map(|block| cluster.fabric.pkeys(guid, PortNum(1), block).unwrap());
        let bytes: Vec<u8> = blocks.flatten().collect();
        bytes.chunks(2).map(|key| u16::from_be_bytes([key[0], key[1]])).collect()
    };
    assert_eq!(keys(hosts[0])[..2], [0xFFFF, 0], "without a file");
    sm.tell(SmEvent::Reload);
    settle().await;
    assert_eq!(keys(hosts[0])[0], 0x8007);
    assert!(keys(hosts[0])[32..].contains(&0xFFFF), "in the second block");
    cluster.fabric.set_delay(Duration::from_millis(1));
    sm.tell(SmEvent::Reload);
    let is_done = |guid: &Guid| keys(*guid)[0] == 0xFFFF && !keys(*guid)[1..].contains(&0xFFFF);
    let mut looks = 0;
    while !hosts.iter().all(is_done) {
        sleep(Duration::from_micros(100)).await;
        looks += 1;
        assert!(looks < 100_000, "the keys do not come to their places");
        for guid in &hosts {
            let now = keys(*guid);
            let lost = (1..40).chain([0x7FFF]).filter(|&base| base != 5);
            let lost: Vec<u16> =
                lost.filter(|base| !now.iter().any(|key| key & 0x7FFF == *base)).collect();
            assert_eq!(lost, [0; 0], "missing at {guid}");
        }
    }
    assert!(looks > 3, "the change was watched");
    settle().await;
    assert!(!keys(hosts[0]).contains(&0x8005));
    assert!(keys(hosts[4]).contains(&5), "a limited member now");
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(sm.stop().await, Exit::Clean);
}

#[tokio::test(start_paused = true)]
async fn optimized_switches_take_a_mapping_for_many_ports() {
    let shape = Shape { hosts: 2, ..Shape::torus([3, 3, 1]) };
    let hardware = Hardware { optimized_sl_to_vl: true, ..Hardware::default() };
    let mut sets = Vec::new();
    for use_optimized_slvl in [false, true] {
        let cluster = SimCluster::new(shape.clone(), hardware.clone(), 1);
        let options = Options {
            routing_engine: Some("minhop".into()),
            qos_sl2vl: Some("7,6,5,4,3,2,1,0".into()),
            use_optimized_slvl,
            ..cluster.options()
        };
        let sm = cluster.start(ORIGIN, options);
        settle().await;
        // Among others, that the switches hold the plan.
        assert_eq!(cluster.faults(&sm), [""; 0]);
        sets.push(cluster.fabric.requests(AttrId::SL_TO_VL)[1]);
        assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
        assert_eq!(sm.stop().await, Exit::Clean);
    }
    // One Set per switch, besides those of the hosts.
    assert_eq!(sets[1], 9 + 18);
    assert!(sets[0] > 9 * 36, "{sets:?}");
}

/// A switch that rejects SL to VL mappings is an error in each sweep, unless errors are suppressed.
#[tokio::test(start_paused = true)]
async fn rejected_mappings_are_errors_unless_suppressed() {
    let cluster = SimCluster::new(Shape::torus([3, 3, 1]), Hardware::default(), 1);
    let switch = cluster.shape.switch_guid([1, 1, 0]);
    let refused = SetFault::Refused(Status::BAD_METHOD_ATTR);
    assert!(cluster.fabric.fail_sets(switch, AttrId::SL_TO_VL, refused));
    for suppress_sl2vl_mad_status_errors in [false, true] {
        let options = Options {
            routing_engine: Some("minhop".into()),
            qos: true,
            qos_sl2vl: Some("7,6,5,4,3,2,1,0".into()),
            suppress_sl2vl_mad_status_errors,
            ..cluster.options()
        };
        let sm = cluster.start(ORIGIN, options);
        settle().await;
        let failed = sm.subnet.borrow().as_ref().expect("it is up").failed_sets;
        assert_eq!(failed > 0, !suppress_sl2vl_mad_status_errors, "{failed} Sets");
        // All other switches have their tables.
        let faults = cluster.faults(&sm);
        assert!(
            faults
                .iter()
                .all(|text| text.contains(&switch.to_string()) || text.contains("Sets failed")),
            "{faults:?}"
        );
        assert_eq!(sm.stop().await, Exit::Clean);
    }
}

/// Ports without a LID are left alone: the subnet is up for the others, as with OpenSM.
#[tokio::test(start_paused = true)]
async fn a_subnet_without_lids_for_all_ports_is_up() {
    let hardware = Hardware { linear_fdb_cap: 64, ..Hardware::default() };
    let shape = Shape { hosts: 6, ..Shape::torus([3, 4, 1]) };
    let cluster = SimCluster::new(shape, hardware, 1);
    let sm = cluster.start(ORIGIN, cluster.options());
    settle().await;
    let subnet = sm.subnet.borrow().clone().expect("it is up");
    assert_eq!((subnet.failed_sets, subnet.plan.lids.max()), (0, Lid(63)));
    cluster.fabric.reset_counters();
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(cluster.fabric.sets(), 0);
    let lids = cluster.hosts().map(|guid| {
        let info = cluster.fabric.port_info(guid, PortNum(1)).expect("a port");
        (info.lid(), info.port_state())
    });
    let states: Vec<(Lid, PortState)> = lids.collect();
    assert!(states.iter().any(|(lid, _)| lid.0 == 0), "{states:?}");
    let is_active = |state: PortState| state == PortState::Active;
    assert!(states.iter().all(|&(lid, state)| is_active(state) == (lid.0 != 0)), "{states:?}");
}

//! Records that clients write, with the whole daemon on a simulated fabric: reports, trees of
//! joined groups, and the state after a restart.

use super::*;

async fn subscribe(client: &Client, trap: u16) {
    let reply = client.call(&inform(Method::SET, |info| info.set_trap_number(trap))).await;
    assert_eq!(status(&reply), 0);
}

fn join_request(client: &Client, mgid: Gid, state: JoinState) -> Mad {
    let record = member_record(client.guid, mgid, state);
    let mask = if mgid == own_group() { CREATE } else { JOIN };
    request(SaAttr::MC_MEMBER_RECORD, Method::SET, mask, &record)
}

async fn up(cluster: &SimCluster, options: Options) -> Sm {
    let sm = cluster.start([0, 0, 0], Options { sa_key: SM_KEY, ..options });
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(sm.state(), SmState::Master);
    sm
}

fn broadcast() -> Gid {
    partitions::default(&Options::default())[0].groups[0].mgid
}

#[tokio::test(start_paused = true)]
async fn lost_and_new_ports_are_reported() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let sm = up(&cluster, cluster.options()).await;
    let client = Client::at(&cluster, [1, 1, 0], true);
    let other = Client::at(&cluster, [2, 1, 0], true);
    subscribe(&client, TrapNumber::GID_IN).await;
    subscribe(&client, TrapNumber::GID_OUT).await;
    subscribe(&other, TrapNumber::LINK_STATE).await;
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
    assert_eq!(client.reports(), [], "a sweep without changes is not reported");
    let node = cluster.shape.host_guid([2, 2, 0], 0);
    let gone = Gid::new(PREFIX, host(&cluster.shape, [2, 2, 0]));
    for round in 0..3 {
        assert!(cluster.fabric.unlink(node, PortNum(1)));
        settle().await;
        assert_eq!(client.reports(), [(TrapNumber::GID_OUT, gone)], "round {round}");
        assert!(cluster.fabric.relink(node, PortNum(1)));
        settle().await;
        assert_eq!(client.reports(), [(TrapNumber::GID_IN, gone)], "round {round}");
        let traps: BTreeSet<u16> = other.reports().into_iter().map(|(number, _)| number).collect();
        assert_eq!(traps, BTreeSet::from([TrapNumber::LINK_STATE]), "the traps of the switch");
        // Traps are limited per second.
        sleep(Duration::from_secs(2)).await;
    }
    let no_more = inform(Method::SET, |info| {
        end(info);
        info.set_trap_number(TrapNumber::GID_OUT);
    });
    assert_eq!(status(&client.call(&no_more).await), 0);
    assert!(cluster.fabric.unlink(node, PortNum(1)));
    settle().await;
    assert_eq!(client.reports(), []);
    assert_eq!(sm.stop().await, Exit::Clean);
}

#[tokio::test(start_paused = true)]
async fn reports_are_repeated_until_acknowledged() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let sm = up(&cluster, cluster.options()).await;
    let deaf = Client::at(&cluster, [1, 1, 0], false);
    let client = Client::at(&cluster, [2, 1, 0], true);
    subscribe(&deaf, TrapNumber::GID_OUT).await;
    subscribe(&client, TrapNumber::GID_OUT).await;
    for at in [[1, 2, 0], [2, 2, 0]] {
        assert!(cluster.fabric.unlink(cluster.shape.host_guid(at, 0), PortNum(1)));
    }
    settle().await;
    assert_eq!(client.reports().len(), 2, "other subscribers are not delayed");
    assert_eq!(deaf.reports().len(), 1);
    sleep(Duration::from_millis(500)).await;
    let tids: BTreeSet<u64> = deaf.report_tids().into_iter().collect();
    assert_eq!((deaf.reports().len(), tids.len()), (2, 1), "the same one again");
    deaf.answer_reports(true);
    sleep(Duration::from_secs(1)).await;
    let subjects: BTreeSet<Gid> = deaf.reports().into_iter().map(|(_, gid)| gid).collect();
    assert_eq!(subjects.len(), 2, "the first is answered, and the second follows");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(deaf.reports(), []);
    assert_eq!(sm.stop().await, Exit::Clean);
}

/// Sends a notice to the subnet manager as the device of `client` would.
fn trap(client: &Client, lid: Lid, number: u16, tid: u64) {
    client.trap(tid, |notice| {
        notice.set_trap_number(number);
        notice.set_issuer_lid(lid);
        notice.set_subject_lid(lid);
    });
}

/// Repeated traps of a device are reported at a bounded rate: [`MAX_TRAPS_PER_PERIOD`] times, then
/// once in a [`RATE_PERIOD`]. Traps that reveal keys of others are reported to trusted subscribers
/// only.
#[tokio::test(start_paused = true)]
async fn notices_of_devices_are_reported_at_a_bounded_rate() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let sm = up(&cluster, cluster.options()).await;
    let noisy = [2, 2, 0];
    let client = Client::at(&cluster, [1, 1, 0], true);
    let knows = Client::at(&cluster, [2, 1, 0], true);
    let device = Client::at(&cluster, noisy, true);
    let lid = cluster.host_lid(noisy);
    subscribe(&client, 0xFFFF).await;
    let keys = inform(Method::SET, |info| info.set_trap_number(TrapNumber::BAD_P_KEY));
    assert_eq!(status(&knows.call(&trusted(keys)).await), 0);
    let seconds = 5;
    for tid in 1..=100 * seconds {
        for number in [TrapNumber::LINK_INTEGRITY, TrapNumber::BAD_P_KEY] {
            trap(&device, lid, number, tid);
            // A device repeats a trap until it is repressed.
            trap(&device, lid, number, tid);
        }
        sleep(RATE_PERIOD / 100).await;
    }
    settle().await;
    let most = MAX_TRAPS_PER_PERIOD as usize + seconds as usize * MAX_TRAPS_PER_PERIOD as usize;
    for (who, number) in [(&client, TrapNumber::LINK_INTEGRITY), (&knows, TrapNumber::BAD_P_KEY)] {
        let heard: Vec<u16> = who.reports().into_iter().map(|(number, _)| number).collect();
        assert!(heard.iter().all(|&other| other == number), "{heard:?}");
        assert!((MAX_TRAPS_PER_PERIOD as usize..=most).contains(&heard.len()), "{}", heard.len());
    }
    // After a pause it is reported again, once.
    sleep(10 * RATE_PERIOD).await;
    client.reports();
    trap(&device, lid, TrapNumber::LINK_INTEGRITY, 99_999);
    settle().await;
    assert_eq!(client.reports().len(), 1);
    assert_eq!(sm.stop().await, Exit::Clean);
}

#[tokio::test(start_paused = true)]
async fn groups_are_reported_and_joins_answered_once_the_tree_is_written() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let sm = up(&cluster, cluster.options()).await;
    let listener = Client::at(&cluster, [1, 1, 0], true);
    subscribe(&listener, TrapNumber::MCAST_CREATED).await;
    subscribe(&listener, TrapNumber::MCAST_DELETED).await;
    let clients = [[1, 0, 0], [2, 2, 0], [0, 1, 0]].map(|at| (at, Client::at(&cluster, at, true)));
    let mut joined = Vec::new();
    for ((at, client), state) in clients.iter().zip([1, 2, 4].map(JoinState)) {
        let reply = client.call(&join_request(client, own_group(), state)).await;
        assert_eq!(status(&reply), 0);
        let record = McMemberRecord::parse(&reply[DATA_OFFSET..]);
        joined.push((*at, record.join_state(), record.mlid()));
        if joined.len() > 1 {
            check_exits(&cluster, &joined);
        }
    }
    settle().await;
    assert_eq!(listener.reports(), [(TrapNumber::MCAST_CREATED, own_group())]);
    let (_, first) = &clients[0];
    let record = member_record(first.guid, own_group(), JoinState::FULL);
    let leave = request(SaAttr::MC_MEMBER_RECORD, Method::DELETE, JOIN, &record);
    assert_eq!(status(&first.call(&leave).await), 0);
    settle().await;
    assert_eq!(listener.reports(), [(TrapNumber::MCAST_DELETED, own_group())]);
    assert_eq!(exits(&cluster, joined[0].2), BTreeSet::new(), "the tables are empty again");
    assert_eq!(sm.stop().await, Exit::Clean);
}

/// Switch and port of each host that the tables of an MLID lead to.
fn exits(cluster: &SimCluster, mlid: Mlid) -> BTreeSet<(Guid, u8)> {
    let topology = &cluster.topology;
    let mut exits = BTreeSet::new();
    for [a, b] in &topology.cables {
        for (end, other) in [(a, b), (b, a)] {
            let node = &topology.nodes[end.0];
            let port = end.1.0;
            let leads_to_host = topology.nodes[other.0].num_ports == 1;
            let mft = cluster.fabric.mft(node.guid, port / 16);
            let mask = mft.and_then(|mft| mft.get(usize::from(mlid.0 - 0xC000)).copied());
            if leads_to_host && mask.unwrap_or(0) >> (port % 16) & 1 == 1 {
                exits.insert((node.guid, port));
            }
        }
    }
    exits
}

fn check_exits(cluster: &SimCluster, joined: &[([u16; 3], JoinState, Mlid)]) {
    let receivers = joined.iter().filter(|(_, state, _)| state.receives());
    let wanted: BTreeSet<Guid> = receivers.map(|(at, ..)| cluster.shape.switch_guid(*at)).collect();
    let got: BTreeSet<Guid> =
        exits(cluster, joined[0].2).into_iter().map(|(guid, _)| guid).collect();
    assert_eq!(got, wanted, "after {joined:?}");
}

#[tokio::test(start_paused = true)]
async fn many_joins_need_few_passes() {
    let cluster = SimCluster::healthy("4x4x4", 1);
    let sm = up(&cluster, cluster.options()).await;
    let places = (0..64u16).map(|n| [n / 16, n / 4 % 4, n % 4]).skip(1);
    let clients: Vec<Client> = places.map(|at| Client::at(&cluster, at, true)).collect();
    let before = sm.generation();
    let start = Instant::now();
    cluster.fabric.reset_counters();
    for client in &clients {
        let mad = join_request(client, broadcast(), JoinState::FULL);
        client.send(&mad, Duration::from_secs(3), 0);
    }
    for client in &clients {
        let (_, reply) = client.reply().await;
        assert_eq!(status(&reply.expect("a reply before the timeout")), 0);
    }
    assert!(start.elapsed() < Duration::from_secs(1));
    settle().await;
    let passes = sm.generation() - before;
    assert!(passes <= 3, "{passes} passes");
    let [_, sets] = cluster.fabric.requests(AttrId::MULTICAST_FT);
    assert!(sets <= 3 * 64, "{sets} MFT blocks");
    assert_eq!(exits(&cluster, Mlid::FIRST).len(), clients.len());
    assert_eq!(sm.stop().await, Exit::Clean);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_of_ports_that_left_end() {
    for at_once in [false, true] {
        let cluster = SimCluster::healthy("3x3x1", 1);
        let options = Options { drop_event_subscriptions: at_once, ..cluster.options() };
        let sm = up(&cluster, options).await;
        let client = Client::at(&cluster, [1, 1, 0], true);
        let observer = Client::at(&cluster, [2, 1, 0], true);
        subscribe(&client, TrapNumber::GID_OUT).await;
        let node = cluster.shape.host_guid([1, 1, 0], 0);
        assert!(cluster.fabric.unlink(node, PortNum(1)));
        settle().await;
        if !at_once {
            // A port that is down for a moment keeps its subscription.
            assert!(cluster.fabric.relink(node, PortNum(1)));
            settle().await;
            let other = cluster.shape.host_guid([2, 2, 0], 0);
            assert!(cluster.fabric.unlink(other, PortNum(1)));
            settle().await;
            assert_eq!(client.reports().len(), 1);
            assert!(cluster.fabric.unlink(node, PortNum(1)));
            for _ in 0..MAX_MISSED_SWEEPS {
                settle().await;
                sm.tell(SmEvent::Reload);
            }
        }
        settle().await;
        assert!(cluster.fabric.relink(node, PortNum(1)));
        settle().await;
        let table =
            request(SaAttr::INFORM_INFO_RECORD, Method::GET_TABLE, 0, &InformInfoRecord::default());
        let reply = observer.call(&table).await;
        assert!(!reply[DATA_OFFSET..].contains(&(TrapNumber::GID_OUT as u8)), "{at_once}");
        assert_eq!(sm.stop().await, Exit::Clean);
    }
}

#[tokio::test(start_paused = true)]
async fn client_records_survive_a_restart() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = Options { sa_db_dump: true, ..cluster.options() };
    let sm = up(&cluster, options.clone()).await;
    let clients = [[1, 0, 0], [2, 2, 0]].map(|at| Client::at(&cluster, at, true));
    for client in &clients {
        let reply = client.call(&join_request(client, own_group(), JoinState::FULL)).await;
        assert_eq!(status(&reply), 0);
    }
    subscribe(&clients[0], TrapNumber::GID_OUT).await;
    let register = service(Method::SET, SERVICE | ServiceRecord::LEASE, |r| r.set_lease(3600));
    assert_eq!(status(&clients[1].call(&trusted(register)).await), 0);
    let file = cluster.file("opensm-sa.dump");
    assert!(!file.exists());
    sleep(Duration::from_secs(11)).await;
    let mode =
        std::fs::metadata(&file).expect("written some time after a change").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it has keys of services");
    std::fs::remove_file(&file).expect("it can be removed");
    sleep(Duration::from_secs(60)).await;
    assert!(!file.exists(), "nothing changed");
    let leave = member_record(clients[1].guid, own_group(), JoinState::FULL);
    let leave = request(SaAttr::MC_MEMBER_RECORD, Method::DELETE, JOIN, &leave);
    assert_eq!(status(&clients[1].call(&leave).await), 0);
    assert_eq!(sm.stop().await, Exit::Clean);
    let text = std::fs::read_to_string(&file).expect("it is written at the end");
    assert_eq!(text.matches("mcm_port:").count(), 1, "{text}");

    let options = Options { sa_db_file: Some(file.display().to_string()), ..options };
    let sm = up(&cluster, options).await;
    assert_eq!(status(&clients[0].call(&service(Method::GET, SERVICE, |_| ())).await), 0);
    let group = member(Method::GET, McMemberRecord::MGID, |_| ());
    assert_eq!(status(&clients[0].call(&group).await), 0);
    clients[0].reports();
    assert!(cluster.fabric.unlink(cluster.shape.host_guid([1, 2, 0], 0), PortNum(1)));
    settle().await;
    assert_eq!(clients[0].reports().len(), 1, "the subscription is there");
    assert_eq!(sm.stop().await, Exit::Clean);
}

// ---- while the engine rejects the fabric ----

/// Paths from a client's port to these hosts: status, and LIDs and SL if it is 0.
async fn paths(client: &Client, hosts: &[Guid]) -> Vec<(u16, Lid, Lid, Sl)> {
    let mut answers = Vec::new();
    for &host in hosts {
        let mut record = PathRecord::default();
        record.set_sgid(Gid::new(PREFIX, client.guid));
        record.set_dgid(Gid::new(PREFIX, host));
        record.set_numb_path(1);
        let mask = PathRecord::SGID | PathRecord::DGID | PathRecord::NUMB_PATH;
        let reply = client.call(&request(SaAttr::PATH_RECORD, Method::GET, mask, &record)).await;
        let found = PathRecord::parse(&reply[DATA_OFFSET..]);
        answers.push((status(&reply), found.slid(), found.dlid(), found.sl()));
    }
    answers
}

#[tokio::test(start_paused = true)]
async fn paths_stay_the_same_while_the_engine_rejects_the_fabric() {
    let cluster = SimCluster::healthy("5x5x1", 1);
    let alone = Some("torus-2QoS,no_fallback".into());
    let options = Options { routing_engine: alone, torus_repair: false, ..cluster.options() };
    let sm = cluster.start([0, 0, 0], options);
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let client = Client::at(&cluster, [4, 3, 0], false);
    let places = (0..5).flat_map(|y| (0..5).map(move |x| [x, y, 0]));
    let hosts: Vec<Guid> = places.map(|at| host(&cluster.shape, at)).collect();
    let before = paths(&client, &hosts).await;
    let tables = cluster.tables();
    assert!(before.iter().all(|answer| answer.0 == 0), "{before:?}");
    let sls: BTreeSet<Sl> = before.iter().map(|answer| answer.3).collect();
    assert!(sls.len() > 1, "there is nothing to tell the SLs apart by: {sls:?}");
    // Two links of one ring are lost at once; the fabric can be routed again when one of them is
    // back.
    let [one, other] = [[0, 2, 0], [2, 2, 0]].map(|at| cluster.shape.switch_guid(at));
    cluster.fabric.reset_counters();
    assert!(cluster.fabric.unlink(one, PortNum(1)) && cluster.fabric.unlink(other, PortNum(1)));
    sleep(Duration::from_secs(20)).await;
    assert!(sm.refused.borrow().is_some(), "the engine refuses");
    assert_eq!(paths(&client, &hosts).await, before);
    assert!(cluster.tables() == tables, "tables were written");
    for table in [AttrId::LINEAR_FT, AttrId::MULTICAST_FT] {
        assert_eq!(cluster.fabric.requests(table)[1], 0, "{table:#x}");
    }
    // These tables deliver packets that do not pass the broken ring.
    let works = |&(_, from, to, _): &(u16, Lid, Lid, Sl)| {
        from == to
            || cluster.fabric.reaches(cluster.shape.host_guid([4, 3, 0], 0), PortNum(1), to, false)
    };
    let working = before.iter().filter(|answer| works(answer)).count();
    assert!(working >= 20, "{working} of {} paths work", before.len());
    assert!(cluster.fabric.relink(one, PortNum(1)));
    settle().await;
    assert_eq!(*sm.refused.borrow(), None);
    assert_eq!(paths(&client, &hosts).await, before);
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(sm.stop().await, Exit::Clean);
}

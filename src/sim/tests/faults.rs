//! Fault injection, reboots and flapping links.

use super::*;
use crate::wire::attr::{LinkWidth, NodeInfo, TrapNumber};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_request_times_out_once_after_all_retries() {
    let (fabric, mut sm) = sm();
    sm.retries = 3;
    assert!(fabric.silence(SW1));
    let start = Instant::now();
    assert!(sm.get(&[1, 1], AttrId::NODE_INFO, 0).await.is_none());
    assert_eq!(start.elapsed().as_millis(), 400);
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert!(sm.inbox.try_recv().is_err());
    assert!(
        sm.get(&[1, 1, 7], AttrId::NODE_INFO, 0).await.is_some(),
        "packets are still forwarded"
    );
    assert!(fabric.revive(SW1));
    assert!(sm.get(&[1, 1], AttrId::NODE_INFO, 0).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_agent_answers_one_smp_at_a_time_and_drops_those_beyond_its_queue() {
    let (fabric, mut sm) = sm();
    let service_time = Duration::from_millis(5);
    fabric.set_sma_speed(SmaSpeed { service_time, queue: 3 });
    fabric.set_smp_round_trip(Duration::from_millis(2));
    let start = Instant::now();
    for _ in 0..4 {
        sm.send(route(&[1]), Method::GET, (AttrId::NODE_INFO, 0), &[]);
    }
    for answer in 1..=3 {
        assert_eq!(sm.next().await.0, Outcome::Arrived);
        assert_eq!(start.elapsed().as_millis(), 5 * answer + 2);
    }
    assert_eq!(sm.next().await.0, Outcome::Unanswered);
    assert_eq!((fabric.dropped_smps(), fabric.longest_sma_queue()), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn injected_faults_take_effect() {
    let (fabric, mut sm) = sm();
    let healthy = sm.get(&[1], AttrId::NODE_INFO, 0).await.unwrap();
    fabric.misbehave(SW0, Misbehaviour::Garbage);
    let garbage = sm.get(&[1], AttrId::NODE_INFO, 0).await.unwrap();
    assert_ne!(garbage.smp_data(), healthy.smp_data());
    fabric.misbehave(SW0, Misbehaviour::WrongTid);
    assert!(sm.get(&[1], AttrId::NODE_INFO, 0).await.is_none());
    fabric.revive(SW0);
    fabric.set_reported_guid(SW1, SW0);
    let twin = sm.get(&[1, 1], AttrId::NODE_INFO, 0).await.unwrap();
    assert_eq!(NodeInfo::read(twin.smp_data()).node_guid(), SW0);
    fabric.set_delay(Duration::from_millis(3));
    let start = Instant::now();
    assert!(sm.get(&[1], AttrId::NODE_INFO, 0).await.is_some());
    assert_eq!(start.elapsed().as_millis(), 6);
    fabric.set_delay(Duration::ZERO);
    fabric.set_link_loss(SW0, P1, 1.0);
    assert!(sm.get(&[1], AttrId::NODE_INFO, 0).await.is_some());
    assert!(sm.get(&[1, 1], AttrId::NODE_INFO, 0).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_reboot_clears_tables_and_a_flapping_link_recovers() {
    let (fabric, mut sm) = sm();
    sm.bring_up().await;
    assert!(fabric.reboot(SW1));
    assert_eq!(fabric.lft(SW1), Some(Vec::new()));
    assert_eq!(fabric.port_info(SW1, PortNum(0)).unwrap().lid(), Lid(0));
    assert_eq!(fabric.port_info(SW0, P1).unwrap().port_state(), PortState::Init);
    assert!(fabric.switch_info(SW0).unwrap().port_state_change());
    fabric.flap(SW0, P1, Duration::from_secs(1), 4);
    let mut seen = vec![up(&fabric)];
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(1001)).await;
        seen.push(up(&fabric));
    }
    assert_eq!(seen, [false, true, false, true, true]);
}

fn up(fabric: &SimFabric) -> bool {
    fabric.port_info(SW0, P1).unwrap().port_state() != PortState::Down
}

/// Success of 200 Gets at a loss of 30 % each way.
async fn lossy_run(seed: u64) -> Vec<bool> {
    let topology = "2x1".parse::<Shape>().unwrap().build().unwrap();
    let fabric = SimFabric::new(&topology, Hardware::default(), seed);
    let mut client = Client::at(&fabric, HOST0, true);
    fabric.set_loss(0.3);
    let mut answered = Vec::new();
    for _ in 0..200 {
        answered.push(client.get(&[1, 1], AttrId::NODE_INFO, 0).await.is_some());
    }
    answered
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_loses_the_same_mads() {
    let first = lossy_run(1).await;
    assert_eq!(first, lossy_run(1).await);
    assert_ne!(first, lossy_run(2).await);
    let through = first.iter().filter(|&&answered| answered).count();
    assert!((70..130).contains(&through), "{through} of 200 with a probability of 0.49");
}

#[tokio::test(start_paused = true)]
async fn faults_affect_one_kind_of_mad_or_one_direction() {
    let (fabric, mut sm) = sm();
    sm.bring_up().await;
    fabric.set_loss_of(MadKind::Trap, 1.0);
    assert!(fabric.set_description(SW1, "renamed"));
    assert!(sm.get(&[1, 1], AttrId::NODE_INFO, 0).await.is_some());
    fabric.set_loss_of(MadKind::Trap, 0.0);
    let (_, trap) = sm.next().await;
    assert_eq!(trap.method(), Method::TRAP, "the trap is repeated");
    fabric.set_delay_of(MadKind::Response, Duration::from_millis(5));
    fabric.set_link_delay(SW0, P1, Duration::from_millis(20));
    let start = Instant::now();
    assert!(sm.get(&[1], AttrId::NODE_INFO, 0).await.is_some());
    assert_eq!(start.elapsed().as_millis(), 5);
    assert!(sm.get(&[1, 1], AttrId::NODE_INFO, 0).await.is_some());
    assert_eq!(start.elapsed().as_millis(), 5 + 20 + 5);
}

#[tokio::test(start_paused = true)]
async fn duplicates_on_a_link_arrive_twice() {
    let (fabric, mut sm) = sm();
    console::run_line(&fabric, "duplicate 0,0/1 100% requests").expect("a command");
    fabric.reset_counters();
    assert!(sm.get(&[1, 1], AttrId::NODE_INFO, 0).await.is_some());
    assert_eq!(fabric.requests(AttrId::NODE_INFO), [2, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_node_acts_at_once_and_answers_late() {
    let (fabric, mut sm) = sm();
    fabric.set_response_time(SW1, Duration::from_millis(30));
    let start = Instant::now();
    assert!(sm.get(&[1, 1], AttrId::NODE_INFO, 0).await.is_some());
    assert_eq!(start.elapsed().as_millis(), 30);
    assert!(sm.get(&[1, 1, 7], AttrId::NODE_INFO, 0).await.is_some());
    assert_eq!(start.elapsed().as_millis(), 30, "the host behind it is as fast as before");
    fabric.set_response_time(SW1, Duration::from_secs(1));
    let mut block = [0xFF; 64];
    block[3] = 5;
    sm.send(route(&[1, 1]), Method::SET, (AttrId::LINEAR_FT, 0), &block);
    assert_eq!(sm.next().await.0, Outcome::Unanswered);
    assert_eq!(fabric.lft(SW1), Some(block.to_vec()));
}

#[tokio::test(start_paused = true)]
async fn sets_are_refused_or_ignored_by_attribute() {
    let (fabric, mut sm) = sm();
    sm.bring_up().await;
    let before = fabric.lft(SW1);
    fabric.fail_sets(SW1, AttrId::LINEAR_FT, SetFault::Refused(Status::BAD_METHOD_ATTR));
    assert_eq!(sm.set(&[1, 1], AttrId::LINEAR_FT, 0, &[3; 64]).await, Status::BAD_METHOD_ATTR);
    fabric.fail_sets(SW1, AttrId::LINEAR_FT, SetFault::Ignored);
    let ask = sm.ask(route(&[1, 1]), Method::SET, (AttrId::LINEAR_FT, 0), &[3; 64]).await;
    let answer = ask.expect("a response");
    assert_eq!((answer.smp().status(), answer.smp_data()), (Status::OK, &[3; 64]));
    assert_eq!(fabric.lft(SW1), before);
    let status = sm.change(&[1, 1], 1, |info| info.set_port_state(PortState::Down)).await;
    assert_eq!(status, Status::OK, "other attributes are written");
    assert_eq!(fabric.port_info(SW1, P1).unwrap().port_state(), PortState::Down);
    fabric.revive(SW1);
    assert_eq!(sm.set(&[1, 1], AttrId::LINEAR_FT, 0, &[3; 64]).await, Status::OK);
    assert_eq!(fabric.lft(SW1), Some(vec![3; 64]));
}

#[tokio::test(start_paused = true)]
async fn a_node_reports_a_wrong_number_of_ports() {
    let (fabric, mut sm) = sm();
    fabric.set_reported_ports(SW1, 200);
    let answer = sm.get(&[1, 1], AttrId::NODE_INFO, 0).await.unwrap();
    assert_eq!(NodeInfo::read(answer.smp_data()).num_ports(), 200);
    let answer = sm.get(&[1, 1], AttrId::PORT_INFO, 150).await.unwrap();
    assert_eq!(answer.smp().status(), Status::BAD_FIELD, "there is no such port");
}

#[tokio::test(start_paused = true)]
async fn a_reboot_can_keep_the_lids() {
    let (fabric, mut sm) = sm();
    sm.bring_up().await;
    assert!(fabric.reboot_with_lids(SW1) && fabric.reboot_with_lids(HOST1));
    assert_eq!(
        (info(&fabric, SW1, 0).lid(), info(&fabric, SW1, 0).master_sm_lid()),
        (Lid(4), Lid(1))
    );
    assert_eq!(
        (info(&fabric, HOST1, 1).lid(), info(&fabric, HOST1, 1).port_state()),
        (Lid(3), PortState::Init)
    );
    assert_eq!(fabric.lft(SW1), Some(Vec::new()));
}

fn info(fabric: &SimFabric, guid: Guid, num: u8) -> PortInfo {
    fabric.port_info(guid, PortNum(num)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn links_train_late_and_degrade() {
    let (fabric, mut sm) = sm();
    sm.bring_up().await;
    let info = || fabric.port_info(SW0, P1).unwrap();
    fabric.set_training_time(SW1, PortNum(2), Duration::from_secs(2));
    assert!(fabric.degrade(SW0, P1, LinkWidth::X1, 1));
    assert_eq!(info().port_state(), PortState::Down);
    tokio::time::sleep(Duration::from_millis(1999)).await;
    assert_eq!(info().port_state(), PortState::Down);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(info().port_state(), PortState::Init);
    assert_eq!((info().link_width_active(), info().link_speed_active()), (LinkWidth::X1, 1));
    console::run_line(&fabric, "calm").expect("a command");
    assert_eq!((info().link_width_active(), info().link_speed_active()), (LinkWidth::X4, 4));
    assert!(fabric.unlink(SW0, P1) && fabric.relink(SW0, P1));
    assert_eq!(info().port_state(), PortState::Init, "without delay again");
}

#[tokio::test(start_paused = true)]
async fn a_storm_sends_traps_that_nothing_represses() {
    let (fabric, mut sm) = sm();
    sm.bring_up().await;
    assert!(fabric.storm(
        (SW1, PortNum(2)),
        TrapNumber::FLOW_CONTROL,
        Duration::from_millis(1),
        50
    ));
    let mut tids = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let (_, mad) = sm.next().await;
        let mut data = [0; 80];
        data[..64].copy_from_slice(mad.smp_data());
        let notice = crate::wire::attr::Notice::read(&data);
        assert_eq!((notice.trap_number(), notice.port()), (TrapNumber::FLOW_CONTROL, PortNum(2)));
        assert_eq!(notice.subject_lid(), Lid(4));
        tids.insert(mad.header().tid());
    }
    assert_eq!(tids.len(), 50);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(sm.inbox.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_host_moves_and_a_fabric_splits_and_heals() {
    let shape: Shape = "3x3".parse().unwrap();
    let fabric = SimFabric::new(&shape.build().unwrap(), Hardware::default(), 1);
    let up = || run(&fabric, "show links").lines().filter(|line| line.starts_with("INIT")).count();
    assert_eq!(up(), 18 + 9);
    run(&fabric, "split 0,*,*");
    assert_eq!(up(), 18 + 9 - 6);
    fabric.split(&[shape.switch_guid([1, 1, 0])]);
    assert_eq!(up(), 18 + 9 - 6 - 3, "the host stays with its switch");
    run(&fabric, "heal");
    assert_eq!(up(), 18 + 9);
    run(&fabric, "move 1,1,0/7 2,2,0/5");
    assert!(run(&fabric, "show links").contains("\"h1-1-0-0 HCA-1\"[1] - \"sw 2,2,0\"[5]"));
    run(&fabric, "move 2,2,0/5 1,1,0/7");
    assert_eq!(up(), 18 + 9);
}

fn run(fabric: &SimFabric, line: &str) -> String {
    console::run_line(fabric, line).expect(line)
}

#[tokio::test(start_paused = true)]
async fn drivers_report_events_of_their_ports() {
    let (fabric, mut sm) = sm();
    sm.bring_up().await;
    assert_eq!(sm.change(&[1, 1, 7], 1, ask_again).await, Status::OK);
    assert_eq!([HOST0, HOST1].map(|host| events(&fabric, host).reregistrations), [0, 1]);
    assert_eq!([HOST0, HOST1].map(|host| events(&fabric, host).activations), [1, 1]);
    assert_eq!(fabric.links().len(), 3);
    assert!(fabric.links().contains(&[(SW0, P1), (SW1, PortNum(2))]));
}

fn events(fabric: &SimFabric, host: Guid) -> PortEvents {
    fabric.port_events(host, P1).unwrap()
}

fn ask_again(info: &mut PortInfo) {
    info.set_client_reregister(true);
}

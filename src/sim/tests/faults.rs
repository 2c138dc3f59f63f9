//! Fault injection, reboots and flapping links.

use super::*;
use crate::wire::attr::NodeInfo;
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
    let up = || fabric.port_info(SW0, P1).unwrap().port_state() != PortState::Down;
    fabric.flap(SW0, P1, Duration::from_secs(1), 4);
    let mut seen = vec![up()];
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(1001)).await;
        seen.push(up());
    }
    assert_eq!(seen, [false, true, false, true, true]);
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

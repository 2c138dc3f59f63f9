//! Another program changes the port of the subnet manager, or sends what it should not: the manager
//! recovers, and its status says what happened and who did it.

use std::time::Duration;
use testkit::sa_client::Client;
use testkit::{Observer, SimCluster, settle};
use tokio::time::sleep;
use torus_sm::ids::{Lid, PortNum};
use torus_sm::manage::offenders::Offence;
use torus_sm::transport::transactions::SmpRequest;
use torus_sm::wire::attr::{AttrId, PhysState, PortState, SmState, TrapNumber};

#[tokio::test(start_paused = true)]
async fn the_manager_recovers_its_port_and_says_so() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let sm = cluster.start([0; 3], cluster.options());
    settle().await;
    let host = cluster.shape.host_guid([0; 3], 0);
    let own = cluster.fabric.port_info(host, PortNum(1)).expect("the port of the manager");
    let eye = Observer::at(&cluster, [1, 1, 0]);
    let mut foreign = own;
    foreign.set_lid(Lid(77));
    foreign.set_master_sm_lid(Lid(78));
    foreign.set_port_state(PortState::NoChange);
    foreign.set_phys_state(PhysState::NoChange);
    foreign.set_client_reregister(false);
    let route = eye.route(&cluster, [0; 3]);
    let set = SmpRequest::set(route, AttrId::PORT_INFO, 1, foreign.0);
    eye.call(&set).await.expect("a port without M_Key accepts it");
    assert_eq!(cluster.fabric.port_info(host, PortNum(1)).expect("it").lid(), Lid(77));
    sleep(Duration::from_secs(25)).await;
    assert_eq!(cluster.fabric.port_info(host, PortNum(1)).expect("it").lid(), own.lid());
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let status = sm.management.as_ref().expect("not taken").live.status.load();
    assert_eq!(status.anomalies.own_port.count, 1);
    let expected = format!(
        "LID 77 instead of {}, master SM at LID 78 instead of {}",
        own.lid(),
        own.master_sm_lid()
    );
    assert_eq!(status.anomalies.own_port.last, Some(expected));
}

/// A storm of traps with changing contents, and traps that a host cannot have.
#[tokio::test(start_paused = true)]
async fn sources_of_floods_and_forgeries_are_counted() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let sm = cluster.start([0; 3], cluster.options());
    settle().await;
    let hostile = Client::at(&cluster, [2, 2, 0], true);
    let own = cluster.host_lid([2, 2, 0]);
    for number in 0..600_u64 {
        hostile.trap(1 + number, |notice| {
            notice.set_trap_number(TrapNumber::LINK_INTEGRITY);
            notice.set_issuer_lid(own);
            notice.set_subject_lid(own);
            notice.set_port(PortNum(number as u8));
        });
        if number % 100 == 0 {
            settle().await;
        }
    }
    sleep(Duration::from_secs(15)).await;
    for tid in [1001, 1002, 1003] {
        hostile.trap(tid, |notice| {
            notice.set_trap_number(TrapNumber::GID_OUT);
            notice.set_issuer_lid(own);
        });
    }
    settle().await;
    let status = sm.management.as_ref().expect("not taken").live.status.load();
    let expected = [((own, Offence::TrapFlood), 600 - 256), ((own, Offence::ImpossibleTrap), 3)];
    assert_eq!(status.handles.offenders.list(), expected);
}

/// A false manager that knows the SM_Key hands over to the master again and again: that causes few
/// sweeps.
#[tokio::test(start_paused = true)]
async fn a_master_acts_on_few_handovers() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let sm = cluster.start([0; 3], cluster.options());
    settle().await;
    let eye = Observer::at(&cluster, [1, 1, 0]);
    let sm_key = cluster.options().sm_key.0;
    cluster.fabric.reset_counters();
    for _ in 0..150 {
        let set = eye.set(&cluster, [0; 3], 1, (SmState::Master, sm_key));
        set.await.expect("a reply");
        sleep(Duration::from_millis(50)).await;
    }
    settle().await;
    let [gets, _] = cluster.fabric.requests(AttrId::NODE_INFO);
    // One node has a cable to each of its up to 5 neighbours.
    let per_sweep = 2 * cluster.topology.cables.len() as u64 + 1;
    assert!(gets <= 3 * per_sweep, "{gets} NodeInfos, {per_sweep} in a sweep");
    assert_eq!(sm.state(), SmState::Master);
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let status = sm.management.as_ref().expect("not taken").live.status.load();
    let refused =
        status.handles.offenders.list().into_iter().map(|((_, kind), count)| (kind, count));
    assert_eq!(refused.collect::<Vec<_>>(), [(Offence::RefusedSmInfo, 149)]);
}

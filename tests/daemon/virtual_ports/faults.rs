//! Vports and ports that fail, lie, or claim what others have.

use super::*;
use testkit::tamper::Tampering;
use torus_sm::sim::AttributeFault;
use torus_sm::vendor::virtual_ports::VirtualFailure;
use torus_sm::wire::mad::{Method, Status};

#[tokio::test(start_paused = true)]
async fn a_guid_moves_only_when_its_vport_is_gone() {
    let cluster = cluster_with_vports(2);
    let from = cluster.shape.host_guid([1, 1, 0], 0);
    let to = cluster.shape.host_guid([2, 2, 0], 0);
    let moved = vport_guid(from, 1);
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    let change = |host, change: fn(&mut VportSpec, Guid)| {
        let change = move |spec: &mut VportSpec| change(spec, moved);
        assert!(cluster.fabric.change_virtual_port(host, PORT, 1, true, change));
    };
    // Two hypervisors use the GUID at once.
    change(to, |spec, moved| spec.guid = moved);
    sleep(QUIET).await;
    assert_eq!(state(&cluster, from, 1), PortState::Active);
    assert_eq!(state(&cluster, to, 1), PortState::Init);
    let failure = status(&sm).ports[&Guid(to.0 + 1)].vports[1].failure;
    assert_eq!(failure, Some(VirtualFailure::DuplicateGuid(moved)));
    change(from, |spec, _| spec.is_up = false);
    sleep(POLLED).await;
    assert_eq!(state(&cluster, to, 1), PortState::Active);
    assert_eq!(status(&sm).ports[&Guid(to.0 + 1)].vports[1].failure, None);
}

#[tokio::test(start_paused = true)]
async fn a_vport_cannot_take_the_guid_of_a_port() {
    let cluster = cluster_with_vports(2);
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let victim = Guid(cluster.shape.host_guid([2, 2, 0], 0).0 + 1);
    let steal = move |spec: &mut VportSpec| spec.guid = victim;
    assert!(cluster.fabric.change_virtual_port(host, PORT, 1, false, steal));
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    assert_eq!(state(&cluster, host, 1), PortState::Init);
    let failure = status(&sm).ports[&Guid(host.0 + 1)].vports[1].failure;
    assert_eq!(failure, Some(VirtualFailure::DuplicateGuid(victim)));
}

/// A port that refuses an attribute leaves its other vports, and all other ports, as they are.
#[tokio::test(start_paused = true)]
async fn a_port_that_refuses_any_attribute_harms_no_other() {
    for id in ATTRIBUTES {
        let cluster = cluster_with_vports(2);
        let refusing = cluster.shape.host_guid([1, 1, 0], 0);
        let fault = AttributeFault::Refused(Status::BAD_FIELD);
        assert!(cluster.fabric.set_attribute_fault(refusing, id, Some(fault)));
        let sm = cluster.start(ORIGIN, enabled(&cluster));
        sleep(QUIET).await;
        assert_eq!(cluster.faults(&sm), [""; 0], "{}", AttrId::name(id));
        for host in cluster.hosts().filter(|&host| host != refusing) {
            assert_eq!(state(&cluster, host, 1), PortState::Active, "{}", AttrId::name(id));
        }
        // Descriptions are for people only.
        let is_active = state(&cluster, refusing, 1) == PortState::Active;
        assert_eq!(is_active, id == AttrId::VNODE_DESCRIPTION, "{}", AttrId::name(id));
    }
}

/// A port that refused an attribute is asked again after a while, or at once after a reload.
#[tokio::test(start_paused = true)]
async fn a_refused_attribute_is_asked_again() {
    for id in [AttrId::VIRTUALIZATION_INFO, AttrId::VPORT_INFO, AttrId::VPORT_PKEY_TABLE] {
        for is_reloaded in [false, true] {
            let cluster = cluster_with_vports(2);
            let refusing = cluster.shape.host_guid([1, 1, 0], 0);
            let fault = AttributeFault::Refused(Status::BAD_FIELD);
            assert!(cluster.fabric.set_attribute_fault(refusing, id, Some(fault)));
            let sm = ReloadableSm::start(&cluster, ORIGIN, enabled(&cluster));
            sleep(POLLED).await;
            assert!(cluster.fabric.set_attribute_fault(refusing, id, None));
            sleep(POLLED).await;
            let name = AttrId::name(id);
            assert_ne!(state(&cluster, refusing, 1), PortState::Active, "{name}");
            if is_reloaded {
                sm.reload(|_| ());
                sleep(QUIET).await;
            } else {
                sleep(Duration::from_secs(310)).await;
            }
            assert_eq!(state(&cluster, refusing, 1), PortState::Active, "{name} {is_reloaded}");
            assert_eq!(cluster.faults(&sm.sm), [""; 0], "{name}");
        }
    }
}

/// Requests that are answered late count as stalled at first: those that wait for them follow.
#[tokio::test(start_paused = true)]
async fn vports_of_slow_devices_come_up_without_further_requests() {
    let cluster = cluster_with_vports(9);
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let set_all = |is_up| {
        for index in 1..9 {
            let change = move |spec: &mut VportSpec| spec.is_up = is_up;
            assert!(cluster.fabric.change_virtual_port(host, PORT, index, is_up, change));
        }
    };
    set_all(false);
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    let before = status(&sm).requests;
    cluster.fabric.set_smp_round_trip(Duration::from_millis(50));
    set_all(true);
    sleep(Duration::from_secs(60)).await;
    for index in 1..9 {
        assert_eq!(state(&cluster, host, index), PortState::Active, "vport {index}");
    }
    // Five for each vport, four for the port and its states, and polls of all ports.
    let sent = status(&sm).requests - before;
    assert!(sent <= 8 * 5 + 2 * 4 + 7 * 9, "{sent} requests");
}

/// A silent port is dropped, and taken up again when it answers.
#[tokio::test(start_paused = true)]
async fn a_silent_port_is_taken_up_later() {
    for id in ATTRIBUTES {
        let cluster = cluster_with_vports(2);
        let silent = cluster.shape.host_guid([1, 1, 0], 0);
        assert!(cluster.fabric.set_attribute_fault(silent, id, Some(AttributeFault::Silent)));
        let sm = cluster.start(ORIGIN, enabled(&cluster));
        sleep(POLLED).await;
        let others = cluster.hosts().filter(|&host| host != silent);
        for host in others {
            assert_eq!(state(&cluster, host, 1), PortState::Active, "{}", AttrId::name(id));
        }
        let failure = status(&sm).ports[&Guid(silent.0 + 1)].failure;
        assert_eq!(failure, Some(VirtualFailure::Unanswered(id)));
        assert!(cluster.fabric.set_attribute_fault(silent, id, None));
        sleep(POLLED).await;
        assert_eq!(state(&cluster, silent, 1), PortState::Active, "{}", AttrId::name(id));
    }
}

#[tokio::test(start_paused = true)]
async fn a_false_top_index_is_survived() {
    for top in [300, 255, 130, u16::MAX] {
        let cluster = cluster_with_vports(2);
        let host = cluster.shape.host_guid([1, 1, 0], 0);
        assert!(cluster.fabric.claim_top_index(host, PORT, Some(top)));
        let sm = cluster.start(ORIGIN, enabled(&cluster));
        sleep(QUIET).await;
        assert_eq!(state(&cluster, host, 1), PortState::Active, "top index {top}");
        assert_eq!(status(&sm).ports[&Guid(host.0 + 1)].vports.len(), 2);
    }
}

/// Hypervisors change GUIDs after the vports were read, and before they are activated.
#[tokio::test(start_paused = true)]
async fn a_guid_that_changes_before_its_vport_is_activated_is_read_again() {
    let cluster = cluster_with_vports(2);
    let tampering = Tampering::default();
    let hosts: Vec<Guid> = cluster.hosts().collect();
    let other = |host: Guid| Guid(vport_guid(host, 1).0 ^ 0xF0 << 48);
    let fabric = cluster.fabric.clone();
    let change_all = move || {
        for host in hosts.iter().copied() {
            let set = move |spec: &mut VportSpec| spec.guid = other(host);
            assert!(fabric.change_virtual_port(host, PORT, 1, false, set));
        }
    };
    let mut change_all = Some(change_all);
    tampering.set(move |mad| {
        let header = mad.header();
        if (mad.method(), header.attr_id()) == (Method::SET, AttrId::VPORT_INFO) {
            change_all.take().into_iter().for_each(|change| change());
        }
    });
    let options = enabled(&cluster);
    let same = options.clone();
    let reload = Box::new(move || Ok(same.clone().into()));
    let sm = cluster.start_behind(ORIGIN, options, reload, |port| tampering.wrap(port));
    sleep(QUIET).await;
    for host in cluster.hosts() {
        assert_eq!(state(&cluster, host, 1), PortState::Active);
        let known = &status(&sm).ports[&Guid(host.0 + 1)].vports[1];
        assert_eq!((known.guid, known.failure), (other(host), None));
    }
}

//! Subnet management agents, link states and forwarding.

use super::*;
use crate::transport::{Address, Agent, Outcome};
use crate::wire::attr::{CapMask, LinkWidth, NodeInfo, Notice, TrapNumber};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn directed_routes_are_followed_port_by_port() {
    let (fabric, mut sm) = sm();
    for (exits, guid, port) in
        [(&[][..], HOST0, 1), (&[1], SW0, 7), (&[1, 1], SW1, 2), (&[1, 1, 7], HOST1, 1)]
    {
        let mad = sm.get(exits, AttrId::NODE_INFO, 0).await.expect("an answer");
        let info = NodeInfo::read(mad.smp_data());
        assert_eq!((info.node_guid(), info.local_port()), (guid, PortNum(port)));
        assert!(mad.smp().returning());
        assert_eq!((mad.smp().hop_pointer(), usize::from(mad.smp().hop_count())), (0, exits.len()));
    }
    for lost in [&[2][..], &[1, 5], &[1, 0], &[1, 99], &[1, 7, 1], &[1, 1, 7, 1]] {
        assert!(sm.get(lost, AttrId::NODE_INFO, 0).await.is_none(), "{lost:?}");
    }
    assert_eq!(fabric.requests(AttrId::NODE_INFO), [4, 0]);
    assert!(fabric.port_info(HOST0, P1).unwrap().has(CapMask::IS_SM));
    drop(sm);
    assert!(!fabric.port_info(HOST0, P1).unwrap().has(CapMask::IS_SM));
}

#[tokio::test(start_paused = true)]
async fn port_states_advance_step_by_step() {
    use PortState::{Active, Armed, Down, Init};
    let (fabric, mut sm) = sm();
    for (wanted, status) in [
        (Active, Status::BAD_FIELD),
        (Init, Status::BAD_FIELD),
        (Armed, Status::OK),
        (Armed, Status::OK),
        (Active, Status::OK),
        (Active, Status::OK),
        (Armed, Status::BAD_FIELD),
    ] {
        assert_eq!(
            sm.change(&[1], 1, |info| info.set_port_state(wanted)).await,
            status,
            "{wanted}"
        );
    }
    assert_eq!((state(&fabric, SW0, 1), state(&fabric, SW1, 2)), (Active, Init));
    assert_eq!(sm.change(&[1], 1, |info| info.set_port_state(Down)).await, Status::OK);
    assert_eq!((state(&fabric, SW0, 1), state(&fabric, SW1, 2)), (Init, Init));
    assert_eq!(sm.change(&[1], 3, |info| info.set_port_state(Armed)).await, Status::BAD_FIELD);
}

fn state(fabric: &SimFabric, guid: Guid, num: u8) -> PortState {
    fabric.port_info(guid, PortNum(num)).unwrap().port_state()
}

#[tokio::test(start_paused = true)]
async fn the_first_packet_makes_an_armed_peer_active() {
    use PortState::{Active, Armed};
    let (fabric, mut sm) = sm();
    for (exits, num, state) in [(&[1][..], 1, Armed), (&[1, 1], 2, Armed), (&[1], 1, Active)] {
        assert_eq!(sm.change(exits, num, |info| info.set_port_state(state)).await, Status::OK);
    }
    assert_eq!(fabric.port_info(SW1, PortNum(2)).unwrap().port_state(), Active);
}

#[tokio::test(start_paused = true)]
async fn disabled_links_stay_down_until_set_to_polling() {
    let (fabric, mut sm) = sm();
    let state = || fabric.port_info(SW1, PortNum(2)).unwrap().port_state();
    assert_eq!(sm.change(&[1], 1, disable).await, Status::OK);
    assert_eq!(state(), PortState::Down);
    fabric.relink(SW0, P1);
    assert_eq!(state(), PortState::Down);
    assert_eq!(sm.change(&[1], 1, poll).await, Status::OK);
    assert_eq!(state(), PortState::Init);
    assert_eq!(fabric.port_info(SW1, PortNum(2)).unwrap().link_width_active(), LinkWidth::X1);
}

fn poll(info: &mut PortInfo) {
    info.set_link_width_enabled(LinkWidth::X1);
    info.set_phys_state(PhysState::Polling);
}

fn disable(info: &mut PortInfo) {
    info.set_phys_state(PhysState::Disabled);
}

#[tokio::test(start_paused = true)]
async fn values_out_of_range_change_nothing() {
    let (_fabric, mut sm) = sm();
    let external: [fn(&mut PortInfo); 6] = [
        |info| info.set_neighbor_mtu(5),
        |info| info.set_neighbor_mtu(0),
        |info| info.set_operational_vls(5),
        |info| info.set_link_width_enabled(LinkWidth::X12),
        |info| info.set_link_speed_enabled(8),
        |info| info.set_link_down_default_state(3),
    ];
    for (index, change) in external.into_iter().enumerate() {
        let before = sm.info(&[1], 1).await;
        assert_eq!(sm.change(&[1], 1, change).await, Status::BAD_FIELD, "case {index}");
        assert_eq!(sm.info(&[1], 1).await, before);
    }
    let end: [fn(&mut PortInfo); 4] = [
        |info| info.set_lid(Lid(0)),
        |info| info.set_lid(Lid(0xC000)),
        |info| (info.set_lid(Lid(3)), info.set_lmc(1)).1,
        |info| (info.set_lid(Lid(4)), info.set_master_sm_lid(Lid(0xC000))).1,
    ];
    for (index, change) in end.into_iter().enumerate() {
        assert_eq!(sm.change(&[], 1, change).await, Status::BAD_FIELD, "case {index}");
    }
    assert_eq!(sm.set(&[1], AttrId::PORT_INFO, 8, &[0; 64]).await, Status::BAD_FIELD);
    assert_eq!(sm.set(&[1], AttrId::NODE_INFO, 0, &[0; 64]).await, Status::BAD_METHOD_ATTR);
    assert_eq!(sm.set(&[], AttrId::LINEAR_FT, 0, &[0; 64]).await, Status::BAD_METHOD_ATTR);
}

#[tokio::test(start_paused = true)]
async fn blocks_beyond_the_capacity_are_rejected() {
    let (fabric, mut sm) = sm();
    let data: [u8; 64] = std::array::from_fn(|i| i as u8);
    for (attr, modifier, status) in [
        (AttrId::LINEAR_FT, 767, Status::OK),
        (AttrId::LINEAR_FT, 768, Status::BAD_FIELD),
        (AttrId::MULTICAST_FT, 31, Status::OK),
        (AttrId::MULTICAST_FT, 32, Status::BAD_FIELD),
        (AttrId::MULTICAST_FT, 1 << 28, Status::BAD_FIELD),
        (AttrId::SL_TO_VL, 7 << 8 | 1, Status::OK),
        (AttrId::SL_TO_VL, 8 << 8 | 1, Status::BAD_FIELD),
        (AttrId::VL_ARBITRATION, 1 << 16 | 3, Status::OK),
        (AttrId::VL_ARBITRATION, 2 << 16 | 3, Status::BAD_FIELD),
        (AttrId::VL_ARBITRATION, 5 << 16 | 3, Status::BAD_FIELD),
        (AttrId::PKEY_TABLE, 3 << 16 | 1, Status::OK),
        (AttrId::PKEY_TABLE, 3 << 16 | 2, Status::BAD_FIELD),
        (AttrId::PKEY_TABLE, 9 << 16, Status::BAD_FIELD),
    ] {
        assert_eq!(sm.set(&[1], attr, modifier, &data).await, status, "{attr:#x} {modifier:#x}");
    }
    assert_eq!(fabric.lft(SW0).unwrap()[767 * 64..], data);
    assert_eq!(fabric.mft(SW0, 0).unwrap()[31 * 32 + 1], 0x0203);
    assert_eq!(fabric.sl2vl(SW0, PortNum(7), P1).unwrap().0[..], data[..8]);
    let arbitration = fabric.vl_arb(SW0, PortNum(3), 1).unwrap();
    assert_eq!((&arbitration[..16], &arbitration[16..]), (&data[..16], &[0; 48][..]));
    assert_eq!(fabric.pkeys(SW0, PortNum(3), 1), Some(data));
    assert_eq!(fabric.pkeys(SW0, PortNum(4), 0).unwrap()[..4], [0xFF, 0xFF, 0, 0]);
    assert_eq!(sm.set(&[], AttrId::GUID_INFO, 0, &data).await, Status::OK);
    let guids = sm.get(&[], AttrId::GUID_INFO, 0).await.unwrap();
    assert_eq!(guids.smp_data()[..8], 0x1000_0001u64.to_be_bytes());
    assert_eq!(guids.smp_data()[8..], data[8..]);
    assert_eq!(sm.set(&[], AttrId::GUID_INFO, 4, &data).await, Status::BAD_FIELD);
    assert_eq!(fabric.requests(AttrId::VL_ARBITRATION), [0, 3]);
}

#[tokio::test(start_paused = true)]
async fn lid_routed_smps_follow_the_lfts() {
    let (fabric, mut sm) = sm();
    assert!(
        sm.ask(SmpRoute::Lid(Lid(4)), Method::GET, (AttrId::NODE_INFO, 0), &[]).await.is_none()
    );
    sm.bring_up().await;
    for (lid, guid) in [(1, HOST0), (2, SW0), (3, HOST1), (4, SW1)] {
        let mad = sm.ask(SmpRoute::Lid(Lid(lid)), Method::GET, (AttrId::NODE_INFO, 0), &[]).await;
        assert_eq!(NodeInfo::read(mad.expect("a path").smp_data()).node_guid(), guid);
    }
    assert!(fabric.reaches(HOST1, P1, Lid(1), true));
    let ends = [(HOST0, P1), (HOST1, P1), (SW0, PortNum(0)), (Guid(99), P1)];
    let cut_off = |lid, needs_active| {
        let expected: Vec<_> = ends
            .into_iter()
            .filter(|&(guid, num)| !fabric.reaches(guid, num, lid, needs_active))
            .collect();
        assert_eq!(fabric.cut_off(&ends, lid, needs_active), expected);
        expected.len()
    };
    assert_eq!([1, 2, 3, 4, 9].map(|lid| cut_off(Lid(lid), true)), [1, 1, 1, 1, 4]);
    let mut looping = [0xFF; 64];
    looping[1..5].copy_from_slice(&[2, 2, 2, 0]);
    assert_eq!(sm.set(&[1, 1], AttrId::LINEAR_FT, 0, &looping).await, Status::OK);
    assert!(!fabric.reaches(HOST0, P1, Lid(3), false));
    assert_eq!([1, 3].map(|lid| cut_off(Lid(lid), false)), [1, 3]);
}

#[tokio::test(start_paused = true)]
async fn directed_routes_may_have_lid_routed_parts() {
    let (_fabric, mut sm) = sm();
    sm.bring_up().await;
    let none = Lid::PERMISSIVE;
    // LID of the first part, output ports of the directed part, LID of the last part, responder.
    for (first, exits, last, answers) in [
        (none, &[1, 1, 7][..], none, Some(HOST1)),
        (none, &[1], Lid(3), Some(HOST1)),
        (none, &[], Lid(4), Some(SW1)),
        (Lid(4), &[7], none, Some(HOST1)),
        (Lid(2), &[1], Lid(3), Some(HOST1)),
        (Lid(2), &[], none, Some(SW0)),
        (Lid(2), &[], Lid(3), Some(HOST1)),
        (Lid(9), &[7], none, None),
        (Lid(4), &[5], none, None),
        (none, &[1], Lid(9), None),
        (Lid(3), &[1], none, Some(SW1)),
        (Lid(3), &[2], none, None),
    ] {
        sm.tid += 1;
        let get = (Method::GET, AttrId::NODE_INFO);
        let mut mad = request(
            &route(exits),
            SmpFields {
                method: get.0,
                attr_id: get.1,
                attr_mod: 0,
                m_key: MKey::NONE,
                tid: sm.tid,
            },
            &[0; 64],
        );
        let mut smp = mad.smp();
        smp.set_dr_slid(if first == none { none } else { Lid(1) });
        smp.set_dr_dlid(last);
        mad.0 = smp.0;
        sm.post(Agent::SmiDirected, Address::smi(first), Some(TIMEOUT), &mad.0);
        let (outcome, answer) = sm.next().await;
        let node = NodeInfo::read(answer.smp_data()).node_guid();
        let guid = (outcome == Outcome::Arrived).then_some(node);
        assert_eq!(guid, answers, "{first} {exits:?} {last}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_change_trap_is_repeated_until_repressed() {
    let (fabric, mut sm) = sm();
    sm.bring_up().await;
    assert!(!fabric.switch_info(SW0).unwrap().port_state_change());
    assert!(fabric.unlink(SW0, P1));
    assert_eq!(fabric.port_info(SW1, PortNum(2)).unwrap().port_state(), PortState::Down);
    assert!(fabric.switch_info(SW0).unwrap().port_state_change());
    let mut last = None;
    for repeat in 0..3u32 {
        let start = Instant::now();
        let (_, trap) = sm.next().await;
        let notice = Notice::read(trap.smp_data());
        assert_eq!(trap.method(), Method::TRAP);
        assert_eq!(notice.trap_number(), TrapNumber::LINK_STATE);
        assert_eq!((notice.issuer_lid(), notice.link_state_lid()), (Lid(2), Lid(2)));
        assert_eq!(start.elapsed().as_millis(), if repeat == 0 { 0 } else { 500 });
        last = Some(trap);
    }
    let mut repress = last.unwrap();
    let mut header = repress.header();
    header.set_method(Method::TRAP_REPRESS.0);
    repress.set_header(&header);
    sm.post(Agent::SmiLid, Address::smi(Lid(2)), None, &repress.0);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(sm.inbox.try_recv().is_err());
    assert!(fabric.relink(SW0, P1));
    let (_, trap) = sm.next().await;
    assert_eq!(trap.method(), Method::TRAP);
}

/// An SM that has brought up SW0 with the key 0xABCD.
async fn locked(level: u8, lease: u16) -> (SimFabric, Client) {
    let (fabric, mut sm) = sm();
    sm.bring_up().await;
    assert_eq!(sm.change(&[1], 0, |info| lock(info, level, lease)).await, Status::OK);
    (fabric, sm)
}

fn lock(info: &mut PortInfo, level: u8, lease: u16) {
    info.set_m_key(MKey(0xABCD));
    info.set_m_key_protect_bits(level);
    info.set_m_key_lease_period(lease);
}

/// Sends a request with this key to SW0. Returns the response, if there is one, and the notice of
/// the trap, if there is one.
async fn ask(sm: &mut Client, m_key: u64, request: (Method, u16)) -> (Option<Mad>, Option<Notice>) {
    let (method, attr_id) = request;
    sm.m_key = MKey(m_key);
    sm.send(route(&[1]), method, (attr_id, 0), &[]);
    let mut response = None;
    let mut trap = None;
    // Traps are repeated until the request is answered or given up.
    while response.is_none() {
        let (outcome, mad) = sm.next().await;
        match mad.method() {
            Method::TRAP => trap = Some(Notice::read(mad.smp_data())),
            _ => response = Some((outcome, mad)),
        }
    }
    let response = response.filter(|(outcome, _)| *outcome == Outcome::Arrived);
    sm.m_key = MKey(0xABCD);
    (response.map(|(_, mad)| mad), trap)
}

#[tokio::test(start_paused = true)]
async fn protection_levels_refuse_requests_without_the_m_key() {
    let info = (Method::GET, AttrId::PORT_INFO);
    let get = (Method::GET, AttrId::SWITCH_INFO);
    let set = (Method::SET, AttrId::SWITCH_INFO);
    // Level, request, whether it is answered with a wrong key, and the key that it shows.
    for (level, request, is_answered, shown) in [
        (0, info, true, 0xABCD),
        (0, get, true, 0),
        (0, set, false, 0),
        (1, info, true, 0),
        (1, get, true, 0),
        (1, set, false, 0),
        (2, info, false, 0),
        (2, get, false, 0),
        (2, set, false, 0),
        (3, info, false, 0),
        (3, set, false, 0),
    ] {
        let case = format!("level {level}, {request:?}");
        let (fabric, mut sm) = locked(level, 0).await;
        let (response, trap) = ask(&mut sm, 0x1, request).await;
        assert_eq!(response.is_some(), is_answered, "{case}");
        assert_eq!(violations(&fabric), u16::from(!is_answered), "{case}");
        if let Some(response) = response.filter(|_| request == info) {
            assert_eq!(PortInfo::read(response.smp_data()).m_key(), MKey(shown), "{case}");
        }
        if let Some(trap) = trap {
            assert_eq!(trap.trap_number(), TrapNumber::BAD_M_KEY, "{case}");
            assert_eq!((Method(trap.method()), trap.attr_id()), request, "{case}");
            assert_eq!((trap.m_key(), trap.return_path()), (MKey(0x1), &[7][..]), "{case}");
        }
        // The right key opens everything.
        let (response, _) = ask(&mut sm, 0xABCD, info).await;
        let response = response.expect("an answer");
        assert_eq!(PortInfo::read(response.smp_data()).m_key(), MKey(0xABCD), "{case}");
    }
}

fn violations(fabric: &SimFabric) -> u16 {
    fabric.port_info(SW0, PortNum(0)).unwrap().m_key_violations()
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_an_m_key_ends_unless_it_is_renewed() {
    let set = (Method::SET, AttrId::SWITCH_INFO);
    let get = (Method::GET, AttrId::PORT_INFO);
    for (lease, renewed, is_over) in [(30, false, true), (30, true, false), (0, false, false)] {
        let case = format!("lease {lease}, renewed: {renewed}");
        let (_fabric, mut sm) = locked(2, lease).await;
        let (response, _) = ask(&mut sm, 0x1, set).await;
        assert!(response.is_none(), "{case}");
        tokio::time::sleep(Duration::from_secs(20)).await;
        if renewed {
            let (response, _) = ask(&mut sm, 0xABCD, get).await;
            assert!(response.is_some(), "{case}");
        }
        while sm.inbox.try_recv().is_ok() {}
        tokio::time::sleep(Duration::from_secs(20)).await;
        while sm.inbox.try_recv().is_ok() {}
        let (response, _) = ask(&mut sm, 0x1, get).await;
        let shown = response.map(|mad| PortInfo::read(mad.smp_data()));
        let shown = shown.map(|info| (info.m_key(), info.m_key_protect_bits()));
        assert_eq!(shown, is_over.then_some((MKey(0xABCD), 0)), "{case}");
        let (response, _) = ask(&mut sm, 0x1, set).await;
        assert!(response.is_none(), "{case}: Sets still need the key");
    }
}

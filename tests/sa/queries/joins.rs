//! Joins and leaves of the broadcast group.

use super::*;

#[test]
fn hosts_join_and_leave_the_broadcast_group() {
    let subnet = subnet(0);
    let mut sa = Responder::default();
    sa.registry_mut().set_permanent(&[broadcast()], Mlid::LAST);
    let mgid = broadcast().mgid;
    let set = || ask(SaAttr::MC_MEMBER_RECORD, Method::SET, JOIN);
    for host in [3, 1] {
        let wanted = member(host, mgid, JoinState::FULL);
        let (status, joined) = set().by(&mut sa, &subnet, host, &wanted);
        assert_eq!(status, 0);
        assert_eq!((joined[0].mlid(), joined[0].qkey()), (Mlid::FIRST, 0x0b1b));
    }
    let groups = sa.registry().groups(&subnet.fabric);
    assert_eq!(groups[0].members, [port(&subnet, 1), port(&subnet, 3)]);
    let list = || ask(SaAttr::MC_MEMBER_RECORD, Method::GET_TABLE, 0);
    let open = list().of(&mut sa, &subnet, &McMemberRecord::default()).1;
    assert_eq!((open.len(), open[0].port_gid()), (1, Gid::default()));
    let trusted = list().trusted().of(&mut sa, &subnet, &McMemberRecord::default()).1;
    assert_eq!(trusted.len(), 2);
    let delete = || ask(SaAttr::MC_MEMBER_RECORD, Method::DELETE, JOIN);
    let wanted = member(3, mgid, JoinState::FULL);
    let by_another = delete().by(&mut sa, &subnet, 1, &wanted);
    assert_eq!(by_another.0, 0x0200, "only the port itself may leave");
    assert_eq!(delete().by(&mut sa, &subnet, 3, &wanted).0, 0);
    assert_eq!(sa.registry().groups(&subnet.fabric)[0].members, [port(&subnet, 1)]);
    let mut to_group = by_gids(1, 1);
    to_group.set_dgid(mgid);
    // The record echoes the request but for one component: a group is not one of raw packets.
    to_group.set_raw_traffic(true);
    let mask = BY_GIDS | PathRecord::RAW_TRAFFIC;
    let path = ask(SaAttr::PATH_RECORD, Method::GET, mask).of(&mut sa, &subnet, &to_group).1;
    assert_eq!((path[0].dlid(), path[0].raw_traffic()), (Lid(0xC000), false));
}

#[test]
fn rejected_joins() {
    let subnet = subnet(0);
    let mut sa = Responder::default();
    sa.registry_mut().set_permanent(&[broadcast()], Mlid::LAST);
    let good = member(1, broadcast().mgid, JoinState::FULL);
    type Change = fn(&mut McMemberRecord);
    let mtu = McMemberRecord::MTU_SELECTOR | McMemberRecord::MTU;
    let table: [(u64, Change, u16, &str); 8] = [
        (McMemberRecord::MGID, |_| (), 0x0600, "PortGID or JoinState is missing"),
        (JOIN, |r| r.set_join_state(JoinState(0)), 0x0200, "JoinState is 0"),
        (JOIN, |r| r.set_port_gid(Gid::new(1, Guid(HOSTS + 1))), 0x0500, "a component is invalid"),
        (JOIN, |r| r.set_port_gid(Gid::new(PREFIX, Guid(5_000_000))), 0x0200, "PortGID is unknown"),
        (JOIN | McMemberRecord::QKEY, |r| r.set_qkey(1), 0x0200, "is not that of the group"),
        (
            JOIN | McMemberRecord::PKEY,
            |r| r.set_pkey(Pkey(0x8001)),
            0x0200,
            "not that of the group",
        ),
        (JOIN, |r| r.set_mgid(Gid([0xFF; 16])), 0x0600, "there is no such group"),
        (JOIN | mtu, |r| r.set_mtu(4), 0x0200, "has not the MTU or rate of the request"),
    ];
    let before = sa.registry().generation();
    let from = Address::gsi(lid(&subnet, 1), Sl(0));
    let reason =
        |sa: &Responder, mad: &Mad| sa.refused_membership(&subnet, &from, &mad.0, Instant::now());
    for (row, (mask, change, status, text)) in table.into_iter().enumerate() {
        let mut wanted = good;
        change(&mut wanted);
        let set = ask(SaAttr::MC_MEMBER_RECORD, Method::SET, mask);
        let mad = set.mad(&wanted);
        assert_eq!(set.of(&mut sa, &subnet, &wanted).0, status, "row {row}");
        let found = reason(&sa, &mad).expect("it is refused");
        assert!(found.contains(text), "row {row}: {found}");
    }
    let set = ask(SaAttr::MC_MEMBER_RECORD, Method::SET, JOIN);
    assert_eq!(reason(&sa, &set.mad(&good)), None);
    let delete = ask(SaAttr::MC_MEMBER_RECORD, Method::DELETE, JOIN);
    assert_eq!(reason(&sa, &delete.mad(&good)), Some("it is no member"));
    assert_eq!(sa.registry().generation(), before);
}

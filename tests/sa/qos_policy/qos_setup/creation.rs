//! The effect of the policy on joins that create multicast groups.

use super::super::{LEVELS, PREFIX, host, subnet};
use std::time::Instant;
use testkit::sa_client::request;
use torus_sm::ids::{Gid, Mlid, Pkey, Sl};
use torus_sm::plan::partitions;
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::sa::registry::{GroupSpec, Registry};
use torus_sm::sim::generate::Shape;
use torus_sm::transport::Address;
use torus_sm::wire::mad::{Header, Method};
use torus_sm::wire::record::{JoinState, McMemberRecord, Record, Selector};
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

/// The group that a join by host 0 creates, or the status.
fn create(
    (shape, subnet): &(Shape, Subnet),
    responder: &mut Responder,
    mask: u64,
    set: impl Fn(&mut McMemberRecord),
) -> Result<McMemberRecord, u16> {
    let from = host(shape, 0);
    let mut wanted = McMemberRecord::default();
    wanted.set_mgid(Gid(0xff15_0001_u128.rotate_right(32).to_be_bytes()));
    wanted.set_port_gid(Gid::new(PREFIX, from));
    wanted.set_join_state(JoinState::FULL);
    wanted.set_pkey(Pkey(0xFFFF));
    set(&mut wanted);
    let named = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
    let said = McMemberRecord::QKEY | McMemberRecord::TRAFFIC_CLASS | McMemberRecord::FLOW_LABEL;
    let mad = request(SaAttr::MC_MEMBER_RECORD, Method::SET, named | said | mask, &wanted);
    let lid = subnet.plan.lids.base(subnet.fabric.port_by_guid(from).expect("a port"));
    let asker = Address::gsi(lid.expect("a LID"), Sl(0));
    let reply = responder.handle(subnet, &asker, &mad.0, Instant::now()).expect("a reply");
    match Header::read(&reply.mad).status() {
        0 => Ok(McMemberRecord::parse(&reply.mad[DATA_OFFSET..])),
        status => Err(status),
    }
}

/// The levels of [`LEVELS`] for the creators of groups, by partition and by port.
fn rules_for_groups() -> String {
    let from = host(&Shape { hosts: 1, ..Shape::torus([3, 3, 1]) }, 0);
    let groups =
        format!("port-groups\nport-group\nname: first\nport-guid: {from}\nend-port-group\n");
    let rules = "qos-match-rules
        qos-match-rule\n destination: first\n qos-level-name: keyed\n end-qos-match-rule
        qos-match-rule\n service-id: 0-0xffffffff\n qos-level-name: keyed\n end-qos-match-rule
        qos-match-rule\n pkey: 0x10\n qos-level-name: keyed\n end-qos-match-rule
        qos-match-rule\n source: first\n qos-level-name: gold\n end-qos-match-rule
        end-qos-match-rules\n";
    let levels = LEVELS.split("qos-match-rules").next().expect("the levels");
    format!("{groups}end-port-groups\n{levels}{rules}")
}

const REQ_INVALID: u16 = 0x0200;
const INSUFFICIENT: u16 = 0x0600;

#[test]
fn a_level_completes_new_groups() {
    let place = subnet(&rules_for_groups());
    let ask = |mask, set: &dyn Fn(&mut McMemberRecord)| {
        create(&place, &mut Responder::default(), mask, set)
    };
    let key = McMemberRecord::PKEY;
    let sl = McMemberRecord::SL;
    let made = ask(key, &|_| {}).expect("a group");
    // Only the highest bit of the SL counts with torus-2QoS.
    assert_eq!((made.sl(), made.pkey()), (Sl(8), Pkey(0xFFFF)));
    assert_eq!((made.mtu(), made.rate(), made.packet_life()), (3, 2, 9));
    // SL and lifetime of the creator's request count.
    let life = McMemberRecord::PACKET_LIFE_SELECTOR | McMemberRecord::PACKET_LIFE;
    let said = ask(key | sl | life, &|wanted| {
        wanted.set_sl(Sl(1));
        wanted.set_packet_life_selector(Selector::Exactly);
        wanted.set_packet_life(4);
    });
    assert_eq!(said.map(|made| (made.sl(), made.packet_life())), Ok((Sl(1), 4)));
    for (selector, asked, expected) in [
        (Selector::LessThan, 20, Ok(9)),
        (Selector::LessThan, 5, Ok(4)),
        (Selector::LessThan, 0, Err(REQ_INVALID)),
        (Selector::GreaterThan, 3, Ok(9)),
        (Selector::GreaterThan, 12, Ok(13)),
        (Selector::GreaterThan, 63, Err(REQ_INVALID)),
        (Selector::Best, 1, Ok(9)),
    ] {
        let made = ask(key | life, &|wanted| {
            wanted.set_packet_life_selector(selector);
            wanted.set_packet_life(asked);
        });
        assert_eq!(made.map(|made| made.packet_life()), expected, "{selector:?} {asked}");
    }
    // The level of partition 0x10 has that P_Key alone: a request with the key need not name the
    // level, and a creator that names neither has the level of its port.
    let keyed = ask(key, &|wanted| wanted.set_pkey(Pkey(0x8010))).expect("a group");
    assert_eq!((keyed.sl(), keyed.pkey()), (Sl(0), Pkey(0x8010)));
    assert_eq!(ask(sl, &|_| {}).map(drop), Err(INSUFFICIENT), "gold has no P_Key");
}

#[test]
fn a_request_beyond_the_level_creates_no_group() {
    let place = subnet(&rules_for_groups());
    let key = McMemberRecord::PKEY;
    let ask = |mask, set: &dyn Fn(&mut McMemberRecord)| {
        create(&place, &mut Responder::default(), key | mask, set)
            .map(|made| (made.mtu(), made.rate()))
    };
    let mtu = McMemberRecord::MTU_SELECTOR | McMemberRecord::MTU;
    let rate = McMemberRecord::RATE_SELECTOR | McMemberRecord::RATE;
    for (mask, selector, mtu, rate, expected) in [
        (mtu, Selector::Exactly, 4, 0, Err(REQ_INVALID)),
        (mtu, Selector::GreaterThan, 3, 0, Err(REQ_INVALID)),
        (mtu, Selector::Exactly, 2, 0, Ok((2, 2))),
        (mtu, Selector::GreaterThan, 2, 0, Ok((3, 2))),
        (mtu, Selector::LessThan, 5, 0, Ok((3, 2))),
        (mtu, Selector::Best, 1, 0, Ok((3, 2))),
        (rate, Selector::Exactly, 0, 3, Err(REQ_INVALID)),
        (rate, Selector::GreaterThan, 0, 2, Err(REQ_INVALID)),
        (rate, Selector::LessThan, 0, 7, Ok((3, 2))),
        (rate, Selector::Exactly, 0, 2, Ok((3, 2))),
    ] {
        let made = ask(mask, &|wanted| {
            wanted.set_mtu_selector(selector);
            wanted.set_mtu(mtu);
            wanted.set_rate_selector(selector);
            wanted.set_rate(rate);
        });
        assert_eq!(made, expected, "{selector:?} {mtu} {rate}");
    }
    // A level for all groups of a port puts them into another partition than its own.
    let own = rules_for_groups().replace("qos-level-name: gold", "qos-level-name: keyed");
    let place = subnet(&own);
    let asked = create(&place, &mut Responder::default(), key, |_| {});
    assert_eq!(asked.map(drop), Err(REQ_INVALID), "the level is of partition 0x10");
    let unsaid = create(&place, &mut Responder::default(), 0, |_| {}).expect("a group");
    assert_eq!((unsaid.pkey(), unsaid.sl()), (Pkey(0x8010), Sl(0)));
}

/// Hosts create IPoIB groups with the parameters of the broadcast group, regardless of the level.
#[test]
fn no_policy_blocks_ipoib() {
    let place = subnet(&rules_for_groups());
    let groups: Vec<GroupSpec> = partitions::default(&place.1.options)
        .iter()
        .flat_map(|partition| &partition.groups)
        .map(GroupSpec::from)
        .collect();
    let responder = || {
        let mut registry = Registry::default();
        registry.set_permanent(&groups, Mlid::LAST);
        Responder::new(registry)
    };
    let broadcast = &groups[0];
    let mut mgid = broadcast.mgid;
    mgid.0[15] = 1;
    let ask = |mask, set: &dyn Fn(&mut McMemberRecord)| {
        create(&place, &mut responder(), mask, |wanted| {
            wanted.set_mgid(mgid);
            wanted.set_qkey(broadcast.qkey);
            wanted.set_mtu_selector(Selector::Exactly);
            wanted.set_mtu(broadcast.mtu);
            wanted.set_rate_selector(Selector::Exactly);
            wanted.set_rate(broadcast.rate);
            set(wanted);
        })
    };
    let like = McMemberRecord::MTU_SELECTOR
        | McMemberRecord::MTU
        | McMemberRecord::RATE_SELECTOR
        | McMemberRecord::RATE;
    let all = like | McMemberRecord::PKEY | McMemberRecord::SL;
    for mask in [like, all] {
        let made = ask(mask, &|_| {}).expect("a group");
        assert_eq!((made.mtu(), made.rate()), (broadcast.mtu, broadcast.rate));
        assert_eq!((made.sl(), made.pkey()), (broadcast.sl, broadcast.pkey));
    }
    // The policy does not apply to joins to existing groups.
    let joined = create(&place, &mut responder(), all, |wanted| {
        wanted.set_mgid(broadcast.mgid);
        wanted.set_qkey(broadcast.qkey);
        wanted.set_mtu_selector(Selector::Exactly);
        wanted.set_mtu(broadcast.mtu);
        wanted.set_rate_selector(Selector::Exactly);
        wanted.set_rate(broadcast.rate);
    });
    assert_eq!(joined.map(|made| made.mtu()), Ok(broadcast.mtu));
}

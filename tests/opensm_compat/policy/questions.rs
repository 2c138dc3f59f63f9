//! Random queries to the subnet administrator: single paths with any combination of components,
//! paths to groups, several paths at once, and joins of existing and of new multicast groups.
//!
//! LIDs in queries and answers are those of an ideal subnet ([`super::site::Lids`]), so that they
//! are the same for every subnet manager.

use super::messages::Message;
use super::random_case::{Case, FOREIGN};
use super::site::Lids;
use testkit::torus::random::Random;
use torus_sm::ids::{Gid, Guid, Lid, Mlid, Pkey, Sl};
use torus_sm::wire::mad::Method;
use torus_sm::wire::record::{
    JoinState, McMemberRecord, MultiPathRecord, PathRecord, Record, Selector,
};
use torus_sm::wire::sa::SaAttr;

pub(crate) const PREFIX: u64 = 0xfe80_0000_0000_0000;

/// MGIDs of groups that are permanent in some cases, of unknown groups, and zero.
const MGIDS: [u128; 7] = [
    0xff12_401b_ffff_0000_0000_0000_ffff_ffff,
    0xff12_401b_8011_0000_0000_0000_ffff_ffff,
    0xff12_0000_0000_0000_0000_0000_0000_0001,
    0xff12_401b_ffff_0000_0000_0000_0000_0707,
    0xff12_601b_ffff_0000_0000_0001_ff12_3456,
    0xff15_0001_0000_0000_0000_0000_0000_abcd,
    0xff1e_7045_0000_0000_0000_0000_0000_0001,
];

fn selector(random: &mut Random) -> Selector {
    [Selector::GreaterThan, Selector::LessThan, Selector::Exactly, Selector::Best][random.below(4)]
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Question {
    Path {
        method: Method,
        mask: u64,
        wanted: PathRecord,
    },
    /// MultiPathRecord, GetMulti, with its GIDs.
    Multi {
        mask: u64,
        wanted: MultiPathRecord,
        gids: [Gid; 4],
    },
    Join {
        mask: u64,
        wanted: McMemberRecord,
    },
}

impl Question {
    /// The request with the LIDs of a subnet.
    pub(crate) fn message(&self, lids: &Lids) -> Message {
        match *self {
            Self::Path { method, mask, mut wanted } => {
                wanted.set_slid(lids.real(wanted.slid()));
                wanted.set_dlid(lids.real(wanted.dlid()));
                Message::to_sa((SaAttr::PATH_RECORD, method), (mask, &wanted), 0)
            }
            Self::Multi { mask, wanted, gids } => {
                let what = (SaAttr::MULTI_PATH_RECORD, Method::GET_MULTI);
                let count = usize::from(wanted.sgid_count() + wanted.dgid_count());
                Message::to_sa(what, (mask, &wanted), 0)
                    .with_gids::<MultiPathRecord>(&gids[..count])
            }
            Self::Join { mask, wanted } => {
                let what = (SaAttr::MC_MEMBER_RECORD, Method::SET);
                Message::to_sa(what, (mask, &wanted), 0)
            }
        }
    }
}

pub(crate) fn paths(case: &Case, count: usize) -> Vec<Question> {
    let mut random = Random::new(case.seed ^ 0x5150);
    (0..count).map(|_| path(&mut random, case)).collect()
}

fn path(random: &mut Random, case: &Case) -> Question {
    let mut mask = 0;
    let mut wanted = PathRecord::default();
    ends(random, case, &mut mask, &mut wanted);
    demands(random, case, &mut mask, &mut wanted);
    let both = PathRecord::SGID | PathRecord::SLID;
    // All paths from any port exceed one answer.
    let method =
        if mask & both != 0 && random.percent(30) { Method::GET_TABLE } else { Method::GET };
    Question::Path { method, mask, wanted }
}

/// The components common to both kinds of path queries to which a policy can refer.
const OF_BOTH: [(u64, u64); 12] = [
    (PathRecord::REVERSIBLE, MultiPathRecord::REVERSIBLE),
    (PathRecord::PKEY, MultiPathRecord::PKEY),
    (PathRecord::QOS_CLASS, MultiPathRecord::QOS_CLASS),
    (PathRecord::SL, MultiPathRecord::SL),
    (PathRecord::MTU_SELECTOR, MultiPathRecord::MTU_SELECTOR),
    (PathRecord::MTU, MultiPathRecord::MTU),
    (PathRecord::RATE_SELECTOR, MultiPathRecord::RATE_SELECTOR),
    (PathRecord::RATE, MultiPathRecord::RATE),
    (PathRecord::PACKET_LIFE_SELECTOR, MultiPathRecord::PACKET_LIFE_SELECTOR),
    (PathRecord::PACKET_LIFE, MultiPathRecord::PACKET_LIFE),
    (PathRecord::SERVICE_ID_MSB, MultiPathRecord::SERVICE_ID_MSB),
    (PathRecord::SERVICE_ID_LSB, MultiPathRecord::SERVICE_ID_LSB),
];

/// Questions about paths between several ports.
pub(crate) fn multi_paths(case: &Case, count: usize) -> Vec<Question> {
    let mut random = Random::new(case.seed ^ 0x3A_3A);
    (0..count).map(|_| multi_path(&mut random, case)).collect()
}

fn multi_path(random: &mut Random, case: &Case) -> Question {
    let mut mask = 0;
    let mut each = PathRecord::default();
    demands(random, case, &mut mask, &mut each);
    let mut wanted = MultiPathRecord::default();
    wanted.set_reversible(each.reversible());
    wanted.set_pkey(each.pkey());
    wanted.set_qos_class(each.qos_class());
    wanted.set_sl(each.sl());
    wanted.set_mtu_selector(each.mtu_selector());
    wanted.set_mtu(each.mtu());
    wanted.set_rate_selector(each.rate_selector());
    wanted.set_rate(each.rate());
    wanted.set_packet_life_selector(each.packet_life_selector());
    wanted.set_packet_life(each.packet_life());
    wanted.set_service_id_msb((each.service_id() >> 56) as u8);
    wanted.set_service_id_lsb(each.service_id() & ((1 << 56) - 1));
    let counts = MultiPathRecord::SGID_COUNT | MultiPathRecord::DGID_COUNT;
    let named = OF_BOTH.iter().filter(|(of_path, _)| mask & of_path != 0);
    let mask = named.fold(counts, |mask, (_, here)| mask | here);
    // Different ports: the order of the answer cannot distinguish duplicates.
    let mut ports = case.words.ports.clone();
    random.shuffle(&mut ports);
    let sources = 1 + random.below(2);
    wanted.set_sgid_count(sources as u8);
    wanted.set_dgid_count(1 + random.below(4 - sources) as u8);
    let mut gids: [Gid; 4] = std::array::from_fn(|index| Gid::new(PREFIX, ports[index]));
    if random.below(30) == 0 {
        gids[1] = Gid::new(PREFIX, Guid(0x1234_5678));
    }
    Question::Multi { mask, wanted, gids }
}

fn some_port(random: &mut Random, case: &Case) -> Guid {
    match random.below(60) {
        0 => Guid(0x1234_5678),
        _ => case.words.ports[random.below(case.words.ports.len())],
    }
}

/// The ends of the path.
fn ends(random: &mut Random, case: &Case, mask: &mut u64, wanted: &mut PathRecord) {
    let from = some_port(random, case);
    let to = some_port(random, case);
    // Switches have one LID.
    let is_switch = |port: Guid| case.topology.nodes.iter().any(|node| node.guid == port);
    let bits = |random: &mut Random, port: Guid| {
        if is_switch(port) { 0 } else { random.below(1 << case.lmc) as u16 }
    };
    wanted.set_slid(Lids::ideal(&case.topology, from, bits(random, from)));
    wanted.set_sgid(Gid::new(PREFIX, from));
    *mask |= match random.below(20) {
        0 => 0,
        1..4 => PathRecord::SLID,
        4 => PathRecord::SLID | PathRecord::SGID,
        _ => PathRecord::SGID,
    };
    wanted.set_dlid(Lids::ideal(&case.topology, to, bits(random, to)));
    let dgid = match random.below(30) {
        0..4 => Gid(MGIDS[random.below(MGIDS.len())].to_be_bytes()),
        4..7 => Gid::new(FOREIGN[random.below(FOREIGN.len())], Guid(0x42)),
        _ => Gid::new(PREFIX, to),
    };
    wanted.set_dgid(dgid);
    *mask |= match random.below(20) {
        0 => 0,
        1..4 => PathRecord::DLID,
        4 => PathRecord::DLID | PathRecord::DGID,
        _ => PathRecord::DGID,
    };
}

/// The required properties of the path.
fn demands(random: &mut Random, case: &Case, mask: &mut u64, wanted: &mut PathRecord) {
    let words = &case.words;
    let mut add = |random: &mut Random, chance, bits: u64| {
        let is_in = random.percent(chance);
        *mask |= if is_in { bits } else { 0 };
        is_in
    };
    let service = PathRecord::SERVICE_ID_MSB | PathRecord::SERVICE_ID_LSB;
    if add(random, 40, service) {
        let base = words.service_ids[random.below(words.service_ids.len())];
        wanted.set_service_id(base + [0, 0, 1, 0x80][random.below(4)]);
    }
    if add(random, 35, PathRecord::PKEY) {
        let key = words.keys[random.below(words.keys.len())];
        wanted.set_pkey(Pkey(key | if random.percent(70) { 0x8000 } else { 0 }));
    }
    if add(random, 30, PathRecord::QOS_CLASS) {
        wanted.set_qos_class(words.classes[random.below(words.classes.len())]);
    }
    if add(random, 15, PathRecord::SL) {
        wanted.set_sl(Sl(random.below(16) as u8));
    }
    let chance = if random.percent(50) { 35 } else { 0 };
    if add(random, chance, PathRecord::MTU_SELECTOR | PathRecord::MTU) {
        wanted.set_mtu_selector(selector(random));
        wanted.set_mtu(random.below(7) as u8);
    }
    if add(random, chance, PathRecord::RATE_SELECTOR | PathRecord::RATE) {
        wanted.set_rate_selector(selector(random));
        wanted.set_rate(1 + random.below(19) as u8);
    }
    if add(random, chance, PathRecord::PACKET_LIFE_SELECTOR | PathRecord::PACKET_LIFE) {
        wanted.set_packet_life_selector(selector(random));
        wanted.set_packet_life(random.below(24) as u8);
    }
    if add(random, chance / 2, PathRecord::TRAFFIC_CLASS) {
        wanted.set_traffic_class([0, 3, 7][random.below(3)]);
    }
    if add(random, chance / 2, PathRecord::FLOW_LABEL) {
        wanted.set_flow_label([0, 0x12][random.below(2)]);
    }
    if add(random, chance / 3, PathRecord::HOP_LIMIT) {
        wanted.set_hop_limit([0, 255][random.below(2)]);
    }
    if add(random, 40, PathRecord::REVERSIBLE) {
        wanted.set_reversible(random.percent(80));
    }
    if add(random, 40, PathRecord::NUMB_PATH) {
        wanted.set_numb_path([1, 1, 2, 127, 0][random.below(5)]);
    }
    if add(random, 3, PathRecord::RAW_TRAFFIC) {
        wanted.set_raw_traffic(random.percent(50));
    }
    // A selector needs a value, and a QoS class a service ID.
    add(random, 4, PathRecord::MTU_SELECTOR);
    add(random, 2, PathRecord::SERVICE_ID_MSB);
}

/// Paths to groups, from any port: only members have one from a given port.
pub(crate) fn to_groups(mgids: impl IntoIterator<Item = Gid>) -> Vec<Question> {
    let question = |mgid: Gid| {
        let mut wanted = PathRecord::default();
        wanted.set_dgid(mgid);
        Question::Path { method: Method::GET, mask: PathRecord::DGID, wanted }
    };
    mgids.into_iter().map(question).collect()
}

/// Joins, some of which create a group.
pub(crate) fn joins(case: &Case, count: usize) -> Vec<Question> {
    let mut random = Random::new(case.seed ^ 0x10_1b);
    (0..count).map(|_| join(&mut random, case)).collect()
}

fn join(random: &mut Random, case: &Case) -> Question {
    let mut wanted = McMemberRecord::default();
    // The broadcast group of the default partition, which often exists, or another.
    let mgid = match random.below(3) {
        0 => MGIDS[0],
        _ => MGIDS[random.below(MGIDS.len())] ^ [0, 0, 0, 2][random.below(4)],
    };
    wanted.set_mgid(Gid(mgid.to_be_bytes()));
    wanted.set_port_gid(Gid::new(PREFIX, some_port(random, case)));
    let states = [JoinState::FULL, JoinState::FULL, JoinState::NON, JoinState::SEND_ONLY];
    wanted.set_join_state(states[random.below(states.len())]);
    let mut mask = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
    let key = case.words.keys[random.below(3)];
    wanted.set_pkey(Pkey(key | if random.percent(80) { 0x8000 } else { 0 }));
    wanted.set_qkey([0x0b1b, 0x0b1b, 0x1234][random.below(3)]);
    wanted.set_sl(Sl([0, 0, 0, 2, 9][random.below(5)]));
    let create = McMemberRecord::PKEY
        | McMemberRecord::QKEY
        | McMemberRecord::SL
        | McMemberRecord::FLOW_LABEL
        | McMemberRecord::TRAFFIC_CLASS;
    match random.below(8) {
        0 => {}
        1 => mask |= McMemberRecord::PKEY | McMemberRecord::SL,
        _ => mask |= create,
    }
    if random.percent(40) {
        mask |= McMemberRecord::MTU_SELECTOR | McMemberRecord::MTU;
        wanted.set_mtu_selector(selector(random));
        wanted.set_mtu(1 + random.below(5) as u8);
    }
    if random.percent(40) {
        mask |= McMemberRecord::RATE_SELECTOR | McMemberRecord::RATE;
        wanted.set_rate_selector(selector(random));
        wanted.set_rate(2 + random.below(9) as u8);
    }
    if random.percent(20) {
        mask |= McMemberRecord::PACKET_LIFE_SELECTOR | McMemberRecord::PACKET_LIFE;
        wanted.set_packet_life_selector(selector(random));
        wanted.set_packet_life(random.below(20) as u8);
    }
    if random.percent(15) {
        mask |= McMemberRecord::SCOPE;
        wanted.set_scope([2, 5, 14][random.below(3)]);
    }
    Question::Join { mask, wanted }
}

/// A record of an answer, with LIDs of the ideal subnet.
pub(crate) fn settled(path: &[u8], lids: &Lids) -> PathRecord {
    let mut path = PathRecord::parse(path);
    path.set_slid(lids.ideal_of(path.slid()));
    if path.dlid().0 < Mlid::FIRST.0 {
        path.set_dlid(lids.ideal_of(path.dlid()));
    }
    path
}

/// A LID that no port has.
pub(crate) const NOBODY: Lid = Lid(0xBFFE);

//! The packets of each attack.

use super::{RETURN_TIME, rmpp};
use std::time::Duration;
use testkit::sa_client::joins::CREATE_GROUP;
use testkit::sa_client::{DEFAULT_PREFIX, path_query, request};
use testkit::torus::random::Random;
use torus_sm::ids::{Gid, Guid, Lid, MKey, Pkey, PortNum};
use torus_sm::transport::Agent;
use torus_sm::wire::attr::{AttrId, Notice, TrapNumber};
use torus_sm::wire::mad::{Mad, Method};
use torus_sm::wire::record::{InformInfo, JoinState, McMemberRecord, NodeRecord, ServiceRecord};
use torus_sm::wire::sa::SaAttr;
use torus_sm::wire::smp::{self, DATA_SIZE, SmpRoute};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attack {
    /// MADs of random contents, of all classes.
    Malformed,
    /// Subscriptions to ever other notices, with joins and leaves that cause reports.
    Subscriptions,
    /// Services with endless leases.
    Services,
    /// Groups that are created and left.
    Joins,
    /// Path queries.
    Queries,
    /// Queries for all nodes.
    Tables,
    /// Traps with changing contents.
    Traps,
    /// Traps that a host cannot have.
    ForgedTraps,
    /// Requests for SMInfo and role changes.
    FalseManager,
    /// Requests in RMPP segments that are incomplete, out of order or malformed.
    Segments,
    /// Queries for all nodes whose responses are acknowledged wrongly, stopped or aborted.
    Transfers,
    /// Several attackers at the same time.
    Several,
}

pub(super) const ATTACKS: [Attack; 12] = [
    Attack::Malformed,
    Attack::Subscriptions,
    Attack::Services,
    Attack::Joins,
    Attack::Queries,
    Attack::Tables,
    Attack::Traps,
    Attack::ForgedTraps,
    Attack::FalseManager,
    Attack::Segments,
    Attack::Transfers,
    Attack::Several,
];

/// The attacks of [`Attack::Several`], by one host each.
const SEVERAL: [Attack; 4] =
    [Attack::Transfers, Attack::Subscriptions, Attack::Traps, Attack::Tables];

/// The attacking port.
#[derive(Clone, Copy)]
pub(super) struct Attacker {
    /// Node GUID.
    pub(super) node: Guid,
    /// Port GUID.
    pub(super) guid: Guid,
    pub(super) lid: Lid,
}

/// A MAD as the attacker sends it.
pub(super) enum Packet {
    /// By an agent of the kernel.
    Agent(Agent, Mad),
    /// Unchanged by the kernel, which would add or remove RMPP headers.
    Raw(Mad),
}

impl Attack {
    /// The attacks that happen at the same time, by one host each.
    pub(super) fn parts(self) -> Vec<Self> {
        if self == Self::Several { SEVERAL.to_vec() } else { vec![self] }
    }

    /// Time after which the memory of an attack must be given back. The kernel keeps unfinished RMPP
    /// messages for 40 s; the daemon never sees them.
    pub(super) fn return_time(self) -> Duration {
        match self {
            Self::Segments => Duration::from_secs(45),
            _ => RETURN_TIME,
        }
    }

    /// True for attacks by RMPP packets, which the kernel of the attacker would change, and which
    /// ibsim does not know.
    pub(super) fn needs_raw_packets(self) -> bool {
        matches!(self, Self::Segments | Self::Transfers)
    }

    /// The attack with this name.
    pub(super) fn by_name(name: &str) -> Option<Self> {
        ATTACKS.into_iter().find(|attack| format!("{attack:?}") == name)
    }

    /// The packet with number `serial` of the attack to a LID.
    pub(super) fn packet(self, serial: u64, own: Attacker, to: Lid, random: &mut Random) -> Packet {
        match self {
            Self::Segments => Packet::Raw(rmpp::request_part(random)),
            Self::Transfers => Packet::Raw(rmpp::transfer_packet(serial, random)),
            _ => {
                let (agent, mad) = self.mad(own, to, random);
                Packet::Agent(agent, mad)
            }
        }
    }

    /// A MAD to a LID, with its agent.
    fn mad(self, own: Attacker, to: Lid, random: &mut Random) -> (Agent, Mad) {
        let number = random.number();
        match self {
            Self::Malformed => malformed(random),
            Self::Subscriptions if number.is_multiple_of(4) => {
                (Agent::Sa, join(own, number as u16 % 64, number))
            }
            Self::Subscriptions => (Agent::Sa, subscription(number)),
            Self::Services => (Agent::Sa, service(own, number)),
            Self::Joins => (Agent::Sa, join(own, number as u16 % 2048, number)),
            Self::Queries => {
                let peer = Guid(own.guid.0 ^ (number & 0xFF));
                (Agent::Sa, path_query(DEFAULT_PREFIX, [own.guid, peer]))
            }
            Self::Tables => (Agent::Sa, all_nodes()),
            Self::Traps => (Agent::SmiLid, trap(to, own.lid, number, TrapNumber::LINK_INTEGRITY)),
            Self::ForgedTraps => {
                let subject = Lid(number as u16 % 64 + 1);
                (Agent::SmiLid, trap(to, subject, number, TrapNumber::LINK_STATE))
            }
            Self::FalseManager => (Agent::SmiLid, role_request(to, number)),
            Self::Segments | Self::Transfers | Self::Several => {
                unreachable!("sent by other functions")
            }
        }
    }
}

/// A query for all nodes.
pub(super) fn all_nodes() -> Mad {
    request(SaAttr::NODE_RECORD, Method::GET_TABLE, 0, &NodeRecord::default())
}

fn malformed(random: &mut Random) -> (Agent, Mad) {
    let mut mad = Mad::default();
    for bytes in mad.0.chunks_mut(8) {
        bytes.copy_from_slice(&random.number().to_be_bytes()[..bytes.len()]);
    }
    let is_sa = random.number().is_multiple_of(2);
    mad.0[..3].copy_from_slice(&[1, if is_sa { 3 } else { 1 }, if is_sa { 2 } else { 1 }]);
    // Requests: responses would be matched to the attacker's own.
    mad.0[3] &= 0x7F;
    (if is_sa { Agent::Sa } else { Agent::SmiLid }, mad)
}

fn subscription(number: u64) -> Mad {
    let mut info = InformInfo::default();
    info.set_lid_range_begin(Lid(0xFFFF));
    info.set_is_generic(1);
    info.set_subscribe(1);
    info.set_notice_type(0xFFFF);
    info.set_trap_number(if number.is_multiple_of(2) { 0xFFFF } else { (number >> 8) as u16 });
    info.set_resp_time_value(31);
    info.set_producer_type(0xFF_FFFF);
    request(SaAttr::INFORM_INFO, Method::SET, 0, &info)
}

fn service(own: Attacker, id: u64) -> Mad {
    let mut record = ServiceRecord::default();
    record.set_id(id);
    record.set_gid(Gid::new(DEFAULT_PREFIX, own.guid));
    record.set_lease(ServiceRecord::NO_END);
    let mask = ServiceRecord::ID | ServiceRecord::GID | ServiceRecord::LEASE;
    request(SaAttr::SERVICE_RECORD, Method::SET, mask, &record)
}

/// A join, or a leave, of one of the attacker's groups.
fn join(own: Attacker, group: u16, number: u64) -> Mad {
    let mut mgid = [0; 16];
    mgid[..2].copy_from_slice(&[0xFF, 0x12]);
    mgid[14..].copy_from_slice(&group.to_be_bytes());
    let mut record = McMemberRecord::default();
    record.set_mgid(Gid(mgid));
    record.set_port_gid(Gid::new(DEFAULT_PREFIX, own.guid));
    record.set_join_state(JoinState::FULL);
    record.set_qkey(0x1234);
    record.set_pkey(Pkey::DEFAULT_FULL);
    let method = if number & 0x10_0000 == 0 { Method::SET } else { Method::DELETE };
    request(SaAttr::MC_MEMBER_RECORD, method, CREATE_GROUP, &record)
}

fn trap(to: Lid, subject: Lid, number: u64, kind: u16) -> Mad {
    let mut notice = Notice::default();
    notice.set_is_generic(true);
    notice.set_producer_type(1);
    notice.set_trap_number(kind);
    notice.set_issuer_lid(subject);
    notice.set_subject_lid(subject);
    notice.set_port(PortNum(number as u8));
    let mut data = [0; DATA_SIZE];
    data.copy_from_slice(&notice.0[..DATA_SIZE]);
    let route = SmpRoute::Lid(to);
    smp::request(
        &route,
        smp::SmpFields {
            method: Method::TRAP,
            attr_id: AttrId::NOTICE,
            attr_mod: 0,
            m_key: MKey::NONE,
            tid: number,
        },
        &data,
    )
}

fn role_request(to: Lid, number: u64) -> Mad {
    let method = if number.is_multiple_of(2) { Method::GET } else { Method::SET };
    let route = SmpRoute::Lid(to);
    let modifier = (number >> 8) as u32 % 7;
    smp::request(
        &route,
        smp::SmpFields {
            method,
            attr_id: AttrId::SM_INFO,
            attr_mod: modifier,
            m_key: MKey::NONE,
            tid: number,
        },
        &[0x33; DATA_SIZE],
    )
}

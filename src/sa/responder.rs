//! Header checks, the table of methods and attributes, error replies.

use super::change::{self, Change};
use super::counters::{Counters, Drop};
use super::guid_info;
use super::inform;
use super::mcmember;
use super::multipath;
use super::path;
use super::ports;
use super::query::{Answer, Query, refusal};
use super::refused::Refused;
use super::registry::Registry;
use super::service;
use super::tables;
use super::trace;
use super::view::{Facts, View};
use crate::config::prefix_routes::PrefixRoute;
use crate::fabric::PortId;
use crate::publish::Subnet;
use crate::transport::{Address, GSI_QKEY};
use crate::wire::attr::SmInfo;
use crate::wire::mad::{Class, Header, MAD_SIZE, Method, Status};
use crate::wire::sa::{
    CLASS_VERSION, DATA_OFFSET, RMPP_OFFSET, RmppHeader, SA_OFFSET, SaAttr, SaHeader,
};
use std::time::Instant;

/// A reply to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// To whom.
    pub to: Address,
    /// The MAD: 256 bytes; or header and records of a whole table in one piece, which the port
    /// cuts into RMPP segments. Such a message has the length of what is in it, which can also
    /// be less than 256 bytes.
    pub mad: Vec<u8>,
    /// The generation of the multicast groups that must be planned before this may be sent; 0 if
    /// it may be at once.
    pub due: u64,
}

/// Answers queries: a core without I/O.
#[derive(Debug, Default)]
pub struct Responder {
    facts: Facts,
    registry: Registry,
    counters: Counters,
    managers: Vec<SmInfo>,
    prefix_routes: Vec<PrefixRoute>,
}

impl Responder {
    /// A responder with what `registry` holds.
    pub fn new(registry: Registry) -> Self {
        Self { registry, ..Self::default() }
    }

    /// What clients wrote.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The same, for the groups of the partitions and for ports that left the fabric.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// What was asked and what became of it.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The same, for what happens to requests before they get here.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Tells which subnet managers there are: the own one first, then the others that the sweep
    /// met.
    pub fn set_managers(&mut self, managers: Vec<SmInfo>) {
        self.managers = managers;
    }

    /// Tells which routers lead to other subnets.
    pub fn set_prefix_routes(&mut self, routes: Vec<PrefixRoute>) {
        self.prefix_routes = routes;
    }

    /// Answers one MAD that came from `from`; `None` if there is nothing to send. The subnet
    /// must be up: whoever is not master, or has not finished its first sweep, must not call
    /// this (IBA vol. 1, C15-0.1.3).
    pub fn handle(
        &mut self,
        subnet: &Subnet,
        from: &Address,
        mad: &[u8],
        now: Instant,
    ) -> Option<Reply> {
        self.counters.seen(now);
        if self.facts.generation != subnet.generation {
            self.facts = Facts::new(subnet);
        }
        self.registry.services.expire(now);
        match self.reply(subnet, from, mad, now) {
            Ok((mad, due)) => Some(Reply { to: Address { qkey: GSI_QKEY, ..*from }, mad, due }),
            Err(why) => {
                self.counters.dropped(why);
                None
            }
        }
    }

    /// The reply, and its [`Reply::due`].
    fn reply(
        &mut self,
        subnet: &Subnet,
        from: &Address,
        mad: &[u8],
        now: Instant,
    ) -> Result<(Vec<u8>, u64), Drop> {
        let trusted = check(subnet, mad)?;
        let header = Header::read(mad);
        let (attribute, method) = (header.attr_id(), Method(header.method()));
        if let Err(refused) = admit(&header) {
            self.counters.answered(attribute, method, refused.0, 0);
            return Ok((refusal(mad, method, refused), 0));
        }
        let view = View::new(subnet, &self.facts);
        let requester = requester(&view, from).ok_or(Drop::UnknownRequester)?;
        let query = Query {
            view,
            registry: &self.registry,
            prefix_routes: &self.prefix_routes,
            requester,
            trusted,
            method,
            modifier: header.attr_mod(),
            mask: SaHeader::read(&mad[SA_OFFSET..]).component_mask(),
            mad,
            data: &mad[DATA_OFFSET..],
            from,
            now,
        };
        let mut answer = Answer::new(mad, method);
        let outcome = match wanted(attribute, &query) {
            Some(change) => change
                .and_then(|change| change::carry_out(change, &mut self.registry, now, &mut answer)),
            None if attribute == SaAttr::SM_INFO_RECORD => {
                ports::managers(&query, &self.managers, &mut answer).map(|()| 0)
            }
            None => read(attribute, &query, &mut answer).map(|()| 0),
        };
        let count = answer.count();
        let (reply, status, due) = match outcome {
            Ok(due) => {
                let (reply, status) = answer.finish(method);
                (reply, status, due)
            }
            Err(refused) => {
                let mut reply = refusal(mad, method, refused);
                if attribute == SaAttr::INFORM_INFO {
                    inform::mark_refused(&mut reply);
                }
                (reply, refused.0, 0)
            }
        };
        self.counters.answered(attribute, method, status, count);
        Ok((reply, due))
    }
}

/// Whether this is a request for us at all; if so, whether it is a trusted one.
fn check(subnet: &Subnet, mad: &[u8]) -> Result<bool, Drop> {
    // What came as a message of RMPP has the length of what is in it.
    let is_message = mad.len() >= DATA_OFFSET && RmppHeader::read(&mad[RMPP_OFFSET..]).active();
    if mad.len() < MAD_SIZE && !is_message {
        return Err(Drop::Truncated);
    }
    let header = Header::read(mad);
    if header.class() != Class::SUBN_ADM {
        return Err(Drop::ForeignClass);
    }
    let method = Method(header.method());
    let silent = [Method::SEND, Method::TRAP, Method::REPORT, Method::TRAP_REPRESS];
    if method.is_response() || silent.contains(&method) {
        return Err(Drop::NotARequest);
    }
    let key = SaHeader::read(&mad[SA_OFFSET..]).sm_key();
    if key != 0 && key != subnet.options.sa_key {
        return Err(Drop::WrongKey);
    }
    Ok(key != 0)
}

/// The methods of each attribute. What is not here does not exist.
const SERVED: [(u16, &[Method]); 20] = [
    (SaAttr::CLASS_PORT_INFO, &[Method::GET]),
    (SaAttr::NODE_RECORD, READ),
    (SaAttr::PORT_INFO_RECORD, READ),
    (SaAttr::SL_TO_VL_RECORD, READ),
    (SaAttr::SWITCH_INFO_RECORD, READ),
    (SaAttr::LINEAR_FT_RECORD, READ),
    (SaAttr::RANDOM_FT_RECORD, READ),
    (SaAttr::MULTICAST_FT_RECORD, READ),
    (SaAttr::SM_INFO_RECORD, READ),
    (SaAttr::LINK_RECORD, READ),
    (SaAttr::PKEY_TABLE_RECORD, READ),
    (SaAttr::GUID_INFO_RECORD, READ_AND_WRITE),
    (SaAttr::PATH_RECORD, READ),
    (SaAttr::MULTI_PATH_RECORD, &[Method::GET_MULTI]),
    (SaAttr::TRACE_RECORD, &[Method::GET_TRACE_TABLE]),
    (SaAttr::VL_ARBITRATION_RECORD, READ),
    (SaAttr::MC_MEMBER_RECORD, READ_AND_WRITE),
    (SaAttr::SERVICE_RECORD, READ_AND_WRITE),
    (SaAttr::INFORM_INFO, &[Method::SET]),
    (SaAttr::INFORM_INFO_RECORD, READ),
];

const READ: &[Method] = &[Method::GET, Method::GET_TABLE];

const READ_AND_WRITE: &[Method] = &[Method::GET, Method::GET_TABLE, Method::SET, Method::DELETE];

/// The checks of versions, method and attribute, in the order of IBA vol. 1, 13.4.7.
fn admit(header: &Header) -> Result<(), Refused> {
    if header.base_version() != 1 || header.class_version() != CLASS_VERSION {
        return Err(Refused(Status::BAD_VERSION));
    }
    let method = Method(header.method());
    let of_the_class = [
        Method::GET,
        Method::SET,
        Method::GET_TABLE,
        Method::GET_TRACE_TABLE,
        Method::GET_MULTI,
        Method::DELETE,
    ];
    if !of_the_class.contains(&method) {
        return Err(Refused(Status::BAD_METHOD));
    }
    let row = SERVED.iter().find(|(attribute, _)| *attribute == header.attr_id());
    match row {
        Some((_, methods)) if methods.contains(&method) => Ok(()),
        _ => Err(Refused(Status::BAD_METHOD_ATTR)),
    }
}

/// The change that a request wants; `None` if it only reads.
fn wanted(attribute: u16, query: &Query<'_>) -> Option<Result<Change, Refused>> {
    Some(match (attribute, query.method) {
        (SaAttr::MC_MEMBER_RECORD, Method::SET) => mcmember::join(query).map(Change::Join),
        (SaAttr::MC_MEMBER_RECORD, Method::DELETE) => mcmember::leave(query).map(Change::Leave),
        (SaAttr::SERVICE_RECORD, Method::SET) => service::register(query),
        (SaAttr::SERVICE_RECORD, Method::DELETE) => service::withdraw(query),
        (SaAttr::INFORM_INFO, Method::SET) => inform::change(query),
        (SaAttr::GUID_INFO_RECORD, Method::SET) => guid_info::set(query),
        (SaAttr::GUID_INFO_RECORD, Method::DELETE) => guid_info::clear(query),
        _ => return None,
    })
}

/// The handlers that only read.
fn read(attribute: u16, query: &Query<'_>, answer: &mut Answer) -> Result<(), Refused> {
    match attribute {
        SaAttr::CLASS_PORT_INFO => ports::class_port_info(query, answer),
        SaAttr::NODE_RECORD => ports::nodes(query, answer),
        SaAttr::PORT_INFO_RECORD => ports::port_infos(query, answer),
        SaAttr::LINK_RECORD => ports::links(query, answer),
        SaAttr::SWITCH_INFO_RECORD => tables::switch_infos(query, answer),
        SaAttr::LINEAR_FT_RECORD => tables::linear(query, answer),
        // Switches are given linear tables only: there is no random one.
        SaAttr::RANDOM_FT_RECORD => Ok(()),
        SaAttr::MULTICAST_FT_RECORD => tables::multicast(query, answer),
        SaAttr::SL_TO_VL_RECORD => tables::sl_to_vl(query, answer),
        SaAttr::VL_ARBITRATION_RECORD => tables::vl_arbitration(query, answer),
        SaAttr::PKEY_TABLE_RECORD => tables::pkeys(query, answer),
        SaAttr::GUID_INFO_RECORD => guid_info::list(query, answer),
        SaAttr::PATH_RECORD => path::paths(query, answer),
        SaAttr::MULTI_PATH_RECORD => multipath::paths(query, answer),
        SaAttr::TRACE_RECORD => trace::trace(query, answer),
        SaAttr::MC_MEMBER_RECORD => mcmember::list(query, answer),
        SaAttr::SERVICE_RECORD => service::list(query, answer),
        SaAttr::INFORM_INFO_RECORD => inform::list(query, answer),
        _ => Err(Refused(Status::BAD_METHOD_ATTR)),
    }
}

/// The port that sent a MAD: by the GID of its global route header if that names a port of this
/// subnet, else by its LID.
fn requester(view: &View<'_>, from: &Address) -> Option<PortId> {
    from.grh.and_then(|grh| view.port_by_gid(&grh.gid)).or_else(|| view.lids().port(from.lid))
}

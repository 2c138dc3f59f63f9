//! Header checks, the table of methods and attributes, error replies.

use super::change::{self, Change};
use super::counters::{Counters, Drop};
use super::facts::Facts;
use super::guid_info;
use super::inform;
use super::mcmember;
use super::multipath;
use super::path;
use super::ports;
use super::query::{Answer, Query, is_table, refusal};
use super::refused::Refused;
use super::registry::Registry;
use super::service;
use super::tables;
use super::trace;
use super::view::View;
use crate::config::prefix_routes::PrefixRoute;
use crate::fabric::PortId;
use crate::publish::Subnet;
use crate::transport::{Address, GSI_QKEY};
use crate::wire::attr::SmInfo;
use crate::wire::mad::{Class, Header, MAD_SIZE, Method, Status};
use crate::wire::sa::{
    CLASS_VERSION, DATA_OFFSET, REQUESTS, RMPP_OFFSET, RmppHeader, SA_OFFSET, SaAttr, SaHeader,
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
    shelf: Shelf,
    counters: Counters,
}

/// What answers are made of, besides the snapshot.
#[derive(Debug, Default)]
struct Shelf {
    facts: Facts,
    registry: Registry,
    managers: Vec<SmInfo>,
    prefix_routes: Vec<PrefixRoute>,
}

/// The end of a request that no handler sees.
enum Halt {
    /// It gets no reply.
    Dropped(Drop),
    /// It gets this status.
    Refused(Refused),
}

/// What became of a request: the reply with its status and number of records, and its
/// [`Reply::due`].
struct Done {
    mad: Vec<u8>,
    status: u16,
    records: usize,
    due: u64,
}

impl Responder {
    /// A responder with what `registry` holds.
    pub fn new(registry: Registry) -> Self {
        let shelf = Shelf { registry, ..Shelf::default() };
        Self { shelf, counters: Counters::default() }
    }

    /// What clients wrote.
    pub fn registry(&self) -> &Registry {
        &self.shelf.registry
    }

    /// The same, for the groups of the partitions and for ports that left the fabric.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.shelf.registry
    }

    /// What was asked and what became of it.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The same, for what happens to requests elsewhere.
    pub fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Tells which subnet managers there are: the own one first, then the others that the sweep
    /// met.
    pub fn set_managers(&mut self, managers: Vec<SmInfo>) {
        self.shelf.managers = managers;
    }

    /// Tells which routers lead to other subnets.
    pub fn set_prefix_routes(&mut self, routes: Vec<PrefixRoute>) {
        self.shelf.prefix_routes = routes;
    }

    /// Has what [`study`] found ready for [`Self::prepare`].
    pub fn learn(&mut self, Studied(facts): Studied) {
        self.shelf.facts = facts;
    }

    /// Gets ready for requests about `subnet` that came until `now`. Studies it if that was not
    /// the last to be [learned](Self::learn).
    pub fn prepare(&mut self, subnet: &Subnet, now: Instant) {
        self.counters.seen(now);
        if self.shelf.facts.generation != subnet.generation {
            self.shelf.facts = Facts::new(subnet);
        }
        self.shelf.registry.services.expire(now);
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
        self.prepare(subnet, now);
        let query =
            if only_reads(mad) { None } else { self.shelf.query(subnet, from, mad, now).ok() };
        let change = query.and_then(|query| {
            let change = wanted(Header::read(mad).attr_id(), &query)?;
            Some((change, query.method))
        });
        let done = match change {
            None => self.shelf.done(subnet, from, mad, now),
            Some((change, method)) => {
                let mut answer = Answer::new(mad, method);
                let registry = &mut self.shelf.registry;
                let outcome =
                    change.and_then(|change| change::carry_out(change, registry, now, &mut answer));
                Ok(Done::of(mad, method, answer, outcome))
            }
        };
        reply(&mut self.counters, from, mad, done)
    }

    /// The same for a request that [only reads](only_reads), counted in `counters`: any number of
    /// threads may do that at once. [`Self::prepare`] comes first.
    pub fn read(
        &self,
        counters: &mut Counters,
        subnet: &Subnet,
        from: &Address,
        mad: &[u8],
        now: Instant,
    ) -> Option<Reply> {
        counters.seen(now);
        reply(counters, from, mad, self.shelf.done(subnet, from, mad, now))
    }
}

/// What is derived from a snapshot before answers are made of it.
#[derive(Debug)]
pub struct Studied(Facts);

/// Derives it: for a large fabric that takes as long as thousands of answers.
pub fn study(subnet: &Subnet) -> Studied {
    Studied(Facts::new(subnet))
}

/// True for requests that change nothing, whatever becomes of them.
pub fn only_reads(mad: &[u8]) -> bool {
    mad.get(3).is_none_or(|&method| ![Method::SET.0, Method::DELETE.0].contains(&method))
}

/// True for requests whose answer may be of any length.
pub fn wants_table(mad: &[u8]) -> bool {
    mad.get(3).is_some_and(|&method| is_table(Method(method)))
}

/// True for requests about services, whose leases end with time.
pub fn is_about_services(mad: &[u8]) -> bool {
    mad.get(16..18) == Some(&SaAttr::SERVICE_RECORD.to_be_bytes())
}

/// Counts what became of a request, and addresses the reply.
fn reply(
    counters: &mut Counters,
    from: &Address,
    request: &[u8],
    done: Result<Done, Drop>,
) -> Option<Reply> {
    match done {
        Ok(Done { mad, status, records, due }) => {
            let header = Header::read(request);
            counters.answered(header.attr_id(), Method(header.method()), status, records);
            Some(Reply { to: Address { qkey: GSI_QKEY, ..*from }, mad, due })
        }
        Err(why) => {
            counters.dropped(why);
            None
        }
    }
}

impl Shelf {
    /// The request as handlers see it.
    fn query<'a>(
        &'a self,
        subnet: &'a Subnet,
        from: &'a Address,
        mad: &'a [u8],
        now: Instant,
    ) -> Result<Query<'a>, Halt> {
        let trusted = check(subnet, mad).map_err(Halt::Dropped)?;
        let header = Header::read(mad);
        admit(&header).map_err(Halt::Refused)?;
        let view = View::new(subnet, &self.facts);
        let requester = requester(&view, from).ok_or(Halt::Dropped(Drop::UnknownRequester))?;
        Ok(Query {
            view,
            registry: &self.registry,
            prefix_routes: &self.prefix_routes,
            requester,
            trusted,
            method: Method(header.method()),
            modifier: header.attr_mod(),
            mask: SaHeader::read(&mad[SA_OFFSET..]).component_mask(),
            mad,
            data: &mad[DATA_OFFSET..],
            from,
            now,
        })
    }

    /// What becomes of a request that changes nothing.
    fn done(
        &self,
        subnet: &Subnet,
        from: &Address,
        mad: &[u8],
        now: Instant,
    ) -> Result<Done, Drop> {
        let query = match self.query(subnet, from, mad, now) {
            Ok(query) => query,
            Err(Halt::Dropped(why)) => return Err(why),
            Err(Halt::Refused(refused)) => {
                let method = Method(Header::read(mad).method());
                let mad = refusal(mad, method, refused);
                return Ok(Done { mad, status: refused.0, records: 0, due: 0 });
            }
        };
        let mut answer = Answer::new(mad, query.method);
        let outcome = match Header::read(mad).attr_id() {
            SaAttr::SM_INFO_RECORD => ports::managers(&query, &self.managers, &mut answer),
            attribute => read(attribute, &query, &mut answer),
        };
        Ok(Done::of(mad, query.method, answer, outcome.map(|()| 0)))
    }
}

impl Done {
    /// What a handler came to.
    fn of(request: &[u8], method: Method, answer: Answer, outcome: Result<u64, Refused>) -> Self {
        let records = answer.count();
        match outcome {
            Ok(due) => {
                let (mad, status) = answer.finish(method);
                Self { mad, status, records, due }
            }
            Err(refused) => {
                let mut mad = refusal(request, method, refused);
                if Header::read(request).attr_id() == SaAttr::INFORM_INFO {
                    inform::mark_refused(&mut mad);
                }
                Self { mad, status: refused.0, records, due: 0 }
            }
        }
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
    if !REQUESTS.contains(&method) {
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

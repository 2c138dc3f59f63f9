//! Header checks, dispatch by method and attribute, error replies.

use super::change::{self, RegistryChange};
use super::counters::{DropReason, SaCounters};
use super::guid_info;
use super::inform;
use super::mcmember;
use super::multipath;
use super::path;
use super::path_index::PathIndex;
use super::ports;
use super::query::{Privilege, Query, ReplyBuilder, error_reply, is_table};
use super::registry::Registry;
use super::requester;
use super::service;
use super::status::ErrorStatus;
use super::tables;
use super::trace;
use super::trust::TrustRules;
use super::untrusted;
use super::view::SubnetView;
use crate::config::prefix_routes::PrefixRoute;
use crate::publish::Subnet;
use crate::transport::{Address, GSI_QKEY};
use crate::wire::attr::SmInfo;
use crate::wire::mad::{Class, Header, MAD_SIZE, Method, Status, attr_id_of, method_of};
use crate::wire::sa::{
    CLASS_VERSION, DATA_OFFSET, REQUESTS, RMPP_OFFSET, RmppHeader, SA_OFFSET, SaAttr, SaHeader,
    SaStatus,
};
use std::time::Instant;

/// A reply to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    pub to: Address,
    /// A single MAD of 256 bytes, or the headers and all records of a table, which the port divides
    /// into RMPP segments. A table may be shorter than 256 bytes.
    pub mad: Vec<u8>,
    /// Generation of the multicast groups that must be planned before the reply is sent; 0 for
    /// none.
    pub required_generation: u64,
}

/// Answers SA requests, without I/O.
#[derive(Debug, Default)]
pub struct Responder {
    state: ResponderState,
    counters: SaCounters,
}

/// Data of replies besides the snapshot. Threads that answer read-only requests share it.
#[derive(Debug, Default)]
struct ResponderState {
    path_index: PathIndex,
    registry: Registry,
    managers: Vec<SmInfo>,
    prefix_routes: Vec<PrefixRoute>,
}

/// Outcome of a request that fails the header checks.
enum Rejection {
    /// No reply is sent.
    Dropped(DropReason),
    Error(ErrorStatus),
}

/// A reply with its counters, before it is addressed.
struct Handled {
    mad: Vec<u8>,
    status: u16,
    records: usize,
    required_generation: u64,
}

impl Responder {
    pub fn new(registry: Registry) -> Self {
        let state = ResponderState { registry, ..ResponderState::default() };
        Self { state, counters: SaCounters::default() }
    }

    /// The registrations of clients.
    pub fn registry(&self) -> &Registry {
        &self.state.registry
    }

    /// The registry, to update permanent groups and to remove ports that left the fabric.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.state.registry
    }

    pub fn counters(&self) -> &SaCounters {
        &self.counters
    }

    /// The counters, for requests that do not reach the responder.
    pub fn counters_mut(&mut self) -> &mut SaCounters {
        &mut self.counters
    }

    /// Sets the SMInfo of all subnet managers of the subnet: the local one first.
    pub fn set_managers(&mut self, managers: Vec<SmInfo>) {
        self.state.managers = managers;
    }

    /// Sets the routers to other subnets.
    pub fn set_prefix_routes(&mut self, routes: Vec<PrefixRoute>) {
        self.state.prefix_routes = routes;
    }

    /// Sets the path index of the next snapshot, which [`Self::prepare`] computes otherwise.
    pub fn set_path_index(&mut self, path_index: PathIndex) {
        self.state.path_index = path_index;
    }

    /// Prepares for [`Self::read`]: computes the path index of `subnet` unless it is set, and
    /// removes services whose lease ended by `now`.
    pub fn prepare(&mut self, subnet: &Subnet, now: Instant) {
        self.counters.count_request(now);
        if self.state.path_index.generation() != subnet.generation {
            self.state.path_index = PathIndex::new(subnet);
        }
        self.state.registry.services.expire(now);
    }

    /// Answers one MAD from `from`; `None` if no reply is due. Must be called only by a master
    /// subnet manager whose first sweep has finished (IBA vol. 1, C15-0.1.3).
    pub fn handle(
        &mut self,
        subnet: &Subnet,
        from: &Address,
        mad: &[u8],
        now: Instant,
    ) -> Option<Reply> {
        self.prepare(subnet, now);
        let query =
            if is_read_only(mad) { None } else { self.state.query(subnet, from, mad, now).ok() };
        let change = query.and_then(|query| {
            let change = requested_change(Header::read(mad).attr_id(), &query)?;
            Some((change, query.method))
        });
        let handled = match change {
            None => self.state.read(subnet, from, mad, now),
            Some((change, method)) => {
                let mut reply = ReplyBuilder::new(mad, method);
                let registry = &mut self.state.registry;
                let outcome =
                    change.and_then(|change| change::apply(change, registry, now, &mut reply));
                Ok(Handled::new(mad, method, reply, outcome))
            }
        };
        address_reply(&mut self.counters, from, mad, handled)
    }

    /// The reason why a request to join or leave a multicast group was refused, for the log. `None`
    /// for other requests, and for those that would be granted now.
    pub fn refused_membership(
        &self,
        subnet: &Subnet,
        from: &Address,
        mad: &[u8],
        now: Instant,
    ) -> Option<&'static str> {
        let query = self.state.query(subnet, from, mad, now).ok()?;
        let refused = match (Header::read(mad).attr_id(), query.method) {
            (SaAttr::MC_MEMBER_RECORD, Method::SET) => mcmember::join(&query).err(),
            (SaAttr::MC_MEMBER_RECORD, Method::DELETE) => mcmember::leave(&query).err(),
            _ => None,
        };
        refused.map(|refused| refused.reason)
    }

    /// The reason why a PathRecord query got no record, for the log; `None` for other requests, and
    /// if the reason is another than partitions, QoS levels and SLs.
    pub fn refused_path(
        &self,
        subnet: &Subnet,
        from: &Address,
        mad: &[u8],
        now: Instant,
    ) -> Option<String> {
        let query = self.state.query(subnet, from, mad, now).ok()?;
        let is_path_query = Header::read(mad).attr_id() == SaAttr::PATH_RECORD;
        if is_path_query { path::refusal(&query) } else { None }
    }

    /// Like [`Self::handle`] for a [read-only](is_read_only) request, which any number of threads
    /// may answer at once with counters of their own. Requires [`Self::prepare`].
    pub fn read(
        &self,
        counters: &mut SaCounters,
        subnet: &Subnet,
        from: &Address,
        mad: &[u8],
        now: Instant,
    ) -> Option<Reply> {
        counters.count_request(now);
        address_reply(counters, from, mad, self.state.read(subnet, from, mad, now))
    }
}

/// True for requests that cannot modify the registry.
pub fn is_read_only(mad: &[u8]) -> bool {
    method_of(mad).is_none_or(|method| ![Method::SET, Method::DELETE].contains(&method))
}

/// True for requests whose reply is a table of any length.
pub fn is_table_request(mad: &[u8]) -> bool {
    method_of(mad).is_some_and(is_table)
}

/// True for requests for ServiceRecord, whose reply depends on the time left of leases.
pub fn is_service_request(mad: &[u8]) -> bool {
    attr_id_of(mad) == Some(SaAttr::SERVICE_RECORD)
}

/// Counts a handled request and addresses its reply.
fn address_reply(
    counters: &mut SaCounters,
    from: &Address,
    request: &[u8],
    handled: Result<Handled, DropReason>,
) -> Option<Reply> {
    match handled {
        Ok(Handled { mad, status, records, required_generation }) => {
            let header = Header::read(request);
            let method = Method(header.method());
            counters.count_reply(from.lid, header.attr_id(), method, status, records);
            Some(Reply { to: Address { qkey: GSI_QKEY, ..*from }, mad, required_generation })
        }
        Err(reason) => {
            counters.count_drop_of(from.lid, reason);
            None
        }
    }
}

impl ResponderState {
    /// Checks a request for its handler.
    fn query<'a>(
        &'a self,
        subnet: &'a Subnet,
        from: &'a Address,
        mad: &'a [u8],
        now: Instant,
    ) -> Result<Query<'a>, Rejection> {
        let trusted = check_header(subnet, mad).map_err(Rejection::Dropped)?;
        let header = Header::read(mad);
        check_method(&header).map_err(Rejection::Error)?;
        let rules = TrustRules::of(&subnet.options);
        let view = SubnetView::new(subnet, &self.path_index);
        let requester = requester::find(&view, &self.registry, from, rules.checks_source_gid);
        let requester = requester.map_err(Rejection::Dropped)?;
        if !trusted && !rules.all_queries && !untrusted::is_allowed(mad) {
            return Err(Rejection::Error(ErrorStatus(SaStatus::DENIED)));
        }
        Ok(Query {
            view,
            registry: &self.registry,
            prefix_routes: &self.prefix_routes,
            requester,
            privilege: if !trusted {
                Privilege::None
            } else if subnet.options.has_secret_sa_key() {
                Privilege::Privileged
            } else {
                Privilege::Trusted
            },
            method: Method(header.method()),
            modifier: header.attr_mod(),
            mask: SaHeader::read(&mad[SA_OFFSET..]).component_mask(),
            mad,

            from,
            now,
        })
    }

    /// Handles a request that modifies nothing.
    fn read(
        &self,
        subnet: &Subnet,
        from: &Address,
        mad: &[u8],
        now: Instant,
    ) -> Result<Handled, DropReason> {
        let query = match self.query(subnet, from, mad, now) {
            Ok(query) => query,
            Err(Rejection::Dropped(reason)) => return Err(reason),
            Err(Rejection::Error(error)) => {
                let method = Method(Header::read(mad).method());
                let mad = error_reply(mad, method, error);
                return Ok(Handled { mad, status: error.0, records: 0, required_generation: 0 });
            }
        };
        let mut reply = ReplyBuilder::new(mad, query.method);
        let outcome = match Header::read(mad).attr_id() {
            SaAttr::SM_INFO_RECORD => ports::managers(&query, &self.managers, &mut reply),
            attribute => read_attribute(attribute, &query, &mut reply),
        };
        Ok(Handled::new(mad, query.method, reply, outcome.map(|()| 0)))
    }
}

impl Handled {
    /// Turns the outcome of a handler into a reply.
    fn new(
        request: &[u8],
        method: Method,
        reply: ReplyBuilder,
        outcome: Result<u64, ErrorStatus>,
    ) -> Self {
        let records = reply.count();
        match outcome {
            Ok(required_generation) => {
                let (mad, status) = reply.finish(method);
                Self { mad, status, records, required_generation }
            }
            Err(error) => {
                let mut mad = error_reply(request, method, error);
                if Header::read(request).attr_id() == SaAttr::INFORM_INFO {
                    inform::clear_subscribe(&mut mad);
                }
                Self { mad, status: error.0, records, required_generation: 0 }
            }
        }
    }
}

/// Checks that the MAD is an SA request with a valid SM_Key. Returns true if the request is
/// trusted.
fn check_header(subnet: &Subnet, mad: &[u8]) -> Result<bool, DropReason> {
    // A reassembled RMPP message may be shorter than a MAD.
    let is_message = mad.len() >= DATA_OFFSET && RmppHeader::read(&mad[RMPP_OFFSET..]).active();
    if mad.len() < MAD_SIZE && !is_message {
        return Err(DropReason::Truncated);
    }
    let header = Header::read(mad);
    if header.class() != Class::SUBN_ADM {
        return Err(DropReason::WrongClass);
    }
    let method = Method(header.method());
    let silent = [Method::SEND, Method::TRAP, Method::REPORT, Method::TRAP_REPRESS];
    if method.is_response() || silent.contains(&method) {
        return Err(DropReason::NotARequest);
    }
    let key = SaHeader::read(&mad[SA_OFFSET..]).sm_key();
    if key.is_set() && key != subnet.options.sa_key {
        return Err(DropReason::WrongKey);
    }
    Ok(key.is_set())
}

/// The attributes and their methods.
const DISPATCH_TABLE: [(u16, &[Method]); 20] = [
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

/// Checks versions, method and attribute, in the order of IBA vol. 1, 13.4.7.
fn check_method(header: &Header) -> Result<(), ErrorStatus> {
    if header.base_version() != 1 || header.class_version() != CLASS_VERSION {
        return Err(ErrorStatus(Status::BAD_VERSION));
    }
    let method = Method(header.method());
    if !REQUESTS.contains(&method) {
        return Err(ErrorStatus(Status::BAD_METHOD));
    }
    let row = DISPATCH_TABLE.iter().find(|(attribute, _)| *attribute == header.attr_id());
    match row {
        Some((_, methods)) if methods.contains(&method) => Ok(()),
        _ => Err(ErrorStatus(Status::BAD_METHOD_ATTR)),
    }
}

/// The change that a request asks for; `None` for a read-only request.
fn requested_change(
    attribute: u16,
    query: &Query<'_>,
) -> Option<Result<RegistryChange, ErrorStatus>> {
    Some(match (attribute, query.method) {
        (SaAttr::MC_MEMBER_RECORD, Method::SET) => {
            mcmember::join(query).map(RegistryChange::Join).map_err(ErrorStatus::from)
        }
        (SaAttr::MC_MEMBER_RECORD, Method::DELETE) => {
            mcmember::leave(query).map(RegistryChange::Leave).map_err(ErrorStatus::from)
        }
        (SaAttr::SERVICE_RECORD, Method::SET) => service::register(query),
        (SaAttr::SERVICE_RECORD, Method::DELETE) => service::unregister(query),
        (SaAttr::INFORM_INFO, Method::SET) => inform::change(query),
        (SaAttr::GUID_INFO_RECORD, Method::SET) => guid_info::set(query),
        (SaAttr::GUID_INFO_RECORD, Method::DELETE) => guid_info::clear(query),
        _ => return None,
    })
}

/// Calls the handler of a read-only request.
fn read_attribute(
    attribute: u16,
    query: &Query<'_>,
    reply: &mut ReplyBuilder,
) -> Result<(), ErrorStatus> {
    match attribute {
        SaAttr::CLASS_PORT_INFO => ports::class_port_info(query, reply),
        SaAttr::NODE_RECORD => ports::nodes(query, reply),
        SaAttr::PORT_INFO_RECORD => ports::port_infos(query, reply),
        SaAttr::LINK_RECORD => ports::links(query, reply),
        SaAttr::SWITCH_INFO_RECORD => tables::switch_infos(query, reply),
        SaAttr::LINEAR_FT_RECORD => tables::linear(query, reply),
        // All switches are programmed with linear tables: random ones are empty.
        SaAttr::RANDOM_FT_RECORD => Ok(()),
        SaAttr::MULTICAST_FT_RECORD => tables::multicast(query, reply),
        SaAttr::SL_TO_VL_RECORD => tables::sl_to_vl(query, reply),
        SaAttr::VL_ARBITRATION_RECORD => tables::vl_arbitration(query, reply),
        SaAttr::PKEY_TABLE_RECORD => tables::pkeys(query, reply),
        SaAttr::GUID_INFO_RECORD => guid_info::list(query, reply),
        SaAttr::PATH_RECORD => path::paths(query, reply),
        SaAttr::MULTI_PATH_RECORD => multipath::paths(query, reply),
        SaAttr::TRACE_RECORD => trace::trace(query, reply),
        SaAttr::MC_MEMBER_RECORD => mcmember::list(query, reply),
        SaAttr::SERVICE_RECORD => service::list(query, reply),
        SaAttr::INFORM_INFO_RECORD => inform::list(query, reply),
        _ => Err(ErrorStatus(Status::BAD_METHOD_ATTR)),
    }
}

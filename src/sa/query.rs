//! What a handler sees of a request, and how the records it finds become one reply.

use super::refused::Refused;
use super::registry::Registry;
use super::view::View;
use crate::config::prefix_routes::PrefixRoute;
use crate::fabric::PortId;
use crate::ids::{Gid, Guid, Lid};
use crate::transport::Address;
use crate::wire::mad::{Header, Method, Status};
use crate::wire::record::{Record, matches};
use crate::wire::sa::{DATA_OFFSET, RMPP_OFFSET, RmppHeader, SA_OFFSET, SaHeader, SaStatus};
use std::ops::ControlFlow;
use std::time::Instant;

/// A request that passed the header checks.
pub(super) struct Query<'a> {
    /// The snapshot.
    pub view: View<'a>,
    /// What clients wrote.
    pub registry: &'a Registry,
    /// Which routers lead to other subnets.
    pub prefix_routes: &'a [PrefixRoute],
    /// The port that asks.
    pub requester: PortId,
    /// The request carries our SM_Key.
    pub trusted: bool,
    /// The method.
    pub method: Method,
    /// The attribute modifier.
    pub modifier: u32,
    /// The component mask.
    pub mask: u64,
    /// The whole request.
    pub mad: &'a [u8],
    /// The record asked with.
    pub data: &'a [u8],
    /// Whom the answer goes to.
    pub from: &'a Address,
    /// When it is asked.
    pub now: Instant,
}

impl Query<'_> {
    /// True if all of `components` are in the mask.
    pub(super) fn has(&self, components: u64) -> bool {
        self.mask & components == components
    }

    /// The record asked with. Bits of the mask that the record has no components for select
    /// nothing, as with OpenSM: clients that set them have always been answered.
    pub(super) fn record<R: Record>(&self) -> R {
        R::parse(self.data)
    }

    /// Pushes `record` if it has the components asked for.
    pub(super) fn offer<R: Record>(
        &self,
        wanted: &R,
        record: &R,
        answer: &mut Answer,
    ) -> ControlFlow<()> {
        if matches(self.mask, wanted, record) {
            return answer.push(record);
        }
        ControlFlow::Continue(())
    }

    /// The end ports to look at: the one at `lid` if the component `bit` is asked for, else all.
    /// Only those that share a partition with the requester.
    pub(super) fn end_ports(&self, bit: u64, lid: Lid) -> impl Iterator<Item = PortId> + '_ {
        let one = if self.has(bit) { Some(self.view.lids().port(lid)) } else { None };
        let all = one.is_none().then(|| self.view.fabric().end_ports());
        let ports = one.flatten().into_iter().chain(all.into_iter().flatten());
        ports.filter(|&port| self.visible(port))
    }

    /// True if the requester may see records of `port`.
    pub(super) fn visible(&self, port: PortId) -> bool {
        self.view.share_partition(self.requester, port)
    }

    /// The port whose unicast GID this is, an alias GUID's included.
    pub(super) fn port_by_gid(&self, gid: &Gid) -> Option<PortId> {
        self.view.is_local_prefix(gid.prefix()).then(|| self.port_by_guid(gid.guid()))?
    }

    /// The end port of this GUID, its own or an alias.
    pub(super) fn port_by_guid(&self, guid: Guid) -> Option<PortId> {
        let fabric = self.view.fabric();
        let by_alias = || fabric.port_by_guid(self.registry.aliases.port(guid)?);
        fabric.port_by_guid(guid).or_else(by_alias)
    }

    /// The GIDs of an end port: its own first.
    pub(super) fn gids(&self, port: PortId) -> impl Iterator<Item = Gid> + '_ {
        let own = self.view.gid(port);
        let aliases = self.registry.aliases.of_port(own.guid());
        std::iter::once(own).chain(aliases.map(move |alias| Gid::new(own.prefix(), alias)))
    }
}

/// True for methods whose reply is any number of records, in RMPP.
pub(super) fn is_table(method: Method) -> bool {
    [Method::GET_TABLE, Method::GET_MULTI, Method::GET_TRACE_TABLE].contains(&method)
}

/// The reply as it grows: the header of the request, then records.
pub(super) struct Answer {
    mad: Vec<u8>,
    stride: usize,
    count: usize,
    table: bool,
    /// The table has outgrown [`MAX_TABLE`].
    full: bool,
}

/// The longest answer in bytes: a path between every two of a thousand ports. Beyond that the
/// answer is `NO_RESOURCES`, not a process without memory. The header of [`super`] says what
/// that comes to.
const MAX_TABLE: usize = 64 << 20;

impl Answer {
    /// An empty reply to the MAD that starts with `header`.
    pub(super) fn new(request: &[u8], method: Method) -> Self {
        let mut mad = Vec::with_capacity(crate::wire::mad::MAD_SIZE);
        mad.extend_from_slice(request.get(..DATA_OFFSET).unwrap_or(request));
        mad.resize(DATA_OFFSET, 0);
        Self { mad, stride: 0, count: 0, table: is_table(method), full: false }
    }

    /// Appends a record. Breaks when nothing more is needed: a Get that found two is already
    /// one with too many.
    pub(super) fn push<R: Record>(&mut self, record: &R) -> ControlFlow<()> {
        self.stride = R::STRIDE;
        self.count += 1;
        self.full |= self.mad.len() + R::STRIDE > MAX_TABLE;
        if self.full {
            return ControlFlow::Break(());
        }
        if self.table || self.count == 1 {
            self.mad.extend_from_slice(record.bytes());
        }
        if self.table || self.count < 2 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }

    /// Makes this a reply of another attribute than the request's.
    pub(super) fn become_attribute(&mut self, attribute: u16) {
        let mut header = Header::read(&self.mad);
        header.set_attr_id(attribute);
        header.write(&mut self.mad);
    }

    /// The first record; `None` if there is none.
    pub(super) fn first<R: Record>(&self) -> Option<R> {
        (self.count > 0).then(|| R::parse(&self.mad[DATA_OFFSET..]))
    }

    /// Number of records.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The reply's MAD and its status.
    pub(super) fn finish(mut self, method: Method) -> (Vec<u8>, u16) {
        if self.full {
            let refused = Refused(SaStatus::NO_RESOURCES);
            self.mad.truncate(DATA_OFFSET);
            return (refusal(&self.mad, method, refused), refused.0);
        }
        let status = match self.count {
            _ if self.table => Status::OK,
            0 => SaStatus::NO_RECORDS,
            1 => Status::OK,
            _ => SaStatus::TOO_MANY_RECORDS,
        };
        let data = self.mad.len() - DATA_OFFSET;
        let rmpp = if self.table { RmppHeader::message(data) } else { RmppHeader::default() };
        let offset = if self.count > 0 { (self.stride / 8) as u16 } else { 0 };
        seal(&mut self.mad, method, status, &rmpp, offset);
        (self.mad, status)
    }
}

/// The reply that carries nothing but a status: the request's own bytes come back.
pub(super) fn refusal(request: &[u8], method: Method, Refused(status): Refused) -> Vec<u8> {
    let mut mad = request[..request.len().min(crate::wire::mad::MAD_SIZE)].to_vec();
    let offset = SaHeader::read(mad.get(SA_OFFSET..).unwrap_or(&[])).attribute_offset();
    let offset = if is_table(method) { 0 } else { offset };
    seal(&mut mad, method, status, &RmppHeader::default(), offset);
    mad
}

/// Turns the headers of a request into those of its reply and pads a single MAD to its full
/// size. The SM_Key never goes back (IBA vol. 1, C15-0.1.5).
fn seal(mad: &mut Vec<u8>, method: Method, status: u16, rmpp: &RmppHeader, offset: u16) {
    let mut header = Header::read(mad);
    header.set_base_version(1);
    header.set_class_version(crate::wire::sa::CLASS_VERSION);
    header.set_method(method.response().0);
    header.set_status(status);
    header.write(mad);
    // A message for RMPP ends with its last record: its length is what the port announces.
    if !rmpp.active() && mad.len() < crate::wire::mad::MAD_SIZE {
        mad.resize(crate::wire::mad::MAD_SIZE, 0);
    }
    rmpp.write(&mut mad[RMPP_OFFSET..]);
    let mut sa = SaHeader::read(&mad[SA_OFFSET..]);
    sa.set_sm_key(0);
    sa.set_attribute_offset(offset);
    sa.write(&mut mad[SA_OFFSET..]);
}

//! A checked request as handlers see it, and the assembly of a reply from records.

use super::registry::Registry;
use super::status::ErrorStatus;
use super::view::SubnetView;
use crate::config::prefix_routes::PrefixRoute;
use crate::fabric::PortId;
use crate::fabric::virtual_ports::EndPort;
use crate::ids::{Gid, Guid, Lid, Pkey, SmKey};
use crate::transport::Address;
use crate::wire::mad::{Header, Method, Status};
use crate::wire::record::{MultiPathRecord, NodeRecord, Record, ServiceRecord, matches};
use crate::wire::sa::{
    DATA_OFFSET, RMPP_OFFSET, RmppHeader, SA_OFFSET, SaAttr, SaHeader, SaStatus,
};
use std::ops::ControlFlow;
use std::time::Instant;

/// A request that passed the header checks.
pub(super) struct Query<'a> {
    pub view: SubnetView<'a>,
    pub registry: &'a Registry,
    pub prefix_routes: &'a [PrefixRoute],
    pub requester: EndPort,
    pub privilege: Privilege,
    pub method: Method,
    /// Attribute modifier.
    pub modifier: u32,
    /// Component mask.
    pub mask: u64,
    /// The request including its headers.
    pub mad: &'a [u8],

    /// Sender of the request.
    pub from: &'a Address,
    pub now: Instant,
}

/// Rights that the SM_Key of a request gives to its sender.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Privilege {
    /// The request carries no SM_Key.
    None,
    /// The request carries the SM_Key of this subnet manager (`sa_key`): it may read all records
    /// without keys.
    Trusted,
    /// That SM_Key is a secret: the request may act for other ports without limits, and see keys. The
    /// published default of `sa_key` gives no such privileges, which any client would have then.
    Privileged,
}

impl Query<'_> {
    pub(super) fn is_trusted(&self) -> bool {
        self.privilege >= Privilege::Trusted
    }

    pub(super) fn is_privileged(&self) -> bool {
        self.privilege == Privilege::Privileged
    }

    /// The data of the request: its record.
    pub(super) fn data(&self) -> &[u8] {
        &self.mad[DATA_OFFSET..]
    }
    /// True if the component mask contains all of `components`.
    pub(super) fn has(&self, components: u64) -> bool {
        self.mask & components == components
    }

    /// The record of the request. Bits of the component mask without a component in the record are
    /// ignored, as in OpenSM, because existing clients set them.
    pub(super) fn record<R: Record>(&self) -> R {
        R::parse(self.data())
    }

    /// Pushes `record` if it matches the selected components of `wanted`.
    #[inline] // Called for every record of a table.
    pub(super) fn push_if_matching<R: Record>(
        &self,
        wanted: &R,
        record: &R,
        reply: &mut ReplyBuilder,
    ) -> ControlFlow<()> {
        if matches(self.mask, wanted, record) {
            return reply.push(record);
        }
        ControlFlow::Continue(())
    }

    /// The end ports that share a partition with the requester: only the owner of `lid` if the mask
    /// contains the component `bit`.
    pub(super) fn end_ports(&self, bit: u64, lid: Lid) -> impl Iterator<Item = PortId> + '_ {
        let one = if self.has(bit) { Some(self.view.lids().port(lid)) } else { None };
        let all = one.is_none().then(|| self.view.fabric().end_ports());
        let ports = one.flatten().into_iter().chain(all.into_iter().flatten());
        let view = &self.view;
        let requester = self.requester;
        let requester_keys = view.pkeys(requester);
        ports.filter(move |&port| {
            requester == port.into() || Pkey::any_match(requester_keys, view.pkeys(port))
        })
    }

    /// True if the requester may see records of `port`: both share a partition (IBA vol. 1,
    /// 15.4.1).
    pub(super) fn is_visible(&self, port: impl Into<EndPort>) -> bool {
        self.view.share_partition(self.requester, port)
    }

    /// The end port or vport with this unicast GID, which may contain an alias GUID.
    pub(super) fn port_by_gid(&self, gid: &Gid) -> Option<EndPort> {
        self.view.is_local_prefix(gid.prefix()).then(|| self.port_by_guid(gid.guid()))?
    }

    /// The end port or vport with this GUID, which may be an alias.
    pub(super) fn port_by_guid(&self, guid: Guid) -> Option<EndPort> {
        let fabric = self.view.fabric();
        fabric
            .end_port_by_guid(guid)
            .or_else(|| fabric.end_port_by_guid(self.registry.aliases.port(guid)?))
    }

    /// The GIDs of an end port: the one with its own GUID, then its aliases.
    pub(super) fn gids(&self, port: EndPort) -> impl Iterator<Item = Gid> + '_ {
        let own = self.view.gid(port);
        let aliases = self.registry.aliases.of_port(own.guid());
        std::iter::once(own).chain(aliases.map(move |alias| Gid::new(own.prefix(), alias)))
    }
}

/// True for methods whose reply is a table of records, sent with RMPP.
pub(super) fn is_table(method: Method) -> bool {
    [Method::GET_TABLE, Method::GET_MULTI, Method::GET_TRACE_TABLE].contains(&method)
}

/// Assembles a reply: the headers of the request, followed by records.
pub(super) struct ReplyBuilder {
    mad: Vec<u8>,
    /// Distance between records in bytes, a multiple of 8.
    stride: usize,
    count: usize,
    is_table: bool,
    /// The table exceeds [`MAX_REPLY_BYTES`].
    is_too_long: bool,
}

/// Maximum length of a reply, 64 MiB: the paths between all pairs of 1000 ports. Longer tables get
/// `NO_RESOURCES`, which bounds the memory of the process as described in [`super`].
const MAX_REPLY_BYTES: usize = 64 << 20;

impl ReplyBuilder {
    /// An empty reply to `request`.
    pub(super) fn new(request: &[u8], method: Method) -> Self {
        let mut mad = Vec::with_capacity(crate::wire::mad::MAD_SIZE);
        mad.extend_from_slice(request.get(..DATA_OFFSET).unwrap_or(request));
        mad.resize(DATA_OFFSET, 0);
        Self { mad, stride: 0, count: 0, is_table: is_table(method), is_too_long: false }
    }

    /// Appends a record. Breaks when further records cannot change the reply: the table is too
    /// long, or a Get has found two records and gets `TOO_MANY_RECORDS`.
    pub(super) fn push<R: Record>(&mut self, record: &R) -> ControlFlow<()> {
        self.stride = R::STRIDE;
        self.count += 1;
        self.is_too_long |= self.mad.len() + R::STRIDE > MAX_REPLY_BYTES;
        if self.is_too_long {
            return ControlFlow::Break(());
        }
        if self.is_table || self.count == 1 {
            self.mad.extend_from_slice(record.bytes());
        }
        if self.is_table || self.count < 2 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }

    /// Replaces the attribute ID, for replies whose attribute differs from that of the request.
    pub(super) fn set_attribute(&mut self, attribute: u16) {
        let mut header = Header::read(&self.mad);
        header.set_attr_id(attribute);
        header.write(&mut self.mad);
    }

    pub(super) fn first<R: Record>(&self) -> Option<R> {
        (self.count > 0).then(|| R::parse(&self.mad[DATA_OFFSET..]))
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Completes the headers. Returns the MAD and its status.
    pub(super) fn finish(mut self, method: Method) -> (Vec<u8>, u16) {
        if self.is_too_long {
            let error = ErrorStatus(SaStatus::NO_RESOURCES);
            self.mad.truncate(DATA_OFFSET);
            return (error_reply(&self.mad, method, error), error.0);
        }
        let status = match self.count {
            _ if self.is_table => Status::OK,
            0 => SaStatus::NO_RECORDS,
            1 => Status::OK,
            _ => SaStatus::TOO_MANY_RECORDS,
        };
        let data = self.mad.len() - DATA_OFFSET;
        let rmpp = if self.is_table { RmppHeader::message(data) } else { RmppHeader::default() };
        let offset = if self.count > 0 { (self.stride / 8) as u16 } else { 0 };
        complete_headers(&mut self.mad, method, status, &rmpp, offset);
        (self.mad, status)
    }
}

/// Bytes of a request up to the end of its attribute. A driver may have left behind it what was in its
/// memory before, such as a key, which must not go to the client.
fn attribute_end(request: &[u8]) -> usize {
    let data = request.get(DATA_OFFSET..).unwrap_or(&[]);
    let size = match Header::read(request).attr_id() {
        SaAttr::SERVICE_RECORD => ServiceRecord::STRIDE,
        SaAttr::MULTI_PATH_RECORD if data.len() >= MultiPathRecord::SIZE => {
            let query = MultiPathRecord::read(data);
            let gids = usize::from(query.sgid_count()) + usize::from(query.dgid_count());
            MultiPathRecord::SIZE + gids * size_of::<Gid>()
        }
        // The longest of the others.
        _ => NodeRecord::STRIDE,
    };
    DATA_OFFSET + size
}

/// A reply with an error status, which returns the attribute of the request.
pub(super) fn error_reply(
    request: &[u8],
    method: Method,
    ErrorStatus(status): ErrorStatus,
) -> Vec<u8> {
    let end = attribute_end(request).min(crate::wire::mad::MAD_SIZE);
    let mut mad = request[..request.len().min(end)].to_vec();
    let offset = SaHeader::read(mad.get(SA_OFFSET..).unwrap_or(&[])).attribute_offset();
    let offset = if is_table(method) { 0 } else { offset };
    complete_headers(&mut mad, method, status, &RmppHeader::default(), offset);
    mad
}

/// Turns the headers of a request into those of its reply and pads a single MAD to 256 bytes. The
/// SM_Key is cleared (IBA vol. 1, C15-0.1.5).
fn complete_headers(
    mad: &mut Vec<u8>,
    method: Method,
    status: u16,
    rmpp: &RmppHeader,
    offset: u16,
) {
    let mut header = Header::read(mad);
    header.set_base_version(1);
    header.set_class_version(crate::wire::sa::CLASS_VERSION);
    header.set_method(method.response().0);
    header.set_status(status);
    header.write(mad);
    // An RMPP message ends with its last record, because the port derives PayloadLength from it.
    if !rmpp.active() && mad.len() < crate::wire::mad::MAD_SIZE {
        mad.resize(crate::wire::mad::MAD_SIZE, 0);
    }
    rmpp.write(&mut mad[RMPP_OFFSET..]);
    let mut sa = SaHeader::read(&mad[SA_OFFSET..]);
    sa.set_sm_key(SmKey::NONE);
    sa.set_attribute_offset(offset);
    sa.write(&mut mad[SA_OFFSET..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::mad::MAD_SIZE;

    /// ibsim's library delivers old memory behind byte 224 of a MAD.
    #[test]
    fn nothing_goes_back_with_an_error_but_the_attribute() {
        for (attribute, size) in [
            (SaAttr::PATH_RECORD, 112),
            (SaAttr::NODE_RECORD, 112),
            (SaAttr::SERVICE_RECORD, 176),
            (SaAttr::MULTI_PATH_RECORD, 24 + 3 * 16),
        ] {
            let mut request = [0xEE; MAD_SIZE];
            let mut header = Header::default();
            header.set_attr_id(attribute);
            header.write(&mut request);
            if attribute == SaAttr::MULTI_PATH_RECORD {
                let mut query = MultiPathRecord::default();
                query.set_sgid_count(1);
                query.set_dgid_count(2);
                query.write(&mut request[DATA_OFFSET..]);
            }
            let error = ErrorStatus(SaStatus::NO_RECORDS);
            let reply = error_reply(&request, Method::GET, error);
            assert_eq!(reply.len(), MAD_SIZE);
            let end = DATA_OFFSET + size;
            assert_eq!(reply[DATA_OFFSET..end], request[DATA_OFFSET..end], "{attribute:#x}");
            assert!(reply[end..].iter().all(|&byte| byte == 0), "{attribute:#x}");
        }
    }
}

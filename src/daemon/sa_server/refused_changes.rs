//! Log lines about requests to change SA records that were refused: those of a port are logged at
//! each power of 4 of their number.

use super::state::SnapshotState;

use crate::daemon::sa_server::request_key::changes_membership;
use crate::ids::{Guid, Lid};
use crate::notes::counted;
use crate::publish::Subnet;
use crate::sa::Responder;
use crate::transport::demux::Inbound;
use crate::wire::mad::{Header, Method, Status, attr_id_of, method_of};
use crate::wire::record::tables::GuidInfoRecord;
use crate::wire::record::{McMemberRecord, Record};
use crate::wire::sa::{DATA_OFFSET, SA_OFFSET, SaAttr, SaHeader, SaStatus};
use tokio::time::Instant;
use tracing::warn;

/// A refused request to change SA records, to be logged.
pub(super) struct RefusedChange<'a> {
    pub responder: &'a mut Responder,
    pub snapshots: &'a SnapshotState,
    pub subnet: &'a Subnet,
    pub request: &'a Inbound,
}

impl RefusedChange<'_> {
    /// Logs that a request was refused, or granted in part, by its reply.
    pub(super) fn log(&mut self, reply: &[u8]) {
        let Self { request, .. } = *self;
        let status = Header::read(reply).status();
        let is_alias_request = method_of(&request.mad) == Some(Method::SET)
            && attr_id_of(&request.mad) == Some(SaAttr::GUID_INFO_RECORD);
        if status != Status::OK && changes_membership(&request.mad) {
            self.log_refused_membership(status);
        } else if status == Status::OK && is_alias_request {
            self.log_duplicate_aliases(reply);
        } else {
            self.log_rejection(request.from.lid, status);
        }
    }

    /// Logs that a port's changes were denied or exceeded a limit.
    fn log_rejection(&mut self, lid: Lid, status: u16) {
        let reason = match status {
            SaStatus::NO_RESOURCES => {
                "NO_RESOURCES: it has reached a limit (sa_max_*_per_port), or the SA is full"
            }
            SaStatus::DENIED => {
                "REQ_DENIED: the record is in use, belongs to another port, or needs its ServiceKey"
            }
            _ => return,
        };
        let count = self.responder.counters_mut().count_rejected(lid);
        if is_power_of_4(count) {
            let requests = counted(count as usize, "request", "requests");
            let node = self.snapshots.node_description(lid);
            warn!(
                "{requests} of LID {lid} ({node}) to change SA records rejected, the last with \
                 {reason}"
            );
        }
    }

    /// Logs that a port may not join or leave a group.
    fn log_refused_membership(&mut self, status: u16) {
        let Self { snapshots, subnet, request, .. } = *self;
        let lid = request.from.lid;
        let count = self.responder.counters_mut().count_rejected(lid);
        if !is_power_of_4(count) {
            return;
        }
        let now = Instant::now().into_std();
        let reason = self.responder.refused_membership(subnet, &request.from, &request.mad, now);
        let reason = reason.unwrap_or("the multicast LIDs or the memory for groups are used up");
        let action = match method_of(&request.mad) {
            Some(Method::DELETE) => "leave",
            _ => "join",
        };
        let wanted = McMemberRecord::parse(request.mad.get(DATA_OFFSET..).unwrap_or(&[]));
        let mgid = wanted.mgid();
        let port = wanted.port_gid().guid();
        warn!(
            "ERR 1B12: Port {port} (requested by {}) may not {action} the group with MGID {mgid}: \
             {reason}; status 0x{status:04x}, {} of this LID refused so far",
            snapshots.port_description(lid),
            counted(count as usize, "request", "requests")
        );
    }

    /// Logs alias GUIDs that a port asked for and that another port has.
    fn log_duplicate_aliases(&mut self, reply: &[u8]) {
        let Self { snapshots, subnet, request, .. } = *self;
        let asked = guid_info_record(&request.mad);
        let set = guid_info_record(reply);
        let header = SaHeader::read(request.mad.get(SA_OFFSET..).unwrap_or(&[]));
        let lid = request.from.lid;
        for index in 0..asked.guids().0.len() {
            let guid = asked.guids().0[index];
            let is_selected = header.component_mask() & (GuidInfoRecord::GID0 << index) != 0;
            if !is_selected || guid == Guid::default() || set.guids().0[index] == guid {
                continue;
            }
            let count = self.responder.counters_mut().count_rejected(lid);
            if !is_power_of_4(count) {
                continue;
            }
            let owner = match subnet.fabric.port_by_guid(guid) {
                Some(_) => Some(guid),
                None => self.responder.registry().aliases().port(guid),
            };
            let owner = owner.map_or_else(|| "another port".to_owned(), |owner| owner.to_string());
            warn!(
                "ERR 5108: Duplicate alias port GUID {guid} index {index} in block {} of LID {}, \
                 requested by {}: it is already assigned to port {owner}, and the entry keeps \
                 its GUID",
                asked.block(),
                asked.lid(),
                snapshots.port_description(lid)
            );
        }
    }
}

pub(super) fn is_power_of_4(count: u64) -> bool {
    count.is_power_of_two() && count.trailing_zeros().is_multiple_of(2)
}

fn guid_info_record(mad: &[u8]) -> GuidInfoRecord {
    GuidInfoRecord::parse(mad.get(DATA_OFFSET..).unwrap_or(&[]))
}

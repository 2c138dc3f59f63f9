//! Restores the registry from the dump file.

use super::Timestamp;
use super::fields::{FieldError, Fields};
use crate::config::Diagnostic;
use crate::ids::{Gid, Guid, Lid, Mlid, Pkey, Sl};
use crate::notes::Severity;
use crate::sa::rates::{mtu_is_valid, rate_rank};
use crate::sa::registry::Registry;
use crate::sa::registry::groups::{Group, GroupMember, GroupSpec};
use crate::sa::registry::subscriptions::{Subscription, is_security_trap};
use crate::transport::Address;
use crate::wire::attr::tables::GUID_BLOCK;
use crate::wire::record::{InformInfo, JoinState, ServiceRecord};
use std::collections::BTreeMap;
use std::path::Path;

/// Number of restored registrations, and diagnostics.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RestoreSummary {
    pub groups: usize,
    pub members: usize,
    pub subscriptions: usize,
    pub services: usize,
    /// Blocks of alias GUIDs.
    pub aliases: usize,
    /// Services whose lease has ended since the dump.
    pub expired: usize,
    /// Invalid lines.
    pub findings: Vec<Diagnostic>,
}

/// Beginning of each kind of line.
const LINE_KINDS: [(&str, LineKind); 5] = [
    ("MC Group", LineKind::Group),
    ("mcm_port:", LineKind::GroupMember),
    ("InformInfo Record:", LineKind::Subscription),
    ("Service Record:", LineKind::Service),
    ("GUIDInfo Record:", LineKind::Aliases),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Group,
    GroupMember,
    Subscription,
    Service,
    Aliases,
}

struct DumpReader<'a> {
    registry: &'a mut Registry,
    permanent: &'a [GroupSpec],
    time: Timestamp,
    /// The group whose members are on the following lines, and its line number.
    open: Option<(u32, Group)>,
    file: &'a Path,
    restored: RestoreSummary,
}

/// Restores the registry from the text of `file`.
pub(super) fn restore_text(
    registry: &mut Registry,
    file: &Path,
    text: &str,
    permanent: &[GroupSpec],
    time: Timestamp,
) -> RestoreSummary {
    let restored = RestoreSummary::default();
    let mut reader = DumpReader { registry, permanent, time, open: None, file, restored };
    for (number, line) in (1u32..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Err(error) = reader.line(number, line) {
            reader.report(number, error);
        }
    }
    reader.close_group();
    reader.restored
}

impl DumpReader<'_> {
    fn report(&mut self, line: u32, (column, message): FieldError) {
        self.restored.findings.push(Diagnostic {
            file: self.file.to_owned(),
            line,
            column,
            severity: Severity::Error,
            message,
            code: None,
        });
    }

    fn line(&mut self, number: u32, line: &str) -> Result<(), FieldError> {
        let kind = LINE_KINDS.iter().find(|(start, _)| line.starts_with(start));
        let Some(&(start, kind)) = kind else {
            self.close_group();
            return Err((1, "unknown kind of line".into()));
        };
        if kind != LineKind::GroupMember {
            self.close_group();
        }
        let mut fields = Fields::new(line, start.len());
        match kind {
            LineKind::Group => self.open = Some((number, self.group(&mut fields)?)),
            LineKind::GroupMember => self.member(&mut fields)?,
            LineKind::Subscription => self.subscription(&mut fields)?,
            LineKind::Service => self.service(&mut fields)?,
            LineKind::Aliases => self.aliases(&mut fields)?,
        }
        Ok(())
    }

    /// Adds the last group with its members to the registry.
    fn close_group(&mut self) {
        let Some((number, group)) = self.open.take() else { return };
        let members = group.members.len();
        match self.registry.multicast.restore(group) {
            Ok(()) => {
                self.restored.groups += 1;
                self.restored.members += members;
            }
            Err(reason) => self.report(number, (0, format!("the group is not restored: {reason}"))),
        }
    }

    fn group(&self, fields: &mut Fields<'_>) -> Result<Group, FieldError> {
        fields.skip_blanks();
        let mlid = Mlid(fields.hex("group MLID", Mlid::LAST.0.into())? as u16);
        if mlid < Mlid::FIRST {
            return Err((0, format!("{mlid} is not a multicast LID")));
        }
        let spec = group_spec(fields)?;
        let configured = self.permanent.iter().find(|other| other.mgid == spec.mgid);
        let spec = configured.cloned().unwrap_or(spec);
        let creator = Guid::default();
        Ok(Group { spec, mlid, permanent: false, creator, members: BTreeMap::new() })
    }

    fn member(&mut self, fields: &mut Fields<'_>) -> Result<(), FieldError> {
        let port = fields.gid("port_gid")?;
        let state = JoinState(fields.u8("scope_state")? & 0xF);
        let proxy = fields.u8("proxy_join")? != 0;
        if state.is_empty() {
            return Err((0, "the member has no join state".into()));
        }
        let Some((_, group)) = self.open.as_mut() else {
            return Err((0, "the member follows no group".into()));
        };
        let guid = port.guid();
        let port = self.registry.aliases.port(guid).unwrap_or(guid);
        group.members.insert(guid, GroupMember { port, state, proxy, requester: port, since: 0 });
        Ok(())
    }

    fn subscription(&mut self, fields: &mut Fields<'_>) -> Result<(), FieldError> {
        let subscriber = fields.gid("subscriber_gid")?;
        let number = fields.u16("subscriber_enum")?;
        let info = inform_info(fields)?;
        let lid = Lid(fields.u16("lid")?);
        let path_bits = fields.u8("path_bits")?;
        fields.u8("static_rate")?;
        let qpn = fields.u32("remote_qp")? & 0xFF_FFFF;
        let qkey = fields.u32("remote_qkey")?;
        let pkey_index = fields.u16("pkey_ix")?;
        let sl = Sl(fields.u8("sl")? & 0xF);
        if !lid.is_unicast() {
            return Err((0, format!("LID {lid} is not a unicast LID that reports can be sent to")));
        }
        let to = Address { lid, qpn, qkey, sl, path_bits, pkey_index, grh: None };
        let trusted = info.is_generic() != 0 && is_security_trap(info.trap_number());
        let prefix = subscriber.prefix();
        let subscriber = subscriber.guid();
        let old = Subscription { subscriber, prefix, number, info, to, trusted };
        if !self.registry.subscriptions.restore(old) {
            return Err((0, "the subscription is a duplicate, or the table is full".into()));
        }
        self.restored.subscriptions += 1;
        Ok(())
    }

    fn service(&mut self, fields: &mut Fields<'_>) -> Result<(), FieldError> {
        let mut record = ServiceRecord::default();
        record.set_id(fields.u64("id")?);
        record.set_gid(fields.gid("gid")?);
        record.set_pkey(Pkey(fields.u16("pkey")?));
        record.set_lease(fields.u32("lease")?);
        record.set_key(fields.pair("key")?);
        record.set_name(fields.name("name")?);
        let mut data = [0; 64];
        for (field, bytes) in
            ["data8", "data16", "data32", "data64"].iter().zip(data.chunks_mut(16))
        {
            bytes.copy_from_slice(&fields.pair(field)?);
        }
        record.set_data(data);
        let modified = fields.u32("modified_time")?;
        let period = fields.u32("lease_period")?;
        // The file contains the low 32 bits of the time. If the clock has been set back, the
        // elapsed time counts as 0.
        let elapsed = (self.time.epoch as u32).wrapping_sub(modified);
        let elapsed = if elapsed > i32::MAX as u32 { 0 } else { elapsed };
        let remaining =
            if period == ServiceRecord::NO_END { period } else { period.saturating_sub(elapsed) };
        if remaining == 0 {
            self.restored.expired += 1;
            return Ok(());
        }
        if !self.registry.services.restore(record, remaining, self.time.now) {
            return Err((0, "the service is a duplicate, or the table is full".into()));
        }
        self.restored.services += 1;
        Ok(())
    }

    fn aliases(&mut self, fields: &mut Fields<'_>) -> Result<(), FieldError> {
        let port = Guid(fields.u64("base_guid")?);
        let lid = Lid(fields.u16("lid")?);
        let block = fields.u8("block_num")?;
        let mut guids = [Guid(0); GUID_BLOCK];
        for (index, guid) in guids.iter_mut().enumerate() {
            *guid = Guid(fields.u64(&format!("guid{index}"))?);
        }
        self.registry.aliases.restore(port, block, lid, guids);
        self.restored.aliases += 1;
        Ok(())
    }
}

/// Reads the parameters of a group.
fn group_spec(fields: &mut Fields<'_>) -> Result<GroupSpec, FieldError> {
    let mgid = fields.gid("mgid")?;
    fields.gid("port_gid")?;
    let qkey = fields.u32("qkey")?;
    fields.u16("mlid")?;
    let mtu = fields.u8("mtu")? & 0x3F;
    let traffic_class = fields.u8("tclass")?;
    let pkey = Pkey(fields.u16("pkey")?);
    let rate = fields.u8("rate")? & 0x3F;
    let packet_life = fields.u8("pkt_life")? & 0x3F;
    let sl_flow_hop = fields.u32("sl_flow_hop")?;
    let scope = fields.u8("scope_state")? >> 4;
    if !mgid.is_multicast() || mgid == Gid::default() {
        return Err((0, format!("{mgid} is not a multicast GID")));
    }
    if !mtu_is_valid(mtu) || rate_rank(rate).is_none() {
        return Err((0, format!("MTU code {mtu} or rate code {rate} is undefined")));
    }
    let sl = Sl((sl_flow_hop >> 28) as u8);
    let flow_label = sl_flow_hop >> 8 & 0xF_FFFF;
    let hop_limit = sl_flow_hop as u8;
    Ok(GroupSpec {
        mgid,
        qkey,
        mtu,
        rate,
        packet_life,
        pkey,
        sl,
        traffic_class,
        flow_label,
        hop_limit,
        scope,
    })
}

/// Reads the InformInfo of a subscription.
fn inform_info(fields: &mut Fields<'_>) -> Result<InformInfo, FieldError> {
    let mut info = InformInfo::default();
    info.set_gid(fields.gid("gid")?);
    info.set_lid_range_begin(Lid(fields.u16("lid_range_begin")?));
    info.set_lid_range_end(Lid(fields.u16("lid_range_end")?));
    info.set_is_generic(fields.u8("is_generic")?);
    info.set_subscribe(fields.u8("subscribe")?);
    info.set_notice_type(fields.u16("trap_type")?);
    info.set_trap_number(fields.u16("trap_num")?);
    let qpn_time = fields.u32("qpn_resp_time_val")?;
    info.set_qpn(qpn_time >> 8);
    info.set_resp_time_value(qpn_time as u8 & 0x1F);
    info.set_producer_type(fields.u32("node_type")? & 0xFF_FFFF);
    Ok(info)
}

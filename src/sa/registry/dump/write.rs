//! Writes the registry as text.

use super::Timestamp;
use crate::ids::Gid;
use crate::sa::registry::Registry;
use crate::sa::registry::groups::{Group, GroupMember};
use crate::sa::registry::services::Service;
use crate::sa::registry::subscriptions::Subscription;
use crate::wire::record::{JoinState, ServiceRecord};
use std::fmt::Write as _;

pub(super) fn text(registry: &Registry, prefix: u64, time: Timestamp) -> String {
    let mut out = String::new();
    for (port, block, lid, guids) in registry.aliases.iter() {
        let _ = write!(
            out,
            "GUIDInfo Record: base_guid={port} lid=0x{:04x} block_num=0x{block:x}",
            lid.0
        );
        for (index, guid) in guids.iter().enumerate() {
            let _ = write!(out, " guid{index}={guid}");
        }
        out.push_str("\n\n");
    }
    for item in registry.iter() {
        group(&mut out, item, prefix);
    }
    for item in registry.subscriptions.iter() {
        subscription(&mut out, item);
    }
    for item in registry.services.iter().filter(|service| service.remaining_lease(time.now) > 0) {
        service(&mut out, item, time);
    }
    out
}

/// A GID in OpenSM's format: two 64-bit numbers.
fn halves(gid: Gid) -> String {
    format!("0x{:016x}:0x{:016x}", gid.prefix(), gid.guid().0)
}

fn group(out: &mut String, group: &Group, prefix: u64) {
    let record = group.record();
    let spec = &group.spec;
    let raw = &record.0;
    let well_known = if group.permanent { " (well known)" } else { "" };
    let sl_flow_hop =
        u32::from(spec.sl.0) << 28 | (spec.flow_label & 0xF_FFFF) << 8 | u32::from(spec.hop_limit);
    let _ = write!(
        out,
        "MC Group {mlid} {well_known}: mgid={mgid} port_gid={port_gid} qkey=0x{qkey:08x} mlid={mlid} \
         mtu=0x{mtu:02x} tclass=0x{tclass:02x} pkey={pkey} rate=0x{rate:02x} \
         pkt_life=0x{life:02x} sl_flow_hop=0x{sl_flow_hop:08x} scope_state=0x{scope_state:02x} \
         proxy_join=0x0\n\n",
        mlid = group.mlid,
        mgid = halves(spec.mgid),
        port_gid = halves(Gid::default()),
        qkey = spec.qkey,
        mtu = raw[38],
        tclass = spec.traffic_class,
        pkey = spec.pkey,
        rate = raw[42],
        life = raw[43],
        scope_state = spec.scope << 4 | JoinState::FULL.0,
    );
    for (&guid, member) in &group.members {
        let GroupMember { state, proxy, .. } = member;
        let _ = write!(
            out,
            "mcm_port: port_gid={} scope_state=0x{:02x} proxy_join=0x{:x}\n\n",
            halves(Gid::new(prefix, guid)),
            spec.scope << 4 | state.0,
            u8::from(*proxy)
        );
    }
}

fn subscription(out: &mut String, subscription: &Subscription) {
    let Subscription { info, to, .. } = subscription;
    let _ = write!(
        out,
        "InformInfo Record: subscriber_gid={subscriber} subscriber_enum=0x{number:x} InformInfo: \
         gid={gid} lid_range_begin=0x{begin:x} lid_range_end=0x{end:x} is_generic=0x{generic:x} \
         subscribe=0x{subscribe:x} trap_type=0x{kind:x} trap_num=0x{trap:x} \
         qpn_resp_time_val=0x{qpn_time:x} node_type=0x{producer:06x} rep_addr: lid=0x{lid:04x} \
         path_bits=0x{path_bits:02x} static_rate=0x00 remote_qp=0x{qpn:08x} \
         remote_qkey=0x{qkey:08x} pkey_ix=0x{pkey_index:04x} sl=0x{sl:02x}\n\n",
        subscriber = halves(Gid::new(subscription.prefix, subscription.subscriber)),
        number = subscription.number,
        gid = halves(info.gid()),
        begin = info.lid_range_begin().0,
        end = info.lid_range_end().0,
        generic = info.is_generic(),
        subscribe = info.subscribe(),
        kind = info.notice_type(),
        trap = info.trap_number(),
        qpn_time = info.qpn() << 8 | u32::from(info.resp_time_value()),
        producer = info.producer_type(),
        lid = to.lid.0,
        path_bits = to.path_bits,
        qpn = to.qpn,
        qkey = to.qkey,
        pkey_index = to.pkey_index,
        sl = to.sl.0,
    );
}

fn service(out: &mut String, service: &Service, time: Timestamp) {
    let record = service.registered();
    let _ = write!(
        out,
        "Service Record: id=0x{:016x} gid={} pkey=0x{:x} lease=0x{:x}",
        record.id(),
        halves(record.gid()),
        record.pkey().0,
        record.lease()
    );
    number_pair(out, "key", &record.key());
    let _ = write!(out, " name={}", quoted(&record.name()));
    let data = record.data();
    for (index, field) in ["data8", "data16", "data32", "data64"].into_iter().enumerate() {
        number_pair(out, field, &data[16 * index..16 * (index + 1)]);
    }
    let modified = time.epoch as u32;
    let remaining = service.remaining_lease(time.now);
    let _ = write!(out, " modified_time=0x{modified:x} lease_period=0x{remaining:x}\n\n");
}

/// Writes 16 bytes as two 64-bit numbers.
fn number_pair(out: &mut String, field: &str, bytes: &[u8]) {
    let _ = write!(out, " {field}=0x{}:0x{}", hexadecimal(&bytes[..8]), hexadecimal(&bytes[8..16]));
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
}

/// A ServiceName in quotes, up to its first NUL byte.
fn quoted(name: &[u8; ServiceRecord::NAME_SIZE]) -> String {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    let name = &name[..end];
    let quote = if name.contains(&b'\'') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for chunk in name.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            let is_escape = c == '\\' && rest.starts_with('x');
            if c == quote || c.is_control() || is_escape {
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| escape(&mut out, byte));
            } else {
                out.push(c);
            }
        }
        chunk.invalid().iter().for_each(|&byte| escape(&mut out, byte));
    }
    out.push(quote);
    out
}

fn escape(out: &mut String, byte: u8) {
    let _ = write!(out, "\\x{byte:02x}");
}

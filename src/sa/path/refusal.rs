//! Reasons why a query for the path between two ports gets no record, for the log, with OpenSM's
//! codes: partitions, QoS levels and SLs, which only the administrator can change. Missing routes,
//! and limits that the client asks for, are not among them.

use super::params::{SlRefusal, is_raw, pkey, sl};
use super::walk::path_limits;
use super::{PathEnd, PathEnds, destination_port, level, lids, path_end};
use crate::config::qos_policy::QosLevel;
use crate::fabric::virtual_ports::EndPort;
use crate::ids::Pkey;
use crate::sa::query::Query;
use crate::wire::record::PathRecord;

/// The reason why a PathRecord query gets no record; `None` if it is another one, or if the query
/// is for many ports.
pub(in crate::sa) fn refusal(query: &Query<'_>) -> Option<String> {
    let wanted: PathRecord = query.record();
    if query.has(PathRecord::DGID) && wanted.dgid().is_multicast() {
        query.registry.group(&wanted.dgid())?;
        let mgid = wanted.dgid();
        let port = name(query, query.requester);
        return Some(format!(
            "ERR 1F19: MC group attributes don't match PathRecord request of {port} for MGID {mgid}"
        ));
    }
    let sgid = query.has(PathRecord::SGID).then(|| wanted.sgid());
    let dgid = query.has(PathRecord::DGID).then(|| wanted.dgid());
    let from = sgid.and_then(|gid| query.port_by_gid(&gid));
    let to = dgid.and_then(|gid| destination_port(query, gid));
    let slid = query.has(PathRecord::SLID).then(|| wanted.slid());
    let dlid = query.has(PathRecord::DLID).then(|| wanted.dlid());
    let Ok(PathEnd::Port(from)) = path_end(query, from, slid) else { return None };
    let Ok(PathEnd::Port(to)) = path_end(query, to, dlid) else { return None };
    let ends = PathEnds {
        from,
        to,
        slid: crate::ids::Lid(lids(&query.view, from, slid)?.0),
        dlid: crate::ids::Lid(lids(&query.view, to, dlid)?.0),
    };
    let level = level(query, &wanted, from, to);
    match pkey(query, &wanted, level, &ends) {
        None => Some(pkey_refusal(query, &wanted, level, &ends)),
        Some(pkey) => sl_refusal(query, &wanted, level, &ends, pkey),
    }
}

/// A port, as `0xGUID ("node"[1])`.
fn name(query: &Query<'_>, port: EndPort) -> String {
    let fabric = query.view.fabric();
    let node = fabric.node_of(port.physical).name();
    let num = fabric.port(port.physical).num;
    format!("{} (\"{node}\"[{num}])", query.view.guid(port))
}

/// A QoS level, by its name or its line.
fn level_name(level: &QosLevel) -> String {
    match level.name.as_str() {
        "" => format!("of line {}", level.line),
        name => format!("\"{name}\""),
    }
}

/// Why the ends have no P_Key that query and QoS level allow.
fn pkey_refusal(
    query: &Query<'_>,
    wanted: &PathRecord,
    level: Option<&QosLevel>,
    ends: &PathEnds,
) -> String {
    let [from, to] = [ends.from, ends.to].map(|port| name(query, port));
    let asked = wanted.pkey();
    let asks_for_pkey = query.has(PathRecord::PKEY) && !is_raw(query, wanted);
    if asks_for_pkey && !query.view.share_pkey(ends.from, ends.to, asked) {
        return format!("ERR 1F1A: Ports {from} and {to} do not share specified PKey {asked}");
    }
    match level.filter(|level| !level.pkeys.is_empty()).map(level_name) {
        Some(level) if asks_for_pkey => format!(
            "ERR 1F1D: QoS level {level} doesn't define specified PKey {asked} for ports {from} and \
             {to}"
        ),
        Some(level) => format!(
            "ERR 1F1E: Ports {from} and {to} do not share PKeys defined by QoS level {level}"
        ),
        None => {
            format!("ERR 1F1B: Ports src {from} and dst {to} do not have any shared PKeys")
        }
    }
}

/// Why the path has no SL that query, QoS level, tables and routing engine allow.
fn sl_refusal(
    query: &Query<'_>,
    wanted: &PathRecord,
    level: Option<&QosLevel>,
    ends: &PathEnds,
    pkey: Pkey,
) -> Option<String> {
    let dropped = path_limits(&query.view, ends)?.dropped_sls;
    let pair = [ends.from, ends.to].map(|port| name(query, port)).join(" <-> ");
    match sl(query, wanted, level, ends, pkey, dropped).err()? {
        SlRefusal::RouterSl => None,
        SlRefusal::LevelSl { asked, level: sl } => {
            let level = level.map(level_name)?;
            Some(format!(
                "ERR 1F1F: QoS constraints: required PathRecord SL ({asked}) doesn't match QoS \
                 policy {level} SL ({sl}) [{pair}]"
            ))
        }
        SlRefusal::Dropped(sl) => {
            Some(format!("ERR 1F24: Selected SL ({sl}) leads to VL15 [{pair}]"))
        }
        SlRefusal::EngineSl { asked, engine } => Some(format!(
            "ERR 1F2A: Requested SL ({asked}) doesn't match SL calculated by routing engine \
             ({engine}) [{pair}]"
        )),
    }
}

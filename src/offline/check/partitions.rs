//! Effect of partitions on a fabric, as text.

use crate::config::Diagnostic;
use crate::config::literal::{mtu_in_words, rate_in_words};
use crate::config::partitions::{PartitionsConfig, PortSelector};
use crate::fabric::{Fabric, PortId};
use crate::ids::{Guid, Pkey};
use crate::notes::Severity;
use crate::paged_vec::PagedVec;
use crate::plan::partitions::{Partition, PartitionTables};
use rustc_hash::FxHashSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// Appends a line; writing to a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($part:tt)*) => {{
        let _ = writeln!($out, $($part)*);
    }};
}

/// A warning for each member that is no end port of the fabric.
pub(super) fn absent_members(
    path: &Path,
    config: &PartitionsConfig,
    fabric: &Fabric,
) -> Vec<Diagnostic> {
    let present: FxHashSet<Guid> = fabric.end_ports().map(|port| fabric.port(port).guid).collect();
    let mut findings = Vec::new();
    for definition in &config.definitions {
        for member in &definition.members {
            let PortSelector::Port(guid) = member.ports else { continue };
            if present.contains(&guid) {
                continue;
            }
            let message = format!(
                "the member {guid} of partition \"{}\" is not in the fabric",
                definition.name
            );
            findings.push(Diagnostic {
                file: path.to_owned(),
                line: definition.line,
                column: 0,
                severity: Severity::Warning,
                message,
                code: None,
            });
        }
    }
    findings
}

/// Partitions with members and groups, then ports with their P_Key tables.
pub(super) fn shown(fabric: &Fabric, partitions: &[Partition], tables: &PartitionTables) -> String {
    let mut out = String::new();
    for partition in partitions {
        put_partition(&mut out, partition, tables);
    }
    for port in fabric.port_ids() {
        put_port(&mut out, fabric, port, tables);
    }
    out
}

fn put_partition(out: &mut String, partition: &Partition, tables: &PartitionTables) {
    let Partition { name, pkey, sl, groups, .. } = partition;
    let full = holders(&tables.keys, Pkey(pkey.0 | 0x8000));
    let limited = holders(&tables.keys, *pkey);
    put!(out, "partition {pkey} {name}: {full} full and {limited} limited members, SL {sl}");
    for group in groups {
        let mtu = mtu_in_words(group.mtu);
        let rate = rate_in_words(group.rate);
        let mgid = group.mgid;
        let sl = group.sl;
        let q_key = group.q_key;
        put!(out, "  group {mgid}: {mtu}, {rate}, SL {sl}, Q_Key {q_key:#x}");
    }
}

fn holders(tables_keys: &PagedVec<Arc<[Pkey]>>, key: Pkey) -> usize {
    tables_keys.iter().filter(|keys| keys.contains(&key)).count()
}

fn put_port(out: &mut String, fabric: &Fabric, port: PortId, tables: &PartitionTables) {
    let blocks = tables.blocks_of(port);
    if blocks.is_empty() {
        return;
    }
    let mut keys = Vec::new();
    for (number, block) in blocks {
        let first = usize::from(*number) * block.0.len();
        let used = block.0.iter().enumerate().filter(|(_, key)| key.0 != 0);
        keys.extend(used.map(|(index, key)| format!("{}:{key}", first + index)));
    }
    let enforced = match tables.enforcement.get(port.index()).copied().flatten() {
        Some((true, true)) => ", enforced on arriving and leaving packets",
        Some((true, false)) => ", enforced on arriving packets",
        Some((false, true)) => ", enforced on leaving packets",
        Some((false, false)) => ", not enforced",
        None => "",
    };
    put!(out, "port {}: {}{enforced}", fabric.describe(port), keys.join(" "));
}

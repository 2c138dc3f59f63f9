//! `/v1/partitions`: the P_Keys of the ports.

use super::context::ApiContext;
use super::error::ApiError;
use super::query::ApiQuery;
use super::reply::HttpReply;
use crate::ids::Pkey;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PartitionsView {
    partitions: Vec<PartitionView>,
}

#[derive(Serialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PartitionView {
    /// P_Key without the membership bit.
    pkey: String,
    /// Its names in partitions.conf.
    names: Vec<String>,
    /// Service level of its paths.
    sl: u8,
    /// Port GUIDs of full members.
    full: Vec<String>,
    /// Port GUIDs of limited members.
    limited: Vec<String>,
}

/// All partitions, also those without members.
pub(super) fn partitions(context: &ApiContext<'_>, _: &ApiQuery) -> Result<HttpReply, ApiError> {
    let subnet = context.subnet()?;
    let fabric = &subnet.fabric;
    let tables = &subnet.plan.partitions;
    let mut partitions: BTreeMap<u16, PartitionView> = BTreeMap::new();
    for port in fabric.end_ports() {
        // Without planned tables, every port has the default P_Key.
        let default = [Pkey::DEFAULT_FULL];
        let keys = if tables.keys.is_empty() { &default[..] } else { tables.keys_of(port) };
        for &key in keys {
            let partition = partitions.entry(key.base()).or_default();
            let members = if key.is_full() { &mut partition.full } else { &mut partition.limited };
            members.push(fabric.port(port).guid.to_string());
        }
    }
    for (base, _) in &tables.names {
        partitions.entry(*base).or_default();
    }
    HttpReply::json(&PartitionsView {
        partitions: partitions
            .into_iter()
            .map(|(base, partition)| {
                let named =
                    tables.names.iter().filter(|(of, name)| *of == base && !name.is_empty());
                let names = named.map(|(_, name)| name.clone()).collect();
                let pkey = Pkey(base).to_string();
                let sl = tables.service_level(Pkey(base)).0;
                PartitionView { pkey, names, sl, ..partition }
            })
            .collect(),
    })
}

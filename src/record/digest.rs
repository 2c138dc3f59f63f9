//! Digests of what was observed of each device and of what a plan sets in it. Two plans are equal,
//! as far as the devices are concerned, if their digests are.

use crate::fabric::{Fabric, Node, NodeId, Port};
use crate::ids::{Guid, MKey, PortNum};
use crate::plan::Plan;
use crate::plan::links::settable;
use crate::plan::routing::Lft;
use crate::wire::attr::PortInfo;
use crc32fast::Hasher;

/// The digests of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceDigest {
    /// The observed device: its attributes, ports and cables.
    pub observed: u32,
    /// The planned state, `None` without a plan.
    pub planned: Option<PlannedDigest>,
}

macro_rules! parts {
    ($($part:ident: $name:literal;)+) => {
        /// The digests of what a plan sets in a device.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct PlannedDigest {
            $(pub $part: u32,)+
        }

        impl PlannedDigest {
            /// The names of the parts that differ.
            pub fn differences(&self, other: &Self) -> Vec<&'static str> {
                let mut names = Vec::new();
                $(if self.$part != other.$part {
                    names.push($name);
                })+
                names
            }
        }
    };
}

parts! {
    lids: "LIDs";
    ports: "PortInfo";
    switch: "SwitchInfo";
    lft: "linear forwarding table";
    mft: "multicast forwarding table";
    sl_to_vl: "SL to VL mapping";
    vl_arbitration: "VL arbitration";
    pkeys: "P_Key tables";
    guids: "GUID tables";
}

/// The digests of all nodes of a fabric, in the order of their GUIDs.
pub fn digests(fabric: &Fabric, plan: Option<&Plan>) -> Vec<(Guid, DeviceDigest)> {
    fabric
        .node_ids()
        .map(|id| {
            let observed = observed(fabric, id);
            let planned = plan.map(|plan| planned(fabric, plan, id));
            (fabric.node(id).guid(), DeviceDigest { observed, planned })
        })
        .collect()
}

/// Digest of a device without keys, counters, and fields that depend on the route of the query.
fn observed(fabric: &Fabric, id: NodeId) -> u32 {
    let Node { info, description, mut switch_info, .. } = fabric.node(id).clone();
    let mut hasher = Hasher::new();
    let mut common = info;
    common.set_local_port(PortNum::ZERO);
    common.set_port_guid(Guid::default());
    hasher.update(&common.0);
    hasher.update(&description.0);
    switch_info.set_port_state_change(false);
    hasher.update(&switch_info.0);
    for port in fabric.ports_of(id) {
        hasher.update(&port_bytes(fabric, port));
    }
    hasher.finalize()
}

fn port_bytes(fabric: &Fabric, port: &Port) -> Vec<u8> {
    let mut bytes = format!("{} {} ", port.num, port.guid).into_bytes();
    if let Some(peer) = port.peer {
        let num = fabric.port(peer).num;
        bytes.extend(format!("to {} {num} ", fabric.node_of(peer).guid()).bytes());
    }
    if let Some(mut info) = port.info() {
        info.set_m_key(MKey::NONE);
        info.set_local_port(PortNum::ZERO);
        info.set_client_reregister(false);
        info.set_m_key_violations(0);
        info.set_p_key_violations(0);
        info.set_q_key_violations(0);
        bytes.extend(info.0);
    }
    bytes
}

fn planned(fabric: &Fabric, plan: &Plan, id: NodeId) -> PlannedDigest {
    let node = fabric.node(id);
    let mut lids = Hasher::new();
    let mut ports = Hasher::new();
    let mut arbitration = Hasher::new();
    let mut pkeys = Hasher::new();
    let mut guids = Hasher::new();
    for slot in node.slots() {
        lids.update(format!("{:?} {} ", plan.lids.base(slot), plan.lids.lmc(slot)).as_bytes());
        for (lid, vport) in plan.lids.of_vports().filter(|(_, vport)| vport.physical == slot) {
            lids.update(format!("{:?} {lid:?} ", vport.vport).as_bytes());
        }
        if let Some(info) = plan.ports.of(slot) {
            ports.update(&settings(&info).0);
        }
        ports.update(b" ");
        let blocks = plan.qos.vl_arbitration.get(slot.index()).map_or(&[][..], AsRef::as_ref);
        blocks.iter().for_each(|(number, block)| {
            arbitration.update(&[*number]);
            arbitration.update(&block.0);
        });
        arbitration.update(b" ");
        let blocks = plan.partitions.blocks.get(slot.index());
        pkeys.update(format!("{blocks:?} ").as_bytes());
        let at = plan.aliases.partition_point(|block| block.port < slot);
        for block in plan.aliases[at..].iter().take_while(|block| block.port == slot) {
            guids.update(&[fabric.port(slot).num.0, block.block]);
            guids.update(&block.guids.to_wire());
        }
    }
    let rows = plan.qos.sl_to_vl.get(id.index());
    PlannedDigest {
        lids: lids.finalize(),
        ports: ports.finalize(),
        switch: node
            .switch
            .map_or(0, |switch| crc32fast::hash(&plan.switch_infos[switch.index()].0)),
        lft: node.switch.map_or(0, |switch| forwarding_table(plan.routing.lft(switch))),
        mft: node.switch.map_or(0, |switch| {
            crc32fast::hash(
                format!("{:?}", plan.multicast.by_switch.get(switch.index())).as_bytes(),
            )
        }),
        sl_to_vl: crc32fast::hash(format!("{rows:?}").as_bytes()),
        vl_arbitration: arbitration.finalize(),
        pkeys: pkeys.finalize(),
        guids: guids.finalize(),
    }
}

/// The fields that a Set changes, without the M_Key.
fn settings(info: &PortInfo) -> PortInfo {
    let mut settings = settable(info);
    settings.set_m_key(MKey::NONE);
    settings
}

/// Digest of a forwarding table, whatever the number of unused entries at its end.
fn forwarding_table(table: &Lft) -> u32 {
    let mut hasher = Hasher::new();
    let mut left = table.top().map_or(0, |top| top + 1);
    for block in table.blocks() {
        let used = left.min(block.len());
        hasher.update(&block[..used]);
        left -= used;
    }
    hasher.finalize()
}

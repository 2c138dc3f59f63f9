//! The SL to VL mappings and multicast forwarding tables that another subnet manager has dumped, and what a
//! plan would change of them. OpenSM dumps neither P_Key tables nor VL arbitration.

use super::in_force::HeldMulticast;
use crate::config::table_dumps::{self, MulticastDump, SlToVlDump};
use crate::config::text_file::read_text;
use crate::fabric::{Fabric, NodeId, PortId};
use crate::ids::{Guid, Mlid, PortNum};
use crate::plan::Plan;
use crate::transport::rehearsal::RehearsedSet;
use crate::wire::attr::AttrId;
use crate::wire::attr::tables::{MFT_BLOCK, MFT_POSITION_PORTS, MftBlock, SlToVl};
use std::path::Path;

const SL_TO_VL_DUMP: &str = "opensm-sl2vl.dump";
const MULTICAST_DUMP: &str = "opensm.mcfdbs";

/// The tables of the dump files that there are.
pub(super) struct DumpedTables {
    sl_to_vl: Option<SlToVlDump>,
    multicast: Option<MulticastDump>,
    /// Tables that are not compared, with the reasons.
    pub(super) not_compared: Vec<String>,
}

impl DumpedTables {
    /// Reads the files of a folder. Those that are not there are not compared.
    ///
    /// # Errors
    /// A file is damaged.
    pub(super) fn read(folder: &Path) -> Result<Self, String> {
        let mut not_compared =
            vec!["P_Key tables and VL arbitration: OpenSM dumps neither".to_owned()];
        let mut text = |name: &str, tables: &str| {
            let text = read_text(&folder.join(name));
            text.inspect_err(|error| not_compared.push(format!("{tables}: {error}"))).ok()
        };
        let sl_to_vl = text(SL_TO_VL_DUMP, "SL to VL mappings");
        let multicast = text(MULTICAST_DUMP, "multicast forwarding tables");
        let sl_to_vl = sl_to_vl.map(|text| table_dumps::sl_to_vl(&text)).transpose();
        let multicast = multicast.map(|text| table_dumps::multicast(&text)).transpose();
        Ok(Self {
            sl_to_vl: sl_to_vl.map_err(|error| located(folder, SL_TO_VL_DUMP, error))?,
            multicast: multicast.map_err(|error| located(folder, MULTICAST_DUMP, error))?,
            not_compared,
        })
    }

    /// The multicast entries as blocks of the switches of `fabric`; `None` without the file.
    pub(super) fn multicast(&self, fabric: &Fabric) -> Option<HeldMulticast> {
        let mut held = HeldMulticast::new();
        for (&guid, entries) in self.multicast.as_ref()? {
            let switch = fabric.node_by_guid(guid).and_then(|node| fabric.node(node).switch);
            let Some(switch) = switch else { continue };
            for (&mlid, ports) in entries {
                let number = usize::from(mlid - Mlid::FIRST.0);
                for &port in ports {
                    let position = usize::from(port) / MFT_POSITION_PORTS;
                    let modifier = ((position << 28) | (number / MFT_BLOCK)) as u32;
                    let block: &mut MftBlock = held.entry((switch, modifier)).or_default();
                    block.0[number % MFT_BLOCK] |= 1 << (usize::from(port) % MFT_POSITION_PORTS);
                }
            }
        }
        Some(held)
    }

    /// The Sets that would change SL to VL mappings. Mappings of ports that the file lacks are left out: the
    /// devices did not answer OpenSM.
    pub(super) fn sl_to_vl_sets(&self, fabric: &Fabric, plan: &Plan) -> Vec<RehearsedSet> {
        let Some(dump) = &self.sl_to_vl else { return Vec::new() };
        let mut sets = Vec::new();
        for id in fabric.node_ids() {
            for &(input, output, planned) in plan.qos.sl_to_vl_of(id) {
                let Some(place) = MappingPlace::of(fabric, id, [input, output]) else { continue };
                let held =
                    dump.get(&place.guid).and_then(|rows| rows.get(&(place.input, place.output)));
                let held = held.map(|&vls| SlToVl::new(vls));
                if let Some(held) = held.filter(|&held| held != planned) {
                    sets.push(place.set(fabric, held, planned));
                }
            }
        }
        sets
    }
}

fn located(folder: &Path, name: &str, error: String) -> String {
    format!("{}: {error}", folder.join(name).display())
}

/// A mapping in the dump file, and the port that its device is reached by.
struct MappingPlace {
    /// GUID of the switch, or of the port of another node.
    guid: Guid,
    /// 0 unless the node is a switch.
    input: u8,
    output: u8,
    port: PortId,
}

impl MappingPlace {
    /// `ports`: input and output port.
    fn of(fabric: &Fabric, id: NodeId, ports: [u8; 2]) -> Option<Self> {
        let node = fabric.node(id);
        let [input, output] = ports;
        if node.is_switch() {
            return Some(Self { guid: node.guid(), input, output, port: node.first_port });
        }
        let port = fabric.port_of(id, PortNum(output))?;
        Some(Self { guid: fabric.port(port).guid, input: 0, output: 0, port })
    }

    fn set(&self, fabric: &Fabric, held: SlToVl, planned: SlToVl) -> RehearsedSet {
        RehearsedSet {
            route: fabric.node_of(self.port).route,
            attr_id: AttrId::SL_TO_VL,
            attr_mod: u32::from(self.input) << 8 | u32::from(self.output),
            data: padded(planned),
            held: Some(padded(held)),
        }
    }
}

fn padded(map: SlToVl) -> [u8; 64] {
    let mut data = [0; 64];
    data[..map.0.len()].copy_from_slice(&map.0);
    data
}

//! TraceRecord: IBA vol. 1, 15.2.5.19.

use super::components;
use crate::wire::attr::NodeKind;
use crate::wire::bits::record;

record! {
    /// TraceRecord, IBA vol. 1, 15.2.5.19: one node of a path. IDs can be compared with
    /// those of records of the same IDGeneration and have no other meaning; 0 stands for none.
    pub struct TraceRecord[48] {
        /// Prefix of the subnet's GIDs.
        gid_prefix, set_gid_prefix: u64 = 0, 64;
        /// Generation of the IDs.
        id_generation, set_id_generation: u16 = 64, 16;
        /// NodeType as in NodeInfo.
        node_type, set_node_type: NodeKind = 88, 8;
        node_id, set_node_id: u64 = 96, 64;
        /// ID of the chassis of the node.
        chassis_id, set_chassis_id: u64 = 160, 64;
        /// ID of the ingress port; 0 at the source.
        entry_port_id, set_entry_port_id: u64 = 224, 64;
        /// ID of the egress port; 0 at the destination.
        exit_port_id, set_exit_port_id: u64 = 288, 64;
        /// Port number of the ingress port.
        entry_port, set_entry_port: u8 = 352, 8;
        /// Port number of the egress port.
        exit_port, set_exit_port: u8 = 360, 8;
    }
}

components!(TraceRecord, reserved [] {});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_the_specification() {
        let mut record = TraceRecord([0xEE; 48]);
        record.set_gid_prefix(0x0102_0304_0506_0708);
        record.set_id_generation(0x090A);
        record.set_node_type(NodeKind::Unknown(0x0C));
        record.set_node_id(0x0D0E_0F10_1112_1314);
        record.set_chassis_id(0x1516_1718_191A_1B1C);
        record.set_entry_port_id(0x1D1E_1F20_2122_2324);
        record.set_exit_port_id(0x2526_2728_292A_2B2C);
        record.set_entry_port(0x2D);
        record.set_exit_port(0x2E);
        let mut bytes: [u8; 48] = std::array::from_fn(|index| index as u8 + 1);
        bytes[10] = 0xEE;
        bytes[46..].fill(0xEE);
        assert_eq!(record.0, bytes);
        assert_eq!((record.node_type(), record.exit_port()), (NodeKind::Unknown(0x0C), 0x2E));
    }
}

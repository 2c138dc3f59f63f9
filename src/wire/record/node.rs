//! NodeRecord: IBA vol. 1, 15.2.5.2.

use super::components;
use crate::ids::Lid;
use crate::wire::attr::{NodeDescription, NodeInfo};
use crate::wire::bits::record;

record! {
    /// NodeRecord, IBA vol. 1, 15.2.5.2: NodeInfo and NodeDescription of one end port.
    pub struct NodeRecord[112] {
        lid, set_lid: Lid = 0, 16;
    }
}

components!(NodeRecord, reserved [1] {
    LID = 0: 0, 16;
    BASE_VERSION = 2: 32, 8;
    CLASS_VERSION = 3: 40, 8;
    NODE_TYPE = 4: 48, 8;
    NUM_PORTS = 5: 56, 8;
    SYSTEM_GUID = 6: 64, 64;
    NODE_GUID = 7: 128, 64;
    PORT_GUID = 8: 192, 64;
    PARTITION_CAP = 9: 256, 16;
    DEVICE_ID = 10: 272, 16;
    REVISION = 11: 288, 32;
    LOCAL_PORT = 12: 320, 8;
    VENDOR_ID = 13: 328, 24;
    DESCRIPTION = 14: 352, 512;
});

impl NodeRecord {
    const INFO: usize = 4;
    const TEXT: usize = Self::INFO + NodeInfo::SIZE;

    pub fn node_info(&self) -> NodeInfo {
        NodeInfo::read(&self.0[Self::INFO..])
    }

    pub fn set_node_info(&mut self, info: &NodeInfo) {
        info.write(&mut self.0[Self::INFO..]);
    }

    pub fn description(&self) -> NodeDescription {
        let mut text = [0; 64];
        text.copy_from_slice(&self.0[Self::TEXT..Self::TEXT + 64]);
        NodeDescription(text)
    }

    pub fn set_description(&mut self, description: &NodeDescription) {
        self.0[Self::TEXT..Self::TEXT + 64].copy_from_slice(&description.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Guid, PortNum};

    #[test]
    fn layout() {
        let mut info = NodeInfo::default();
        info.set_num_ports(2);
        info.set_node_guid(Guid(0x1122_3344_5566_7788));
        info.set_local_port(PortNum(1));
        info.set_vendor_id(0x02C9);
        let mut record = NodeRecord::default();
        record.set_lid(Lid(0x1234));
        record.set_node_info(&info);
        record.set_description(&NodeDescription::new("host"));
        assert_eq!(&record.0[..8], &[0x12, 0x34, 0, 0, 0, 0, 0, 2]);
        assert_eq!(&record.0[16..24], &[0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
        assert_eq!(&record.0[40..48], &[1, 0, 2, 0xC9, b'h', b'o', b's', b't']);
        assert_eq!(record.node_info(), info);
        assert_eq!(record.description(), NodeDescription::new("host"));
    }
}

//! SwitchInfo: IBA vol. 1, 14.2.5.4.

use crate::wire::bits::record;

record! {
    /// SwitchInfo, IBA vol. 1, 14.2.5.4.
    pub struct SwitchInfo[20] {
        /// Entries of the linear forwarding table.
        linear_fdb_cap, set_linear_fdb_cap: u16 = 0, 16;
        /// Entries of the random forwarding table; 0 if the switch is linear.
        random_fdb_cap, set_random_fdb_cap: u16 = 16, 16;
        /// Entries of the multicast forwarding table; 0 means no multicast.
        multicast_fdb_cap, set_multicast_fdb_cap: u16 = 32, 16;
        /// LinearFDBTop: the highest LID that is forwarded.
        linear_fdb_top, set_linear_fdb_top: u16 = 48, 16;
        /// Output port for LIDs without an entry in a random forwarding table.
        default_port, set_default_port: u8 = 64, 8;
        /// Output port for MLIDs without an entry.
        default_mcast_primary, set_default_mcast_primary: u8 = 72, 8;
        /// Output port for MLIDs without an entry that arrive through the default primary port.
        default_mcast_not_primary, set_default_mcast_not_primary: u8 = 80, 8;
        /// Lifetime of a packet in the switch: 4.096 us * 2^code.
        life_time_value, set_life_time_value: u8 = 88, 5;
        /// Set by the switch when a port changed state; writing 1 clears it.
        port_state_change, set_port_state_change: bool = 93, 1;
        /// Support of OptimizedSLtoVLMappingProgramming.
        optimized_sl2vl, set_optimized_sl2vl: u8 = 94, 2;
        /// Maximum number of LIDs per port in a random forwarding table.
        lids_per_port, set_lids_per_port: u16 = 96, 16;
        /// Entries of the P_Key table of each external port.
        partition_enforcement_cap, set_partition_enforcement_cap: u16 = 112, 16;
        /// Supports the P_Key check of inbound packets.
        inbound_enforcement_cap, set_inbound_enforcement_cap: bool = 128, 1;
        /// Supports the P_Key check of outbound packets.
        outbound_enforcement_cap, set_outbound_enforcement_cap: bool = 129, 1;
        /// Supports the filter of inbound raw packets.
        filter_raw_in_cap, set_filter_raw_in_cap: bool = 130, 1;
        /// Supports the filter of outbound raw packets.
        filter_raw_out_cap, set_filter_raw_out_cap: bool = 131, 1;
        /// Port 0 is an enhanced port: a full end port.
        enhanced_port0, set_enhanced_port0: bool = 132, 1;
        /// MulticastFDBTop: the highest MLID that is forwarded.
        multicast_fdb_top, set_multicast_fdb_top: u16 = 144, 16;
    }
}

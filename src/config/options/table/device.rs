//! Keys that set attributes of ports, and partitions.

macro_rules! device {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Device attributes";
        /// Bind to the local port with this GUID; 0 selects the first port that is not DOWN, else
        /// the first port.
        guid: Guid = Guid(0), restart, implemented;
        /// M_Key that all ports get: they accept changes only from who knows it; 0 is no
        /// protection.
        m_key: MKey = MKey::NONE, reload, implemented, hex(16);
        /// Lease period of the M_Key in seconds, 0 to 65535: time after a request with a wrong key
        /// at which a port shows its key, unless this SM renews the lease; 0 never shows it.
        m_key_lease_period: u16 = 0, reload, implemented;
        /// M_KeyProtectBits, 0 to 3: ports show requesters without the M_Key 0: everything, 1:
        /// everything except the key, 2 and 3: nothing.
        m_key_protection_level: u8 = 0, reload, implemented, range(0, 3).else_use(2);
        /// Find the M_Keys of unknown ports by the files guid2mkey and neighbors; FALSE uses m_key
        /// for all ports that do not show their key.
        m_key_lookup: bool = true, reload, implemented;
        /// SM_Key that this subnet manager sends to other subnet managers.
        sm_key: SmKey = SmKey(1), reload, implemented, hex(16);
        /// SM_Key that makes the sender of an SA request a trusted client.
        sa_key: SmKey = SmKey(1), reload, implemented, hex(16);
        /// Subnet prefix: the upper 64 bits of every GID of this subnet.
        subnet_prefix: u64 = 0xfe80_0000_0000_0000, restart, implemented, hex(16);
        /// LID mask control, 0 to 7: every end port gets 2^lmc LIDs.
        lmc: u8 = 0, restart, implemented, range(0, 7).else_use(0);
        /// Apply lmc to port 0 of switches with an enhanced port 0, too; FALSE gives it one LID.
        lmc_esp0: bool = false, restart, implemented;
        /// Service level of traffic to the SM and SA, 0 to 15.
        sm_sl: u8 = 0, reload, implemented, range(0, 15).else_low_bits(4);
        /// Lifetime n of a packet in a switch, 0 to 0x1f: 4.096 us * 2^n; 0x14 and above is
        /// unlimited.
        packet_life_time: u8 = 0x12, reload, implemented, hex(2).range(0, 31).else_low_bits(5);
        /// Number of packets that a VL of a switch port drops in a row before it is stalled,
        /// 0 to 7.
        vl_stall_count: u8 = 7, reload, implemented, hex(2).range(0, 7).else_low_bits(3);
        /// As vl_stall_count, for switch ports connected to a channel adapter or router.
        leaf_vl_stall_count: u8 = 7, reload, implemented, hex(2).range(0, 7).else_low_bits(3);
        /// Time n that a packet may wait at the head of a VL of a switch port, 0 to 0x1f:
        /// 4.096 us * 2^n; 0x14 and above is unlimited.
        head_of_queue_lifetime: u8 = 0x12, reload, implemented, hex(2).range(0, 31).else_low_bits(5);
        /// As head_of_queue_lifetime, for switch ports connected to a channel adapter or router.
        leaf_head_of_queue_lifetime: u8 = 0x10, reload, implemented, hex(2).range(0, 31).else_low_bits(5);
        /// Limit of operational VLs as a code, 0 to 5: 1: VL0, 2: VL0-1, 3: VL0-3, 4: VL0-7,
        /// 5: VL0-14; 0 does not change the ports.
        max_op_vls: u8 = 5, reload, implemented, range(0, 5).else_nearest();
        /// LinkSpeedEnabled, 0 to 7 or 15: bit 0: 2.5, bit 1: 5, bit 2: 10 Gb/s per lane; 0 does
        /// not change it, 15 enables all supported speeds.
        force_link_speed: u8 = 15, reload, implemented, range(0, 7).or(ALL_SPEEDS).else_use(15);
        /// LinkSpeedExtEnabled, 0 to 15, 30 or 31: bit 0: 14.0625, bit 1: 25.78125, bit 2: 53.125,
        /// bit 3: 106.25 Gb/s per lane; 0 does not change it, 30 disables extended speeds, 31
        /// enables all supported ones.
        force_link_speed_ext: u8 = 31, reload, implemented,
            range(0, 15).or(ALL_SPEEDS_EXT).else_use(31);
        /// LinkWidthEnabled, 0 to 31 or 255: bit 0: 1x, bit 1: 4x, bit 2: 8x, bit 3: 12x, bit 4:
        /// 2x; 0 does not change it, 255 enables all supported widths.
        force_link_width: u8 = 255, reload, implemented, range(0, 31).or(ALL_WIDTHS).else_use(255);
        /// FDR10, Mellanox's 10 Gb/s per lane with 64b/66b coding: 0: do not ask devices for it,
        /// 1: enable it where supported, 2: disable it where supported.
        fdr10: u8 = 1, reload, implemented, range(0, 2).else_use(1);
        /// Vendor-specific attributes: auto: ask devices by Mellanox (NVIDIA) once for their
        /// capabilities, off: send none. Experimental: not confirmed on hardware.
        vendor_attributes: VendorAttributes = VendorAttributes::Auto, reload, implemented;
        /// Virtual ports (SR-IOV) of adapters by Mellanox (NVIDIA): 0: leave them alone, 1: disable
        /// them, 2: enable and manage them. Experimental: not confirmed on hardware.
        virt_enabled: u8 = 0, reload, implemented, range(0, 2).else_use(0);
        /// Physical ports whose virtual ports are discovered or configured at a time, 1 to 65535.
        virt_max_ports_in_process: u16 = 64, reload, implemented, range(1, 65_535).else_use(64);
        /// HopLimit of paths from or to a virtual port, 0 to 255: above 1, users send a global route
        /// header, by which virtual ports with the same LID are told apart.
        virt_default_hop_limit: u8 = 2, reload, implemented;
        /// Show virtual ports with a LID of their own in NodeRecords and PortInfoRecords, too.
        enable_virt_rec_ext: bool = false, reload, implemented;
        /// Ask the clients of a virtual port to register again when its GUID moves to another port.
        /// FALSE leaves that to them.
        rereg_on_guid_migr: bool = true, reload, implemented;
        /// Path of the file in which the virtual ports are dumped after each change; a name without
        /// directories is in dump_files_dir. (null) writes none.
        virt_dump_file: Option<String> = None, reload, implemented;
        /// SubnetTimeout n of all ports, 0 to 31: a packet crosses the subnet within
        /// 4.096 us * 2^n.
        subnet_timeout: u8 = 18, reload, implemented, range(0, 31).else_low_bits(5);
        /// Number of local physical errors at which a port sends trap 129, 0 to 15.
        local_phy_errors_threshold: u8 = 8, reload, implemented, hex(2).range(0, 15).else_low_bits(4);
        /// Number of credit overrun errors at which a port sends trap 130, 0 to 15.
        overrun_errors_threshold: u8 = 8, reload, implemented, hex(2).range(0, 15).else_low_bits(4);
        /// Set MulticastFDBTop on switches that support it, so that they ignore the unused part of
        /// their multicast forwarding table.
        use_mfttop: bool = true, reload, implemented;
    } };
}
pub(super) use device;

macro_rules! partitions {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Partitions";
        /// Path of the file that defines the partitions.
        partition_config_file: Option<String> = path("partitions.conf"), restart, implemented;
        /// Deprecated: TRUE is the same as part_enforce off.
        no_partition_enforcement: bool = false, reload, implemented;
        /// Packets whose P_Key switches check at their external ports: both, in, out or off.
        part_enforce: PartEnforce = PartEnforce::Both, reload, implemented;
        /// Allow a port to be a full and a limited member of the same partition.
        allow_both_pkeys: bool = false, restart, implemented;
        /// Keep P_Keys at the table index where the first sweep found them.
        keep_pkey_indexes: bool = true, reload, implemented;
        /// Byte of SM-assigned alias GUIDs that identifies this subnet, 0 to 0xff.
        sm_assigned_guid: u8 = 0, reload, implemented, hex(2);
    } };
}
pub(super) use partitions;

//! Keys of quality of service and congestion control.

macro_rules! qos {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Quality of service";
        /// Configure SL to VL mapping and VL arbitration tables.
        qos: bool = false, reload, implemented;
        /// Path of the file that assigns service levels to traffic.
        qos_policy_file: Option<String> = path("qos-policy.conf"), restart, implemented;
        /// Path of the file with rate limits of SLs, for ports of channel adapters; (null) or null is no
        /// limits. Needs qos. Experimental: not confirmed on hardware. An option of NVIDIA's OpenSM.
        enhanced_qos_policy_file: Option<String> = None, reload, implemented;
        /// The virtual port of index 0 has only the rate limits of its own rule, and not those of the
        /// default rule of VPORT_BW_RULES. An option of NVIDIA's OpenSM.
        enhanced_qos_vport0_unlimit_default_rl: bool = true, reload, implemented;
        /// Do not log error responses of devices to SL to VL mapping tables.
        suppress_sl2vl_mad_status_errors: bool = false, reload, implemented;
        /// Number of virtual lanes for which torus-2QoS checks the configuration, 0 to 15; limits
        /// no port, as in OpenSM: use max_op_vls.
        qos_max_vls: u32 = 0, reload, implemented, range(0, 15).else_use(0);
        /// Limit of high priority in units of 4096 bytes, 0 to 255 (unlimited); -1 uses the default
        /// of the port type.
        qos_high_limit: i32 = -1, reload, implemented, range(-1, 255).else_use(-1);
        /// High-priority VL arbitration table: VL:weight pairs, separated by commas; VLs are 0 to
        /// 14, weights 0 to 255 units of 64 bytes.
        qos_vlarb_high: Option<String> = None, reload, implemented;
        /// Low-priority VL arbitration table, as qos_vlarb_high.
        qos_vlarb_low: Option<String> = None, reload, implemented;
        /// VLs of SL 0 to 15, separated by commas, 0 to 15; VL 15 drops the packet.
        qos_sl2vl: Option<String> = None, reload, implemented;
        /// qos_max_vls of channel adapters.
        qos_ca_max_vls: u32 = 0, reload, implemented, range(0, 15).else_use(0);
        /// qos_high_limit of channel adapters.
        qos_ca_high_limit: i32 = -1, reload, implemented, range(-1, 255).else_use(-1);
        /// qos_vlarb_high of channel adapters.
        qos_ca_vlarb_high: Option<String> = None, reload, implemented;
        /// qos_vlarb_low of channel adapters.
        qos_ca_vlarb_low: Option<String> = None, reload, implemented;
        /// qos_sl2vl of channel adapters.
        qos_ca_sl2vl: Option<String> = None, reload, implemented;
        /// qos_max_vls of enhanced port 0 of switches.
        qos_sw0_max_vls: u32 = 0, reload, implemented, range(0, 15).else_use(0);
        /// qos_high_limit of enhanced port 0 of switches.
        qos_sw0_high_limit: i32 = -1, reload, implemented, range(-1, 255).else_use(-1);
        /// qos_vlarb_high of enhanced port 0 of switches.
        qos_sw0_vlarb_high: Option<String> = None, reload, implemented;
        /// qos_vlarb_low of enhanced port 0 of switches.
        qos_sw0_vlarb_low: Option<String> = None, reload, implemented;
        /// qos_sl2vl of enhanced port 0 of switches.
        qos_sw0_sl2vl: Option<String> = None, reload, implemented;
        /// qos_max_vls of external switch ports.
        qos_swe_max_vls: u32 = 0, reload, implemented, range(0, 15).else_use(0);
        /// qos_high_limit of external switch ports.
        qos_swe_high_limit: i32 = -1, reload, implemented, range(-1, 255).else_use(-1);
        /// qos_vlarb_high of external switch ports.
        qos_swe_vlarb_high: Option<String> = None, reload, implemented;
        /// qos_vlarb_low of external switch ports.
        qos_swe_vlarb_low: Option<String> = None, reload, implemented;
        /// qos_sl2vl of external switch ports.
        qos_swe_sl2vl: Option<String> = None, reload, implemented;
        /// qos_max_vls of routers.
        qos_rtr_max_vls: u32 = 0, reload, implemented, range(0, 15).else_use(0);
        /// qos_high_limit of routers.
        qos_rtr_high_limit: i32 = -1, reload, implemented, range(-1, 255).else_use(-1);
        /// qos_vlarb_high of routers.
        qos_rtr_vlarb_high: Option<String> = None, reload, implemented;
        /// qos_vlarb_low of routers.
        qos_rtr_vlarb_low: Option<String> = None, reload, implemented;
        /// qos_sl2vl of routers.
        qos_rtr_sl2vl: Option<String> = None, reload, implemented;
    } };
}
pub(super) use qos;

macro_rules! congestion {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Congestion control (experimental)";
        /// Write the settings below to switches and channel adapters, after the routes. FALSE writes
        /// nothing: devices keep their settings.
        congestion_control: bool = false, reload, implemented;
        /// CC_Key in congestion control MADs, which devices with a key require; no device gets it.
        cc_key: CcKey = CcKey::NONE, reload, implemented, hex(16);
        /// Limit of congestion control MADs in flight; 0 acts as 1.
        cc_max_outstanding_mads: u32 = 500, reload, implemented;
        /// Valid settings of switches: bit 0: victim mask, 1: credit mask, 2: threshold and packet
        /// size, 3: credit starvation, 4: marking rate.
        cc_sw_cong_setting_control_map: u32 = 0, reload, implemented, hex(1);
        /// Switch ports that mark packets as victims, too: 256 bits, bit n is port n.
        cc_sw_cong_setting_victim_mask: SwitchPortMask = SwitchPortMask::default(), reload, implemented;
        /// Switch ports with credit starvation marking: 256 bits, bit n is port n.
        cc_sw_cong_setting_credit_mask: SwitchPortMask = SwitchPortMask::default(), reload, implemented;
        /// Threshold of congestion marking, 0 to 0xf: 0: never, 1: latest, 0xf: earliest.
        cc_sw_cong_setting_threshold: u8 = 0, reload, implemented, hex(2).range(0, 15).else_low_bits(4);
        /// Smallest packet that is marked, in credits of 64 octets.
        cc_sw_cong_setting_packet_size: u8 = 0, reload, implemented;
        /// Threshold of credit starvation, 0 to 0xf: 0: never, 1: latest, 0xf: earliest.
        cc_sw_cong_setting_credit_starvation_threshold: u8 = 0, reload, implemented, hex(2).range(0, 15).else_low_bits(4);
        /// Delay of credit returns as shift:multiplier, 0 to 3 and 0 to 16383.
        cc_sw_cong_setting_credit_starvation_return_delay: InjectionRate = InjectionRate::default(), reload, implemented;
        /// Mean number of packets between two marked ones.
        cc_sw_cong_setting_marking_rate: u16 = 0, reload, implemented;
        /// Control of channel adapters: bit 0: per SL and port; else per queue pair.
        cc_ca_cong_setting_port_control: u16 = 0, reload, implemented, hex(4);
        /// SLs to configure on channel adapters: bit n is SL n.
        cc_ca_cong_setting_control_map: u16 = 0, reload, implemented, hex(4);
        /// "SL value": time in 1.024 us after which the index into cc_cct decreases by one; may be
        /// repeated.
        cc_ca_cong_setting_ccti_timer: CaEntries<u16> = CaEntries::default(), reload, implemented;
        /// "SL value": increase of the index into cc_cct on a BECN; may be repeated.
        cc_ca_cong_setting_ccti_increase: CaEntries<u8> = CaEntries::default(), reload, implemented;
        /// "SL value": index into cc_cct at which an event is logged; may be repeated.
        cc_ca_cong_setting_trigger_threshold: CaEntries<u8> = CaEntries::default(), reload, implemented;
        /// "SL value": lowest index into cc_cct; may be repeated.
        cc_ca_cong_setting_ccti_min: CaEntries<u8> = CaEntries::default(), reload, implemented;
        /// Congestion control table: up to 128 shift:multiplier entries, separated by commas; the
        /// injection rate delay by index. (null) limits the index to 0.
        cc_cct: CctList = CctList::default(), reload, implemented;
    } };
}
pub(super) use congestion;

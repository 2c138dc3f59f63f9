//! The table of opensm.conf: one row per key.
//!
//! A row is the key (which is the field's name), a deprecated spelling after `/` if there is
//! one, type, default, when a change takes effect (`start`: only when the daemon starts; `hup`:
//! on SIGHUP too), whether the feature is there (`ready`) or its keys are read and checked only
//! (`later`), and limits or number base. The row's documentation is its help in the template
//! and on the struct.

use super::value::{
    CaEntries, CctEntry, CctList, Console, Format, PartEnforce, PortMask, Value, hex, range,
};
use crate::ids::Guid;

/// When a changed value takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reload {
    /// Only when the daemon starts.
    Start,
    /// When the daemon starts, and on SIGHUP.
    Hup,
}

/// Whether the feature behind a key is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    /// It is.
    Ready,
    /// The key is read and checked; a value other than the default earns a WARNING.
    Later,
}

/// One row of the table.
pub struct Key {
    /// The key as written in the file.
    pub name: &'static str,
    /// A deprecated spelling that is accepted too.
    pub alias: Option<&'static str>,
    /// The heading it stands under in the template.
    pub section: &'static str,
    /// Lines of help, each starting with a space.
    pub help: &'static [&'static str],
    /// When a change takes effect.
    pub reload: Reload,
    /// Whether it does anything yet.
    pub feature: Feature,
    /// Sets the value from the file's text.
    pub(super) assign: fn(&mut Options, &str) -> Result<(), String>,
    /// The value as lines of the file, without the key: one, but for keys that may be repeated.
    pub(super) lines: fn(&Options) -> Vec<String>,
    /// Takes the value over from other options.
    pub(super) copy: fn(&Options, &mut Options),
    /// What would be right, for error messages.
    pub(super) expects: fn() -> String,
}

macro_rules! reload {
    (start) => {
        Reload::Start
    };
    (hup) => {
        Reload::Hup
    };
}

macro_rules! feature {
    (ready) => {
        Feature::Ready
    };
    (later) => {
        Feature::Later
    };
}

macro_rules! format_of {
    () => {
        Format::PLAIN
    };
    ($format:expr) => {
        $format
    };
}

macro_rules! alias_of {
    () => {
        None
    };
    ($alias:ident) => {
        Some(stringify!($alias))
    };
}

macro_rules! options {
    ($(
        section $section:literal;
        $(
            $(#[doc = $help:literal])+
            $field:ident $(/ $alias:ident)?: $type:ty = $default:expr, $reload:ident, $feature:ident
                $(, $format:expr)?;
        )+
    )+) => {
        /// The values of opensm.conf, one field per key, with OpenSM's defaults.
        #[derive(Clone, PartialEq, Debug)]
        pub struct Options {
            $($($(#[doc = $help])+ pub $field: $type,)+)+
        }

        impl Default for Options {
            fn default() -> Self {
                Self { $($($field: $default,)+)+ }
            }
        }

        /// Every key, in the order of the template.
        pub static TABLE: &[Key] = &[$($(
            Key {
                name: stringify!($field),
                alias: alias_of!($($alias)?),
                section: $section,
                help: &[$($help),+],
                reload: reload!($reload),
                feature: feature!($feature),
                assign: |options, text| options.$field.assign(text, format_of!($($format)?)),
                lines: |options| options.$field.lines(format_of!($($format)?)),
                copy: |from, to| to.$field.clone_from(&from.$field),
                expects: || <$type as Value>::expects(format_of!($($format)?)),
            },
        )+)+];
    };
}

options! {
    section "Device attributes";
    /// GUID of the local port to bind to; 0 picks the first port that is ACTIVE, else INIT, else
    /// has a link.
    guid: Guid = Guid(0), start, ready;
    /// M_Key that ports are to demand for changes of their PortInfo; 0 is none.
    m_key: u64 = 0, start, ready, hex(16);
    /// Lease period of the M_Key in seconds; 0 means that it never expires.
    m_key_lease_period: u16 = 0, hup, ready;
    /// How much a port hides from those who do not know its M_Key (M_KeyProtectBits), 0 to 3.
    m_key_protection_level: u8 = 0, hup, ready, range(0, 3);
    /// Look the M_Keys of unknown ports up in the file guid2mkey; FALSE always uses m_key.
    m_key_lookup: bool = true, hup, later;
    /// SM_Key that subnet managers of this subnet show each other.
    sm_key: u64 = 1, hup, ready, hex(16);
    /// SM_Key in SA requests that makes the client a trusted one.
    sa_key: u64 = 1, hup, ready, hex(16);
    /// Upper half of every GID on this subnet.
    subnet_prefix: u64 = 0xfe80_0000_0000_0000, start, ready, hex(16);
    /// LID mask control: every end port gets 2^lmc LIDs, 0 to 7.
    lmc: u8 = 0, start, ready, range(0, 7);
    /// Give enhanced switch ports 0 the LMC too; FALSE gives them one LID.
    lmc_esp0: bool = false, start, ready;
    /// Service level for talking to the SM and SA, 0 to 15.
    sm_sl: u8 = 0, hup, ready, range(0, 15);
    /// How long a packet may live in a switch: 4.096 us * 2^n; 0x14 and above is for ever.
    packet_life_time: u8 = 0x12, hup, ready, hex(2).range(0, 31);
    /// Packets dropped in a row before a switch port's lane counts as stalled, 1 to 7.
    vl_stall_count: u8 = 7, hup, ready, hex(2).range(0, 7);
    /// The same for switch ports that face a channel adapter or router.
    leaf_vl_stall_count: u8 = 7, hup, ready, hex(2).range(0, 7);
    /// How long a packet may wait at the head of a switch port's queue: 4.096 us * 2^n; 0x14
    /// and above is for ever.
    head_of_queue_lifetime: u8 = 0x12, hup, ready, hex(2).range(0, 31);
    /// The same for switch ports that face a channel adapter or router.
    leaf_head_of_queue_lifetime: u8 = 0x10, hup, ready, hex(2).range(0, 31);
    /// Most virtual lanes to operate, as code: 1: VL0, 2: VL0-1, 3: VL0-3, 4: VL0-7, 5: VL0-14;
    /// 0 leaves the ports as they are.
    max_op_vls: u8 = 5, hup, ready, range(0, 5);
    /// LinkSpeedEnabled of switch ports: bit 0: 2.5, bit 1: 5, bit 2: 10 Gb/s per lane; 0 leaves
    /// it alone, 15 enables what the port supports.
    force_link_speed: u8 = 15, hup, ready, range(0, 15);
    /// LinkSpeedExtEnabled: bit 0: 14.0625, bit 1: 25.78125, bit 2: 53.125 Gb/s per lane; 0
    /// leaves it alone, 30 disables extended speeds, 31 enables what the port supports.
    force_link_speed_ext: u8 = 31, hup, ready, range(0, 31);
    /// LinkWidthEnabled of switch ports: bit 0: 1x, bit 1: 4x, bit 2: 8x, bit 3: 12x, bit 4: 2x;
    /// 0 leaves it alone, 255 enables what the port supports.
    force_link_width: u8 = 255, hup, ready;
    /// FDR10, Mellanox's 10 Gb/s with 64b/66b coding: 0: never touch it, 1: on where supported,
    /// 2: off where supported.
    fdr10: u8 = 1, hup, later, range(0, 2);
    /// SubnetTimeout of all ports: no packet needs longer through the subnet than
    /// 4.096 us * 2^n.
    subnet_timeout: u8 = 18, hup, ready, range(0, 31);
    /// Local physical errors that raise trap 129, 0 to 15.
    local_phy_errors_threshold: u8 = 8, hup, ready, hex(2).range(0, 15);
    /// Credit overrun errors that raise trap 130, 0 to 15.
    overrun_errors_threshold: u8 = 8, hup, ready, hex(2).range(0, 15);
    /// Tell switches that know MulticastFDBTop where their multicast table ends.
    use_mfttop: bool = true, hup, ready;

    section "Partitions";
    /// The file that defines the partitions.
    partition_config_file: Option<String> = path("partitions.conf"), start, ready;
    /// Deprecated, see part_enforce: TRUE means part_enforce off.
    no_partition_enforcement: bool = false, hup, ready;
    /// Where switches check P_Keys at their outer ports: both, in, out or off.
    part_enforce: PartEnforce = PartEnforce::Both, hup, ready;
    /// Allow a port to be full and limited member of one partition.
    allow_both_pkeys: bool = false, start, ready;
    /// Leave P_Keys at the table index where they were found.
    keep_pkey_indexes: bool = true, hup, ready;
    /// Byte that distinguishes this subnet's SM-assigned alias GUIDs.
    sm_assigned_guid: u8 = 0, hup, ready, hex(2);

    section "Sweeps";
    /// Seconds between two sweeps; 0 sweeps only on traps and signals.
    sweep_interval: u32 = 10, hup, ready, range(0, 4_294_967);
    /// Assign all LIDs anew.
    reassign_lids: bool = false, hup, ready;
    /// Make every sweep a heavy one.
    force_heavy_sweep: bool = false, hup, ready;
    /// Sweep when traps 128, 144 or 145 come; FALSE leaves what changed to the next sweep.
    sweep_on_trap: bool = true, hup, ready;

    section "Routing";
    /// Count routes to switches when links are balanced.
    port_profile_switch_nodes: bool = false, hup, ready;
    /// File of port GUIDs to leave out of link balancing.
    port_prof_ignore_file: Option<String> = None, start, ready;
    /// File of hop weights per switch port.
    hop_weights_file: Option<String> = None, start, ready;
    /// File of the order in which a switch's ports are tried.
    port_search_ordering_file / dimn_ports_file: Option<String> = None, start, ready;
    /// Routing engines to try in this order, separated by commas; minhop is tried last unless
    /// no_fallback is in the list. Here: minhop, torus-2QoS. (null) is minhop.
    routing_engine: Option<String> = None, start, ready;
    /// Route around throttled links between switches (nue, dfsssp, sssp).
    avoid_throttled_links: bool = false, start, later;
    /// Connect the root switches with each other (updn, dnup, ftree).
    connect_roots: bool = false, hup, later;
    /// Keep routes when a heavy sweep finds nothing that needs new ones.
    use_ucast_cache: bool = false, start, later;
    /// Dump of hop counts to load for minhop.
    lid_matrix_dump_file: Option<String> = None, start, later;
    /// Dump of forwarding tables to load (engine file).
    lfts_file: Option<String> = None, start, later;
    /// File of the root nodes' GUIDs, one a line (updn, dnup, ftree).
    root_guid_file: Option<String> = None, start, later;
    /// File of the compute nodes' GUIDs, one a line (ftree, dfsssp, sssp).
    cn_guid_file: Option<String> = None, start, later;
    /// File of the I/O nodes' GUIDs, one a line (ftree, dfsssp, sssp).
    io_guid_file: Option<String> = None, start, later;
    /// Index switches from the roots (ftree on incomplete trees).
    quasi_ftree_indexing: bool = false, hup, later;
    /// Hops in the wrong direction that paths to I/O nodes may take (ftree).
    max_reverse_hops: u16 = 0, start, later;
    /// File of IDs that replace GUIDs, "guid id" a line (updn).
    ids_guid_file: Option<String> = None, start, later;
    /// File of port GUIDs in the order in which they are to be routed (minhop, updn).
    guid_routing_order_file: Option<String> = None, start, ready;
    /// Analyse the mesh first (lash).
    do_mesh_analysis: bool = false, hup, later;
    /// First virtual lane (lash).
    lash_start_vl: u8 = 0, hup, later, range(0, 15);
    /// Most virtual lanes (nue); 0 takes what the fabric supports.
    nue_max_num_vls: u8 = 1, hup, later;
    /// Care for data traffic of the switches themselves (nue).
    nue_include_switches: bool = false, start, later;
    /// Shift routes among ports to break alignments.
    port_shifting: bool = false, hup, ready;
    /// Seed for choosing among equal ports at random; 0 takes them in turn.
    scatter_ports: u32 = 0, hup, ready;
    /// Do not scatter the ports of guid_routing_order_file.
    guid_routing_order_no_scatter: bool = false, start, ready;
    /// Dump of the SA database to load.
    sa_db_file: Option<String> = None, start, ready;
    /// Write the SA database to opensm-sa.dump after changes and at the end.
    sa_db_dump: bool = false, hup, ready;
    /// The file that describes the torus (engine torus-2QoS).
    torus_config: String = "/etc/opensm/torus-2QoS.conf".into(), hup, ready;

    section "Several subnet managers";
    /// Priority of this SM, 0 to 15: the highest becomes master, the lowest GUID if equal.
    sm_priority: u8 = 0, hup, ready, range(0, 15);
    /// Take no notice of other SMs.
    ignore_other_sm: bool = false, hup, ready;
    /// Milliseconds between two looks of a standby SM at its master.
    sminfo_polling_timeout: u32 = 10_000, hup, ready;
    /// Looks without answer after which the master is taken for dead.
    polling_retry_number: u32 = 4, hup, ready;
    /// Honour the file guid2lid when a standby SM becomes master.
    honor_guid2lid_file: bool = false, hup, ready;

    section "Timing and threads";
    /// Most SMPs in flight; 0 is no limit.
    max_wire_smps: u32 = 4, hup, ready, range(0, 0x7fff_ffff);
    /// Most SMPs in flight when those before are overdue; no more than max_wire_smps is off.
    max_wire_smps2: u32 = 4, hup, later, range(0, 0x7fff_ffff);
    /// Microseconds after which an SMP counts as overdue for max_wire_smps2.
    max_smps_timeout: u32 = 600_000, hup, later;
    /// Milliseconds to wait for an answer before the request is repeated.
    transaction_timeout: u32 = 200, start, ready, range(1, 0xffff_ffff);
    /// How often an unanswered request is repeated.
    transaction_retries: u32 = 3, start, ready;
    /// Milliseconds to wait for answers that take devices longer (optimized SL to VL tables).
    long_transaction_timeout: u32 = 500, start, later;
    /// Milliseconds that SA requests may wait before they are dropped (2000 at most); 0 is no limit.
    max_msg_fifo_timeout: u32 = 10_000, hup, ready;
    /// Answer SA requests from a single thread.
    single_thread: bool = false, start, later;

    section "Behaviour";
    /// Run in the background.
    daemon: bool = false, start, ready;
    /// Start as an inactive SM.
    sm_inactive: bool = false, hup, later;
    /// Disable ports that flood the SM with traps.
    babbling_port_policy: bool = false, hup, later;
    /// Drop event subscriptions when a port leaves and when this SM becomes master.
    drop_event_subscriptions: bool = false, hup, ready;
    /// Hold new IPoIB groups against the parameters of the broadcast group (RFC 4391).
    ipoib_mcgroup_creation_validation: bool = true, hup, ready;
    /// Hold the parameters of a join against those of the existing group.
    mcgroup_join_validation: bool = true, hup, ready;
    /// Answer with rates up to 300 Gb/s only, for clients that know no others.
    use_original_extended_sa_rates_only: bool = false, hup, ready;
    /// Highest rate code in SA answers, 2 to 63; 63 is no limit.
    max_rate_enum: u8 = 63, hup, ready, range(2, 63);
    /// Write SL to VL tables in the optimized way where devices know it.
    use_optimized_slvl: bool = false, hup, ready;
    /// Have files that outlive the daemon (guid2lid …) reach the disk at once.
    fsync_high_avail_files: bool = true, hup, ready;

    section "Performance manager";
    /// Run the performance manager.
    perfmgr: bool = false, start, later;
    /// Follow redirections of the performance management class.
    perfmgr_redir: bool = true, start, later;
    /// Seconds between two rounds.
    perfmgr_sweep_time_s: u16 = 180, start, later, range(1, 65_535);
    /// Most queries in flight.
    perfmgr_max_outstanding_queries: u32 = 500, start, later, range(1, 0xffff_ffff);
    /// Leave out the ports of channel adapters.
    perfmgr_ignore_cas: bool = false, start, later;
    /// Forget the counters of nodes that are gone.
    perfmgr_rm_nodes: bool = true, start, later;
    /// Log error counters that grew.
    perfmgr_log_errors: bool = true, start, later;
    /// Ask devices whether they have 64-bit counters and XmitWait.
    perfmgr_query_cpi: bool = true, start, later;
    /// Log PortXmitWait as an error.
    perfmgr_xmit_wait_log: bool = false, start, later;
    /// Growth of PortXmitWait that is worth a line.
    perfmgr_xmit_wait_threshold: u32 = 65_535, start, later;
    /// File for the dump of counters.
    event_db_dump_file: Option<String> = None, start, later;

    section "Plug-ins and names";
    /// Names of event plug-ins.
    event_plugin_name: Option<String> = None, start, later;
    /// Options for the event plug-ins.
    event_plugin_options: Option<String> = None, start, later;
    /// File of better names for nodes, as ibnetdiscover reads it.
    node_name_map_name: Option<String> = None, start, later;

    section "Log and dumps";
    /// What is logged: 0x01: errors, 0x02: information, 0x04: verbose, 0x08: debug, 0x10:
    /// functions, 0x20: frames, 0x40: routing (also writes dump files), 0x80: system.
    log_flags: u8 = 0x03, hup, ready, hex(2);
    /// Write every line of the log at once.
    force_log_flush: bool = false, hup, ready;
    /// The log file; stdout and stderr are understood.
    log_file: String = "/var/log/opensm.log".into(), start, ready;
    /// Size in MB at which the log file starts again; 0 is no limit.
    log_max_size: u32 = 0, hup, ready;
    /// Append to an existing log file; FALSE empties it at start.
    accum_log_file: bool = true, hup, ready;
    /// File of log flags per module.
    per_module_logging_file: Option<String> = path("per-module-logging.conf"), start, later;
    /// Directory for dump files; the environment's OSM_TMP_DIR replaces the default.
    dump_files_dir: String = "/var/log/".into(), start, ready;
    /// Prefix of all messages, in the log and to syslog.
    log_prefix: Option<String> = None, hup, ready;

    section "Safety";
    /// Use risky features and quirks of certain devices.
    enable_quirks: bool = false, hup, later;
    /// Do not ask clients to register again.
    no_clients_rereg: bool = false, hup, ready;
    /// Switch multicast off.
    disable_multicast: bool = false, start, ready;
    /// Exit when start-up finds something fatal (duplicate GUIDs).
    exit_on_fatal: bool = true, hup, ready;

    section "Console";
    /// Operator's console: off, local or loopback.
    console: Console = Console::Off, start, later;
    /// TCP port of the loopback console.
    console_port: u16 = 10_000, start, later;

    section "Quality of service";
    /// Set up SL to VL and VL arbitration tables.
    qos: bool = false, hup, ready;
    /// The file that assigns service levels to traffic.
    qos_policy_file: Option<String> = path("qos-policy.conf"), start, ready;
    /// Be silent about devices that refuse SL to VL tables.
    suppress_sl2vl_mad_status_errors: bool = false, hup, ready;
    /// Most virtual lanes, 0 to 15; 0 takes the default for the kind of port.
    qos_max_vls: u32 = 0, hup, ready, range(0, 15);
    /// Limit of high priority, 0 to 255; -1 takes the default for the kind of port.
    qos_high_limit: i32 = -1, hup, ready, range(-1, 255);
    /// High priority arbitration, vl:weight pairs with commas between.
    qos_vlarb_high: Option<String> = None, hup, ready;
    /// Low priority arbitration, vl:weight pairs with commas between.
    qos_vlarb_low: Option<String> = None, hup, ready;
    /// The virtual lane of each SL 0 to 15, with commas between.
    qos_sl2vl: Option<String> = None, hup, ready;
    /// qos_max_vls for channel adapters.
    qos_ca_max_vls: u32 = 0, hup, ready, range(0, 15);
    /// qos_high_limit for channel adapters.
    qos_ca_high_limit: i32 = -1, hup, ready, range(-1, 255);
    /// qos_vlarb_high for channel adapters.
    qos_ca_vlarb_high: Option<String> = None, hup, ready;
    /// qos_vlarb_low for channel adapters.
    qos_ca_vlarb_low: Option<String> = None, hup, ready;
    /// qos_sl2vl for channel adapters.
    qos_ca_sl2vl: Option<String> = None, hup, ready;
    /// qos_max_vls for enhanced switch ports 0.
    qos_sw0_max_vls: u32 = 0, hup, ready, range(0, 15);
    /// qos_high_limit for enhanced switch ports 0.
    qos_sw0_high_limit: i32 = -1, hup, ready, range(-1, 255);
    /// qos_vlarb_high for enhanced switch ports 0.
    qos_sw0_vlarb_high: Option<String> = None, hup, ready;
    /// qos_vlarb_low for enhanced switch ports 0.
    qos_sw0_vlarb_low: Option<String> = None, hup, ready;
    /// qos_sl2vl for enhanced switch ports 0.
    qos_sw0_sl2vl: Option<String> = None, hup, ready;
    /// qos_max_vls for outer switch ports.
    qos_swe_max_vls: u32 = 0, hup, ready, range(0, 15);
    /// qos_high_limit for outer switch ports.
    qos_swe_high_limit: i32 = -1, hup, ready, range(-1, 255);
    /// qos_vlarb_high for outer switch ports.
    qos_swe_vlarb_high: Option<String> = None, hup, ready;
    /// qos_vlarb_low for outer switch ports.
    qos_swe_vlarb_low: Option<String> = None, hup, ready;
    /// qos_sl2vl for outer switch ports.
    qos_swe_sl2vl: Option<String> = None, hup, ready;
    /// qos_max_vls for routers.
    qos_rtr_max_vls: u32 = 0, hup, ready, range(0, 15);
    /// qos_high_limit for routers.
    qos_rtr_high_limit: i32 = -1, hup, ready, range(-1, 255);
    /// qos_vlarb_high for routers.
    qos_rtr_vlarb_high: Option<String> = None, hup, ready;
    /// qos_vlarb_low for routers.
    qos_rtr_vlarb_low: Option<String> = None, hup, ready;
    /// qos_sl2vl for routers.
    qos_rtr_sl2vl: Option<String> = None, hup, ready;

    section "Congestion control (experimental)";
    /// Configure congestion control.
    congestion_control: bool = false, hup, later;
    /// CC_Key to show to devices.
    cc_key: u64 = 0, start, later, hex(16);
    /// Most congestion control MADs in flight.
    cc_max_outstanding_mads: u32 = 500, start, later;
    /// Which settings of switches are valid: bit 0: victim mask, 1: credit mask, 2: threshold
    /// and packet size, 3: credit starvation, 4: marking rate.
    cc_sw_cong_setting_control_map: u32 = 0, hup, later, hex(1);
    /// Switch ports that mark packets even as victims: 256 bits, bit 0 is port 0.
    cc_sw_cong_setting_victim_mask: PortMask = PortMask::default(), hup, later;
    /// Switch ports with credit starvation: 256 bits, bit 0 is port 0.
    cc_sw_cong_setting_credit_mask: PortMask = PortMask::default(), hup, later;
    /// How eagerly congestion is marked: 0: never, 1: loosely … 15: aggressively.
    cc_sw_cong_setting_threshold: u8 = 0, hup, later, hex(2);
    /// Packets smaller than this many credits are not marked.
    cc_sw_cong_setting_packet_size: u8 = 0, hup, later;
    /// How eagerly credit starvation is seen: 0: never, 1: loosely … 15: aggressively.
    cc_sw_cong_setting_credit_starvation_threshold: u8 = 0, hup, later, hex(2);
    /// Delay of credit returns as shift:multiplier.
    cc_sw_cong_setting_credit_starvation_return_delay: CctEntry = CctEntry::default(), hup, later;
    /// Mean number of packets between two marks.
    cc_sw_cong_setting_marking_rate: u16 = 0, hup, later;
    /// Channel adapters: bit 0: control by SL and port instead of by queue pair.
    cc_ca_cong_setting_port_control: u16 = 0, hup, later, hex(4);
    /// SLs to configure on channel adapters: bit n is SL n.
    cc_ca_cong_setting_control_map: u16 = 0, hup, later, hex(4);
    /// "SL value": time after which the index into the table falls by one. May be repeated.
    cc_ca_cong_setting_ccti_timer: CaEntries<u16> = CaEntries::default(), hup, later;
    /// "SL value": how much a BECN raises the index. May be repeated.
    cc_ca_cong_setting_ccti_increase: CaEntries<u8> = CaEntries::default(), hup, later;
    /// "SL value": index at which an event is logged. May be repeated.
    cc_ca_cong_setting_trigger_threshold: CaEntries<u8> = CaEntries::default(), hup, later;
    /// "SL value": lowest index. May be repeated.
    cc_ca_cong_setting_ccti_min: CaEntries<u8> = CaEntries::default(), hup, later;
    /// The congestion control table: shift:multiplier entries with commas between.
    cc_cct: CctList = CctList::default(), hup, later;

    section "Routers and IPv6";
    /// The file that tells which router serves which subnet prefix.
    prefix_routes_file: Option<String> = path("prefix-routes.conf"), start, ready;
    /// Flow label of paths to other subnets, 20 bits.
    rtr_pr_flow_label: u32 = 0, hup, ready, hex(5).range(0, 0xf_ffff);
    /// Traffic class of paths to other subnets.
    rtr_pr_tclass: u8 = 0, hup, ready;
    /// Service level of paths to other subnets, 0 to 15; 255 takes that of other paths. With
    /// torus-2QoS only its highest bit counts.
    rtr_pr_sl: u8 = OF_PATH, hup, ready, range(0, 15).or(255, AS_PATHS);
    /// Largest MTU of paths to other subnets, as code: 1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096
    /// bytes; 255 is that of the way to the router.
    rtr_pr_mtu: u8 = OF_PATH, hup, ready, range(1, 5).or(255, AS_WAY);
    /// Largest rate of paths to other subnets, as code (3: 10, 7: 40, 16: 100 Gb/s …); 255 is
    /// that of the way to the router.
    rtr_pr_rate: u8 = OF_PATH, hup, ready, range(2, 24).or(255, AS_WAY);
    /// Let IPv6 solicited-node groups share multicast LIDs.
    consolidate_ipv6_snm_req: bool = false, hup, ready;
}

/// What stands in rtr_pr_* for "as on other paths".
pub const OF_PATH: u8 = 255;

/// What it means for the SL, and for MTU and rate.
const AS_PATHS: &str = "that of other paths";
const AS_WAY: &str = "that of the way to the router";

/// A file in OpenSM's directory of configuration.
fn path(name: &str) -> Option<String> {
    Some(format!("/etc/opensm/{name}"))
}

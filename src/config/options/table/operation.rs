//! Keys of sweeps, the SM role, MADs, performance management, logs and the console.

macro_rules! sweeps {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Sweeps";
        /// Interval between sweeps in seconds; 0 sweeps only on traps and signals.
        sweep_interval: u32 = 10, reload, implemented, range(0, 4_294_967).else_nearest();
        /// Reassign the LIDs of all ports, which disrupts traffic.
        reassign_lids: bool = false, reload, implemented;
        /// Make every sweep a heavy sweep, which discovers and configures the whole subnet.
        force_heavy_sweep: bool = false, reload, implemented;
        /// Sweep on trap 128; FALSE defers changes of links to the next sweep. Traps 144 and 145
        /// cause no sweep: the changed attributes are read.
        sweep_on_trap: bool = true, reload, implemented;
        /// Time in seconds after which a device that does not answer counts as gone although its
        /// neighbours show that its links are up. Until then its LIDs and routes stay, and it is asked
        /// again. 0 is no limit.
        unresponsive_timeout: u32 = 600, reload, implemented, range(0, 4_294_967).else_nearest();
        /// Share of the known devices in percent, 1 to 100. While more of them than this, and at
        /// least three, do not answer although nothing shows that they are gone, an alarm is raised
        /// and none of them counts as gone for its silence.
        unresponsive_alarm: u8 = 10, reload, implemented, range(1, 100).else_nearest();
    } };
}
pub(super) use sweeps;

macro_rules! election {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Several subnet managers";
        /// Priority of this SM, 0 to 15: the SM with the highest priority becomes master, among
        /// equals the one with the lowest GUID.
        sm_priority: u8 = 0, reload, implemented, range(0, 15).else_use(0);
        /// Priority of this SM while it is master, 0 to 15, if that is higher than sm_priority: a
        /// former master that returns does not become master again. 0 is no other priority. An
        /// option of NVIDIA's OpenSM.
        master_sm_priority: u8 = 0, reload, implemented, range(0, 15).else_use(0);
        /// Ignore other SMs on the subnet.
        ignore_other_sm: bool = false, reload, implemented;
        /// Interval in milliseconds at which a standby SM polls the master.
        sminfo_polling_timeout: u32 = 10_000, reload, implemented;
        /// Number of unanswered polls that a standby SM repeats; after the next one it takes over from
        /// the master.
        polling_retry_number: u32 = 4, reload, implemented;
        /// SMPs per second with which a standby SM follows the fabric: it reads what the devices
        /// hold, so that it takes over faster. 0 reads nothing.
        standby_query_rate: u32 = 2000, reload, implemented, range(0, 1_000_000);
        /// Keep the LIDs of the file guid2lid when a standby SM becomes master.
        honor_guid2lid_file: bool = false, reload, implemented;
    } };
}
pub(super) use election;

macro_rules! timing {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Timing and threads";
        /// Limit of SMPs in flight; 0 is no limit. Without -n and with the value 4, the default, it is the
        /// limit at the start, which then adapts up to max_adaptive_wire_smps.
        max_wire_smps: u32 = 4, reload, implemented, range(0, 0x7fff_ffff).else_use(4);
        /// Limit of SMPs in flight, overdue ones included: they do not count towards max_wire_smps.
        /// With values up to max_wire_smps, 256 SMPs may be overdue.
        max_wire_smps2: u32 = 4, reload, implemented, range(0, 0x7fff_ffff).else_use(4);
        /// Bound of the limit of SMPs in flight where none is configured (see max_wire_smps): it grows while
        /// round trips stay below twice the shortest, or 100 us above it, and is halved otherwise.
        /// 0: it does not adapt.
        max_adaptive_wire_smps: u32 = 64, reload, implemented, range(0, 4096);
        /// Limit of SMPs in flight to one device, overdue ones aside; 0 is no limit. A device handles
        /// one SMP at a time and loses those beyond its short queue.
        max_smps_per_device: u32 = 2, reload, implemented, range(0, 4096);
        /// Time in microseconds after which OpenSM sends more SMPs, up to max_wire_smps2.
        max_smps_timeout: u32 = 600_000, reload,
            ignored("SMPs are overdue after 40 ms, and after 15 ms if later ones are answered");
        /// Time in milliseconds to wait for a response before the request is sent again,
        /// at least 1.
        transaction_timeout: u32 = 200, restart, implemented, range(1, 0xffff_ffff).else_use(200);
        /// Number of retries of an unanswered request.
        transaction_retries: u32 = 3, restart, implemented;
        /// Time in milliseconds to wait for responses to requests that take devices longer
        /// (optimized SL to VL mapping tables), at least transaction_timeout.
        long_transaction_timeout: u32 = 500, restart, implemented;
        /// Time in milliseconds after which a queued SA request is dropped; values above 2000 act
        /// as 2000, 0 is no limit.
        max_msg_fifo_timeout: u32 = 10_000, reload, implemented;
        /// Number of received MADs that the kernel keeps for this program, as set by libibumad of
        /// MLNX_OFED; 0 leaves it. An option for NVIDIA's OpenSM.
        umad_rx_threshold: u32 = 0, restart, ignored(OWN_UMAD);
        /// Answer all SA requests on one thread; the answers are the same.
        single_thread: bool = false, restart, implemented;
    } };
}
pub(super) use timing;

macro_rules! behaviour {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Behaviour";
        /// Run in the background.
        daemon: bool = false, restart, implemented;
        /// Start in the NOTACTIVE state.
        sm_inactive: bool = false, restart, implemented;
        /// Disable ports that send more than 250 traps 129 to 131 without a pause of a minute,
        /// unless their link is that of the SM or the only one to a switch. With any value, the
        /// links of ports that send more than 10 are not used until the traps have paused for a
        /// minute.
        babbling_port_policy: bool = false, reload, implemented;
        /// Drop the event subscriptions of a port that leaves, and all subscriptions and services
        /// when another SM becomes master.
        drop_event_subscriptions: bool = false, reload, implemented;
        /// Check the parameters of new IPoIB groups against the broadcast group (RFC 4391).
        ipoib_mcgroup_creation_validation: bool = true, reload, implemented;
        /// Check the parameters of a join request against the existing multicast group.
        mcgroup_join_validation: bool = true, reload, implemented;
        /// Limit rates in SA responses to 300 Gb/s, for clients without support for higher codes.
        use_original_extended_sa_rates_only: bool = false, reload, implemented;
        /// Highest rate code in SA responses, 2 to 24; 63 is no limit.
        max_rate_enum: u8 = 63, reload, implemented, range(2, 24).or(ALL_RATES).else_use(63);
        /// Write SL to VL mapping tables in the optimized format where devices support it.
        use_optimized_slvl: bool = false, reload, implemented;
        /// Flush files that outlive the daemon, such as guid2lid, to disk after every write.
        fsync_high_avail_files: bool = true, reload, implemented;
    } };
}
pub(super) use behaviour;

macro_rules! perfmgr {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Performance manager";
        /// Run the performance manager.
        perfmgr: bool = false, restart, implemented;
        /// Follow redirections of the performance management class.
        perfmgr_redir: bool = true, restart, implemented;
        /// Interval between counter sweeps in seconds, 1 to 65535. At most 11,000 queries are sent in
        /// a second; a sweep that takes longer than the interval delays the next.
        perfmgr_sweep_time_s: u16 = 180, restart, implemented, range(1, 65_535).else_use(180);
        /// Limit of queries in flight, at least 1.
        perfmgr_max_outstanding_queries: u32 = 500, restart, implemented,
            range(1, 0xffff_ffff).else_use(500);
        /// Exclude the ports of channel adapters.
        perfmgr_ignore_cas: bool = false, restart, implemented;
        /// Delete the counters of nodes that have left the subnet.
        perfmgr_rm_nodes: bool = true, restart, implemented;
        /// Log increases of error counters.
        perfmgr_log_errors: bool = true, restart, implemented;
        /// Query ClassPortInfo for support of 64-bit counters and PortXmitWait.
        perfmgr_query_cpi: bool = true, restart, implemented;
        /// Log PortXmitWait as an error counter.
        perfmgr_xmit_wait_log: bool = false, restart, implemented;
        /// Increase of PortXmitWait that is logged.
        perfmgr_xmit_wait_threshold: u32 = 65_535, restart, implemented;
        /// Time in seconds over which rates are computed, 1 to 86400.
        perfmgr_window_s: u32 = 3600, restart, implemented, range(1, 86_400);
        /// Path of the counter dump file [default: opensm_port_counters.log in dump_files_dir].
        event_db_dump_file: Option<String> = None, restart, implemented;
    } };
}
pub(super) use perfmgr;

macro_rules! plugins {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Plug-ins and names";
        /// Names of event plug-ins.
        event_plugin_name: Option<String> = None, restart,
            ignored(NO_PLUGINS);
        /// Options of the event plug-ins.
        event_plugin_options: Option<String> = None, restart,
            ignored(NO_PLUGINS);
        /// Path of a file with names of nodes, which replace their descriptions in the log, in
        /// events, dumps, answers of the management interface and port-name of QoS policies: lines
        /// of a node GUID and a name, such as 0x0008f10400411a08 "spine 1". (null) is
        /// /etc/opensm/ib-node-name-map if that exists.
        node_name_map_name: Option<String> = None, reload, implemented;
    } };
}
pub(super) use plugins;

macro_rules! log {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Log and dumps";
        /// Log flags, 0 to 0xff: 0x01: errors, 0x02: information, 0x04: verbose, 0x08: debug, 0x10:
        /// functions, which are OpenSM's own, 0x20: frames (every MAD, without keys), 0x40: dump files
        /// of routes, 0x80: system.
        log_flags: u8 = 0x03, reload, implemented, hex(2);
        /// Flush the log after every line.
        force_log_flush: bool = false, reload, implemented;
        /// Path of the log file, or stdout or stderr; (null) is stdout.
        log_file: String = "/var/log/opensm.log".into(), restart, implemented,
            ValueFormat::PLAIN.null("stdout");
        /// Size in MB at which the log file is truncated; 0 is no limit.
        log_max_size: u32 = 0, reload, implemented;
        /// Append to an existing log file; FALSE truncates it at start.
        accum_log_file: bool = true, reload, implemented;
        /// Path of a file with log flags of modules, which are enabled in addition to log_flags: lines
        /// of a module and its flags, such as osm_trap_rcv.c 0x0f, or daemon::sa_server 0x07.
        per_module_logging_file: Option<String> = path("per-module-logging.conf"), restart, implemented;
        /// Directory of dump files; without the key, that of the environment variable OSM_TMP_DIR.
        dump_files_dir: String = "/var/log/".into(), restart, implemented;
        /// Subjects of the activity report, the file opensm-activity.dump in that directory, separated
        /// by commas: mc (multicast), prtn (partitions), virt (virtual ports), routing, all
        /// or none. An option of NVIDIA's OpenSM.
        activity_report_subjects: ActivitySubjects = ActivitySubjects::NONE, reload, implemented;
        /// Keep the memory of the daemon, which contains keys, in its core dumps. With FALSE they have
        /// the registers of its threads and the headers of the programs only.
        core_dump_memory: bool = false, restart, implemented;
        /// Prefix of every message in the log and to syslog.
        log_prefix: Option<String> = None, reload, implemented;
        /// Format of log lines: text, as OpenSM's, or json, one object a line with time, level,
        /// flags, thread, module, message and, of events that OpenSM logs too, a stable event name.
        /// With json, the log also has the events that torus-sm events shows: lines with a number.
        log_format: LogFormat = LogFormat::Text, reload, implemented;
        /// Name of this program in syslog and in the journal; OpenSM's by default, with the
        /// facility user.
        syslog_identity: String = "OpenSM".into(), reload, implemented;
    } };
}
pub(super) use log;

macro_rules! recorder {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Flight recorder";
        /// Size in MB of the MADs and events of the last minutes, which SIGUSR2, a failed sweep
        /// and a panic write to dump_files_dir for torus-sm replay; 0 records nothing. They are
        /// compressed in memory, to about a fifth.
        recorder_size: u32 = 20, reload, implemented, range(0, 65_536);
        /// Age in minutes above which recorded MADs and events are dropped, 1 to 10080.
        recorder_time: u32 = 15, reload, implemented, range(1, 10_080);
        /// Number of recordings to keep in dump_files_dir, 1 to 1000; older ones are removed.
        recorder_files: u32 = 10, reload, implemented, range(1, 1000);
    } };
}
pub(super) use recorder;

macro_rules! safety {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Safety";
        /// Work around defects of certain devices: paths to and from Mellanox's InfiniHost (Tavor)
        /// have an MTU of at most 1024 bytes, unless a query wants more.
        enable_quirks: bool = false, reload, implemented;
        /// Do not request clients to register again (ClientReregister).
        no_clients_rereg: bool = false, reload, implemented;
        /// Disable multicast.
        disable_multicast: bool = false, reload, implemented;
        /// Exit on fatal initialization errors: the link of this port ends at a device with the same
        /// GUIDs, and there is no switch. Other duplicate GUIDs are reported with both paths.
        exit_on_fatal: bool = true, reload, implemented;
    } };
}
pub(super) use safety;

macro_rules! sa_limits {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Permissions and limits of SA clients";
        /// Default of the switches below that are (null): compatible lets clients do what they may
        /// with OpenSM unless only attackers do it; strict requires the SM_Key (sa_key) for
        /// requests on behalf of other ports, and shows no keys.
        sa_trust: SaTrust = SaTrust::Compatible, reload, implemented;
        /// Let clients read all records; FALSE requires the SM_Key for those that hosts do not need
        /// to communicate, as NVIDIA's SA Enhanced Trust Model.
        sa_allow_untrusted_queries: bool = true, reload, implemented;
        /// Let ports join multicast groups of their partitions on behalf of other ports; FALSE
        /// requires the SM_Key (sa_key) for that. (null) is TRUE with sa_trust compatible; with
        /// strict, ports may do so in the groups that they created.
        sa_allow_untrusted_proxy_joins: Option<bool> = None, reload, implemented;
        /// Let ports set and clear alias GUIDs of other ports of their partitions; FALSE requires
        /// the SM_Key (sa_key) for that.
        sa_allow_untrusted_guidinfo: bool = false, reload, implemented;
        /// Require that the source GID of an SA request is a GID of the port with its source LID,
        /// or the request comes from a router; FALSE only rejects GIDs of other ports. (null) is
        /// FALSE with sa_trust compatible.
        sa_check_sgid_spoofing: Option<bool> = None, reload, implemented;
        /// Ignore traps from unknown LIDs, and traps whose producer type is not that of the
        /// device; FALSE ignores traps that their sender cannot know of. (null) is FALSE with
        /// sa_trust compatible.
        sa_check_trap_sender: Option<bool> = None, reload, implemented;
        /// Show a host its M_Key in TrapRepress, as OpenSM does; FALSE shows it to switches only,
        /// so that hosts with an M_Key repeat their traps. (null) is FALSE with sa_trust strict;
        /// with compatible, it is TRUE if m_key_protection_level is 0, where all may read the key.
        m_key_in_trap_repress: Option<bool> = None, reload, implemented;
        /// GUIDs of the ports of other SMs, separated by commas: SMInfo shows the SM_Key to these
        /// only. (null) is all ports with sa_trust compatible, none with strict.
        sm_key_peers: PortGuids = PortGuids::default(), reload, implemented;
        /// Maximum number of services that a port may register, at least 1.
        sa_max_services_per_port: u32 = 1024, reload, implemented, range(1, 65_536);
        /// Maximum number of existing multicast groups that a port may have created, at least 1.
        sa_max_groups_per_port: u32 = 256, reload, implemented, range(1, 16_384);
        /// Maximum number of memberships in multicast groups that a port may ask for, for itself
        /// and for others, at least 1.
        sa_max_memberships_per_port: u32 = 4096, reload, implemented, range(1, 1_048_576);
        /// Maximum number of event subscriptions of a port, at least 1.
        sa_max_subscriptions_per_port: u32 = 256, reload, implemented, range(1, 65_535);
        /// Seconds after which the subscriptions of a queue pair that responds to no report end, 0
        /// or 10 to 604800; 0 keeps them.
        sa_max_subscriber_silence: u32 = 600, reload, implemented, range(10, 604_800).or(&[(0, "never")]);
    } };
}
pub(super) use sa_limits;

macro_rules! management {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Management interface";
        /// Serve status, metrics, events and actions on a Unix socket of this host
        /// (torus-sm-manage(8)). Root and the user of the daemon may read and act.
        management: bool = true, restart, implemented;
        /// Directory of the socket. (null) is torus-sm in $XDG_RUNTIME_DIR, for root without it
        /// /run/torus-sm, else /tmp/torus-sm-UID; the environment variable TORUS_SM_RUNTIME_DIR
        /// replaces that.
        management_dir: Option<String> = None, restart, implemented;
        /// Name or number of a group whose members may read and act, too.
        management_group: Option<String> = None, restart, implemented;
        /// Let all local users read.
        management_read_all: bool = false, restart, implemented;
        /// Path of a file to which events are appended, one line of JSON each, as torus-sm events
        /// prints.
        management_event_log: Option<String> = None, restart, implemented;
        /// Address and port of TCP, such as 127.0.0.1:8080, where browsers and tools
        /// reach the interface, too. Without TLS only loopback addresses are allowed. Without a
        /// token, those who reach it may read, and not act.
        management_tcp: Option<String> = None, restart, implemented;
        /// Path of a file with the token of at least 16 characters that clients of management_tcp
        /// must have; with it they may act, too. Only its owner may read the file.
        management_token_file: Option<String> = None, restart, implemented;
        /// Path of the certificate chain for TLS on management_tcp, in PEM format.
        management_tls_certificate: Option<String> = None, restart, implemented;
        /// Path of the private key of that certificate.
        management_tls_key: Option<String> = None, restart, implemented;
        /// Path of the certificate authorities of clients; each must have a certificate of one of
        /// them, and may act without a token.
        management_tls_client_ca: Option<String> = None, restart, implemented;
    } };
}
pub(super) use management;

macro_rules! replication {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Shared state";
        /// Address and port, such as 10.0.0.1:7471, at which other instances of
        /// torus-sm on this subnet connect; (null) accepts no connections.
        replication_listen: Option<String> = None, restart, implemented;
        /// The other instances of torus-sm on this subnet as HOST:PORT, separated by commas. A
        /// standby gets the state of the master from them, and all compare their configurations.
        /// The name or address must stand in the certificate of the instance.
        replication_peers: Option<String> = None, restart, implemented;
        /// File with the certificate of this instance, followed by intermediate ones, in PEM
        /// format. It is read for each connection.
        replication_cert: Option<String> = None, restart, implemented;
        /// File with the private key of replication_cert in PEM format.
        replication_key: Option<String> = None, restart, implemented;
        /// File with the certificates of the authorities, in PEM format, that issue the
        /// certificates of the other instances. Whoever has such a certificate gets the M_Keys of
        /// the subnet.
        replication_ca: Option<String> = None, restart, implemented;
    } };
}
pub(super) use replication;

macro_rules! console {
    ($then:ident [$($rest:tt)*] $($rows:tt)*) => { $then! { [$($rest)*] $($rows)*
        section "Console";
        /// OpenSM's console: off, local (the terminal), loopback (a TCP port for root and the user
        /// of the daemon on this host) or socket (a TCP port for all hosts, whose clients must send
        /// the token of management_token_file first).
        console: Console = Console::Off, restart, implemented;
        /// TCP port of the consoles loopback and socket, 0 to 65535.
        console_port: u16 = 10_000, restart, implemented;
    } };
}
pub(super) use console;

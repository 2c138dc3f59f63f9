//! The table of the daemon's options: one row each, with OpenSM's spellings.

/// One option.
pub struct Flag {
    /// Long names, the best one first.
    pub long: &'static [&'static str],
    /// Short names, the best one first.
    pub short: &'static [char],
    /// Name of the argument; `None` if there is none.
    pub metavar: Option<&'static str>,
    /// The heading it stands under in the help.
    pub group: &'static str,
    /// Help.
    pub help: &'static str,
    /// What it does.
    pub act: Act,
}

/// What an option does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Sets this key of opensm.conf to the argument.
    Key(&'static str),
    /// The same; the argument is hexadecimal even without 0x.
    HexKey(&'static str),
    /// Sets this key of opensm.conf to this value.
    Set(&'static str, &'static str),
    /// `-g`: as `HexKey`, but 0 asks.
    Guid,
    /// `-F`.
    ConfigFile,
    /// `-c`.
    CreateConfig,
    /// `-o`.
    Once,
    /// `--pidfile`.
    PidFile,
    /// `-v`.
    Verbose,
    /// `-V`.
    VeryVerbose,
    /// `-d`.
    Debug,
    /// `--help`.
    Help,
    /// `--version`.
    Version,
}

macro_rules! flags {
    ($($group:literal {
        $($($long:literal),+ $(; $($short:literal),+)? $(; $metavar:ident)? => $act:expr, $help:literal;)+
    })+) => {
        /// Every option, in the order of the help.
        pub static FLAGS: &[Flag] = &[$($(Flag {
            long: &[$($long),+],
            short: &[$($($short),+)?],
            metavar: metavar!($($metavar)?),
            group: $group,
            help: $help,
            act: $act,
        },)+)+];
    };
}

macro_rules! metavar {
    () => {
        None
    };
    ($name:ident) => {
        Some(stringify!($name))
    };
}

flags! {
    "General" {
        "config"; 'F'; FILE => Act::ConfigFile,
            "configuration file (default /etc/opensm/opensm.conf, if it is there)";
        "create-config"; 'c'; FILE => Act::CreateConfig,
            "write the configuration with all keys and their help to FILE and exit";
        "guid"; 'g'; GUID => Act::Guid,
            "bind to the local port with this GUID; 0 lists the ports to choose from";
        "once"; 'o' => Act::Once, "configure the subnet once and exit; ports stay ACTIVE";
        "daemon"; 'B' => Act::Set("daemon", "TRUE"), "run in the background";
        "pidfile"; FILE => Act::PidFile, "write the process id to FILE, which goes with the process";
        "stay_on_fatal"; 'y' => Act::Set("exit_on_fatal", "FALSE"),
            "go on after fatal faults such as duplicate GUIDs";
        "debug"; 'd'; NUMBER => Act::Debug,
            "0: ignore other SMs, 2: flush the log at every line, 3: no multicast, 5: trace the \
             port; others have no effect";
        "help"; 'h', '?' => Act::Help, "show this help and exit";
        "version" => Act::Version, "show the version and exit";
    }
    "Subnet" {
        "lmc"; 'l'; LMC => Act::Key("lmc"), "give each end port 2^LMC LIDs, 0 to 7";
        "priority"; 'p'; PRIORITY => Act::Key("sm_priority"), "priority of this SM, 0 to 15";
        "smkey"; 'k'; KEY => Act::HexKey("sm_key"), "SM_Key, in hexadecimal";
        "subnet_prefix"; PREFIX => Act::HexKey("subnet_prefix"),
            "subnet prefix, in hexadecimal";
        "sm_sl"; SL => Act::Key("sm_sl"), "service level for talking to the SM, 0 to 15";
        "reassign_lids"; 'r' => Act::Set("reassign_lids", "TRUE"),
            "assign all LIDs anew; disturbs traffic";
        "honor_guid2lid"; 'x' => Act::Set("honor_guid2lid_file", "TRUE"),
            "honour the file guid2lid when becoming master";
        "inactive"; 'I' => Act::Set("sm_inactive", "TRUE"), "start as an inactive SM";
    }
    "Sweeps and MADs" {
        "sweep"; 's'; SECONDS => Act::Key("sweep_interval"),
            "time between two sweeps, 0 for none (default 10)";
        "timeout"; 't'; MILLISECONDS => Act::Key("transaction_timeout"),
            "time to wait for an answer (default 200)";
        "retries"; NUMBER => Act::Key("transaction_retries"),
            "how often an unanswered request is repeated (default 3)";
        "maxsmps"; 'n'; NUMBER => Act::Key("max_wire_smps"),
            "most SMPs in flight, 0 for no limit (default 4)";
    }
    "Routing" {
        "routing_engine"; 'R'; ENGINES => Act::Key("routing_engine"),
            "engines to try in turn, separated by commas; minhop is the last resort unless \
             no_fallback is among them; here: minhop, torus-2QoS";
        "torus_config"; FILE => Act::Key("torus_config"),
            "description of the torus (default /etc/opensm/torus-2QoS.conf)";
        "connect_roots"; 'z' => Act::Set("connect_roots", "TRUE"),
            "connect root switches with each other";
        "ucast_cache"; 'A' => Act::Set("use_ucast_cache", "TRUE"),
            "keep routes while nothing needs new ones";
        "lid_matrix_file"; 'M'; FILE => Act::Key("lid_matrix_dump_file"),
            "dump of hop counts to load";
        "lfts_file"; 'U'; FILE => Act::Key("lfts_file"), "dump of forwarding tables to load";
        "sadb_file"; 'S'; FILE => Act::Key("sa_db_file"), "dump of the SA database to load";
        "root_guid_file"; 'a'; FILE => Act::Key("root_guid_file"), "GUIDs of root switches";
        "cn_guid_file"; 'u'; FILE => Act::Key("cn_guid_file"), "GUIDs of compute nodes";
        "io_guid_file"; 'G'; FILE => Act::Key("io_guid_file"), "GUIDs of I/O nodes";
        "max_reverse_hops"; 'H'; HOPS => Act::Key("max_reverse_hops"),
            "hops in the wrong direction that paths to I/O nodes may take";
        "ids_guid_file"; 'm'; FILE => Act::Key("ids_guid_file"), "IDs that replace GUIDs";
        "guid_routing_order_file"; 'X'; FILE => Act::Key("guid_routing_order_file"),
            "port GUIDs in the order in which they are routed";
        "guid_routing_order_no_scatter" => Act::Set("guid_routing_order_no_scatter", "TRUE"),
            "do not scatter the ports of that file";
        "port-shifting" => Act::Set("port_shifting", "TRUE"), "shift routes among ports";
        "scatter-ports"; SEED => Act::Key("scatter_ports"),
            "choose among equal ports at random; 0 for in turn";
        "ignore_guids"; 'i'; FILE => Act::Key("port_prof_ignore_file"),
            "port GUIDs to leave out of link balancing";
        "hop_weights_file"; 'w'; FILE => Act::Key("hop_weights_file"),
            "hop weights per switch port";
        "port_search_ordering_file", "dimn_ports_file"; 'O'; FILE
            => Act::Key("port_search_ordering_file"), "order in which switch ports are tried";
        "do_mesh_analysis" => Act::Set("do_mesh_analysis", "TRUE"),
            "lash: analyse the mesh first";
        "lash_start_vl"; VL => Act::Key("lash_start_vl"), "lash: first virtual lane";
        "nue_max_num_vls"; NUMBER => Act::Key("nue_max_num_vls"), "nue: most virtual lanes";
    }
    "Quality of service and partitions" {
        "qos"; 'Q' => Act::Set("qos", "TRUE"), "set up SL to VL and VL arbitration tables";
        "qos_policy_file"; 'Y'; FILE => Act::Key("qos_policy_file"),
            "service levels of traffic (default /etc/opensm/qos-policy.conf)";
        "Pconfig"; 'P'; FILE => Act::Key("partition_config_file"),
            "partitions (default /etc/opensm/partitions.conf)";
        "part_enforce"; 'Z'; WHERE => Act::Key("part_enforce"),
            "where switches check P_Keys: both, in, out or off";
        "no_part_enforce"; 'N' => Act::Set("no_partition_enforcement", "TRUE"),
            "deprecated for --part_enforce off";
        "allow_both_pkeys"; 'W' => Act::Set("allow_both_pkeys", "TRUE"),
            "allow full and limited membership in one partition";
        "prefix_routes_file"; FILE => Act::Key("prefix_routes_file"),
            "routers of subnet prefixes (default /etc/opensm/prefix-routes.conf)";
        "consolidate_ipv6_snm_req" => Act::Set("consolidate_ipv6_snm_req", "TRUE"),
            "let IPv6 solicited-node groups share multicast LIDs";
        "congestion_control" => Act::Set("congestion_control", "TRUE"),
            "configure congestion control (experimental)";
        "cc_key"; KEY => Act::Key("cc_key"), "CC_Key to show to devices";
    }
    "Log" {
        "log_file"; 'f'; FILE => Act::Key("log_file"),
            "log file, stdout or stderr (default /var/log/opensm.log)";
        "log_limit"; 'L'; MB => Act::Key("log_max_size"),
            "size at which the log file starts again";
        "erase_log_file"; 'e' => Act::Set("accum_log_file", "FALSE"),
            "empty the log file at start";
        "D"; 'D'; FLAGS => Act::Key("log_flags"),
            "what is logged: 0x01 errors, 0x02 information, 0x04 verbose, 0x08 debug, 0x10 \
             functions, 0x20 frames, 0x40 routing (default 0x03)";
        "verbose"; 'v' => Act::Verbose, "log more; may be repeated";
        "V"; 'V' => Act::VeryVerbose, "log everything, as -D 0xff -d 2";
        "log_prefix"; TEXT => Act::Key("log_prefix"), "prefix of all messages, in the log and to syslog";
        "dump_files_dir"; DIR => Act::Key("dump_files_dir"), "directory for dump files";
    }
    "Operation" {
        "console"; 'q'; WHERE => Act::Key("console"), "console: off, local or loopback";
        "console-port"; 'C'; PORT => Act::Key("console_port"), "TCP port of the console";
        "perfmgr" => Act::Set("perfmgr", "TRUE"), "run the performance manager";
        "perfmgr_sweep_time_s"; SECONDS => Act::Key("perfmgr_sweep_time_s"),
            "time between two rounds of the performance manager";
    }
}

impl Flag {
    /// Its best spelling, for messages.
    pub fn spelling(&self) -> String {
        self.long.first().map(|name| format!("--{name}")).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::{Feature, Options, parse::find};

    #[test]
    fn names_are_unique_and_keys_exist() {
        let mut seen = std::collections::BTreeSet::new();
        for flag in FLAGS {
            for name in flag.long {
                assert!(seen.insert((*name).to_owned()), "{name}");
            }
            for letter in flag.short.iter().filter(|l| !["D", "V"].contains(&&*l.to_string())) {
                assert!(seen.insert(letter.to_string()), "{letter}");
            }
            match flag.act {
                Act::Key(key) | Act::HexKey(key) => {
                    assert!(flag.metavar.is_some(), "{key}");
                    assert!(find(key).is_some(), "{key}");
                }
                Act::Set(key, value) => {
                    assert!(flag.metavar.is_none(), "{key}");
                    let (options, faults) =
                        Options::parse(&format!("{key} {value}"), std::path::Path::new("x"));
                    assert!(faults.is_empty(), "{key} {value}");
                    assert_ne!(options, Options::default(), "{key} {value} changes nothing");
                }
                _ => {}
            }
        }
    }

    #[test]
    fn the_torus_needs_no_feature_of_later() {
        for key in ["routing_engine", "qos", "torus_config", "max_wire_smps", "lmc"] {
            assert_eq!(find(key).map(|key| key.feature), Some(Feature::Ready), "{key}");
        }
    }
}

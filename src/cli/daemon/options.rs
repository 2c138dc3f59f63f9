//! The table of the daemon's options, with OpenSM's spellings.

use super::Override;
use clap::builder::ValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches};

pub(super) struct DaemonOption {
    /// Long names; the first one identifies the option, the others are aliases.
    long: &'static [&'static str],
    /// Short names; the first one is preferred, the others are aliases.
    short: &'static [char],
    /// Name of the value in help and messages; `None` for an option without a value.
    value_name: Option<&'static str>,
    heading: &'static str,
    help: &'static str,
    pub effect: OptionEffect,
}

/// Effect of an option on [`super::DaemonArgs`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OptionEffect {
    /// Sets a key of opensm.conf to the value of the option.
    Key(&'static str),
    /// Sets a key of opensm.conf to the value, which is hexadecimal with or without 0x.
    HexKey(&'static str),
    /// Sets a key of opensm.conf to a fixed value.
    Set(&'static str, &'static str),
    /// Sets the key `guid`; 0 asks on the terminal.
    Guid,
    ConfigFile,
    CreateConfig,
    Force,
    Once,
    DryStart,
    DryStartJson,
    PidFile,
    /// Adds one log flag.
    Verbose,
    /// Sets all log flags and flushes the log after every line.
    VeryVerbose,
    /// Selects a debugging aid by number.
    Debug,
    Help,
    Version,
}

macro_rules! options {
    ($($heading:literal {
        $($($long:literal),+ $(; $($short:literal),+)? $(; $value_name:ident)? => $effect:expr, $help:literal;)+
    })+) => {
        /// Every option, in the order of the help.
        pub(super) static OPTIONS: &[DaemonOption] = &[$($(DaemonOption {
            long: &[$($long),+],
            short: &[$($($short),+)?],
            value_name: value_name!($($value_name)?),
            heading: $heading,
            help: $help,
            effect: $effect,
        },)+)+];
    };
}

macro_rules! value_name {
    () => {
        None
    };
    ($name:ident) => {
        Some(stringify!($name))
    };
}

options! {
    "General" {
        "config"; 'F'; FILE => OptionEffect::ConfigFile,
            "Read the configuration from FILE [default: /etc/opensm/opensm.conf]";
        "create-config"; 'c'; FILE => OptionEffect::CreateConfig,
            "Write all configuration keys with their help and current values to FILE, which must \
             not exist, and exit";
        "force" => OptionEffect::Force, "Replace the FILE of --create-config if it exists";
        "guid"; 'g'; GUID => OptionEffect::Guid,
            "Bind to the local port with this GUID; 0 lists the ports to choose from [default: the \
             first port that is not DOWN, else the first]";
        "once"; 'o' => OptionEffect::Once, "Configure the subnet once and exit; ports stay ACTIVE";
        "dry-start" => OptionEffect::DryStart,
            "Print the Sets that the first sweep would send, send none, and exit: code 0 if none \
             changes what devices hold, 6 if some do";
        "dry-start-json" => OptionEffect::DryStartJson, "Do the same and print JSON";
        "daemon"; 'B' => OptionEffect::Set("daemon", "TRUE"), "Run in the background";
        "pidfile"; FILE => OptionEffect::PidFile,
            "Write the process ID to FILE and remove FILE at exit";
        "stay_on_fatal"; 'y' => OptionEffect::Set("exit_on_fatal", "FALSE"),
            "Continue after fatal initialization errors such as duplicate GUIDs";
        "debug"; 'd'; NUMBER => OptionEffect::Debug,
            "Enable a debugging aid: 0 ignores other SMs, 2 flushes the log after every line, 3 \
             disables multicast, 5 traces the MADs of the port; other numbers have no effect";
        "help"; 'h', '?' => OptionEffect::Help, "Print this help and exit";
        "version" => OptionEffect::Version, "Print the version and exit";
    }
    "Subnet" {
        "lmc"; 'l'; LMC => OptionEffect::Key("lmc"),
            "Assign 2^LMC LIDs to each end port, 0 to 7 [default: 0]";
        "priority"; 'p'; PRIORITY => OptionEffect::Key("sm_priority"),
            "Set the priority of this SM, 0 to 15; the highest becomes master [default: 0]";
        "smkey"; 'k'; KEY => OptionEffect::HexKey("sm_key"),
            "Set the SM_Key, in hexadecimal [default: 1]";
        "subnet_prefix"; PREFIX => OptionEffect::HexKey("subnet_prefix"),
            "Set the subnet prefix, in hexadecimal [default: fe80000000000000]";
        "sm_sl"; SL => OptionEffect::Key("sm_sl"),
            "Set the service level of traffic to the SM and SA, 0 to 15 [default: 0]";
        "reassign_lids"; 'r' => OptionEffect::Set("reassign_lids", "TRUE"),
            "Reassign the LIDs of all ports; disrupts traffic";
        "honor_guid2lid"; 'x' => OptionEffect::Set("honor_guid2lid_file", "TRUE"),
            "Keep the LIDs of the guid2lid file when this SM becomes master";
        "inactive"; 'I' => OptionEffect::Set("sm_inactive", "TRUE"),
            "Start in the NOTACTIVE state";
        "ignore-other-sm" => OptionEffect::Set("ignore_other_sm", "TRUE"),
            "Become master beside other SMs";
    }
    "Sweeps and MADs" {
        "sweep"; 's'; SECONDS => OptionEffect::Key("sweep_interval"),
            "Set the interval between sweeps; 0 sweeps only on traps and signals [default: 10]";
        "timeout"; 't'; MILLISECONDS => OptionEffect::Key("transaction_timeout"),
            "Set the time to wait for a response before a retry [default: 200]";
        "retries"; NUMBER => OptionEffect::Key("transaction_retries"),
            "Set the number of retries of an unanswered request [default: 3]";
        "maxsmps"; 'n'; NUMBER => OptionEffect::Key("max_wire_smps"),
            "Limit the number of SMPs in flight; 0 is no limit [default: 4 to 64, by their round trips]";
    }
    "Routing" {
        "routing_engine"; 'R'; ENGINES => OptionEffect::Key("routing_engine"),
            "Try these engines in order, separated by commas: minhop, updn, dnup, dor, file, \
             ftree, pqft, lash, sssp, dfsssp, nue, torus-2QoS, chain; minhop comes last unless no_fallback is in the list [default: minhop]";
        "torus_config"; FILE => OptionEffect::Key("torus_config"),
            "Read the torus configuration from FILE [default: /etc/opensm/torus-2QoS.conf]";
        "connect_roots"; 'z' => OptionEffect::Set("connect_roots", "TRUE"),
            "updn, dnup, ftree: route between root switches";
        "ucast_cache"; 'A' => OptionEffect::Set("use_ucast_cache", "TRUE"),
            "Keep unicast routes while only hosts and leaf switches go and return";
        "lid_matrix_file"; 'M'; FILE => OptionEffect::Key("lid_matrix_dump_file"),
            "file: load hop counts from the dump FILE";
        "lfts_file"; 'U'; FILE => OptionEffect::Key("lfts_file"),
            "file: load linear forwarding tables from the dump FILE";
        "sadb_file"; 'S'; FILE => OptionEffect::Key("sa_db_file"),
            "Load the SA database from the dump FILE";
        "root_guid_file"; 'a'; FILE => OptionEffect::Key("root_guid_file"),
            "updn, dnup, ftree, pqft: read the GUIDs of root switches from FILE";
        "cn_guid_file"; 'u'; FILE => OptionEffect::Key("cn_guid_file"),
            "ftree, pqft, dfsssp, sssp: read the GUIDs of compute nodes from FILE";
        "io_guid_file"; 'G'; FILE => OptionEffect::Key("io_guid_file"),
            "ftree, dfsssp, sssp: read the GUIDs of I/O nodes from FILE";
        "max_reverse_hops"; 'H'; HOPS => OptionEffect::Key("max_reverse_hops"),
            "ftree: allow this many hops in the wrong direction to I/O nodes [default: 0]";
        "ids_guid_file"; 'm'; FILE => OptionEffect::Key("ids_guid_file"),
            "updn: read the IDs that replace GUIDs from FILE";
        "guid_routing_order_file"; 'X'; FILE => OptionEffect::Key("guid_routing_order_file"),
            "minhop, updn: route ports in the order of the GUIDs in FILE";
        "guid_routing_order_no_scatter" => OptionEffect::Set("guid_routing_order_no_scatter", "TRUE"),
            "Exclude the ports of the routing order file from --scatter-ports";
        "port-shifting" => OptionEffect::Set("port_shifting", "TRUE"),
            "Shift routes among equal ports to break alignments";
        "scatter-ports"; SEED => OptionEffect::Key("scatter_ports"),
            "Choose among equal ports at random with this seed; 0 takes them in turn [default: 0]";
        "ignore_guids"; 'i'; FILE => OptionEffect::Key("port_prof_ignore_file"),
            "Exclude the ports in FILE from link load balancing: lines of switch GUID and port \
             number, or of a port GUID";
        "hop_weights_file"; 'w'; FILE => OptionEffect::Key("hop_weights_file"),
            "Read hop weights of switch ports from FILE";
        "port_search_ordering_file", "dimn_ports_file"; 'O'; FILE
            => OptionEffect::Key("port_search_ordering_file"),
            "Read the search order of switch ports from FILE";
        "do_mesh_analysis" => OptionEffect::Set("do_mesh_analysis", "TRUE"),
            "lash: analyse the mesh before routing";
        "lash_start_vl"; VL => OptionEffect::Key("lash_start_vl"),
            "lash: use virtual lanes from VL up, 0 to 15 [default: 0]";
        "nue_max_num_vls"; NUMBER => OptionEffect::Key("nue_max_num_vls"),
            "nue: limit the number of virtual lanes; 0 uses all that the fabric supports \
             [default: 1]";
    }
    "Quality of service and partitions" {
        "qos"; 'Q' => OptionEffect::Set("qos", "TRUE"),
            "Configure SL to VL mapping and VL arbitration tables";
        "qos_policy_file"; 'Y'; FILE => OptionEffect::Key("qos_policy_file"),
            "Read the QoS policy from FILE [default: /etc/opensm/qos-policy.conf]";
        "Pconfig"; 'P'; FILE => OptionEffect::Key("partition_config_file"),
            "Read partition definitions from FILE [default: /etc/opensm/partitions.conf]";
        "part_enforce"; 'Z'; WHERE => OptionEffect::Key("part_enforce"),
            "Set the packets whose P_Key switches check at their external ports: both, in, out or \
             off [default: both]";
        "no_part_enforce"; 'N' => OptionEffect::Set("no_partition_enforcement", "TRUE"),
            "Deprecated: use --part_enforce off";
        "allow_both_pkeys"; 'W' => OptionEffect::Set("allow_both_pkeys", "TRUE"),
            "Allow full and limited membership of a port in the same partition";
        "prefix_routes_file"; FILE => OptionEffect::Key("prefix_routes_file"),
            "Read the routers of subnet prefixes from FILE [default: \
             /etc/opensm/prefix-routes.conf]";
        "consolidate_ipv6_snm_req" => OptionEffect::Set("consolidate_ipv6_snm_req", "TRUE"),
            "Let IPv6 solicited-node multicast groups share MLIDs";
        "congestion_control" => OptionEffect::Set("congestion_control", "TRUE"),
            "Configure congestion control (experimental)";
        "cc_key"; KEY => OptionEffect::Key("cc_key"),
            "Send this CC_Key in congestion control MADs [default: 0]";
    }
    "Log" {
        "log_file"; 'f'; FILE => OptionEffect::Key("log_file"),
            "Write the log to FILE, stdout or stderr [default: /var/log/opensm.log]";
        "log_limit"; 'L'; MB => OptionEffect::Key("log_max_size"),
            "Truncate the log file when it reaches this size; 0 is no limit [default: 0]";
        "erase_log_file"; 'e' => OptionEffect::Set("accum_log_file", "FALSE"),
            "Truncate the log file at start";
        "D"; 'D'; FLAGS => OptionEffect::Key("log_flags"),
            "Set the log flags: 0x01 errors, 0x02 information, 0x04 verbose, 0x08 debug, 0x10 \
             functions, 0x20 frames, 0x40 routing [default: 0x03]";
        "verbose"; 'v' => OptionEffect::Verbose, "Log one more level; may be repeated";
        "V"; 'V' => OptionEffect::VeryVerbose, "Log everything and flush the log; same as -D 0xff -d 2";
        "log_prefix"; TEXT => OptionEffect::Key("log_prefix"),
            "Prefix every message in the log and to syslog with TEXT";
        "dump_files_dir"; DIR => OptionEffect::Key("dump_files_dir"),
            "Write dump files to DIR [default: $OSM_TMP_DIR, else /var/log]";
    }
    "Operation" {
        "console"; 'q'; WHERE => OptionEffect::Key("console"),
            "Set the console: off, local, loopback or socket [default: off]";
        "console-port"; 'C'; PORT => OptionEffect::Key("console_port"),
            "Set the TCP port of the loopback console [default: 10000]";
        "perfmgr" => OptionEffect::Set("perfmgr", "TRUE"), "Run the performance manager";
        "perfmgr_sweep_time_s"; SECONDS => OptionEffect::Key("perfmgr_sweep_time_s"),
            "Set the interval between counter sweeps of the performance manager [default: 180]";
    }
}

impl DaemonOption {
    fn id(&self) -> &'static str {
        self.long.first().copied().unwrap_or("")
    }

    /// The option as clap's argument. Values are checked against the table of opensm.conf.
    fn to_arg(&self) -> Arg {
        let arg = Arg::new(self.id())
            .long(self.id())
            .visible_aliases(self.long.iter().skip(1))
            .visible_short_aliases(self.short.iter().skip(1).copied())
            .help_heading(self.heading)
            .help(self.help);
        let arg = match self.short.first() {
            Some(&letter) => arg.short(letter),
            None => arg,
        };
        match (self.effect, self.value_name) {
            (OptionEffect::Help, _) => arg.action(ArgAction::Help),
            (OptionEffect::Version, _) => arg.action(ArgAction::Version),
            (effect, Some(name)) => arg
                .action(ArgAction::Append)
                .value_name(name)
                .allow_hyphen_values(true)
                .value_parser(ValueParser::new(move |value: &str| effect.check(value))),
            // The empty value gives each occurrence an index, by which `given` orders the options.
            (_, None) => arg.action(ArgAction::Append).num_args(0).default_missing_value(""),
        }
    }
}

impl OptionEffect {
    /// Returns the value if the option accepts it.
    fn check(self, value: &str) -> Result<String, String> {
        match self {
            Self::Key(key) if super::is_forgiven(key, value) => {}
            Self::Key(key) => Override::new(key, value).map(drop)?,
            Self::HexKey(key) => Override::new(key, &super::hexadecimal(value)).map(drop)?,
            Self::Guid => Override::new("guid", &super::hexadecimal(value)).map(drop)?,
            Self::Debug => crate::config::options::value::number(value).map(drop)?,
            _ => {}
        }
        Ok(value.to_owned())
    }
}

/// Adds the daemon's options to a command.
pub(super) fn augment(command: clap::Command) -> clap::Command {
    command.args(OPTIONS.iter().map(DaemonOption::to_arg))
}

/// Hides the daemon's options, except `--help` and `--version`, from the help of a command.
pub(crate) fn hide(command: clap::Command) -> clap::Command {
    let kept = [OptionEffect::Help, OptionEffect::Version];
    let hidden: Vec<&str> =
        OPTIONS.iter().filter(|option| !kept.contains(&option.effect)).map(|o| o.id()).collect();
    command.mut_args(|arg| {
        let hide = hidden.contains(&arg.get_id().as_str());
        if hide { arg.hide(true) } else { arg }
    })
}

/// The options on the command line with their values, in order of appearance: the effect of `-v`
/// depends on the options before it.
pub(super) fn given(matches: &ArgMatches) -> Vec<(OptionEffect, String)> {
    let mut given = Vec::new();
    for option in OPTIONS {
        if matches.value_source(option.id()) != Some(ValueSource::CommandLine) {
            continue;
        }
        let indices = matches.indices_of(option.id()).into_iter().flatten();
        let values = matches.get_many::<String>(option.id()).into_iter().flatten();
        given.extend(indices.zip(values).map(|(at, value)| (at, option.effect, value.clone())));
    }
    given.sort_by_key(|(at, ..)| *at);
    given.into_iter().map(|(_, effect, value)| (effect, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::{Options, Support, parse::find};

    #[test]
    fn options_refer_to_keys_of_the_right_kind() {
        for option in OPTIONS {
            match option.effect {
                OptionEffect::Key(key) | OptionEffect::HexKey(key) => {
                    assert!(option.value_name.is_some(), "{key}");
                    assert!(find(key).is_some(), "{key}");
                }
                OptionEffect::Set(key, value) => {
                    assert!(option.value_name.is_none(), "{key}");
                    let (options, diagnostics) =
                        Options::parse(&format!("{key} {value}"), std::path::Path::new("x"));
                    assert!(diagnostics.is_empty(), "{key} {value}");
                    assert_ne!(options, Options::default(), "{key} {value} changes nothing");
                }
                _ => {}
            }
        }
    }

    #[test]
    fn keys_for_a_torus_are_ready() {
        for key in ["routing_engine", "qos", "torus_config", "max_wire_smps", "lmc"] {
            assert_eq!(find(key).map(|key| key.support), Some(Support::Implemented), "{key}");
        }
    }
}

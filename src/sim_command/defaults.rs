//! Default options of the simulation.
//!
//! A generated torus is routed by torus-2QoS with QoS, with a torus-2QoS.conf in the scratch
//! directory; another generated fabric by the engine that suits it, and a fabric from a file by minhop.
//! The files of this machine's subnet, in /etc/opensm and /var, do not belong to the simulated one:
//! only those that the command line names are read and written.

use super::requested_fabric::RequestedFabric;
use super::scratch::ScratchDirectory;
use crate::cli::{CommandFailure, DaemonArgs, ExitCode, SimArgs};
use crate::config::options::{Options, engine_names};
use crate::daemon::process::logging::{LogConfig, flags};
use crate::daemon::sm_loop::files::StateFiles;
use crate::plan::routing::torus;
use std::fs;
use std::path::PathBuf;

/// The page of the simulation, on a free port of this host.
const MANAGEMENT_TCP: &str = "127.0.0.1:0";

/// Environment variable with the directory of dump files, as of OpenSM.
const DUMP_VARIABLE: &str = "OSM_TMP_DIR";

/// VL arbitration for torus-2QoS: equal weights of VLs 0 to 7 between switches, and of VLs 0 and 1
/// at hosts.
const TORUS_2QOS_VL_ARBITRATION: [(&str, &str); 5] = [
    ("qos_vlarb_high", "0:0"),
    ("qos_vlarb_low", "0:64,1:64"),
    ("qos_swe_vlarb_low", "0:64,1:64,2:64,3:64,4:64,5:64,6:64,7:64"),
    ("qos_max_vls", "8"),
    ("qos_high_limit", "0"),
];

/// Options of the command line, with the defaults of the simulation.
pub(super) fn daemon_args(
    args: &SimArgs,
    fabric: &RequestedFabric,
    scratch: &ScratchDirectory,
) -> Result<DaemonArgs, CommandFailure> {
    let mut daemon = args.daemon.clone();
    let conf = scratch.path().join("torus-2QoS.conf");
    let conf_name = conf.display().to_string();
    let scratch_name = scratch.path().display().to_string();
    let mut defaults = vec![
        ("management_tcp", MANAGEMENT_TCP),
        ("node_name_map_name", "/dev/null"),
        ("per_module_logging_file", "(null)"),
        ("partition_config_file", "(null)"),
        ("qos_policy_file", "(null)"),
        ("prefix_routes_file", "(null)"),
        ("torus_config", conf_name.as_str()),
    ];
    if std::env::var_os(DUMP_VARIABLE).is_none() {
        defaults.push(("dump_files_dir", scratch_name.as_str()));
    }
    if daemon.given("log_file").is_none() {
        defaults.extend([("log_file", "stderr"), ("log_flags", "0x01")]);
    }
    if let Some(text) = fabric.torus_conf(&daemon) {
        fs::write(&conf, text).map_err(|error| {
            CommandFailure::new(ExitCode::System, format!("{conf_name}: {error}"))
        })?;
    }
    if fabric.is_generated_torus() {
        let engines = daemon.given("routing_engine").unwrap_or(torus::NAME);
        if engine_names(engines).any(|name| name == torus::NAME) {
            defaults.push(("qos", "TRUE"));
            defaults.extend(TORUS_2QOS_VL_ARBITRATION);
        }
    }
    if let Some(engine) = fabric.default_engine {
        if daemon.given("routing_engine").is_none() && !fabric.is_generated_torus() {
            defaults.push(("qos", "TRUE"));
        }
        defaults.push(("routing_engine", engine));
    }
    daemon.set_defaults(&defaults).map_err(|text| CommandFailure::new(ExitCode::System, text))?;
    Ok(daemon)
}

/// Log configuration. Major events are not logged to standard error, because standard output has
/// them.
pub(super) fn log_config(options: &Options) -> LogConfig {
    let config = LogConfig::from(options);
    let errors_to_stderr = options.log_file == "stderr" && config.flags == flags::ERROR;
    let major_events = if errors_to_stderr { 0 } else { flags::SYS };
    LogConfig { flags: config.flags | major_events, announce: false, ..config }
}

/// Files of the daemon; the LID cache exists only if `$OSM_CACHE_DIR` names its directory.
pub(super) fn state_files(options: &Options) -> StateFiles {
    let cache_dir = std::env::var_os("OSM_CACHE_DIR").map(PathBuf::from);
    StateFiles { cache_dir, ..StateFiles::from_environment(options) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{self, Command};
    use crate::config::options::TABLE;
    use std::path::Path;

    #[test]
    fn no_file_of_this_machine_belongs_to_the_simulation() {
        for shape in ["sim 3x3", "sim random:8x12"] {
            let Ok(Command::Sim(args)) = cli::parse(shape.split(' ')) else { panic!("{shape}") };
            let fabric = RequestedFabric::from_args(&args).expect("a fabric");
            let scratch = ScratchDirectory::new().expect("a folder");
            let options = daemon_args(&args, &fabric, &scratch).expect("valid").defaults();
            for key in TABLE {
                let value = key.text(&options);
                let is_foreign = value.starts_with("/etc") || value.starts_with("/var");
                assert!(!is_foreign, "{} {value}", key.name);
            }
            // The torus-2QoS.conf is there if the shape has one.
            assert_eq!(Path::new(&options.torus_config).exists(), fabric.is_generated_torus());
        }
    }
}

//! Default options of the simulation.
//!
//! A generated torus is routed by torus-2QoS with QoS, with a torus-2QoS.conf in a scratch
//! directory; another generated fabric by the engine that suits it, and a fabric from a file by minhop.

use super::requested_fabric::RequestedFabric;
use crate::cli::{DaemonArgs, ExitCode, Failure, SimArgs};
use crate::config::options::Options;
use crate::daemon::process::logging::{LogConfig, flags};
use crate::daemon::sm_loop::files::StateFiles;
use std::fs;
use std::path::{Path, PathBuf};

/// The page of the simulation, on a free port of this host.
const MANAGEMENT_TCP: &str = "127.0.0.1:0";

const TORUS_2QOS: &str = "torus-2QoS";

/// VL arbitration for torus-2QoS: equal weights of VLs 0 to 7 between switches, and of VLs 0 and 1
/// at hosts.
const TORUS_2QOS_VL_ARBITRATION: [(&str, &str); 5] = [
    ("qos_vlarb_high", "0:0"),
    ("qos_vlarb_low", "0:64,1:64"),
    ("qos_swe_vlarb_low", "0:64,1:64,2:64,3:64,4:64,5:64,6:64,7:64"),
    ("qos_max_vls", "8"),
    ("qos_high_limit", "0"),
];

/// A private temporary directory; dropping it removes the directory.
pub(super) struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    pub(super) fn new() -> Result<Self, Failure> {
        let template = std::env::temp_dir().join("torus-sm-sim-XXXXXX");
        nix::unistd::mkdtemp(&template).map(Self).map_err(|error| {
            Failure::new(ExitCode::System, format!("{}: {error}", template.display()))
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // Errors are ignored: the directory for temporary files is cleaned up by the system.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Options of the command line, with the defaults of the simulation.
pub(super) fn daemon_args(
    args: &SimArgs,
    fabric: &RequestedFabric,
    scratch: &ScratchDirectory,
) -> Result<DaemonArgs, Failure> {
    let mut daemon = args.daemon.clone();
    let conf = scratch.path().join("torus-2QoS.conf");
    let conf_name = conf.display().to_string();
    // The names of this machine's node name map do not belong to the simulated nodes.
    let mut defaults = vec![
        ("management_tcp", MANAGEMENT_TCP),
        ("node_name_map_name", "/dev/null"),
        ("per_module_logging_file", "(null)"),
    ];
    if daemon.given("log_file").is_none() {
        defaults.extend([("log_file", "stderr"), ("log_flags", "0x01")]);
    }
    if let Some(text) = &fabric.torus_conf {
        fs::write(&conf, text)
            .map_err(|error| Failure::new(ExitCode::System, format!("{conf_name}: {error}")))?;
        defaults.push(("torus_config", conf_name.as_str()));
        let engines = daemon.given("routing_engine").unwrap_or(TORUS_2QOS);
        if engines.contains(TORUS_2QOS) {
            defaults.push(("qos", "TRUE"));
            defaults.extend(TORUS_2QOS_VL_ARBITRATION);
        }
    }
    if let Some(engine) = fabric.default_engine {
        if daemon.given("routing_engine").is_none() && fabric.torus_conf.is_none() {
            defaults.push(("qos", "TRUE"));
        }
        defaults.push(("routing_engine", engine));
    }
    daemon.set_defaults(&defaults).map_err(|text| Failure::new(ExitCode::System, text))?;
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

//! The files that a pass reads and writes: torus-2QoS.conf, guid2lid, dumps.

use crate::cli::configuration;
use crate::config::files;
use crate::config::guid2lid;
use crate::config::options::Options;
use crate::config::torus::TorusConfig;
use crate::fabric::Fabric;
use crate::notes::Note;
use crate::plan::Plan;
use crate::plan::lids::Memory;
use crate::plan::routing::Dump;
use crate::plan::routing::chain::Chain;
use crate::plan::routing::torus::{self, Torus};
use crate::publish::Subnet;
use crate::publish::{
    atomic_file::{self, FileWriteError},
    dumps,
};
use std::fs;
use std::path::PathBuf;
use tracing::{debug, info, warn};

/// The log flag that asks for dump files (`-D 0x40`).
pub const LOG_ROUTING: u8 = 0x40;

/// Where files are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateFiles {
    /// OSM_CACHE_DIR: guid2lid; `None` keeps nothing.
    pub cache_dir: Option<PathBuf>,
    /// OSM_TMP_DIR or `dump_files_dir`: dumps.
    pub dump_dir: PathBuf,
}

impl StateFiles {
    /// torus-2QoS.conf, read anew for each pass; what is wrong with it is for the engine to say.
    pub fn read_torus_config(&self, options: &Options) -> Result<TorusConfig, Vec<Note>> {
        files::torus_config(options)
    }

    /// The routing engines in the order of `routing_engine`, with the files that tune them.
    ///
    /// # Errors
    /// A name that is no engine's.
    pub fn chain(&self, options: &Options) -> Result<Chain, String> {
        let (lists, notes) = files::guid_lists(options);
        notes.iter().for_each(|note| warn!("{note}"));
        configuration::chain(options, lists)
    }

    fn guid2lid(&self) -> Option<PathBuf> {
        self.cache_dir.as_ref().map(|dir| dir.join("guid2lid"))
    }

    /// The LIDs given by an earlier run. A missing file is none; bad lines are told and dropped.
    pub fn read_memory(&self, options: &Options) -> Memory {
        let Some(path) = self.guid2lid() else { return Memory::default() };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Memory::default(),
            Err(error) => {
                warn!("{}: {error}", path.display());
                return Memory::default();
            }
        };
        let (guid2lid, diagnostics) = guid2lid::parse(&path, &text, options.lmc);
        for diagnostic in diagnostics {
            warn!("{diagnostic}");
        }
        info!("{}: {} ports have LIDs already", path.display(), guid2lid.len());
        Memory::new(guid2lid)
    }

    /// Writes guid2lid if it changed.
    pub fn write_memory(&self, memory: &Memory, options: &Options) {
        let Some(path) = self.guid2lid() else { return };
        let text = guid2lid::emit(&memory.guid2lid);
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return;
        }
        if let Err(error) = atomic_file::replace(&path, &text, options.fsync_high_avail_files) {
            warn!("{error}");
        }
    }

    /// Writes the dump files: the topology, and the routes too if the log flags ask for them.
    pub fn write_dumps(&self, subnet: &Subnet) {
        let (fabric, plan) = (&subnet.fabric, &subnet.plan);
        let mut written = dumps::write_subnet(&self.dump_dir, fabric, plan);
        if subnet.options.log_flags & LOG_ROUTING != 0 {
            written = written.and(self.write_routing(fabric, plan));
            let refusals = plan.routing.routing_errors.iter();
            let of_others: Vec<Dump> = refusals.filter_map(|other| other.dump.clone()).collect();
            self.write_engine_dumps(&of_others, &subnet.options);
        }
        match written {
            Ok(()) => debug!("dump files are in {}", self.dump_dir.display()),
            Err(problem) => warn!("{problem}"),
        }
    }

    /// Writes the dump files of engines that refused, if the log flags ask for routes.
    pub fn write_engine_dumps(&self, dumps: &[Dump], options: &Options) {
        if options.log_flags & LOG_ROUTING == 0 {
            return;
        }
        for Dump { file, text } in dumps {
            if let Err(problem) = atomic_file::replace(&self.dump_dir.join(file), text, false) {
                warn!("{problem}");
            }
        }
    }

    fn write_routing(&self, fabric: &Fabric, plan: &Plan) -> Result<(), FileWriteError> {
        let path_sls = dumps::path_sl_count(fabric, plan);
        if path_sls > dumps::MAX_PATH_SLS {
            let most = dumps::MAX_PATH_SLS;
            info!("opensm.psl is not written: {path_sls} lines, and at most {most} are");
        }
        let written = dumps::write_routing(&self.dump_dir, fabric, plan);
        info!("routes are dumped to {}", self.dump_dir.display());
        let Some(torus) = plan.routing.policy.as_any().downcast_ref::<Torus>() else {
            return written;
        };
        let file = self.dump_dir.join(torus::DUMP_FILE);
        written.and(atomic_file::replace(&file, &torus.dump(fabric), false))
    }
}

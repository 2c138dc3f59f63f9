//! Files that a reconfiguration reads and writes: torus-2QoS.conf, guid2lid, dumps.

use crate::cli::configuration;
use crate::config::files;
use crate::config::guid2lid;
use crate::config::options::Options;
use crate::config::torus::TorusConfig;
use crate::fabric::Fabric;
use crate::notes::{Note, counted};
use crate::plan::Plan;
use crate::plan::lids::Memory;
use crate::plan::routing::Dump;
use crate::plan::routing::chain::Chain;
use crate::publish::Subnet;
use crate::publish::{
    atomic_file::{self, FileWriteError},
    dumps,
};
use std::fs;
use std::path::PathBuf;
use tracing::{debug, info, warn};

/// The log flag that enables dumps of routes (`-D 0x40`).
pub const LOG_ROUTING: u8 = 0x40;

/// The directories of these files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateFiles {
    /// OSM_CACHE_DIR, for guid2lid; `None` does not store LIDs.
    pub cache_dir: Option<PathBuf>,
    /// OSM_TMP_DIR or `dump_files_dir`, for dumps.
    pub dump_dir: PathBuf,
}

impl StateFiles {
    /// Reads torus-2QoS.conf. The torus-2QoS engine reports its errors.
    pub fn read_torus_config(&self, options: &Options) -> Result<TorusConfig, Vec<Note>> {
        files::torus_config(options)
    }

    /// The routing engines in the order of `routing_engine`, with the GUID lists that they use.
    ///
    /// # Errors
    /// An unknown engine name.
    pub fn chain(&self, options: &Options) -> Result<Chain, String> {
        let (lists, notes) = files::guid_lists(options);
        notes.iter().for_each(|note| warn!("{note}"));
        configuration::chain(options, lists)
    }

    fn guid2lid(&self) -> Option<PathBuf> {
        self.cache_dir.as_ref().map(|dir| dir.join("guid2lid"))
    }

    /// The LIDs of an earlier run, from guid2lid. Invalid lines are logged and ignored.
    pub fn read_memory(&self, options: &Options) -> Memory {
        let Some(path) = self.guid2lid() else { return Memory::default() };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Memory::default(),
            Err(error) => {
                warn!(
                    "cannot read {}: {error}; hosts and switches may get other LIDs than before",
                    path.display()
                );
                return Memory::default();
            }
        };
        let (guid2lid, diagnostics) = guid2lid::parse(&path, &text, options.lmc);
        for diagnostic in diagnostics {
            warn!("{diagnostic}");
        }
        let ports = counted(guid2lid.len(), "port has", "ports have");
        info!("{}: {ports} a stored LID", path.display());
        Memory::new(guid2lid)
    }

    /// Writes guid2lid if its contents changed.
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

    /// Writes the dump files of the topology, and with [`LOG_ROUTING`] those of the routes.
    pub fn write_dumps(&self, subnet: &Subnet) {
        let (fabric, plan) = (&subnet.fabric, &subnet.plan);
        let mut written = dumps::write_subnet(&self.dump_dir, fabric, plan);
        if subnet.options.log_flags & LOG_ROUTING != 0 {
            written = written.and(self.write_routing(fabric, plan));
            let errors = plan.routing.routing_errors.iter();
            let dumps: Vec<Dump> = errors.filter_map(|error| error.dump.clone()).collect();
            self.write_engine_dumps(&dumps, &subnet.options);
        }
        match written {
            Ok(()) => debug!("wrote dump files to {}", self.dump_dir.display()),
            Err(problem) => warn!("{problem}"),
        }
    }

    /// With [`LOG_ROUTING`], writes the dump files of engines that could not route the fabric.
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
            let max = dumps::MAX_PATH_SLS;
            info!("opensm.psl is not written: {path_sls} lines exceed the maximum of {max}");
        }
        let written = dumps::write_routing(&self.dump_dir, fabric, plan);
        info!("wrote routes to {}", self.dump_dir.display());
        let dumps = plan.routing.policy.dumps(fabric, &plan.lids).into_iter();
        dumps.fold(written, |written, Dump { file, text }| {
            written.and(atomic_file::replace(&self.dump_dir.join(file), &text, false))
        })
    }
}

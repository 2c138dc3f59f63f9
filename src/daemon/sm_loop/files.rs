//! Files that a reconfiguration reads and writes: guid2lid, guid2mkey, neighbors, dumps.

use crate::config::Diagnostic;
use crate::config::guid2lid;
use crate::config::guid2mkey::{self, Guid2MKey};
use crate::config::neighbors::{self, Neighbors};
use crate::config::options::Options;
use crate::fabric::Fabric;
use crate::manage::earlier_ports::EarlierPorts;
use crate::notes::counted;
use crate::observe::m_keys::MKeys;
use crate::plan::Plan;
use crate::plan::lids::Memory;
use crate::plan::routing::Dump;
use crate::publish::Subnet;
use crate::publish::{
    atomic_file::{self, FileWriteError},
    dump_file::{self, StopWriting},
    dumps,
};
use crate::replication::protocol::Files;
use std::fs;
use std::path::{Path, PathBuf};
use tracing::{debug, info, warn};

/// The log flag that enables dumps of routes (`-D 0x40`).
pub const LOG_ROUTING: u8 = 0x40;

const GUID2LID: &str = "guid2lid";
const GUID2MKEY: &str = "guid2mkey";
const NEIGHBORS: &str = "neighbors";
const INCIDENTS: &str = "torus-sm.incidents";

/// A function of [`atomic_file`].
type Replace = fn(&Path, &str, bool) -> Result<(), FileWriteError>;

/// The directories of these files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateFiles {
    /// OSM_CACHE_DIR, for guid2lid, guid2mkey and neighbors; `None` does not store them.
    pub cache_dir: Option<PathBuf>,
    /// OSM_TMP_DIR or `dump_files_dir`, for dumps.
    pub dump_dir: PathBuf,
}

impl StateFiles {
    /// The LIDs of an earlier run, from guid2lid. Invalid lines are logged and ignored.
    pub fn read_memory(&self, options: &Options) -> Memory {
        let Some((path, text)) =
            self.read(GUID2LID, "hosts and switches may get other LIDs than before")
        else {
            return Memory::default();
        };
        let (guid2lid, diagnostics) = guid2lid::parse(&path, &text, options.lmc);
        warn_about(&diagnostics);
        let ports = counted(guid2lid.len(), "port has", "ports have");
        info!("{}: {ports} a stored LID", path.display());
        Memory::new(guid2lid)
    }

    /// The ports in guid2lid and neighbors, whose invalid lines are logged by [`Self::read_memory`] and
    /// [`Self::read_m_keys`].
    pub fn earlier_ports(&self, options: &Options) -> EarlierPorts {
        let consequence = "ports of the earlier run that are missing cannot be described";
        let mut ports = EarlierPorts::default();
        if let Some((path, text)) = self.read(GUID2LID, consequence) {
            ports.lids = guid2lid::parse(&path, &text, options.lmc).0;
        }
        if let Some((path, text)) = self.read(NEIGHBORS, consequence) {
            ports.cables = neighbors::parse(&path, &text).0;
        }
        ports
    }

    /// Writes guid2lid if its contents changed.
    ///
    /// # Errors
    /// The file cannot be written; it has its old contents.
    pub fn write_memory(&self, memory: &Memory, options: &Options) -> Result<(), FileWriteError> {
        self.write(GUID2LID, &guid2lid::emit(&memory.guid2lid), options, atomic_file::replace)
    }

    /// The M_Keys and cables of an earlier run, from guid2mkey and neighbors. Invalid lines are
    /// logged and ignored.
    pub fn read_m_keys(&self, options: &Options) -> MKeys {
        let consequence = "ports that are protected by an unknown M_Key cannot be configured";
        let mut held = Guid2MKey::new();
        let mut cables = Neighbors::new();
        if let Some((path, text)) = self.read(GUID2MKEY, consequence) {
            let (keys, diagnostics) = guid2mkey::parse(&path, &text);
            warn_about(&diagnostics);
            let count = keys.values().filter(|key| key.is_set()).count();
            let ports = counted(count, "port has", "ports have");
            info!("{}: {ports} a stored M_Key", path.display());
            held = keys;
        }
        if let Some((path, text)) = self.read(NEIGHBORS, consequence) {
            let (neighbors, diagnostics) = neighbors::parse(&path, &text);
            warn_about(&diagnostics);
            info!("{}: {}", path.display(), counted(neighbors.len() / 2, "cable", "cables"));
            cables = neighbors;
        }
        MKeys::new(options, held, cables)
    }

    /// Writes guid2mkey and neighbors if their contents changed. With the keys go ports of `fabric`
    /// that have none.
    ///
    /// # Errors
    /// A file cannot be written; it has its old contents.
    pub fn write_m_keys(
        &self,
        keys: &MKeys,
        fabric: Option<&Fabric>,
        options: &Options,
    ) -> Result<(), FileWriteError> {
        if self.cache_dir.is_none() {
            return Ok(());
        }
        let held = guid2mkey::emit(&keys.stored_keys(fabric));
        let written = self.write(GUID2MKEY, &held, options, atomic_file::replace_private);
        let cables = neighbors::emit(keys.stored_neighbors());
        written.and(self.write(NEIGHBORS, &cables, options, atomic_file::replace))
    }

    /// Writes the files of the SM that this one stands by for.
    ///
    /// # Errors
    /// A file cannot be written; it has its old contents.
    pub fn store_received(&self, files: &Files, sync: bool) -> Result<(), FileWriteError> {
        let options = Options { fsync_high_avail_files: sync, ..Options::default() };
        let public = atomic_file::replace as Replace;
        let lids = self.write(GUID2LID, &files.guid2lid, &options, public);
        let keys = self.write(GUID2MKEY, &files.guid2mkey, &options, atomic_file::replace_private);
        lids.and(keys).and(self.write(NEIGHBORS, &files.neighbors, &options, public))
    }

    /// The incidents of an earlier run; `None` without the file.
    pub fn read_incidents(&self) -> Option<String> {
        let consequence = "the incidents of the earlier run are not known";
        self.read(INCIDENTS, consequence).map(|(_, text)| text)
    }

    /// Writes the incidents if they changed.
    ///
    /// # Errors
    /// The file cannot be written; it has its old contents.
    pub fn write_incidents(&self, text: &str) -> Result<(), FileWriteError> {
        self.write(INCIDENTS, text, &Options::default(), atomic_file::replace)
    }

    /// The path and text of a file in OSM_CACHE_DIR; `None` if it cannot be read. `consequence`
    /// completes the warning.
    fn read(&self, name: &str, consequence: &str) -> Option<(PathBuf, String)> {
        let path = self.cache_dir.as_ref()?.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Some((path, text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => {
                warn!("cannot read {}: {error}; {consequence}", path.display());
                None
            }
        }
    }

    /// Replaces a file in OSM_CACHE_DIR if its contents changed.
    fn write(
        &self,
        name: &str,
        text: &str,
        options: &Options,
        replace: Replace,
    ) -> Result<(), FileWriteError> {
        let Some(path) = self.cache_dir.as_ref().map(|dir| dir.join(name)) else { return Ok(()) };
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        // A folder that cannot be created is reported with the file.
        let _ = path.parent().map(fs::create_dir_all);
        replace(&path, text, options.fsync_high_avail_files)
    }

    /// Writes the dump files of the topology and those that the engine always has, and with
    /// [`LOG_ROUTING`] those of the routes.
    ///
    /// # Errors
    /// A file cannot be written, or `stop` was requested; it has its old contents.
    pub fn write_dumps(&self, subnet: &Subnet, stop: &StopWriting) -> Result<(), FileWriteError> {
        let Subnet { fabric, plan, .. } = subnet;
        let mut written = dumps::write_subnet(&self.dump_dir, fabric, plan);
        if subnet.options.log_flags & LOG_ROUTING != 0 {
            written = written.and(self.write_routing(fabric, plan, stop));
            let errors = plan.routing.routing_errors.iter();
            let dumps: Vec<Dump> = errors.filter_map(|error| error.dump.clone()).collect();
            written = written.and(self.write_engine_dumps(&dumps, &subnet.options));
        } else {
            written = written.and(self.replace_dumps(&plan.routing.policy.standing_dumps()));
        }
        written.inspect(|()| debug!("wrote dump files to {}", self.dump_dir.display()))
    }

    /// With [`LOG_ROUTING`], writes the dump files of engines that could not route the fabric.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_engine_dumps(
        &self,
        dumps: &[Dump],
        options: &Options,
    ) -> Result<(), FileWriteError> {
        if options.log_flags & LOG_ROUTING != 0 { self.replace_dumps(dumps) } else { Ok(()) }
    }

    fn replace_dumps(&self, dumps: &[Dump]) -> Result<(), FileWriteError> {
        let mut dumps = dumps.iter();
        dumps.try_for_each(|dump| dump_file::write(&self.dump_dir.join(&*dump.file), &dump.text))
    }

    fn write_routing(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        stop: &StopWriting,
    ) -> Result<(), FileWriteError> {
        let path_sls = dumps::path_sl_count(fabric, plan);
        if path_sls > dumps::MAX_PATH_SLS {
            let max = dumps::MAX_PATH_SLS;
            info!("opensm.psl is not written: {path_sls} lines exceed the maximum of {max}");
        }
        let written = dumps::write_routing(&self.dump_dir, fabric, plan, stop);
        if written.is_ok() {
            info!("wrote routes to {}", self.dump_dir.display());
        }
        let dumps = plan.routing.policy.dumps(fabric, &plan.lids).into_iter();
        dumps.fold(written, |written, Dump { file, text }| {
            written.and(dump_file::write(&self.dump_dir.join(&*file), &text))
        })
    }
}

fn warn_about(diagnostics: &[Diagnostic]) {
    diagnostics.iter().for_each(|diagnostic| warn!("{diagnostic}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn state_files_that_cannot_be_read_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let writer = Arc::new(fs::File::create(&log).expect("a file"));
        let subscriber = tracing_subscriber::fmt().with_writer(writer).finish();
        let dump_dir = folder.path().to_owned();
        let files = StateFiles { cache_dir: Some(dump_dir.clone()), dump_dir };
        tracing::subscriber::with_default(subscriber, || {
            let none = EarlierPorts::default();
            assert_eq!(files.earlier_ports(&Options::default()), none, "there are no files");
            // Unlike a file without permissions, root cannot read a folder as a file either.
            for name in [GUID2LID, NEIGHBORS] {
                fs::create_dir(folder.path().join(name)).expect("a folder");
            }
            assert_eq!(files.earlier_ports(&Options::default()), none);
        });
        let text = fs::read_to_string(&log).expect("a log");
        assert_eq!(text.lines().count(), 2, "{text}");
        for name in [GUID2LID, NEIGHBORS] {
            let path = folder.path().join(name).display().to_string();
            assert!(text.contains(&format!("cannot read {path}: ")), "{text}");
        }
    }
}

//! All files that opensm.conf names, as read at one time.
//!
//! A daemon reads them at its start, on SIGHUP, and before a heavy sweep if their contents changed.
//! At the start, a file with errors has the effect that it has in OpenSM. Afterwards a file that
//! has become worse must not change a running fabric: [`ConfigFiles::regressions`] lists the
//! errors for which the files in force stay.

use super::enhanced_qos::{self, EnhancedQos};
use super::files::{self, ConfigTexts, RoutingFiles, TextSource};
use super::log_modules::ModuleFlags;
use super::node_name_map::{self, NamedNode};
use super::options::{Options, engine_names};
use super::partitions::PartitionsConfig;
use super::prefix_routes::PrefixRoute;
use super::qos_policy::QosPolicy;
use super::routing_chain;
use super::text_file::{ReadError, decode, read_bytes};
use super::torus::{self, TorusConfig};
use crate::notes::{Note, Severity};
use sha2::{Digest as _, Sha256};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// The contents of the files, and the findings about them.
#[derive(Clone, Debug)]
pub struct ConfigFiles {
    pub partitions: Arc<PartitionsConfig>,
    /// The error for which partitions.conf is not used. A daemon does not start with it.
    pub partitions_error: Option<String>,
    /// `None` without QoS, without the file, or if it is invalid.
    pub qos_policy: Option<Arc<QosPolicy>>,
    /// Rate limits; `None` without them, or if their file is invalid.
    pub enhanced_qos: Option<Arc<EnhancedQos>>,
    /// torus-2QoS.conf, or the errors in it, which the engine reports.
    pub torus_config: Arc<Result<TorusConfig, Vec<Note>>>,
    pub routing: RoutingFiles,
    pub prefix_routes: Vec<PrefixRoute>,
    pub node_names: Vec<NamedNode>,
    pub module_flags: Vec<ModuleFlags>,
    pub findings: FileFindings,
    pub sources: FileSources,
}

/// Findings about the files.
#[derive(Clone, Debug, Default)]
pub struct FileFindings {
    /// To be logged when the files take effect. The engines report those about torus-2QoS.conf and routing
    /// chains.
    pub notes: Vec<Note>,
    /// Every error, each with file, line and column.
    errors: Vec<String>,
}

impl FileFindings {
    fn add(&mut self, found: Vec<Note>) {
        self.errors.extend(texts_of_errors(&found));
        self.notes.extend(found);
    }

    /// Adds errors in lines that are skipped.
    fn add_skipped_lines(&mut self, found: Vec<Note>) {
        self.errors.extend(found.iter().map(ToString::to_string));
        self.notes.extend(found);
    }

    /// The policy of a file; `None` without the file, or if it has errors, which are one here.
    fn policy<T>(&mut self, read: Result<(Option<T>, Vec<Note>), Vec<Note>>) -> Option<T> {
        match read {
            Ok((policy, found)) => {
                self.add(found);
                policy
            }
            Err(found) => {
                // The last note is the consequence at the start; a reload has another one.
                let wrong = &found[..found.len().saturating_sub(1).max(1).min(found.len())];
                self.errors.push(texts_of_errors(wrong).join("\n"));
                self.notes.extend(found);
                None
            }
        }
    }
}

/// The files as they were read.
#[derive(Clone, Debug, Default)]
pub struct FileSources {
    /// The texts of the files that plans depend on, apart from torus-2QoS.conf.
    pub texts: Arc<ConfigTexts>,
    pub versions: Vec<FileVersion>,
}

/// A file as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileVersion {
    /// The key of opensm.conf that names the file; for a file that a routing chain names, that of
    /// the chain.
    pub option: &'static str,
    pub path: PathBuf,
    /// Time of the last modification; `None` if there is no such file.
    pub modified: Option<SystemTime>,
    /// SHA-256 of the contents in hexadecimal digits; `None` if the file could not be read.
    pub sha256: Option<String>,
    /// Without the file its contents count as empty.
    is_optional: bool,
}

impl FileVersion {
    /// The present version of the file of `option`.
    pub fn read(option: &'static str, path: &Path) -> Self {
        Self::of(option, path, read_bytes(path).ok().as_deref())
    }

    fn of(option: &'static str, path: &Path, bytes: Option<&[u8]>) -> Self {
        let modified = std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        let sha256 = bytes.map(|bytes| hexadecimal(&Sha256::digest(bytes)));
        Self { option, path: path.to_owned(), modified, sha256, is_optional: false }
    }

    /// True if the file on disk has other contents, or appeared or vanished since.
    pub fn has_changed(&self) -> bool {
        Self::read(self.option, &self.path).sha256 != self.sha256
    }
}

impl ConfigFiles {
    /// Reads the files that `options` name. Each is read once.
    pub fn read(options: &Options) -> Self {
        let plan_files = KeptFiles::default();
        let other_files = KeptFiles::default();
        let mut files = Self::from_sources(&plan_files, &other_files, options);
        files.sources.versions = versions(options, &plan_files, &other_files);
        files.sources.texts = Arc::new(ConfigTexts(plan_files.into_texts()));
        files
    }

    fn from_sources(source: &dyn TextSource, others: &dyn TextSource, options: &Options) -> Self {
        let mut findings = FileFindings::default();
        let mut partitions = PartitionsConfig::default();
        let mut partitions_error = None;
        match files::partitions_from(source, options) {
            Ok((config, found)) => {
                findings.add(found);
                partitions = config;
            }
            Err(text) => {
                findings.errors.push(text.clone());
                partitions_error = Some(text);
            }
        }
        let qos_policy =
            options.qos.then(|| findings.policy(files::qos_policy_from(source, options)));
        let enhanced_qos = findings.policy(enhanced_qos::read_from(others, options));
        let (routing, found) = files::routing_files_from(source, options);
        findings.errors.extend(routing.errors());
        findings.notes.extend(found);
        let node_names = match files::node_names_from(source, options) {
            Ok((names, found)) => {
                findings.notes.extend(found);
                names
            }
            Err(found) => {
                findings.add(found);
                let consequence =
                    "the node name map is invalid; nodes have the names of their descriptions";
                findings.notes.push(Note::new(Severity::Error, None, consequence));
                Vec::new()
            }
        };
        let torus_config = files::torus_config_from(others, options);
        if let Err(found) = &torus_config
            && uses_torus_config(options)
        {
            findings.errors.extend(found.iter().map(ToString::to_string));
        }
        let (prefix_routes, found) = files::prefix_routes_from(others, options);
        findings.add_skipped_lines(found);
        let (module_flags, found) = files::module_flags_from(others, options);
        findings.add_skipped_lines(found);
        Self {
            partitions: Arc::new(partitions),
            partitions_error,
            qos_policy: qos_policy.flatten().map(Arc::new),
            enhanced_qos: enhanced_qos.map(Arc::new),
            torus_config: Arc::new(torus_config),
            routing,
            prefix_routes,
            node_names,
            module_flags,
            findings,
            sources: FileSources::default(),
        }
    }

    /// The errors in `next` that these files do not have, and the files that were there and are
    /// missing in `next`. Errors of these files that remain do not keep others from being mended.
    pub fn regressions(&self, next: &Self) -> Vec<String> {
        let errors = next.errors().iter().filter(|error| !self.errors().contains(error));
        let mut regressions: Vec<String> = errors.cloned().collect();
        for version in next.sources.versions.iter().filter(|version| version.modified.is_none()) {
            let path = version.path.display().to_string();
            let is_reported = regressions.iter().any(|error| error.contains(&path));
            if version.is_optional
                && was_there(&self.sources.versions, &version.path)
                && !is_reported
            {
                regressions.push(format!(
                    "{path} does not exist any more; a restart gives up what it contained"
                ));
            }
        }
        regressions
    }

    /// Every error in the files, each with file, line and column.
    pub fn errors(&self) -> &[String] {
        &self.findings.errors
    }

    /// The same files with other partitions.
    #[must_use]
    pub fn with_partitions(self, partitions: Arc<PartitionsConfig>) -> Self {
        Self { partitions, ..self }
    }
}

fn was_there(sources_versions: &[FileVersion], path: &Path) -> bool {
    let mut versions = sources_versions.iter();
    versions.any(|version| version.path == path && version.sha256.is_some())
}

fn texts_of_errors(notes: &[Note]) -> Vec<String> {
    let errors = notes.iter().filter(|note| note.severity == Severity::Error);
    errors.map(ToString::to_string).collect()
}

/// True if an engine of `routing_engine` may read torus-2QoS.conf.
fn uses_torus_config(options: &Options) -> bool {
    let engines = options.engines();
    engine_names(engines).any(|name| [torus::ENGINE, routing_chain::ENGINE].contains(&name))
}

/// The versions of all files that were read, those that keys of opensm.conf name first.
fn versions(options: &Options, plan_files: &KeptFiles, others: &KeptFiles) -> Vec<FileVersion> {
    let mut read = plan_files.0.borrow().clone();
    read.extend(others.0.borrow().clone());
    let mut versions = Vec::new();
    for named in named_files(options) {
        let Some(path) = named.path else { continue };
        if let Some(file) = read.remove(Path::new(path)) {
            let NamedFile { option, is_optional, .. } = named;
            versions.push(FileVersion { option, is_optional, ..file.version });
        }
    }
    versions.extend(read.into_values().map(|file| file.version));
    versions
}

/// A file that a key of opensm.conf names.
struct NamedFile<'a> {
    option: &'static str,
    path: Option<&'a str>,
    /// The file need not exist.
    is_optional: bool,
}

fn named_files(options: &Options) -> Vec<NamedFile<'_>> {
    let node_names = options.node_name_map_name.as_deref();
    let optional = [
        ("partition_config_file", options.partition_config_file.as_deref()),
        ("qos_policy_file", options.qos_policy_file.as_deref()),
        ("prefix_routes_file", options.prefix_routes_file.as_deref()),
        ("node_name_map_name", node_names.or(Some(node_name_map::DEFAULT_PATH))),
        ("per_module_logging_file", options.per_module_logging_file.as_deref()),
    ];
    let required = [
        ("torus_config", Some(options.torus_config.as_str())),
        ("enhanced_qos_policy_file", enhanced_qos::policy_path(options)),
        ("rch_policy_file", options.rch_policy_file.as_deref()),
        ("pgrp_policy_file", options.pgrp_policy_file.as_deref()),
        ("topo_policy_file", options.topo_policy_file.as_deref()),
        ("guid_routing_order_file", options.guid_routing_order_file.as_deref()),
        ("port_prof_ignore_file", options.port_prof_ignore_file.as_deref()),
        ("hop_weights_file", options.hop_weights_file.as_deref()),
        ("port_search_ordering_file", options.port_search_ordering_file.as_deref()),
        ("root_guid_file", options.root_guid_file.as_deref()),
        ("ids_guid_file", options.ids_guid_file.as_deref()),
        ("cn_guid_file", options.cn_guid_file.as_deref()),
        ("io_guid_file", options.io_guid_file.as_deref()),
        ("lfts_file", options.lfts_file.as_deref()),
        ("lid_matrix_dump_file", options.lid_matrix_dump_file.as_deref()),
    ];
    optional
        .map(|(option, path)| NamedFile { option, path, is_optional: true })
        .into_iter()
        .chain(required.map(|(option, path)| NamedFile { option, path, is_optional: false }))
        .collect()
}

/// Reads from disk and keeps what was read, so that every file is read once.
#[derive(Default)]
struct KeptFiles(RefCell<BTreeMap<PathBuf, KeptFile>>);

#[derive(Clone)]
struct KeptFile {
    version: FileVersion,
    /// `None` if the file cannot be read as text.
    text: Option<String>,
}

impl KeptFiles {
    fn into_texts(self) -> BTreeMap<String, String> {
        let files = self.0.into_inner().into_iter();
        files.filter_map(|(path, file)| Some((path.to_str()?.to_owned(), file.text?))).collect()
    }
}

impl TextSource for KeptFiles {
    fn read(&self, path: &Path) -> Result<String, ReadError> {
        let kept = self.0.borrow().get(path).and_then(|file| file.text.clone());
        if let Some(text) = kept {
            return Ok(text);
        }
        let bytes = read_bytes(path);
        // Files without a key of their own are those that a routing chain names.
        let version = FileVersion::of("rch_policy_file", path, bytes.as_deref().ok());
        let text = bytes.and_then(|bytes| decode(path, bytes));
        let file = KeptFile { version, text: text.as_ref().ok().cloned() };
        self.0.borrow_mut().insert(path.to_owned(), file);
        text
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each error of a QoS policy has its code, and so has the consequence.
    #[test]
    fn errors_of_a_qos_policy_are_notes_with_codes() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("qos-policy.conf");
        let name = file.display().to_string();
        let options =
            Options { qos: true, qos_policy_file: Some(name.clone()), ..Options::default() };
        let notes = |text: &str| -> Vec<String> {
            std::fs::write(&file, text).expect("a file");
            let files = ConfigFiles::read(&options);
            assert_eq!(files.qos_policy, None);
            let errors =
                files.findings.notes.iter().filter(|note| note.severity == Severity::Error);
            errors.map(ToString::to_string).collect()
        };
        let consequence = "paths have the SLs of their partitions";
        let found = notes("qos-ulps\n default : 1\n sdp : 16\nend-qos-ulps\n");
        assert!(found[0].starts_with(&format!("ERR AC05: {name}:3:8: error: an SL")), "{found:?}");
        let parsing = format!("ERR AC03: Failed parsing QoS policy file ({name}): {consequence}");
        assert_eq!(found[1..], [parsing]);
        let found = notes("qos-levels\nqos-level\nname: x\nsl: 0\nend-qos-level\nend-qos-levels\n");
        assert!(found[0].starts_with(&format!("ERR AC10: {name}: error: there is no default")));
        assert_eq!(
            found[1..],
            [format!("ERR AC04: Error(s) in QoS policy file ({name}): {consequence}")]
        );
    }

    #[test]
    fn new_errors_and_vanished_files_are_regressions() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = Options {
            qos: true,
            partition_config_file: Some(name(&folder, "partitions.conf")),
            qos_policy_file: Some(name(&folder, "qos-policy.conf")),
            prefix_routes_file: Some(name(&folder, "prefix-routes.conf")),
            node_name_map_name: Some(name(&folder, "names")),
            per_module_logging_file: Some(name(&folder, "modules")),
            torus_config: name(&folder, "torus-2QoS.conf"),
            root_guid_file: Some(name(&folder, "roots")),
            routing_engine: Some("torus-2QoS".into()),
            ..Options::default()
        };
        // Each file with valid contents and with an error.
        let files = [
            ("partitions.conf", "A=0x10: ALL;\n", "A=0x10, mtu=9000: ALL;\n"),
            ("qos-policy.conf", "qos-ulps\n default : 1\nend-qos-ulps\n", "qos-ulp\n"),
            ("prefix-routes.conf", "* *\n", "* here\n"),
            ("names", "0x5 spine\n", "spine 0x5\n"),
            ("modules", "osm_trap_rcv.c 0x0f\n", "osm_trap_rcv.c fifteen\n"),
            ("torus-2QoS.conf", "torus 3 3 3\n", "torsu 3 3 3\n"),
            ("roots", "0x1\n", "one\n"),
        ];
        for (file, valid, _) in files {
            write(&folder, file, valid);
        }
        let in_force = ConfigFiles::read(&options);
        assert_eq!(in_force.errors(), [""; 0]);
        assert!(in_force.sources.versions.iter().all(|version| version.sha256.is_some()));
        for (file, valid, wrong) in files {
            write(&folder, file, wrong);
            let found = in_force.regressions(&ConfigFiles::read(&options));
            let place = format!("{}:1:", name(&folder, file));
            assert!(found.len() == 1 && found[0].contains(&place), "{file}: {found:?}");
            // The same error again, which another file does not have to answer for.
            let worse = ConfigFiles::read(&options);
            assert_eq!(worse.regressions(&ConfigFiles::read(&options)), [""; 0]);
            std::fs::remove_file(name(&folder, file)).expect("the file is there");
            let found = in_force.regressions(&ConfigFiles::read(&options));
            assert!(
                found.len() == 1 && found[0].contains(&name(&folder, file)),
                "{file}: {found:?}"
            );
            write(&folder, file, valid);
            assert_eq!(in_force.regressions(&ConfigFiles::read(&options)), [""; 0]);
        }
        let other = Options { routing_engine: None, ..options.clone() };
        write(&folder, "torus-2QoS.conf", "torsu 3 3 3\n");
        let found = ConfigFiles::read(&other);
        assert_eq!(found.errors(), [""; 0], "no engine reads it");
    }

    fn write(folder: &tempfile::TempDir, file: &str, text: &str) {
        std::fs::write(name(folder, file), text).expect("a file");
    }

    fn name(folder: &tempfile::TempDir, file: &str) -> String {
        folder.path().join(file).display().to_string()
    }

    #[test]
    fn files_have_the_hash_that_sha256sum_prints() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("f");
        let absent = FileVersion::read("config", &path);
        assert_eq!((&absent.sha256, absent.modified), (&None, None));
        std::fs::write(&path, "abc").expect("a file");
        assert!(absent.has_changed());
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let version = FileVersion::read("config", &path);
        assert_eq!(version.sha256.as_deref(), Some(abc));
        assert!(!version.has_changed());
        std::fs::write(&path, "abcd").expect("a file");
        assert!(version.has_changed());
    }
}

//! The configuration files that a start would read, with the errors in them.

use super::folders;
use crate::cli::{DaemonArgs, configuration};
use crate::config::enhanced_qos::{self, EnhancedQos};
use crate::config::guid_lists::{self, Parsed};
use crate::config::options::{Options, engine_names};
use crate::config::partitions::{Definition, PartitionsConfig};
use crate::config::qos_policy::QosPolicy;
use crate::config::route_dumps;
use crate::config::routing_chain::port_groups::ChainPortGroup;
use crate::config::routing_chain::{StepSettings, port_groups, steps, topologies};
use crate::config::text_file::read_text;
use crate::config::torus::TorusConfig;
use crate::config::{
    Diagnostic, excerpt, guid2lid, guid2mkey, log_modules, neighbors, node_name_map, prefix_routes,
    topo_config,
};
use crate::manage::server::network;
use crate::notes::{Note, Severity};
use crate::plan::routing::torus;
use std::path::{Path, PathBuf};

/// A configuration file with the findings about it.
pub(super) struct CheckedFile {
    path: PathBuf,
    /// Contents; `None` if the file could not be read.
    content: Option<String>,
    /// Findings in the order of their lines.
    pub findings: Vec<Diagnostic>,
}

impl CheckedFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// False if the file could not be read.
    pub(super) fn is_present(&self) -> bool {
        self.content.is_some()
    }

    /// The findings with the lines they refer to, or a line which says that there are none.
    pub(super) fn text(&self) -> String {
        let content = self.content.as_deref().unwrap_or("");
        if self.findings.is_empty() {
            let state = if self.content.is_some() { "no errors" } else { "not present" };
            return format!("{}: {state}\n", self.path.display());
        }
        excerpt::render_all(&self.findings, content).join("\n") + "\n"
    }

    fn say(&mut self, line: u32, severity: Severity, message: String) {
        let file = self.path.clone();
        let column = u32::from(line > 0);
        self.findings.push(Diagnostic { file, line, column, severity, message, code: None });
    }
}

/// Consequence of a missing file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FilePresence {
    /// The file may be missing.
    Optional,
    /// The file is configured, and the daemon would start without it.
    Named,
}

/// All configuration files.
pub(super) struct CheckedFiles {
    /// In the order of reading.
    pub all: Vec<CheckedFile>,
    /// Messages about several options.
    pub notes: Vec<Note>,
    /// Options; wrong values are replaced by defaults.
    pub options: Options,
    /// `None` if the partition file has errors.
    pub partitions: Option<PartitionsConfig>,
    /// `None` without a QoS policy, or if its file has errors.
    pub qos_policy: Option<QosPolicy>,
    port_groups: Vec<ChainPortGroup>,
    /// `None` without rate limits, or if their file has errors.
    pub enhanced_qos: Option<EnhancedQos>,
}

impl CheckedFiles {
    /// Reads the files that a start with these arguments would read.
    pub(super) fn read(args: &DaemonArgs) -> Self {
        let mut files = Self {
            all: Vec::new(),
            notes: args.notes.clone(),
            options: args.defaults(),
            partitions: Some(PartitionsConfig::default()),
            qos_policy: None,
            port_groups: Vec::new(),
            enhanced_qos: None,
        };
        files.options(args);
        if files.asks_for_torus() {
            files.torus_config();
            files.torus_options();
        }
        let folders = folders::findings(&files.options);
        files.notes.extend(folders);
        files.guid_lists();
        files.routing_chain();
        files.partitions();
        files.qos_policy();
        files.enhanced_qos();
        files.prefix_routes();
        files.node_names();
        files.expected_cables();
        files.module_flags();
        files.cache();
        files
    }

    /// Contents of a file; `None` if it was not read.
    pub(super) fn content(&self, path: &Path) -> Option<&str> {
        self.all.iter().find(|file| file.path == path)?.content.as_deref()
    }

    /// True if errors in the QoS policy file prevent its use.
    pub(super) fn is_policy_wrong(&self) -> bool {
        let path = self.options.qos_policy_file.as_ref().map(Path::new);
        let file = self.all.iter().find(|file| Some(&*file.path) == path);
        self.options.qos && file.is_some_and(|file| file.findings.iter().any(is_error))
    }

    /// Reads a file. A file that cannot be read is added to the list with a finding.
    fn open(&mut self, path: &Path, wanted: FilePresence) -> Option<(CheckedFile, String)> {
        let path = path.to_path_buf();
        let mut file = CheckedFile { path, content: None, findings: Vec::new() };
        match read_text(&file.path) {
            Ok(text) => {
                file.content = Some(text.clone());
                return Some((file, text));
            }
            Err(error) if error.is_not_found() && wanted == FilePresence::Optional => {}
            Err(error) => {
                let severity = Severity::Error;
                let (line, column) = error.position();
                let path = file.path.clone();
                let message = error.reason();
                file.findings.push(Diagnostic {
                    file: path,
                    line,
                    column,
                    severity,
                    message,
                    code: None,
                });
            }
        }
        self.all.push(file);
        None
    }

    fn options(&mut self, args: &DaemonArgs) {
        let mut opened = None;
        if let Some((path, must_exist)) = args.file_to_read() {
            let wanted = if must_exist { FilePresence::Named } else { FilePresence::Optional };
            opened = self.open(path, wanted);
        }
        if let Some((file, text)) = &mut opened {
            file.findings = self.options.read(text, &file.path);
        }
        args.apply(&mut self.options);
        let late = configuration::effects(&mut self.options).into_iter();
        let late = late.chain(network::findings(&self.options));
        let late = late.map(|note| (configuration::subject(&note), note));
        for (key, note) in late {
            let line = opened.as_ref().and_then(|(_, text)| configuration::line_of(key, text));
            match (&mut opened, line, args.given(key)) {
                (Some((file, _)), Some(line), None) => file.say(line, note.severity, note.text),
                _ => self.notes.push(note),
            }
        }
        if let Some((file, _)) = &mut opened {
            file.findings.sort_by_key(|found| found.line);
        }
        self.all.extend(opened.map(|(file, _)| file));
    }

    fn torus_config(&mut self) {
        let path = PathBuf::from(&self.options.torus_config);
        let Some((mut file, text)) = self.open(&path, FilePresence::Named) else { return };
        let notes = match TorusConfig::parse(&path, &text) {
            Ok(config) => {
                let found = torus::config_findings(&config);
                config.notes.into_iter().chain(found).collect()
            }
            Err(notes) => notes,
        };
        file.findings = notes.iter().map(|note| located(note, &path)).collect();
        self.all.push(file);
    }

    /// True if torus-2QoS is in the list of engines.
    pub(super) fn asks_for_torus(&self) -> bool {
        let engines = self.options.engines();
        engine_names(engines).any(|name| name == torus::NAME)
    }

    /// Options that do not suit torus-2QoS, which routes with QoS only.
    fn torus_options(&mut self) {
        if let Some(note) = torus::without_qos(&self.options) {
            self.notes.push(note);
            return;
        }
        let found = torus::option_notes(&self.options).into_iter();
        self.notes.extend(found.filter(|note| note.severity > Severity::Info));
    }

    fn guid_lists(&mut self) {
        let options = self.options.clone();
        self.list(&options.guid_routing_order_file, guid_lists::guids);
        self.list(&options.port_prof_ignore_file, guid_lists::ports);
        self.list(&options.hop_weights_file, guid_lists::hop_weights);
        self.list(&options.port_search_ordering_file, guid_lists::search_orders);
        self.list(&options.root_guid_file, guid_lists::guids);
        self.list(&options.ids_guid_file, guid_lists::ids);
        self.list(&options.cn_guid_file, guid_lists::guids);
        self.list(&options.io_guid_file, guid_lists::guids);
        self.dump(&options.lfts_file, route_dumps::lfts);
        self.dump(&options.lid_matrix_dump_file, route_dumps::lid_matrix);
    }

    fn list<T>(&mut self, file: &Option<String>, parse: fn(&Path, &str) -> Parsed<T>) {
        let Some(path) = file.as_ref().map(PathBuf::from) else { return };
        let Some((mut file, text)) = self.open(&path, FilePresence::Named) else { return };
        file.findings = parse(&path, &text).diagnostics;
        self.all.push(file);
    }

    fn dump<T>(&mut self, file: &Option<String>, parse: fn(&Path, &str) -> Result<T, Diagnostic>) {
        let Some(path) = file.as_ref().map(PathBuf::from) else { return };
        let Some((mut file, text)) = self.open(&path, FilePresence::Named) else { return };
        file.findings = parse(&path, &text).err().into_iter().collect();
        self.all.push(file);
    }

    /// The policy files of routing chains, and the configuration files of the steps.
    fn routing_chain(&mut self) {
        let options = self.options.clone();
        let groups = options.pgrp_policy_file.as_ref().map(Path::new);
        let groups = groups
            .and_then(|path| self.policy(path, |text| port_groups::parse(path, text)))
            .unwrap_or_default();
        self.port_groups.clone_from(&groups);
        let topologies = options.topo_policy_file.as_ref().map(Path::new);
        let topologies = topologies
            .and_then(|path| self.policy(path, |text| topologies::parse(path, text, &groups)))
            .unwrap_or_default();
        let steps = options.rch_policy_file.as_ref().map(Path::new);
        let steps = steps.and_then(|path| {
            self.policy(path, |text| steps::parse(path, text, &topologies, options.lmc))
        });
        for file in steps.into_iter().flatten().filter_map(|step| step.config) {
            let path = PathBuf::from(file);
            self.policy(&path, |text| StepSettings::parse(&path, text));
        }
    }

    fn policy<T>(
        &mut self,
        path: &Path,
        parse: impl Fn(&str) -> (T, Vec<Diagnostic>),
    ) -> Option<T> {
        let (mut file, text) = self.open(path, FilePresence::Named)?;
        let (value, findings) = parse(&text);
        file.findings = findings;
        self.all.push(file);
        Some(value)
    }

    fn partitions(&mut self) {
        let Some(path) = self.options.partition_config_file.as_ref().map(PathBuf::from) else {
            return;
        };
        let listed = self.all.len();
        let Some((mut file, text)) = self.open(&path, FilePresence::Optional) else {
            let is_wrong = self.all[listed..].iter().any(|file| !file.findings.is_empty());
            self.partitions = (!is_wrong).then(PartitionsConfig::default);
            return;
        };
        (self.partitions, file.findings) = PartitionsConfig::parse(&path, &text);
        if self.partitions.as_ref().is_some_and(|config| config.definitions.is_empty()) {
            let message =
                "no partition is defined: all ports are in the default partition".to_owned();
            file.say(0, Severity::Warning, message);
        }
        for definition in memberless(self.partitions.as_ref()) {
            let message = format!("the partition `{}` has no members", definition.name);
            file.say(definition.line, Severity::Warning, message);
        }
        self.all.push(file);
    }

    fn qos_policy(&mut self) {
        let named = self.options.qos_policy_file.as_ref().filter(|_| self.options.qos);
        let Some(path) = named.map(PathBuf::from) else { return };
        let Some((mut file, text)) = self.open(&path, FilePresence::Optional) else { return };
        (self.qos_policy, file.findings) = QosPolicy::parse(&path, &text);
        self.all.push(file);
    }

    fn enhanced_qos(&mut self) {
        let Some(path) = enhanced_qos::policy_path(&self.options).map(PathBuf::from) else {
            return;
        };
        if !self.options.qos {
            let text = format!("{}: has no effect, because qos is FALSE", path.display());
            return self.notes.push(Note::warning(text));
        }
        let Some((mut file, text)) = self.open(&path, FilePresence::Named) else { return };
        (self.enhanced_qos, file.findings) = enhanced_qos::parse(&path, &text, &self.port_groups);
        self.all.push(file);
    }

    fn prefix_routes(&mut self) {
        let Some(path) = self.options.prefix_routes_file.as_ref().map(PathBuf::from) else {
            return;
        };
        let Some((mut file, text)) = self.open(&path, FilePresence::Optional) else { return };
        file.findings = prefix_routes::parse(&path, &text).diagnostics;
        self.all.push(file);
    }

    /// `topo_config_file`; the daemon makes an incident of what is wrong in it.
    fn expected_cables(&mut self) {
        let Some(path) = self.options.topo_config_file.as_ref().map(PathBuf::from) else { return };
        let Some((mut file, text)) = self.open(&path, FilePresence::Named) else { return };
        let (cables, findings) = topo_config::parse(&path, &text);
        file.findings = findings;
        if cables.is_empty() && file.findings.is_empty() {
            let text = "lists no cable that should be ACTIVE, and has no effect".to_owned();
            file.say(0, Severity::Warning, text);
        }
        self.all.push(file);
    }

    fn node_names(&mut self) {
        let named = self.options.node_name_map_name.as_ref().map(PathBuf::from);
        let wanted = if named.is_some() { FilePresence::Named } else { FilePresence::Optional };
        let path = named.unwrap_or(node_name_map::DEFAULT_PATH.into());
        let Some((mut file, text)) = self.open(&path, wanted) else { return };
        file.findings = node_name_map::parse(&path, &text).1;
        self.all.push(file);
    }

    fn module_flags(&mut self) {
        let named = self.options.per_module_logging_file.as_ref().map(PathBuf::from);
        let Some(path) = named else { return };
        let Some((mut file, text)) = self.open(&path, FilePresence::Optional) else { return };
        file.findings = log_modules::parse(&path, &text).diagnostics;
        self.all.push(file);
    }

    /// The files in OSM_CACHE_DIR. Errors in them only cost the ports concerned their LIDs and
    /// M_Keys.
    fn cache(&mut self) {
        let lmc = self.options.lmc;
        self.cached("guid2lid", |path, text| guid2lid::parse(path, text, lmc).1);
        self.cached("guid2mkey", |path, text| guid2mkey::parse(path, text).1);
        self.cached("neighbors", |path, text| neighbors::parse(path, text).1);
    }

    fn cached(&mut self, name: &str, parse: impl Fn(&Path, &str) -> Vec<Diagnostic>) {
        let folder = std::env::var_os("OSM_CACHE_DIR").map(PathBuf::from);
        let path = folder.unwrap_or("/var/cache/opensm".into()).join(name);
        let Some((mut file, text)) = self.open(&path, FilePresence::Optional) else { return };
        file.findings = parse(&path, &text)
            .into_iter()
            .map(|found| Diagnostic { severity: Severity::Warning, ..found })
            .collect();
        if name == "guid2mkey" {
            // Findings show the line, which contains a key after the GUID.
            file.content = file.content.as_deref().map(first_words);
        }
        self.all.push(file);
    }
}

fn is_error(found: &Diagnostic) -> bool {
    found.severity == Severity::Error
}

/// The first definition of each partition of which no definition has a member.
fn memberless(config: Option<&PartitionsConfig>) -> Vec<&Definition> {
    let definitions = config.map_or(&[][..], |config| &config.definitions);
    let mut found = Vec::new();
    for (index, definition) in definitions.iter().enumerate() {
        let is_first = !definitions[..index].iter().any(|other| is_same(definition, other));
        let mut alike = definitions.iter().filter(|other| is_same(definition, other));
        if is_first && alike.all(|other| other.members.is_empty()) {
            found.push(definition);
        }
    }
    found
}

fn is_same(a: &Definition, b: &Definition) -> bool {
    match (a.pkey, b.pkey) {
        (Some(a), Some(b)) => a.base() == b.base(),
        _ => a.name == b.name,
    }
}

/// The first word of each line.
fn first_words(text: &str) -> String {
    text.lines()
        .map(|line| line.split_whitespace().next().unwrap_or("").to_owned())
        .collect::<Vec<String>>()
        .join("\n")
}

/// Converts a message to a diagnostic; the place at the beginning of its text is split off.
fn located(note: &Note, path: &Path) -> Diagnostic {
    let file = path.display().to_string();
    let rest = note.text.strip_prefix(&file).and_then(|rest| rest.strip_prefix(':'));
    let place = rest.and_then(|rest| rest.split_once(": "));
    let numbers = place.and_then(|(place, message)| {
        let (line, column) = place.split_once(':').unwrap_or((place, "0"));
        Some((line.parse().ok()?, column.parse().ok()?, message))
    });
    let (line, column, message) = numbers.unwrap_or((0, 0, note.text.as_str()));
    let severity = note.severity;
    let message = message.to_owned();
    Diagnostic { file: path.to_path_buf(), line, column, severity, message, code: None }
}

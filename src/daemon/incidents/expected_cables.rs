//! Compares the cables with those of `topo_config_file`.

use super::source::{FactSource, FactView, Watched};
use super::watched_file::WatchedFile;
use crate::config::topo_config;
use crate::fabric::{End, Fabric};
use crate::incidents::fact::{Cable, ExchangedCables, Facts, OwnFault};
use crate::incidents::losses::Register;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Cables up to which each is an incident of its own: with more of them, the file is of another fabric or
/// incomplete.
const MAX_SINGLE: usize = 64;

/// The cables of the file, and what is wrong with it.
#[derive(Default)]
struct ListedCables {
    cables: BTreeSet<[End; 2]>,
    error: Option<String>,
}

/// The differences between the file and a snapshot.
struct Differences {
    fabric: Arc<Fabric>,
    exchanged: Vec<ExchangedCables>,
    unlisted: Vec<Cable>,
    missing: Vec<Cable>,
}

/// The file, and its differences from the last snapshot.
struct Expected {
    file: WatchedFile<ListedCables>,
    differences: Option<Differences>,
}

#[derive(Default)]
pub struct ExpectedCables(Option<Expected>);

fn parse(path: &Path, bytes: Result<Vec<u8>, String>) -> ListedCables {
    let bytes = match bytes {
        Ok(bytes) => bytes,
        Err(error) => return ListedCables { error: Some(error), ..ListedCables::default() },
    };
    let (cables, diagnostics) = topo_config::parse(path, &String::from_utf8_lossy(&bytes));
    ListedCables { cables, error: diagnostics.first().map(ToString::to_string) }
}

impl FactSource for ExpectedCables {
    fn add_facts(&mut self, view: &FactView<'_>, facts: &mut Facts) {
        let Some(Watched { fabric, .. }) = view.watched else { return };
        let Some(path) = view.status.options.topo_config_file.as_deref().map(Path::new) else {
            self.0 = None;
            return;
        };
        let known = self.0.take().filter(|expected| expected.file.is_current(path));
        let expected = self.0.insert(known.unwrap_or_else(|| Expected {
            file: WatchedFile::read(path, parse),
            differences: None,
        }));
        let ListedCables { cables, error } = expected.file.contents();
        facts.own.extend(error.as_ref().map(|error| OwnFault {
            resource: "topo_config_file",
            text: format!("topo_config_file has errors, and wrong lines do not count: {error}"),
            repair: "correct the file".to_owned(),
        }));
        if cables.is_empty() {
            return;
        }
        let known = expected.differences.take().filter(|it| Arc::ptr_eq(&it.fabric, fabric));
        let differences = known.unwrap_or_else(|| Differences::between(cables, fabric));
        expected.differences.insert(differences).add_facts(facts);
    }

    fn reset(&mut self) {
        self.0 = None;
    }
}

impl Differences {
    fn between(cables: &BTreeSet<[End; 2]>, fabric: &Arc<Fabric>) -> Self {
        let expected = Register::of_expected(cables, fabric);
        Self {
            exchanged: expected.exchanged(fabric),
            unlisted: unlisted(cables, fabric),
            missing: expected.cables().cloned().collect(),
            fabric: fabric.clone(),
        }
    }

    /// Adds swapped, unlisted and missing cables. Those that are known already stay as they are.
    fn add_facts(&self, facts: &mut Facts) {
        for exchanged in &self.exchanged {
            if !facts.cables.exchanged.iter().any(|known| shares_cable(known, exchanged)) {
                let reason = "topo_config_file has them the other way round".to_owned();
                facts.cables.exchanged.push(ExchangedCables { reason, ..exchanged.clone() });
            }
        }
        if let Some(fault) = too_many(&self.unlisted, "unlisted-cables", "does not list", "has") {
            facts.own.push(fault);
        } else {
            facts.cables.unlisted.extend_from_slice(&self.unlisted);
        }
        let missing = self.missing.iter().filter(|cable| !facts.losses.cables.contains(cable));
        let missing: Vec<Cable> = missing.cloned().collect();
        if let Some(fault) = too_many(&missing, "missing-cables", "lists", "lacks") {
            facts.own.push(fault);
        } else {
            facts.losses.cables.extend(missing);
        }
    }
}

/// One finding about the file instead of one about each cable, if it differs from the fabric in many.
fn too_many(cables: &[Cable], resource: &'static str, file: &str, has: &str) -> Option<OwnFault> {
    let first = cables.first().filter(|_| cables.len() > MAX_SINGLE)?;
    Some(OwnFault {
        resource,
        text: format!(
            "topo_config_file {file} {} cables that the fabric {has}, such as {first}",
            cables.len()
        ),
        repair: "write a topo_config_file that fits the fabric".to_owned(),
    })
}

fn shares_cable(one: &ExchangedCables, other: &ExchangedCables) -> bool {
    one.cables.iter().any(|cable| other.cables.contains(cable))
}

/// The cables of the fabric that the file does not list.
fn unlisted(cables: &BTreeSet<[End; 2]>, fabric: &Fabric) -> Vec<Cable> {
    let present = fabric.port_ids().filter_map(|port| {
        let peer = fabric.port(port).peer.filter(|&peer| peer > port)?;
        let mut ends = [fabric.end_of(port), fabric.end_of(peer)];
        ends.sort_unstable();
        let is_listed = cables.contains(&ends);
        (!is_listed).then(|| Cable::of(fabric, port)).flatten()
    });
    present.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::SyntheticView;
    use crate::sim::generate::Shape;

    #[test]
    fn a_file_of_another_fabric_is_one_finding() {
        let topology = Shape::torus([6, 6, 1]).build().expect("a torus");
        let fabric = Fabric::from_topology(&topology, 0, &SyntheticView::default());
        let fabric = fabric.expect("a fabric");
        let unlisted = unlisted(&BTreeSet::new(), &fabric);
        assert!(unlisted.len() > MAX_SINGLE);
        let fault = too_many(&unlisted, "unlisted-cables", "does not list", "has");
        let text = fault.expect("one finding").text;
        let start = format!("topo_config_file does not list {} cables that the", unlisted.len());
        assert!(text.starts_with(&start), "{text}");
        assert!(too_many(&unlisted[..MAX_SINGLE], "unlisted-cables", "", "").is_none());
    }
}

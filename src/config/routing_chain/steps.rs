//! `rch_policy_file`: the engines of a routing chain.

use super::paragraphs::{Grammar, Paragraph, paragraphs};
use super::topologies::ChainTopology;
use crate::config::diagnostic::Diagnostics;
use crate::config::literal::{number, quoted};
use crate::config::span::Span;
use crate::config::{Diagnostic, suggest};
use std::path::Path;

const SECTION: &str = "unicast-step";

const GRAMMAR: Grammar = Grammar {
    section: SECTION,
    qualifiers: &["id", "engine", "use", "config", "topology", "fallback-to", "path-bit"],
    repeatable: &[],
    with_colon: &["config"],
};

/// The engines of MLNX OpenSM that a step may name.
const ENGINES: [&str; 6] = ["minhop", "updn", "ftree", "dor", "torus-2QoS", "pqft"];

/// Highest LID offset: LMC 7.
const MAX_PATH_BIT: u64 = 127;

/// A step of the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnicastStep {
    /// Position in the chain, from 1.
    pub id: u64,
    pub engine: String,
    /// Description for people.
    pub usage: String,
    /// Path of the configuration file of this step.
    pub config: Option<String>,
    /// Index of the topology; `None` for the whole fabric.
    pub topology: Option<usize>,
    /// ID of the step that this one replaces if it fails.
    pub fallback_to: Option<u64>,
    /// Offset of the LIDs that the step routes.
    pub path_bit: u8,
    /// Line of the definition.
    pub line: u32,
}

/// Parses the text of `file`. The steps are in ascending order of their IDs, without those whose
/// `fallback-to` makes them meaningless. They are complete unless a diagnostic is an error.
/// `lmc` is that of the subnet.
pub fn parse(
    file: &Path,
    text: &str,
    topologies: &[ChainTopology],
    lmc: u8,
) -> (Vec<UnicastStep>, Vec<Diagnostic>) {
    let mut diagnostics = Diagnostics::new(file);
    let paragraphs = paragraphs(text, &GRAMMAR, &mut diagnostics);
    let mut steps: Vec<(UnicastStep, &Paragraph<'_>)> = Vec::new();
    for paragraph in &paragraphs {
        if let Some(step) = step(paragraph, topologies, &steps, &mut diagnostics) {
            steps.push((step, paragraph));
        }
    }
    if paragraphs.is_empty() {
        let message = "there is no `unicast-step`".to_owned();
        diagnostics.add(crate::notes::Severity::Error, 0, 0, message);
    }
    drop_useless_fallbacks(&mut steps, &mut diagnostics);
    steps.sort_by_key(|(step, _)| step.id);
    check_first(&steps, &mut diagnostics);
    check_path_bits(&steps, lmc, &mut diagnostics);
    (steps.into_iter().map(|(step, _)| step).collect(), diagnostics.into_sorted())
}

/// The IDs of the steps with configuration files, and the paths of these, even if the text has
/// errors.
pub fn config_files(text: &str) -> Vec<(u64, String)> {
    let mut diagnostics = Diagnostics::new(Path::new(""));
    let paragraphs = paragraphs(text, &GRAMMAR, &mut diagnostics);
    paragraphs
        .iter()
        .filter_map(|paragraph| {
            let id = number(paragraph.find("id")?.text())?;
            Some((id, paragraph.find("config")?.text().to_owned()))
        })
        .collect()
}

fn step(
    paragraph: &Paragraph<'_>,
    topologies: &[ChainTopology],
    earlier: &[(UnicastStep, &Paragraph<'_>)],
    diagnostics: &mut Diagnostics<'_>,
) -> Option<UnicastStep> {
    let id = id(paragraph, earlier, diagnostics);
    let engine = engine(paragraph, diagnostics);
    let topology = paragraph
        .find("topology")
        .map_or(Some(None), |value| topology(value, topologies, diagnostics));
    let fallback_to = paragraph.find("fallback-to").map_or(Some(None), |value| {
        value_of(value, "a fallback is the ID of another step", diagnostics, |id| id > 0).map(Some)
    });
    let path_bit = paragraph.find("path-bit").map_or(Some(0), |value| {
        let what = format!("a path bit is a number from 0 to {MAX_PATH_BIT}");
        value_of(value, &what, diagnostics, |bit| bit <= MAX_PATH_BIT)
    });
    Some(UnicastStep {
        id: id?,
        engine: engine?,
        usage: paragraph.usage(),
        config: paragraph.find("config").map(|file| file.text().to_owned()),
        topology: topology?,
        fallback_to: fallback_to?,
        path_bit: path_bit? as u8,
        line: paragraph.at.line,
    })
}

/// A number for which `is_valid` holds. The error message begins with `what`.
fn value_of(
    value: Span<'_>,
    what: &str,
    diagnostics: &mut Diagnostics<'_>,
    is_valid: impl Fn(u64) -> bool,
) -> Option<u64> {
    let found = number(value.text()).filter(|&number| is_valid(number));
    if found.is_none() {
        diagnostics.error(value, format!("{what}, not {}", quoted(value.text())));
    }
    found
}

fn id(
    paragraph: &Paragraph<'_>,
    earlier: &[(UnicastStep, &Paragraph<'_>)],
    diagnostics: &mut Diagnostics<'_>,
) -> Option<u64> {
    let value = paragraph.required("id", SECTION, diagnostics)?;
    let id = value_of(value, "the ID of a step is a positive number", diagnostics, |id| id > 0)?;
    if let Some((other, _)) = earlier.iter().find(|(step, _)| step.id == id) {
        diagnostics.error(value, format!("step {id} is defined in line {} already", other.line));
        return None;
    }
    Some(id)
}

fn engine(paragraph: &Paragraph<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<String> {
    let value = paragraph.required("engine", SECTION, diagnostics)?;
    let name = value.text();
    if ENGINES.contains(&name) {
        return Some(name.to_owned());
    }
    let hint = suggest::did_you_mean(name, ENGINES);
    let valid = ENGINES.join(", ");
    diagnostics.error(
        value,
        format!("{} is not an engine for a step; valid are {valid}{hint}", quoted(name)),
    );
    None
}

/// The index of a topology; `Some(None)` for 0, the whole fabric.
fn topology(
    value: Span<'_>,
    topologies: &[ChainTopology],
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Option<usize>> {
    let id = value_of(value, "a topology is a number", diagnostics, |_| true)?;
    if id == 0 {
        return Some(None);
    }
    let index = topologies.iter().position(|topology| topology.id == id);
    if index.is_none() {
        diagnostics.error(value, format!("there is no topology {id} in topo_policy_file"));
    }
    index.map(Some)
}

/// Drops fallbacks to steps that do not exist or are fallbacks themselves.
fn drop_useless_fallbacks(
    steps: &mut Vec<(UnicastStep, &Paragraph<'_>)>,
    diagnostics: &mut Diagnostics<'_>,
) {
    let all: Vec<(u64, Option<u64>)> =
        steps.iter().map(|(step, _)| (step.id, step.fallback_to)).collect();
    steps.retain(|(step, paragraph)| {
        let Some(wanted) = step.fallback_to else { return true };
        let problem = match all.iter().find(|(id, _)| *id == wanted) {
            Some((_, None)) => return true,
            Some((id, Some(_))) if *id == step.id => "is this step itself",
            Some(_) => "is a fallback itself",
            None => "does not exist",
        };
        let at = paragraph.find("fallback-to").unwrap_or(paragraph.at);
        let message = format!("step {} is ignored, because step {wanted} {problem}", step.id);
        diagnostics.warning(at, message);
        false
    });
}

/// Warns about path bits beyond the LIDs of a port.
fn check_path_bits(
    steps: &[(UnicastStep, &Paragraph<'_>)],
    lmc: u8,
    diagnostics: &mut Diagnostics<'_>,
) {
    let last = (1u16 << lmc.min(7)) - 1;
    for (step, paragraph) in steps.iter().filter(|(step, _)| u16::from(step.path_bit) > last) {
        let UnicastStep { id, path_bit, .. } = step;
        let at = paragraph.find("path-bit").unwrap_or(paragraph.at);
        let effect = match lmc {
            0 => format!("step {id} routes all LIDs, as without path-bit; set lmc in opensm.conf"),
            _ => format!("step {id} routes no LID of a host; use a path bit from 0 to {last}"),
        };
        diagnostics.warning(at, format!("path bit {path_bit} is beyond lmc {lmc}: {effect}"));
    }
}

/// Checks the first step, and its fallbacks: it routes the whole fabric and all LIDs.
fn check_first(steps: &[(UnicastStep, &Paragraph<'_>)], diagnostics: &mut Diagnostics<'_>) {
    let Some(first) = steps.iter().find(|(step, _)| step.fallback_to.is_none()) else { return };
    let first_id = first.0.id;
    for (step, paragraph) in steps.iter().filter(|(step, _)| concerned(step, first_id)) {
        let role = match step.fallback_to {
            None => "the first step",
            Some(_) => "a fallback of the first step",
        };
        if step.topology.is_some() {
            let at = paragraph.find("topology").unwrap_or(paragraph.at);
            let message = format!("{role} routes the whole fabric: its topology must be 0");
            diagnostics.error(at, message);
        }
        if step.path_bit != 0 {
            let at = paragraph.find("path-bit").unwrap_or(paragraph.at);
            diagnostics.error(at, format!("the path bit of {role} is always 0"));
        }
    }
}

fn concerned(step: &UnicastStep, first_id: u64) -> bool {
    step.id == first_id || step.fallback_to == Some(first_id)
}

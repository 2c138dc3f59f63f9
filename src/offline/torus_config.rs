//! `torus-sm torus-config`: a fabric in, torus-2QoS.conf out, with what is missing in comments.
//!
//! The result is tried at once: the engine routes the fabric with it, and the comments say how
//! much of the fabric it covers.

use crate::cli::ExitCode;
use crate::cli::FabricArgs;
use crate::cli::Failure;
use crate::cli::torus_config::TorusConfigArgs;
use crate::config::options::Options;
use crate::fabric::synthetic::SyntheticView;
use crate::fabric::topology::Topology;
use crate::fabric::{Fabric, ibnet};
use crate::notes::{Note, Severity};
use crate::plan::lids::{self, Memory};
use crate::plan::routing::torus::{Coordinates, Torus, Torus2Qos};
use crate::plan::routing::{Engine, RoutingInput};
use crate::torus_config::{self, DerivedTorus};
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::Path;

/// Items of one kind that are listed before the rest is only counted.
const SHOWN: usize = 32;

/// Derives the configuration of the fabric that the command line names.
///
/// # Errors
/// The fabric cannot be read, is no torus, or the result cannot be written.
pub fn run(args: &TorusConfigArgs, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let topology = topology(&args.fabric)?;
    let fabric =
        snapshot(&topology).ok_or_else(|| fail(ExitCode::Config, "the fabric is empty"))?;
    let derived = torus_config::derive(&fabric)
        .map_err(|why| fail(ExitCode::Fatal, format!("this is no torus: {why}")))?;
    let (verdict, refusal) = verdict(&fabric, &derived);
    let mut findings = findings(&fabric, &derived);
    findings.extend(verdict);
    for line in &findings {
        eprintln!("{line}");
    }
    let text = document(&derived, &findings);
    let written = match &args.output {
        Some(path) => fs::write(path, &text).map_err(|error| (path.display().to_string(), error)),
        None => out.write_all(text.as_bytes()).map_err(|error| ("standard output".into(), error)),
    };
    written.map_err(|(name, error)| fail(ExitCode::System, format!("{name}: {error}")))?;
    Ok(if refusal { ExitCode::Fatal } else { ExitCode::Ok })
}

fn fail(code: ExitCode, text: impl Into<String>) -> Failure {
    Failure { code, text: text.into() }
}

fn topology(args: &FabricArgs) -> Result<Topology, Failure> {
    if let Some(file) = &args.file {
        let config = |text: String| fail(ExitCode::Config, text);
        let text = fs::read_to_string(file)
            .map_err(|error| config(format!("{}: {error}", Path::display(file))))?;
        return ibnet::parse(file, &text).map_err(|error| config(error.to_string()));
    }
    let usage = |text: String| fail(ExitCode::Usage, text);
    let shape = args.generated().map_err(usage)?;
    let shape = shape.ok_or_else(|| usage("neither a shape nor a file is given".into()))?;
    shape.build().map_err(|error| usage(error.to_string()))
}

/// The fabric seen from the node from which most can be seen: that of the first switch, unless
/// the fabric is in pieces.
fn snapshot(topology: &Topology) -> Option<Fabric> {
    let mut best: Option<Fabric> = None;
    for local in 0..topology.nodes.len() {
        let guid = topology.nodes[local].guid;
        if best.as_ref().is_some_and(|seen| seen.node_by_guid(guid).is_some()) {
            continue;
        }
        let seen = Fabric::from_topology(topology, local, &SyntheticView::default())?;
        let is_larger =
            best.as_ref().is_none_or(|best| seen.switches().len() > best.switches().len());
        if is_larger {
            best = Some(seen);
        }
    }
    best
}

/// What the engine says about the result, and whether it refuses.
fn verdict(fabric: &Fabric, derived: &DerivedTorus) -> (Vec<String>, bool) {
    let options = Options { qos: true, ..Options::default() };
    let (lids, ..) = lids::assign(fabric, &options, &Memory::default());
    let routing = Torus2Qos.route(&RoutingInput {
        fabric,
        lids: &lids,
        options: &options,
        torus_config: &Ok(derived.config.clone()),
        previous: None,
        previous_fabric: None,
    });
    match &routing {
        Ok(routing) => {
            let placed = Torus::of(routing).map_or(0, |torus| torus.switches().count());
            let all = fabric.switches().len();
            (vec![format!("torus-2QoS routes this fabric, with {placed} of {all} switches")], false)
        }
        Err(refusal) => {
            let is_error = |note: &&Note| note.severity == Severity::Error;
            let mut lines = vec!["torus-2QoS refuses this fabric until it is repaired:".to_owned()];
            lines.extend(refusal.notes.iter().filter(is_error).map(|note| format!("  {note}")));
            (lines, true)
        }
    }
}

/// What was found, line by line.
fn findings(fabric: &Fabric, derived: &DerivedTorus) -> Vec<String> {
    let (explained, cables) = derived.cables;
    let (placed, switches) = (derived.placed(), fabric.switches().len());
    let size = derived.config.size.as_ref().map(torus_config::shape).unwrap_or_default();
    let mut lines = vec![format!(
        "{size}: {placed} of {switches} switches and {explained} of {cables} cables between \
         switches fit in"
    )];
    if !derived.alternatives.is_empty() {
        let shapes: Vec<String> = derived.alternatives.iter().map(torus_config::shape).collect();
        lines.push(format!(
            "ambiguous: the cables can be read as {} just as well",
            shapes.join(" or ")
        ));
    }
    let name = |at: Coordinates| {
        let found = (0..).zip(&derived.coordinates).find(|(_, own)| **own == Some(at));
        let guid = found.map(|(switch, _)| fabric.switch(crate::fabric::SwitchId(switch)).guid());
        format!("{at} (GUID {})", guid.unwrap_or_default())
    };
    list(&mut lines, "missing switch at", derived.missing_switches.iter().map(ToString::to_string));
    let gaps = derived.missing_cables.iter().map(|gap| {
        let (from, to) = (name(gap.from), name(gap.to));
        format!("between {from} and {to}: {} of {}", gap.present, gap.usual)
    });
    list(&mut lines, "cables", gaps);
    let outside = derived.outside().map(|switch| {
        let node = fabric.switch(switch);
        format!("{} \"{}\"", node.guid(), node.description)
    });
    list(&mut lines, "switch outside the torus:", outside);
    let strays = derived
        .stray_cables
        .iter()
        .map(|[a, b]| format!("{} <-> {}", fabric.describe(*a), fabric.describe(*b)));
    list(&mut lines, "cable outside the torus:", strays);
    lines
}

fn list(lines: &mut Vec<String>, what: &str, items: impl Iterator<Item = String>) {
    let items: Vec<String> = items.collect();
    let rest = items.len().saturating_sub(SHOWN);
    lines.extend(items.into_iter().take(SHOWN).map(|item| format!("{what} {item}")));
    if rest > 0 {
        lines.push(format!("{what} … and {rest} more"));
    }
}

/// The file: findings as comments, then the configuration.
fn document(derived: &DerivedTorus, findings: &[String]) -> String {
    let mut text = String::from("# torus-2QoS.conf, derived from the cables by torus-sm\n#\n");
    for line in findings {
        // Descriptions come from devices: no line break may end the comment.
        let safe: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let _ = writeln!(text, "# {safe}");
    }
    let _ = write!(text, "\n{}", derived.config);
    text
}

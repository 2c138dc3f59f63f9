//! `torus-sm torus-config`: derives torus-2QoS.conf from the cables of a fabric.
//!
//! The engine routes the fabric with the result. Comments in the file state the findings: missing
//! and surplus parts, and whether the engine routes the fabric.

use crate::cli::CommandFailure;
use crate::cli::ExitCode;
use crate::cli::FabricArgs;
use crate::cli::output::{complain_plainly, print_to};
use crate::cli::torus_config::TorusConfigArgs;
use crate::config::options::Options;
use crate::fabric::Fabric;
use crate::fabric::synthetic::SyntheticView;
use crate::fabric::topology::Topology;
use crate::ids::Guid;
use crate::notes::Severity;
use crate::offline::scenario::read_fabric;
use crate::plan::lids::{self, Memory};
use crate::plan::routing::torus::{Coordinates, Torus, Torus2Qos};
use crate::plan::routing::{Engine, RoutingInput};
use crate::torus_config::{self, DerivedTorus};
use std::fmt::Write as _;
use std::fs;
use std::io::Write;

/// Maximum number of findings of one kind listed one by one.
const MAX_LISTED: usize = 32;

/// Derives the configuration of the fabric given on the command line.
///
/// # Errors
/// Returns an error if the fabric cannot be read, is not a torus, or the result cannot be written.
pub fn run(args: &TorusConfigArgs, out: &mut dyn Write) -> Result<ExitCode, CommandFailure> {
    let topology = topology(&args.fabric)?;
    let fabric =
        snapshot(&topology).ok_or_else(|| fail(ExitCode::Config, "the fabric has no nodes"))?;
    let derived = torus_config::derive(&fabric)
        .map_err(|why| fail(ExitCode::Fatal, format!("this is no torus: {why}")))?;
    let (verdict, refusal) = verdict(&fabric, &derived);
    let mut findings = findings(&fabric, &derived);
    findings.extend(verdict);
    findings.iter().for_each(|line| complain_plainly(line));
    let text = document(&derived, &findings);
    match &args.output {
        Some(path) => fs::write(path, &text).map_err(|error| {
            let text = format!("{}: {error}", path.display());
            fail(ExitCode::System, text)
        })?,
        None => print_to(out, &text).map(drop)?,
    }
    Ok(if refusal { ExitCode::Fatal } else { ExitCode::Ok })
}

fn fail(code: ExitCode, text: impl Into<String>) -> CommandFailure {
    CommandFailure { code, text: text.into() }
}

fn topology(args: &FabricArgs) -> Result<Topology, CommandFailure> {
    if let Some(file) = &args.file {
        return read_fabric(file).map_err(|error| fail(ExitCode::Config, error));
    }
    let shape = args.generated().map_err(usage_error)?;
    let shape = shape.ok_or_else(|| usage_error("neither a shape nor a file is given".into()))?;
    shape.build().map_err(|error| usage_error(error.to_string()))
}

fn usage_error(text: String) -> CommandFailure {
    fail(ExitCode::Usage, text)
}

/// The snapshot of the connected part with the most switches; the first such part among equals.
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

/// The result of routing the fabric with the derived configuration, in words, and whether the
/// engine fails.
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
            (vec![format!("torus-2QoS routes this fabric with {placed} of {all} switches")], false)
        }
        Err(refusal) => {
            let mut lines =
                vec!["torus-2QoS cannot route this fabric until it is repaired:".to_owned()];
            lines.extend(
                refusal
                    .notes
                    .iter()
                    .filter(|note| note.severity == Severity::Error)
                    .map(|note| format!("  {note}")),
            );
            (lines, true)
        }
    }
}

/// Findings, one per line.
fn findings(fabric: &Fabric, derived: &DerivedTorus) -> Vec<String> {
    let (explained, cables) = derived.cables;
    let placed = derived.placed();
    let switches = fabric.switches().len();
    let size = derived.config.size.as_ref().map_or_else(String::new, torus_config::shape);
    let mut lines = vec![format!(
        "{size} with {placed} of {switches} switches and {explained} of {cables} cables between \
         switches"
    )];
    if !derived.alternatives.is_empty() {
        let shapes: Vec<String> = derived.alternatives.iter().map(torus_config::shape).collect();
        lines.push(ambiguity(&size, &shapes));
    }
    list(&mut lines, "missing switch at", derived.missing_switches.iter().map(ToString::to_string));
    let gaps = derived.missing_cables.iter().map(|gap| {
        let from = name_at(fabric, &derived.coordinates, gap.from);
        let to = name_at(fabric, &derived.coordinates, gap.to);
        format!("between {from} and {to}: {} instead of {}", gap.present, gap.usual)
    });
    list(&mut lines, "missing cables", gaps);
    let outside = derived.outside().map(|switch| {
        let node = fabric.switch(switch);
        format!("{} \"{}\"", node.guid(), node.name())
    });
    list(&mut lines, "switch outside the torus:", outside);
    let strays = derived
        .stray_cables
        .iter()
        .map(|[a, b]| format!("{} <-> {}", fabric.describe(*a), fabric.describe(*b)));
    list(&mut lines, "cable outside the torus:", strays);
    lines
}

fn name_at(fabric: &Fabric, coordinates: &[Option<Coordinates>], at: Coordinates) -> String {
    let found = (0..).zip(coordinates).find(|(_, own)| **own == Some(at));
    let guid = found.map(|(switch, _)| fabric.switch(crate::fabric::SwitchId(switch)).guid());
    format!("{at} (GUID {})", guid.unwrap_or(Guid(0)))
}

/// The message about other interpretations of the cables, some of which may have the same shape.
fn ambiguity(size: &str, shapes: &[String]) -> String {
    let others: Vec<&str> =
        shapes.iter().map(String::as_str).filter(|shape| *shape != size).collect();
    if others.is_empty() {
        return format!(
            "ambiguous: other assignments of the switches to a {size} fit equally well"
        );
    }
    let also = if others.len() < shapes.len() {
        format!(", as do other assignments to a {size}")
    } else {
        String::new()
    };
    format!("ambiguous: the cables fit {} equally well{also}", others.join(" or "))
}

fn list(lines: &mut Vec<String>, what: &str, items: impl Iterator<Item = String>) {
    let items: Vec<String> = items.collect();
    let rest = items.len().saturating_sub(MAX_LISTED);
    lines.extend(items.into_iter().take(MAX_LISTED).map(|item| format!("{what} {item}")));
    if rest > 0 {
        lines.push(format!("{what} ... and {rest} more"));
    }
}

/// Contents of the file: findings as comments, then the configuration.
fn document(derived: &DerivedTorus, findings: &[String]) -> String {
    let mut text = String::from("# torus-2QoS.conf, derived from the cables by torus-sm\n#\n");
    for line in findings {
        // Node descriptions come from devices: a line break in one must not end the comment.
        let safe: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let _ = writeln!(text, "# {safe}");
    }
    let _ = write!(text, "\n{}", derived.config);
    text
}

//! Messages of a routing pass, and the dump file.

use super::cabling::Cabling;
use super::grid::Grid;
use super::lattice::{Direction, Lattice};
use super::sl2vl::VlCounts;
use crate::fabric::Fabric;
use crate::notes::{Note, Severity, counted};
use std::fmt::Write as _;

/// A warning for which OpenSM has no number.
#[track_caller]
pub(super) fn warning(text: impl Into<String>) -> Note {
    Note::warning(text)
}

/// An error for which OpenSM has no number.
#[track_caller]
pub(super) fn error(text: impl Into<String>) -> Note {
    Note::new(Severity::Error, None, text)
}

/// Links, switches, CA ports and data VLs of the fabric.
pub(super) fn found(cabling: &Cabling, vls: VlCounts) -> Note {
    Note::info(format!(
        "found fabric with {}, {}, {}, minimum data VLs: end ports {}, switch ports {}",
        counted(cabling.cables.len() + cabling.host_count(), "link", "links"),
        counted(cabling.switch_count(), "switch", "switches"),
        counted(cabling.host_count(), "CA port", "CA ports"),
        vls.end_ports,
        vls.switch_links
    ))
}

/// The configured torus.
pub(super) fn looking_for(lattice: &Lattice) -> Note {
    let kind = if (0..3).any(|axis| lattice.is_looped(axis)) { "torus" } else { "mesh" };
    let [x, y, z] = lattice.radices();
    Note::info(format!("looking for {x} x {y} x {z} {kind}"))
}

/// A warning that the switches of a ring or line on its own cannot be placed: that takes squares of
/// cables, apart from the switches that the seed names.
pub(super) fn single_dimension(lattice: &Lattice) -> Option<Note> {
    let radices = lattice.radices();
    let longest = radices.iter().copied().max().unwrap_or(0);
    let is_single = radices.iter().filter(|&&radix| radix > 1).count() == 1;
    (is_single && longest > 3).then(|| {
        warning(
            "torus-2QoS is made for two and three dimensions: of a single one it places only the \
             switches that the seed links name; use minhop for this fabric",
        )
    })
}

/// The discovered torus.
pub(super) fn built(grid: &Grid) -> Note {
    let [x, y, z] = grid.lattice.radices();
    Note::info(format!(
        "built {x} x {y} x {z} torus with {}, {}, {}",
        counted(grid.cable_count() + grid.host_count(), "link", "links"),
        counted(grid.order.len(), "switch", "switches"),
        counted(grid.host_count(), "CA port", "CA ports")
    ))
}

/// Cables (indices into [`Cabling::cables`]) and switches outside the torus.
pub(super) fn leftovers(
    fabric: &Fabric,
    grid: &Grid,
    cabling: &Cabling,
    cables: &[usize],
) -> Vec<Note> {
    let mut notes: Vec<Note> = cables
        .iter()
        .map(|&cable| {
            let [a, b] = cabling.cables[cable];
            let a = fabric.describe(a);
            let b = fabric.describe(b);
            Note::info(format!("cable outside the torus: {a} <-> {b}"))
        })
        .collect();
    for switch in fabric.switch_ids() {
        if grid.positions[switch.index()].is_none() {
            let port = fabric.switch(switch).first_port;
            let hosts = cabling.hosts(switch).len();
            let hosts = counted(hosts, "end port", "end ports");
            let text = format!(
                "switch outside the torus: {}; it and {hosts} behind it cannot be reached",
                fabric.describe(port)
            );
            notes.push(Note::info(text));
        }
    }
    notes
}

/// Warnings if parts of the fabric are not used, or the SM itself is outside the torus.
pub(super) fn unused(fabric: &Fabric, grid: &Grid, cabling: &Cabling) -> Vec<Note> {
    let mut notes = Vec::new();
    let all = (cabling.cables.len() + cabling.host_count(), cabling.switch_count());
    let used = (grid.cable_count() + grid.host_count(), grid.order.len());
    if all != used {
        let text = format!(
            "Could not construct torus using all known fabric switches and/or links: it uses {} of {} \
             links and {} of {} switches",
            used.0, all.0, used.1, all.1
        );
        notes.push(warning(text));
    }
    let mut outside =
        fabric.switch_ids().filter(|switch| grid.positions[switch.index()].is_none()).peekable();
    if let Some(&first) = outside.peek() {
        let node = fabric.switch(first);
        let first = format!("{} \"{}\"", node.guid(), node.name());
        let [mut switches, mut ports] = [0; 2];
        outside.for_each(|switch| {
            switches += 1;
            ports += cabling.hosts(switch).len();
        });
        let what = counted(switches, "switch is", "switches are");
        let ports = counted(ports, "end port", "end ports");
        notes.push(warning(format!(
            "{what} outside the torus and cannot be reached, nor can {ports} behind: the first is {first}"
        )));
    }
    let home = fabric.switch_behind(fabric.local());
    if home.is_some_and(|switch| grid.positions[switch.index()].is_none()) {
        let text = "the subnet manager's own port is outside the torus: no port of the torus can \
                    reach it with these routes";
        notes.push(warning(text));
    }
    notes
}

/// Missing switches, and missing cables of present switches, with OpenSM's wording.
pub(super) fn missing(fabric: &Fabric, grid: &Grid) -> Vec<Note> {
    let mut notes = Vec::new();
    for at in grid.lattice.positions() {
        if !grid.is_present(at) {
            let coordinates = grid.lattice.coordinates(at);
            notes.push(Note::info(format!("Missing torus switch at {coordinates}")));
            continue;
        }
        for direction in Direction::ALL {
            let is_expected =
                grid.lattice.is_active(direction.axis()) && !grid.lattice.is_edge(at, direction);
            if is_expected && !grid.has_cable(at, direction) {
                let name = grid.describe_as_opensm(fabric, at);
                notes.push(Note::info(format!("Missing torus {direction} link on switch {name}")));
            }
        }
    }
    notes
}

/// Contents of `opensm-torus.dump`: one line for each placed switch.
pub(super) fn dump(fabric: &Fabric, grid: &Grid) -> String {
    let mut text = String::new();
    for (at, switch) in grid.placed() {
        let node = fabric.switch(switch);
        let coordinates = grid.lattice.coordinates(at);
        let guid = node.guid().0;
        let description = node.name();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "switch {coordinates} GUID 0x{guid:04x} ({description})");
    }
    text
}

//! Checks of the configuration against the fabric before the discovery. The first failed check ends
//! the pass.

use super::lattice::{AXIS_NAMES, Lattice};
use super::report::{error, warning};
use super::seeds;
use super::sl2vl::VlCounts;
use crate::config::options::Options;
use crate::config::torus::{Seed, SeedLink, TorusConfig};
use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::notes::{Note, counted};

/// The error if QoS is disabled.
pub(crate) fn without_qos(options: &Options) -> Option<Note> {
    let text = "torus-2QoS needs QoS: start with -Q or set `qos TRUE`";
    (!options.qos).then(|| Note::error("4E44", text))
}

/// Findings about a configuration that hold for every fabric: the errors because of which the engine
/// refuses it, and warnings about backup seeds.
pub(crate) fn config_findings(config: &TorusConfig) -> Vec<Note> {
    let lattice = match lattice(config) {
        Ok(lattice) => lattice,
        Err(note) => return vec![note],
    };
    let none = [Seed::default()];
    let seeds = if config.seeds.is_empty() { &none } else { &config.seeds[..] };
    let wrong = seeds.iter().enumerate();
    let wrong = wrong.filter_map(|(index, seed)| check_seed(&lattice, seed, index).err());
    let mut notes: Vec<Note> = wrong.collect();
    let first = seeds::contradiction(&lattice, &seeds[0], 0);
    notes.extend(first.map(|text| Note::error("4E1C", text)));
    notes.extend(seeds::warnings(&lattice, seeds, 0));
    notes
}

/// The configured lattice.
///
/// # Errors
/// Returns an error if the radices are missing, zero, all 1, or too large for a subnet.
pub(super) fn lattice(config: &TorusConfig) -> Result<Lattice, Note> {
    let size = config.size.filter(|size| size.radix.iter().all(|&radix| radix > 0));
    let Some(size) = size else {
        let text =
            "the torus configuration must give three radices above 0 in a `torus` or `mesh` line";
        return Err(Note::error("4E20", text));
    };
    if size.radix == [1; 3] {
        return Err(error(
            "a torus of 1 x 1 x 1 cannot be routed: at least one radix must be above 1",
        ));
    }
    let [x, y, z] = size.radix;
    Lattice::new(size)
        .ok_or_else(|| error(format!("a torus of {x} x {y} x {z} has more positions than a subnet has LIDs: check the radices")))
}

/// Checks the numbers of data VLs, and returns warnings.
///
/// # Errors
/// Returns an error if there are fewer than two data VLs between switches.
pub(super) fn vls(vls: VlCounts) -> Result<Vec<Note>, Note> {
    let VlCounts { switch_links, end_ports } = vls;
    if switch_links < 2 {
        let text = format!(
            "torus-2QoS needs 2 data VLs between switches, but a switch port has only {switch_links}"
        );
        return Err(Note::error("4E48", text));
    }
    let mut notes = Vec::new();
    if switch_links < 4 {
        notes.push(warning(format!(
            "too few data VLs to route around a failed switch without credit loops (switch ports \
             have {switch_links}, need 4)"
        )));
    }
    if switch_links < 8 {
        notes.push(warning(format!(
            "too few data VLs for two QoS levels (switch ports have {switch_links}, need 8)"
        )));
    }
    if end_ports < 2 {
        notes.push(warning(format!(
            "too few data VLs for two QoS levels (end ports have {end_ports}, need 2)"
        )));
    }
    Ok(notes)
}

/// Checks that each switch has the ports named in `port_order`.
///
/// # Errors
/// Returns an error that names a switch without such a port.
pub(super) fn port_order(fabric: &Fabric, order: &[u8]) -> Result<(), Note> {
    // By number of ports: the first port in the order that a switch of this size lacks.
    let lacking: Vec<Option<u8>> = (0..=255usize)
        .map(|ports| {
            let first = order.iter().take(ports + 1);
            first.copied().find(|&port| usize::from(port) > ports)
        })
        .collect();
    for switch in fabric.switch_ids() {
        let node = fabric.switch(switch);
        if let Some(port) = lacking[usize::from(node.num_ports())] {
            let text = format!(
                "port_order names port {port}, but switch {} \"{}\" has only {}",
                node.guid(),
                node.name(),
                counted(node.num_ports().into(), "port", "ports")
            );
            return Err(Note::error("4E21", text));
        }
    }
    Ok(())
}

/// Checks all seeds and returns the first whose switches are all in the fabric.
///
/// # Errors
/// Returns an error if a seed is wrong, used or not, or if no seed can be used.
pub(super) fn usable_seed(
    fabric: &Fabric,
    lattice: &Lattice,
    seeds: &[Seed],
) -> Result<UsedSeed, Note> {
    let none = [Seed::default()];
    let seeds = if seeds.is_empty() { &none } else { seeds };
    for (index, seed) in seeds.iter().enumerate() {
        check_seed(lattice, seed, index)?;
    }
    if let Some(index) =
        seeds.iter().position(|seed| unplaced_switches(fabric, lattice, seed).is_empty())
    {
        return Ok(UsedSeed { index, seed: seeds[index], lost: Vec::new() });
    }
    let lists: Vec<String> = seeds
        .iter()
        .enumerate()
        .map(|(index, seed)| {
            let names: Vec<String> =
                unplaced_switches(fabric, lattice, seed).iter().map(ToString::to_string).collect();
            format!("seed {index} lacks {}", names.join(" "))
        })
        .collect();
    let text = format!("no torus seed has all its switches in the fabric: {}", lists.join("; "));
    Err(Note::error("4E30", text))
}

fn unplaced_switches(fabric: &Fabric, lattice: &Lattice, seed: &Seed) -> Vec<Guid> {
    absent_switches(fabric, lattice, seed)
}

/// The seed from which a torus is discovered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct UsedSeed {
    /// Its number in the configuration.
    pub index: usize,
    /// Its links whose switches are all in the fabric.
    pub seed: Seed,
    /// Keywords of its other links.
    pub lost: Vec<String>,
}

/// The first seed whose remaining links are a seed, too. With both links of a dimension, one neighbour
/// of the origin may fail. `None` if there is no such seed, or a seed is wrong.
pub(super) fn live_seed(fabric: &Fabric, lattice: &Lattice, seeds: &[Seed]) -> Option<UsedSeed> {
    for (index, seed) in seeds.iter().enumerate() {
        check_seed(lattice, seed, index).ok()?;
    }
    let shortened = seeds.iter().enumerate().map(|(index, seed)| {
        let mut live = UsedSeed { index, seed: *seed, lost: Vec::new() };
        for named in seeds::active_links(lattice, seed) {
            let SeedLink { origin, neighbor } = named.link;
            if ![origin, neighbor].iter().all(|guid| is_switch(fabric, *guid)) {
                live.seed.links[named.slot] = None;
                live.lost.push(named.keyword);
            }
        }
        live
    });
    shortened.into_iter().find(|live| check_seed(lattice, &live.seed, live.index).is_ok())
}

/// A warning that no seed is complete, and which part of one is used.
pub(super) fn shortened_seed(reason: &Note, used: &UsedSeed) -> Note {
    warning(format!(
        "{}; without torus_repair, torus-2QoS would refuse the fabric; seed {} is used without its {}",
        reason.text,
        used.index,
        used.lost.join(" and ")
    ))
}

fn is_switch(fabric: &Fabric, guid: Guid) -> bool {
    fabric.node_by_guid(guid).is_some_and(|id| fabric.node(id).is_switch())
}

fn links(seed: &Seed, axis: usize) -> impl Iterator<Item = SeedLink> + '_ {
    seed.links[2 * axis..2 * axis + 2].iter().flatten().copied()
}

fn check_seed(lattice: &Lattice, seed: &Seed, index: usize) -> Result<(), Note> {
    for axis in 0..3 {
        check_radix_four(lattice, seed, index, axis)?;
    }
    const X: usize = 0;
    const Y: usize = 1;
    const Z: usize = 2;
    for (axis, absent, differing) in [(X, "4E2B", ""), (Z, "4E2C", "4E2D"), (Y, "4E2E", "4E2F")] {
        if !lattice.is_active(axis) {
            continue;
        }
        let name = AXIS_NAMES[axis];
        if links(seed, axis).next().is_none() {
            let text = format!("torus seed {index} needs {name}p_link or {name}m_link");
            return Err(Note::error(absent, text));
        }
        if axis != X && have_other_origin(seed, X, axis) {
            let text = format!("torus seed {index}: x and {name} links must have the same origin");
            return Err(Note::error(differing, text));
        }
    }
    // OpenSM does not compare these origins and routes with wrong coordinates.
    let both = lattice.is_active(Y) && lattice.is_active(Z);
    if both && have_other_origin(seed, Y, Z) {
        return Err(error(format!("torus seed {index}: y and z links must have the same origin")));
    }
    Ok(())
}

fn have_other_origin(seed: &Seed, a: usize, b: usize) -> bool {
    links(seed, a).any(|one| links(seed, b).any(|other| one.origin != other.origin))
}

/// A looped dimension of radix 4 needs both neighbours of the origin: otherwise the discovery
/// cannot distinguish plus from minus.
fn check_radix_four(lattice: &Lattice, seed: &Seed, index: usize, axis: usize) -> Result<(), Note> {
    const CODES: [[&str; 3]; 3] =
        [["4E22", "4E23", "4E24"], ["4E25", "4E26", "4E27"], ["4E28", "4E29", "4E2A"]];
    if lattice.radix(axis) != 4 || !lattice.is_looped(axis) {
        return Ok(());
    }
    let name = AXIS_NAMES[axis];
    let codes = CODES[axis];
    let plus = seed.links[2 * axis].ok_or_else(|| needed_link(index, axis, codes[0], 'p'))?;
    let minus = seed.links[2 * axis + 1].ok_or_else(|| needed_link(index, axis, codes[1], 'm'))?;
    if plus.origin != minus.origin {
        let text =
            format!("torus seed {index}: {name}p_link and {name}m_link must have the same origin");
        return Err(Note::error(codes[2], text));
    }
    Ok(())
}

fn needed_link(index: usize, axis: usize, code: &'static str, sign: char) -> Note {
    let name = AXIS_NAMES[axis];
    let text = format!(
        "torus seed {index}: a looped {name} dimension of radix 4 also needs {name}{sign}_link"
    );
    Note::error(code, text)
}

/// Switches of a seed's links in active dimensions that are not in the fabric.
fn absent_switches(fabric: &Fabric, lattice: &Lattice, seed: &Seed) -> Vec<Guid> {
    let mut absent: Vec<Guid> = (0..3)
        .filter(|&axis| lattice.is_active(axis))
        .flat_map(|axis| links(seed, axis))
        .flat_map(|link| [link.origin, link.neighbor])
        .filter(|&guid| !is_switch(fabric, guid))
        .collect();
    absent.sort();
    absent.dedup();
    absent
}

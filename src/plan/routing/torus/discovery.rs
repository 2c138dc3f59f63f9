//! The discovery of a torus from one seed, with its messages, and its completion under damage.

use super::cabling::Cabling;
use super::checks::UsedSeed;
use super::lattice::Lattice;
use super::placement::{DiscoveredTorus, NamedSwitch, Placement, PlacementError, origin};
use super::seeds;
use crate::config::torus::TorusConfig;
use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::notes::Note;

/// Discovers the torus from a seed.
///
/// # Errors
/// Returns error messages if a switch was found at two positions, or a switch has more local ports than
/// `portgroup_max_ports` allows.
pub(super) fn discover(
    fabric: &Fabric,
    config: &TorusConfig,
    lattice: &Lattice,
    cabling: &Cabling,
    used: &UsedSeed,
    notes: &mut Vec<Note>,
) -> Result<DiscoveredTorus, Vec<Note>> {
    let UsedSeed { index, seed, .. } = used;
    let kind = if *index == 0 { "default".to_owned() } else { format!("backup #{index}") };
    let mut placement = Placement::new(lattice, cabling, config.portgroup_max_ports);
    placement.place_seed(fabric, seed).map_err(messages)?;
    let guid = seed.links.iter().flatten().next().map_or(Guid(0), |link| link.origin);
    let at = lattice.coordinates(origin(lattice, seed));
    notes.push(Note::info(format!(
        "using torus seed configured as {kind} (switch {at} GUID {guid})"
    )));
    placement.discover();
    placement.finish(fabric).map_err(messages)
}

/// A completed torus.
pub(super) struct Completion {
    /// The torus, if it has further switches.
    pub torus: Option<DiscoveredTorus>,
    /// Warnings about switches that stay out.
    pub ambiguous: Vec<Note>,
    /// True if all switches and cables fit the configured radices.
    pub fits_lattice: bool,
}

/// Completes a discovered torus: by the cables of single switches, and with the other seeds of the
/// configuration, as far as they agree with it. A seed that lacks switches still tells the positions of the
/// others, where their cables leave a choice.
pub(super) fn complete(
    fabric: &Fabric,
    config: &TorusConfig,
    discovered: &DiscoveredTorus,
    cabling: &Cabling,
    used: usize,
) -> Completion {
    if discovered.grid.positions.iter().all(Option::is_some) {
        let fits_lattice = discovered.leftover.is_empty();
        return Completion { torus: None, ambiguous: Vec::new(), fits_lattice };
    }
    let lattice = &discovered.grid.lattice;
    let max_ports = config.portgroup_max_ports;
    let mut placement = Placement::resume(&discovered.grid, cabling, max_ports);
    let before = placement.unplaced_count();
    let others = config.seeds.iter().enumerate().filter(|&(index, seed)| {
        index != used && seeds::contradiction(lattice, seed, index).is_none()
    });
    let named = config.seeds.iter().enumerate().filter_map(|(index, seed)| {
        let is_sound = seeds::contradiction(lattice, seed, index).is_none();
        is_sound.then(|| seeds::named_switches(fabric, lattice, seed))
    });
    let named: Vec<Vec<NamedSwitch>> = named.collect();
    let others: Vec<Placement<'_>> = others
        .filter_map(|(_, seed)| {
            let mut other = Placement::new(lattice, cabling, max_ports);
            other.place_seed(fabric, seed).ok()?;
            // A seed whose switches all have their position already leads to no others.
            if !placement.lacks_switch_of(&other) {
                return None;
            }
            other.discover();
            Some(other)
        })
        .collect();
    loop {
        let mut is_larger = false;
        for other in &others {
            is_larger |= placement.merge(other);
        }
        placement.complete();
        is_larger |= placement.place_named(&named);
        if !is_larger {
            break;
        }
    }
    let ambiguous = placement.ambiguous(fabric);
    let fits_lattice = placement.fits_lattice();
    if placement.unplaced_count() == before {
        return Completion { torus: None, ambiguous, fits_lattice };
    }
    match placement.finish(fabric) {
        Ok(torus) => Completion { torus: Some(torus), ambiguous, fits_lattice },
        Err(_) => Completion { torus: None, ambiguous: Vec::new(), fits_lattice: false },
    }
}

fn messages(error: PlacementError) -> Vec<Note> {
    match error {
        PlacementError::SeedSwitchMissing(guid) => {
            let text = format!(
                "the torus seed names GUID {guid}, which is not the GUID of a switch in the fabric"
            );
            vec![Note::error("4E06", text)]
        }
        PlacementError::Contradiction(notes) => notes,
    }
}

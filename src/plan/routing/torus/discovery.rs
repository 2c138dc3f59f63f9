//! The discovery of a torus from one seed, with its messages.

use super::cabling::Cabling;
use super::lattice::Lattice;
use super::placement::{Discovered, Placement, PlacementError, origin};
use crate::config::torus::TorusConfig;
use crate::fabric::Fabric;
use crate::notes::Note;

/// Discovers the torus from the seed with index `seed`.
///
/// # Errors
/// Returns error messages if a seed switch is not in the fabric, a switch was found at two
/// positions, or a switch has more local ports than `portgroup_max_ports` allows.
pub(super) fn discover(
    fabric: &Fabric,
    config: &TorusConfig,
    lattice: &Lattice,
    cabling: &Cabling,
    seed: usize,
    notes: &mut Vec<Note>,
) -> Result<Discovered, Vec<Note>> {
    let kind = if seed == 0 { "default".to_owned() } else { format!("backup #{seed}") };
    let seed = config.seeds.get(seed).copied().unwrap_or_default();
    let mut placement = Placement::new(lattice, cabling, config.portgroup_max_ports);
    placement.place_seed(fabric, &seed).map_err(messages)?;
    let guid = seed.links.iter().flatten().next().map(|link| link.origin).unwrap_or_default();
    let at = lattice.coordinates(origin(lattice, &seed));
    notes.push(Note::info(format!(
        "using torus seed configured as {kind} (switch {at} GUID {guid})"
    )));
    placement.discover();
    placement.finish(fabric).map_err(messages)
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

//! Results of the check of a plan that the proof of its groups starts from.

use super::network::SwitchNetwork;
use super::sl_to_vl::SlToVlMaps;
use super::triples::Triples;

/// The triples of the static routes of a plan, as a check has found them; there may be more, which no packet
/// takes.
#[derive(Clone, Copy)]
pub(super) struct KnownTriples<'a> {
    /// Switches that were removed have numbers behind those of the fabric.
    pub network: &'a SwitchNetwork,
    pub sl_to_vl: &'a SlToVlMaps,
    pub triples: &'a Triples,
}

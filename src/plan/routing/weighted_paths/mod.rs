//! Shortest paths over links whose lengths grow with the paths over them, which SSSP, DFSSSP and
//! Nue share.
//!
//! | file | contents |
//! |---|---|
//! | `network` | the switches and the links between them |
//! | `heap` | a heap with OpenSM's order of equal keys |
//! | `search` | the shortest paths from all switches to one |
//! | `early_end` | when a search needs to follow no more switches |
//! | `columns` | forwarding tables that are filled LID by LID |
//! | `multicast` | multicast trees of these paths |

pub(super) mod columns;
pub(super) mod early_end;
pub(super) mod heap;
pub(super) mod multicast;
pub(super) mod network;
pub(super) mod search;

use crate::fabric::Fabric;
use crate::notes::Note;
use crate::plan::LidTable;
use crate::wire::attr::NodeKind;
use network::Network;
use search::{Root, Search};

/// The length of a link without paths: the square of the number of LIDs, so that fewer hops are
/// shorter.
pub(super) fn one_hop(fabric: &Fabric, lids: &LidTable) -> u64 {
    let counted = lids.iter().filter(|&(_, port)| is_counted(fabric.node_of(port).kind()));
    (counted.count() as u64).pow(2)
}

fn is_counted(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::Ca | NodeKind::Switch)
}

/// Checks that all switches have a path to that of the subnet manager.
///
/// # Errors
/// Returns a message with this code that names a switch without a path.
pub(super) fn check_connected(
    fabric: &Fabric,
    network: &Network,
    search: &mut Search,
    code: &'static str,
) -> Result<(), Note> {
    let Some(switch) = fabric.switch_behind(fabric.local()) else { return Ok(()) };
    let lengths = vec![1; network.links().len()];
    search.run(network, &lengths, Root::Switch(network.numbers[switch.index()]));
    let mut reached = vec![false; network.len()];
    search.order.iter().for_each(|&switch| reached[switch as usize] = true);
    let lost = reached.iter().zip(&network.switches).find(|(reached, _)| !**reached);
    lost.map_or(Ok(()), |(_, &lost)| {
        let port = fabric.describe(fabric.switch(lost).first_port);
        let text = format!("{port} has no path to the subnet manager over links that are in use");
        Err(Note::error(code, text))
    })
}

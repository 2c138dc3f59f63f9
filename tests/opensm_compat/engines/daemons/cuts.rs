//! The cables of a fabric that are cut while both managers run.

use super::super::EngineCase;
use testkit::torus::random::Random;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::wire::attr::NodeKind;

/// Draws cables that do not end at the node of the managers: up to three, or all of a switch. Returns
/// them, each named by one end, and the case without them.
pub(super) fn draw(
    case: &EngineCase,
    random: &mut Random,
) -> (Vec<(char, Guid, PortNum)>, EngineCase) {
    let topology = &case.topology;
    let home = topology.cables.iter().find(|cable| cable.iter().any(|end| end.0 == case.local));
    let is_of_home = |node: usize| home.is_some_and(|cable| cable.iter().any(|end| end.0 == node));
    let others = |cable: &usize| topology.cables[*cable].iter().all(|end| end.0 != case.local);
    let mut cables: Vec<usize> = (0..topology.cables.len()).filter(others).collect();
    random.shuffle(&mut cables);
    let lost = random.below(case.switches().len().max(1));
    if random.percent(25) && !is_of_home(lost) {
        cables.retain(|&cable| topology.cables[cable].iter().any(|end| end.0 == lost));
    } else {
        cables.truncate(1 + random.below(3));
    }
    let mut remaining = case.clone();
    let mut number = 0;
    remaining.topology.cables.retain(|_| {
        number += 1;
        !cables.contains(&(number - 1))
    });
    let named = cables.into_iter().map(|cable| {
        let (node, port) = topology.cables[cable][0];
        let node = &topology.nodes[node];
        let letter = match node.kind {
            NodeKind::Switch => 'S',
            NodeKind::Router => 'R',
            _ => 'H',
        };
        (letter, node.guid, port)
    });
    (named.collect(), remaining)
}

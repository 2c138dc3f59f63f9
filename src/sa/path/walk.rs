//! The way of a packet through the tables that are programmed.

use super::Ends;
use crate::fabric::PortId;
use crate::ids::PortNum;
use crate::sa::facts::Speed;
use crate::sa::view::View;

/// The most links of a path: tables that lead further lead in a circle.
const MAX_LINKS: usize = 64;

/// What packets find on their way.
pub(super) struct Way {
    /// The least MTU and rate.
    pub speed: Speed,
    /// The SLs whose packets are dropped, bit n for SL n.
    pub dropped: u16,
}

/// A packet passes a node.
pub(in crate::sa) struct Passing {
    /// The port it came by; `None` at the node that sends it.
    pub entry: Option<PortId>,
    /// The port it leaves by: the destination itself at a switch that the packet is for, and if a
    /// port sends to itself.
    pub exit: PortId,
    /// What both ends of the cable that it leaves by are capable of, or the destination.
    speed: Speed,
}

/// What is on the way that the tables send a packet; `None` if they do not deliver it.
pub(super) fn way(view: &View<'_>, ends: &Ends) -> Option<Way> {
    known(view, ends).or_else(|| walked(view, ends))
}

/// The same where it is known without a walk.
fn known(view: &View<'_>, ends: &Ends) -> Option<Way> {
    let between = view.facts().between().filter(|_| ends.from != ends.to)?;
    let (first, from) = view.place(ends.from)?;
    let (last, to) = view.place(ends.to)?;
    let at_ends = from.min(to);
    let speed = if first == last { at_ends } else { at_ends.min(between) };
    Some(Way { speed, dropped: 0 })
}

fn walked(view: &View<'_>, ends: &Ends) -> Option<Way> {
    let mut way = Way { speed: view.facts().speed(ends.from), dropped: 0 };
    let pass = |Passing { entry, exit, speed }| {
        way.speed = way.speed.min(speed);
        if view.facts().drops {
            let input = entry.map_or(PortNum::ZERO, |entry| view.fabric().port(entry).num);
            way.dropped |= view.dropped(input, exit);
        }
    };
    walk(view, ends, pass).then_some(way)
}

/// Calls `pass` for every node that sends a packet on as the tables have it, in their order, and for
/// a switch that it is for. False if they do not deliver it.
pub(in crate::sa) fn walk(view: &View<'_>, ends: &Ends, mut pass: impl FnMut(Passing)) -> bool {
    let facts = view.facts();
    let mut entry = None;
    let mut exit = match view.fabric().node_of(ends.from).switch {
        Some(switch) if ends.from != ends.to => view.out(switch, ends.dlid),
        _ => Some(ends.from),
    };
    for _ in 0..MAX_LINKS {
        let Some(port) = exit else { return false };
        if port == ends.to {
            pass(Passing { entry, exit: port, speed: facts.speed(port) });
            return true;
        }
        let Some(cable) = facts.cable(port) else { return false };
        pass(Passing { entry, exit: port, speed: cable.speed });
        if cable.peer == ends.to {
            return true;
        }
        entry = Some(cable.peer);
        exit = cable.switch.and_then(|switch| view.out(switch, ends.dlid));
    }
    false
}

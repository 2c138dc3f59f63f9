//! Cables at ports whose error counters grow.

use super::source::{FactSource, FactView, Watched};
use crate::fabric::Fabric;
use crate::incidents::fact::{Cable, CableDefect, Facts, FaultyCable};
use crate::perfmgr::status::PerfStatus;
use std::sync::Arc;

/// Increases between two readings from which on a cable has errors, by counter: its number in the
/// database, name and increase. Single symbol errors and dropped packets are usual.
const ERROR_LIMITS: [(usize, &str, u64); 5] = [
    (0, "symbol errors", 100),
    (1, "link error recoveries", 1),
    (3, "receive errors", 100),
    (9, "local link integrity errors", 1),
    (10, "excessive buffer overruns", 1),
];

/// The last readings and snapshot, and the cables with errors.
struct Counted {
    perf: Arc<PerfStatus>,
    fabric: Arc<Fabric>,
    faulty: Vec<FaultyCable>,
}

#[derive(Default)]
pub struct CountedErrors(Option<Counted>);

impl FactSource for CountedErrors {
    fn add_facts(&mut self, view: &FactView<'_>, facts: &mut Facts) {
        let Some(Watched { fabric, .. }) = view.watched else { return };
        let perf = view.perf;
        let last = self
            .0
            .take()
            .filter(|it| Arc::ptr_eq(&it.perf, perf) && Arc::ptr_eq(&it.fabric, fabric));
        let counted = self.0.insert(last.unwrap_or_else(|| Counted {
            perf: perf.clone(),
            fabric: fabric.clone(),
            faulty: counted_errors(perf, fabric),
        }));
        facts.cables.faulty.extend_from_slice(&counted.faulty);
    }

    fn reset(&mut self) {
        self.0 = None;
    }
}

fn counted_errors(perf: &PerfStatus, fabric: &Fabric) -> Vec<FaultyCable> {
    let mut faulty = Vec::new();
    for node in perf.database.nodes().filter(|node| node.is_active) {
        let Some(id) = fabric.node_by_guid(node.guid) else { continue };
        for (num, port) in node.valid_ports() {
            let increase = port.recent_errors.0;
            let above = ERROR_LIMITS.iter().filter(|(at, _, limit)| increase[*at] >= *limit);
            let texts: Vec<String> =
                above.map(|(at, name, _)| format!("{} {name}", increase[*at])).collect();
            if texts.is_empty() {
                continue;
            }
            let slot = fabric.port_of(id, num.into());
            let Some(cable) = slot.and_then(|slot| Cable::of(fabric, slot)) else { continue };
            let text = format!(
                "\"{}\"[{num}] counts {} between two readings",
                node.name,
                texts.join(", ")
            );
            faulty.push(FaultyCable { cable, fault: CableDefect::Erroring { text } });
        }
    }
    faulty
}

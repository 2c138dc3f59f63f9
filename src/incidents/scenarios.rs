//! Scenarios of incidents: the files of `testdata`. Each has blocks of facts, a line `----`, and the
//! changes and open incidents that follow; UPDATE_GOLDEN=1 rewrites these.
//!
//! A node is `NAME:GUID` with a hexadecimal GUID, a port `NAME:GUID[NUMBER]`, a cable two ports with `-`
//! between them. Switches have GUIDs below 0x100.
//!
//! | line | fact |
//! |---|---|
//! | `at MS` | the time of the facts |
//! | `lost NODE LIDS CABLE...`, `silent NODE LIDS CABLE...` | a node that is gone, or does not answer |
//! | `down CABLE`, `returned CABLE` | a cable that is gone, or was for a moment |
//! | `flaps CABLE DOWNS [quarantined]`, `errors CABLE TEXT`, `degraded CABLE HAS COULD` | a faulty cable |
//! | `unexpected CABLE`, `exchange CABLE CABLE PORT PORT` | cables of a torus |
//! | `refuses NODE TEXT`, `duplicate node\|port GUID PORT PORT` | devices |
//! | `rejected`, `repaired`, `fallback`, `loop`, `unrouted`, `repair TEXT` | routes |
//! | `manager GUID TEXT`, `full TEXT`, `flood LID NAME COUNT`, `own RESOURCE TEXT` | others |
//! | `unanswered PORT` | a port with a link behind which nothing answers |
//! | `next TEXT`, `reroute MS SETS`, `mass-silence` | more about losses |
//! | `restart` | the book is stored and read again |

use super::book::{Book, IncidentChange};
use super::fact::*;
use super::incident::Incident;
use super::{losses::Register, store};
use crate::ids::{Guid, PortNum};
use crate::scenario_files;
use std::fmt::Write as _;

/// The name of the folder below the root of the repository.
const FOLDER: &str = "src/incidents/testdata";

fn guid(text: &str) -> Guid {
    Guid(u64::from_str_radix(text, 16).unwrap_or_else(|error| panic!("{text:?}: {error}")))
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn end(text: &str) -> CableEnd {
    let (node, port) = text.trim_end_matches(']').split_once('[').expect("a port");
    let (name, digits) = node.split_once(':').expect("NAME:GUID");
    let guid = guid(digits);
    let is_switch = guid.0 < 0x100;
    CableEnd { guid, port: PortNum(number(port) as u8), name: name.to_owned(), is_switch }
}

fn cable(text: &str) -> Cable {
    let (one, other) = text.split_once('-').expect("two ports");
    Cable::new(end(one), end(other))
}

fn node(text: &str, lids: &str, cables: &[&str]) -> KnownNode {
    let (name, digits) = text.split_once(':').expect("NAME:GUID");
    let guid = guid(digits);
    KnownNode {
        guid,
        device: if guid.0 < 0x100 { DeviceClass::Switch } else { DeviceClass::Host },
        name: name.to_owned(),
        lids: number(lids) as u32,
        cables: cables.iter().map(|text| cable(text)).collect(),
    }
}

/// Adds a fact; returns false for lines that are none.
fn add(facts: &mut Facts, words: &[&str]) -> bool {
    add_of_cables(facts, words) || add_of_routes(facts, words) || add_of_others(facts, words)
}

fn add_of_cables(facts: &mut Facts, words: &[&str]) -> bool {
    match *words {
        ["lost", name, lids, ref cables @ ..] => facts.losses.nodes.push(node(name, lids, cables)),
        ["silent", name, lids, ref cables @ ..] => {
            facts.losses.silent_nodes.push(node(name, lids, cables));
        }
        ["unanswered", port] => facts.losses.unanswered.push(end(port)),
        ["mass-silence"] => facts.losses.is_mass_silence = true,
        ["down", text] => facts.losses.cables.push(cable(text)),
        ["flaps", text, downs, ref rest @ ..] => {
            let is_quarantined = *rest == ["quarantined"];
            let fault = CableDefect::Flapping { downs: number(downs) as u32, is_quarantined };
            facts.cables.faulty.push(faulty(text, fault));
        }
        ["returned", text] => facts.losses.returned_cables.push(cable(text)),
        ["errors", text, ref rest @ ..] => {
            let fault = CableDefect::Erroring { text: rest.join(" ") };
            facts.cables.faulty.push(faulty(text, fault));
        }
        ["degraded", text, has, could] => {
            let fault = CableDefect::Degraded { has: has.to_owned(), could: could.to_owned() };
            facts.cables.faulty.push(faulty(text, fault));
        }
        ["unexpected", text] => facts.cables.unexpected.push(cable(text)),
        ["exchange", one, other, plug, other_plug] => {
            facts.cables.exchanged.push(ExchangedCables {
                cables: [cable(one), cable(other)],
                plugs: [end(plug), end(other_plug)],
                reason: "the exchange makes both fit".to_owned(),
            })
        }
        _ => return false,
    }
    true
}

fn faulty(text: &str, fault: CableDefect) -> FaultyCable {
    FaultyCable { cable: cable(text), fault }
}

fn add_of_routes(facts: &mut Facts, words: &[&str]) -> bool {
    let routing = &mut facts.routing;
    match *words {
        ["rejected", ref rest @ ..] => routing.rejected = Some(rest.join(" ")),
        ["repaired", ref rest @ ..] => routing.repaired = Some(rest.join(" ")),
        ["fallback", ref rest @ ..] => routing.fallback = Some(rest.join(" ")),
        ["loop", ref rest @ ..] => routing.credit_loop = Some(rest.join(" ")),
        ["unrouted", ref rest @ ..] => routing.unrouted = Some(rest.join(" ")),
        ["repair", ref rest @ ..] => routing.repairs.push(rest.join(" ")),
        _ => return false,
    }
    true
}

fn add_of_others(facts: &mut Facts, words: &[&str]) -> bool {
    match *words {
        ["refuses", name, ref rest @ ..] => facts.refusing.push(RefusingDevice {
            guid: node(name, "0", &[]).guid,
            name: name.to_owned(),
            text: rest.join(" "),
        }),
        ["duplicate", of, digits, first, second] => facts.duplicates.push(DuplicateGuid {
            guid: guid(digits),
            is_port: of == "port",
            places: [end(first).to_string(), end(second).to_string()],
            ends: [Some(end(first).end()), Some(end(second).end())],
        }),
        ["manager", digits, ref rest @ ..] => {
            facts.managers.push(ForeignManager { guid: guid(digits), text: rest.join(" ") });
        }
        ["full", ref rest @ ..] => {
            facts.full.push(FullSpace { space: "MLIDs", text: rest.join(" ") });
        }
        ["flood", lid, name, count] => facts.floods.push(Flood {
            lid: number(lid) as u16,
            name: name.to_owned(),
            offence: "trap_flood",
            count: number(count),
        }),
        ["own", _, ref rest @ ..] => facts.own.push(OwnFault {
            resource: "dumps",
            text: rest.join(" "),
            repair: "free space".to_owned(),
        }),
        ["next", ref rest @ ..] => facts.losses.next_failure = Some(rest.join(" ")),
        ["reroute", ms, sets] => {
            facts.losses.reroute = Some(Reroute { milliseconds: number(ms), sets: number(sets) });
        }
        _ => return false,
    }
    true
}

fn put(out: &mut String, incident: &Incident) {
    let Incident { id, severity, headline, takes, .. } = incident;
    let name = incident.kind.name();
    writeln!(out, "{} {id} {name} since {}: {headline}", severity.name(), incident.opened)
        .expect("a string");
    let switches = takes.switches;
    let hosts = takes.hosts;
    let lids = takes.lids;
    let links = takes.links;
    let names = takes.names.join(",");
    writeln!(
        out,
        "  takes {switches} switches, {hosts} hosts, {lids} LIDs, {links} links: {names}"
    )
    .expect("a string");
    for line in &incident.evidence {
        writeln!(out, "  seen: {line}").expect("a string");
    }
    if let Some(reroute) = incident.rerouted {
        let ms = reroute.milliseconds;
        let sets = reroute.sets;
        writeln!(out, "  rerouted in {ms} ms with {sets} Sets").expect("a string");
    }
    for line in &incident.risks {
        writeln!(out, "  risk: {line}").expect("a string");
    }
    writeln!(out, "  repair: {}", incident.repair).expect("a string");
}

fn played(text: &str) -> String {
    let mut book = Book::default();
    let mut now = 0;
    let mut blocks: Vec<String> = Vec::new();
    for block in text.trim().split("\n\n") {
        let mut input = String::new();
        let mut facts = Facts::default();
        for line in block.lines().take_while(|line| *line != "----") {
            writeln!(input, "{line}").expect("a string");
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["#", ..] => {}
                ["at", ms] => now = number(ms),
                ["restart"] => {
                    let stored = store::emit(&book, &Register::default());
                    book = store::parse(&stored).expect("the text of this version").0;
                }
                _ => assert!(add(&mut facts, &words), "unknown fact: {line}"),
            }
        }
        let mut out = String::new();
        for change in book.observe(&facts, now) {
            match change {
                IncidentChange::Opened(it) => writeln!(out, "opened {} ({})", it.id, it.openings),
                IncidentChange::Changed(it) => writeln!(out, "changed {}", it.id),
                IncidentChange::Reclassified(it) => {
                    writeln!(out, "{} is now a {}", it.id, it.kind.name())
                }
                IncidentChange::Closed(it) => writeln!(out, "closed {}", it.id),
                IncidentChange::Folded { incident, into } => {
                    writeln!(out, "{} is part of {into}", incident.id)
                }
            }
            .expect("a string");
        }
        book.list().open.iter().for_each(|incident| put(&mut out, incident));
        blocks.push(format!("{input}----\n{out}"));
    }
    blocks.join("\n")
}

#[test]
fn scenarios_lead_to_the_recorded_incidents() {
    scenario_files::check(FOLDER, played);
}

#[test]
fn the_book_is_bounded() {
    let mut book = Book::default();
    let max = super::book::MAX_OPEN;
    assert_eq!(book.observe(&counted_facts(max as u64 + 7), 1).len(), max);
    assert_eq!((book.list().open.len(), book.list().left_out), (max, 7));
    assert_eq!(book.observe(&counted_facts(max as u64 + 7), 2), [], "the same ones stay");
    book.observe(&Facts::default(), 3);
    assert_eq!(book.list().closed.len(), super::book::MAX_CLOSED);
}

fn counted_facts(count: u64) -> Facts {
    Facts {
        refusing: (0..count)
            .map(|guid| RefusingDevice {
                guid: Guid(guid + 1),
                name: format!("node {guid}"),
                text: String::new(),
            })
            .collect(),
        ..Facts::default()
    }
}

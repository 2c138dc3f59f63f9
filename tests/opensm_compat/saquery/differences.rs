//! Intended differences between the answers of torus-sm and OpenSM, with their reasons. One that no
//! longer occurs fails the test.

use super::answer::{Answer, Record};
use super::fabric::{Node, lid, node};
use super::question::Question;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The answers to one query.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub ours: Answer,
    pub theirs: Answer,
}

impl Pair {
    /// A description of the difference; `None` if the answers are equal.
    pub(crate) fn difference(&self) -> Option<String> {
        let ours = self.ours.counted();
        let theirs = self.theirs.counted();
        if self.ours.error == self.theirs.error && ours == theirs {
            return None;
        }
        let our_error = &self.ours.error;
        let their_error = &self.theirs.error;
        let mut text = format!("  errors: '{our_error}', OpenSM '{their_error}'\n");
        for (whose, some, others) in [("ours", &ours, &theirs), ("OpenSM", &theirs, &ours)] {
            let alone: Vec<_> = some.iter().filter(|(r, n)| others.get(*r) != Some(*n)).collect();
            let _ = writeln!(text, "  {whose}: {} of {} alone", alone.len(), some.len());
            for (record, n) in alone.iter().take(2) {
                let _ = writeln!(text, "  {n} x {:?}", record.0);
            }
        }
        Some(text)
    }

    /// Removes those of our records that have no equal in OpenSM's answer and satisfy `is_such`.
    fn drop_ours(&mut self, is_such: impl Fn(&Record) -> bool) -> bool {
        drop_alone(&mut self.ours, &self.theirs, is_such)
    }

    /// Removes those of OpenSM's records that have no equal in ours and satisfy `is_such`.
    fn drop_theirs(&mut self, is_such: impl Fn(&Record) -> bool) -> bool {
        drop_alone(&mut self.theirs, &self.ours, is_such)
    }
}

fn drop_alone(from: &mut Answer, others: &Answer, is_such: impl Fn(&Record) -> bool) -> bool {
    let before = from.records.len();
    let others = others.counted();
    from.records.retain(|record| others.contains_key(record) || !is_such(record));
    from.records.len() < before
}

/// An intended difference.
pub(crate) struct Difference {
    pub name: &'static str,
    pub reason: &'static str,
    /// Removes the difference from a pair of answers; false if it did not occur.
    pub apply: fn(&Question, &mut Pair) -> bool,
}

pub(crate) const DIFFERENCES: [Difference; 16] = [
    Difference {
        name: "QoS class of a path",
        reason: "a PathRecord has the QoS class that the query names; OpenSM answers 0",
        apply: qos_class,
    },
    Difference {
        name: "capabilities",
        reason: "OpenSM says that it has Get and Set of Notice (IBA vol. 1, 13.4.8.1), which no SA \
                 has (15.2.5); torus-sm says that it knows links of speed NDR",
        apply: capabilities,
    },
    Difference {
        name: "ports without a link",
        reason: "what a device reports of a port that is down is not withheld: of the rest of \
                 PortInfo OpenSM keeps nothing then (C14-24.2.1), and answers zeros",
        apply: ports_without_link,
    },
    Difference {
        name: "number of a P_Key block",
        reason: "it is big-endian like all numbers (IBA vol. 1, 15.2.5.11); OpenSM and saquery \
                 leave it in the order of the host, which hides it between the two",
        apply: number_of_pkey_block,
    },
    Difference {
        name: "P_Keys between switches",
        reason: "ports between switches enforce nothing; torus-sm neither reads nor writes their \
                 tables, and tells what it knows",
        apply: pkeys_between_switches,
    },
    Difference {
        name: "keys of the ports of switches",
        reason: "a switch is seen by whoever shares a partition with its port 0, all of it; OpenSM \
                 compares the table of each port, which filters for the host behind it, so that \
                 limited members do not see the switch port of another, nor anybody their links",
        apply: keys_of_switch_ports,
    },
    Difference {
        name: "send-only members",
        reason: "they send and do not receive (IBA vol. 1, 15.2.5.17); OpenSM's trees deliver to \
                 them too",
        apply: send_only_members,
    },
    Difference {
        name: "local port",
        reason: "it is the port by which the manager's request reached the device (IBA vol. 1, \
                 14.2.5.6), which depends on what was asked by which route last",
        apply: local_port,
    },
    Difference {
        name: "activity",
        reason: "each manager counts what it does itself",
        apply: activity,
    },
    Difference {
        name: "ProxyJoin",
        reason: "it is the top bit of its byte (IBA vol. 1, 15.2.5.17); OpenSM and saquery have it \
                 at the other end",
        apply: proxy_join,
    },
    Difference {
        name: "unknown GIDs",
        reason: "who asks for paths of a GID that no port has is told so (ERR_REQ_INVALID_GID, IBA \
                 vol. 1, 15.2.1.2), for tables as well",
        apply: unknown_gids,
    },
    Difference {
        name: "link-local prefixes",
        reason: "there is one, fe80::/64 (IBA vol. 1, 4.1.1); OpenSM takes all of fe80::/10",
        apply: link_local_prefixes,
    },
    Difference {
        name: "flow label of a group",
        reason: "it is big-endian like all numbers; OpenSM leaves it in the order of the host",
        apply: flow_label_of_group,
    },
    Difference {
        name: "groups of other partitions",
        reason: "who is not in the partition of a group learns no path to it, as he sees no record \
                 of it (IBA vol. 1, 15.4.1.2)",
        apply: groups_of_other_partitions,
    },
    Difference {
        name: "scopes of IPoIB",
        reason: "the broadcast group of a partition is in the scopes that partitions.conf says, as \
                 its manual has it; OpenSM makes the link-local one only",
        apply: scopes_of_ipoib,
    },
    Difference {
        name: "keys of services",
        reason: "the published sa_key, which any client may know, does not show the keys of others; \
                 OpenSM shows them to it",
        apply: keys_of_services,
    },
];

const NOTICE: u64 = 1 << 1;
const LINK_SPEED_NDR: u64 = 1 << 17;

fn capabilities(_: &Question, pair: &mut Pair) -> bool {
    let mask = |answer: &mut Answer, field: &str, bits: u64| {
        let mut had = false;
        for record in answer.records.iter_mut().filter(|r| r.is("SA ClassPortInfo")) {
            let value = record.number(field).unwrap_or_default();
            had |= value & bits != 0;
            record.set(field, format!("{:#x}", value & !bits));
        }
        had
    };
    let notice = mask(&mut pair.theirs, "Capability mask", NOTICE);
    let speed = mask(&mut pair.ours, "Capability mask 2", LINK_SPEED_NDR);
    // The same digits on both sides.
    mask(&mut pair.ours, "Capability mask", 0);
    mask(&mut pair.theirs, "Capability mask 2", 0);
    notice && speed
}

fn ports_without_link(_: &Question, pair: &mut Pair) -> bool {
    const TOLD: [&str; 5] = ["", "EndPortLid", "PortNum", "LinkState", "PhysLinkState"];
    let mut any = false;
    for record in pair.ours.records.iter_mut().chain(&mut pair.theirs.records) {
        if record.is("PortInfoRecord dump") && record.value("LinkState") == Some("Down") {
            record.0.retain(|(name, _)| TOLD.contains(&name.as_str()));
            any = true;
        }
    }
    any
}

fn number_of_pkey_block(_: &Question, pair: &mut Pair) -> bool {
    let mut any = false;
    for record in pair.ours.records.iter_mut().filter(|r| r.is("PKeyTableRecord")) {
        let block = record.number("Block").and_then(|block| u16::try_from(block).ok());
        any |= record.set("Block", block.expect("a block").swap_bytes());
    }
    any
}

fn is_switch(record: &Record, field: &str) -> bool {
    matches!(record.number(field).and_then(node), Some(Node::Switch(_)))
}

/// The port of every switch with its host.
const PORT_OF_HOST: u64 = 7;

fn pkeys_between_switches(_: &Question, pair: &mut Pair) -> bool {
    pair.drop_theirs(|record| {
        let port = record.number("Port").unwrap_or_default();
        let between = (1..PORT_OF_HOST).contains(&port);
        record.is("PKeyTableRecord") && is_switch(record, "LID") && between
    })
}

/// The fields that say which port a record is about.
fn port_of(record: &Record) -> Vec<Option<String>> {
    const FIELDS: [&str; 11] = [
        "",
        "EndPortLid",
        "PortNum",
        "LID",
        "InPort",
        "OutPort",
        "Port",
        "Block",
        "FromLID",
        "FromPort",
        "ToLID",
    ];
    FIELDS.iter().map(|name| record.value(name).map(str::to_owned)).collect()
}

fn keys_of_switch_ports(_: &Question, pair: &mut Pair) -> bool {
    // A record of theirs about the same port is another difference.
    let told: BTreeSet<_> = pair.theirs.records.iter().map(port_of).collect();
    pair.drop_ours(|record| {
        if told.contains(&port_of(record)) {
            return false;
        }
        let at = |node: &str, port: &str| {
            is_switch(record, node) && record.number(port) == Some(PORT_OF_HOST)
        };
        if record.is("LinkRecord") {
            return at("FromLID", "FromPort") || at("ToLID", "ToPort");
        }
        let titles = ["PortInfoRecord", "SL2VLTableRecord", "VLArbTableRecord", "PKeyTableRecord"];
        let is_such = titles.iter().any(|title| record.is(title));
        let ports = ["InPort", "OutPort", "Port"].iter().any(|port| at("LID", port));
        is_such && (ports || at("EndPortLid", "PortNum"))
    })
}

/// The sender in the registry, a member of the first group.
const SENDER: [u16; 3] = [0, 1, 1];

fn send_only_members(_: &Question, pair: &mut Pair) -> bool {
    let switch = u64::from(lid(Node::Switch(SENDER)));
    let mut any = false;
    for record in pair.theirs.records.iter_mut().filter(|r| r.is("MFT Record")) {
        if record.number("LID") != Some(switch) || record.number("Block") != Some(0) {
            continue;
        }
        for (_, line) in record.0.iter_mut().filter(|(_, line)| line.starts_with("0xc000\t")) {
            let mask = line.rsplit("0x").next().and_then(|n| u16::from_str_radix(n, 16).ok());
            let mask = mask.expect("a port mask");
            any |= mask & 1 << PORT_OF_HOST != 0;
            *line = format!("0xc000\t{:#06x}", mask & !(1 << PORT_OF_HOST));
        }
    }
    any
}

fn qos_class(_: &Question, pair: &mut Pair) -> bool {
    let mut any = false;
    for record in &mut pair.ours.records {
        if record.value("qos_class").is_some_and(|class| class != "0x0") {
            any |= record.set("qos_class", "0x0");
        }
    }
    any
}

fn local_port(_: &Question, pair: &mut Pair) -> bool {
    let records = pair.ours.records.iter_mut().chain(&mut pair.theirs.records);
    let own = records.map(|record| record.set("LocalPort", "some"));
    own.fold(false, |any, one| any | one)
}

fn activity(_: &Question, pair: &mut Pair) -> bool {
    let mut any = false;
    for record in pair.ours.records.iter_mut().chain(&mut pair.theirs.records) {
        if record.number("ActCount").is_some_and(|count| count > 0) {
            any |= record.set("ActCount", "moves");
        }
    }
    any
}

/// No ServiceKey, as saquery prints it.
const NO_SERVICE_KEY: &str = "0x00000000000000000000000000000000";

fn keys_of_services(_: &Question, pair: &mut Pair) -> bool {
    let is_shown = |record: &Record| {
        record.value("ServiceKey").is_some_and(|key| !key.is_empty() && key != NO_SERVICE_KEY)
    };
    if pair.ours.records.iter().any(is_shown) {
        return false;
    }
    let shown = pair.theirs.records.iter_mut().filter(|record| is_shown(record));
    shown.fold(false, |any, record| record.set("ServiceKey", NO_SERVICE_KEY) | any)
}

fn proxy_join(question: &Question, pair: &mut Pair) -> bool {
    question.has(&["--proxy_join"]) && pair.drop_ours(|record| record.is("MCMember"))
}

/// The status as saquery prints it.
const INVALID_GID: &str = "0x0500";

fn unknown_gids(_: &Question, pair: &mut Pair) -> bool {
    let is_such = pair.ours.error.contains(INVALID_GID)
        && pair.theirs.error.is_empty()
        && pair.theirs.records.is_empty();
    if is_such {
        pair.ours.error.clear();
    }
    is_such
}

fn link_local_prefixes(question: &Question, pair: &mut Pair) -> bool {
    let is_such = question.args.iter().any(|arg| arg.starts_with("fe81:"))
        && pair.ours.error.contains(INVALID_GID)
        && !pair.theirs.records.is_empty();
    if is_such {
        pair.ours.error.clear();
        pair.theirs.records.clear();
    }
    is_such
}

fn flow_label_of_group(_: &Question, pair: &mut Pair) -> bool {
    const FIELD: &str = "hop_flow_raw";
    let (Some(ours), Some(theirs)) = (pair.ours.records.first(), pair.theirs.records.first_mut())
    else {
        return false;
    };
    let is_group = theirs.is("PathRecord") && theirs.value("dgid").is_some_and(|g| &g[..2] == "ff");
    let Some(right) = ours.number(FIELD).and_then(|value| u32::try_from(value).ok()) else {
        return false;
    };
    let swapped = ((right & 0xFF).swap_bytes() | (right & 0xFFF_FF00)).swap_bytes();
    let is_such = is_group && right != swapped && theirs.number(FIELD) == Some(swapped.into());
    is_such && theirs.set(FIELD, ours.value(FIELD).expect("the field"))
}

fn groups_of_other_partitions(question: &Question, pair: &mut Pair) -> bool {
    // The port is in the default partition only, and the group belongs to another.
    let is_such = |r: &Record| r.is("PathRecord") && r.value("pkey") == Some("0x8010");
    question.at == "h0-1-1" && pair.drop_theirs(is_such)
}

fn scopes_of_ipoib(_: &Question, pair: &mut Pair) -> bool {
    pair.drop_ours(|record| {
        let group = record.value("MGID").unwrap_or_default();
        record.is("MCMember") && group == "ff15:401b:8020::ffff:ffff"
    })
}

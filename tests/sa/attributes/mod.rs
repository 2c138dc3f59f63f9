//! Every attribute and every method, with our SM_Key and without: the status that the specification
//! requires and the number of records, for good requests, for requests that lack a component, and
//! for bad values. The expectations are in `methods.txt` and `cases.txt`.
//!
//! Statuses are those of IBA vol. 1, 13.4.7 and 15.2.1.2; where the specification leaves the choice
//! open, the test expects OpenSM's status.

mod request;

use request::{Request, World};
use std::collections::{BTreeMap, BTreeSet};
use torus_sm::ids::SmKey;
use torus_sm::sa::Responder;
use torus_sm::wire::mad::{Header, Method};
use torus_sm::wire::sa::{DATA_OFFSET, SA_OFFSET, SaAttr, SaHeader};

const METHODS: &str = include_str!("methods.txt");
const CASES: &str = include_str!("cases.txt");

/// The columns of `methods.txt`.
const OF_THE_CLASS: [(&str, Method); 6] = [
    ("Get", Method::GET),
    ("GetTable", Method::GET_TABLE),
    ("GetTraceTable", Method::GET_TRACE_TABLE),
    ("GetMulti", Method::GET_MULTI),
    ("Set", Method::SET),
    ("Delete", Method::DELETE),
];

const STATUSES: [(&str, u16); 8] = [
    ("OK", 0),
    ("NO_RESOURCES", 0x0100),
    ("REQ_INVALID", 0x0200),
    ("NO_RECORDS", 0x0300),
    ("TOO_MANY_RECORDS", 0x0400),
    ("INVALID_GID", 0x0500),
    ("INSUFFICIENT_COMPONENTS", 0x0600),
    ("DENIED", 0x0700),
];

/// A foreign SM_Key: a request that has it is not answered (IBA vol. 1, 15.4.1.2).
const WRONG_KEY: u64 = 9;
const KEY: u64 = 0x005E_C2E7;

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn number(hex: &str) -> u16 {
    u16::from_str_radix(hex, 16).unwrap_or_else(|_| panic!("{hex} is no number"))
}

/// The attributes of `methods.txt`: name, number, and the entry for each method.
fn attributes() -> Vec<(&'static str, u16, Vec<&'static str>)> {
    let rows = lines(METHODS).filter(|line| !line.starts_with('='));
    let row = |line: &'static str| {
        let mut words = line.split_whitespace();
        let name = words.next().expect("a name");
        let id = words.next().expect("a number");
        let cells: Vec<_> = words.collect();
        assert_eq!(cells.len(), OF_THE_CLASS.len(), "{line}");
        (name, number(id), cells)
    };
    rows.map(row).collect()
}

/// Methods beside those of the class, and the status of the reply if there is one.
fn other_methods() -> Vec<(Method, Option<u16>)> {
    let rows = lines(METHODS).filter_map(|line| line.strip_prefix('='));
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let method = number(words.next().expect("a method"));
        let status = words.next().filter(|word| *word != "-").map(number);
        (Method(method as u8), status)
    };
    rows.map(row).collect()
}

/// Status and number of records of a reply.
type Answer = Option<(u16, usize)>;

/// Sends a request to the responder, which must be fresh if the request may change records.
fn ask(world: &World, sa: &mut Responder, request: &Request, key: u64) -> Answer {
    let changes = sa.registry().changes();
    let mad = request.mad(key);
    let reply = world.handle(sa, &mad);
    let answer = reply.map(|reply| read(&mad, &reply, request.method));
    let is_changed = sa.registry().changes() != changes;
    let writes = matches!(request.method, Method::SET | Method::DELETE);
    let is_done = writes && matches!(answer, Some((0, _)));
    assert!(is_changed == is_done, "{request:?}: changed {is_changed}, answer {answer:x?}");
    answer
}

/// Checks the headers of a reply; returns its status and number of records.
fn read(mad: &[u8], reply: &[u8], method: Method) -> (u16, usize) {
    let asked = Header::read(mad);
    let header = Header::read(reply);
    assert_eq!((header.base_version(), header.class_version()), (1, 2));
    assert_eq!((header.class(), header.tid()), (asked.class(), asked.tid()));
    assert!(Method(header.method()).is_response());
    let sa = SaHeader::read(&reply[SA_OFFSET..]);
    assert_eq!(sa.sm_key(), SmKey::NONE, "the SM_Key is not returned");
    let stride = usize::from(sa.attribute_offset()) * 8;
    let tables = [Method::GET_TABLE, Method::GET_MULTI, Method::GET_TRACE_TABLE];
    let is_table = tables.contains(&method);
    let records = match header.status() {
        0 if is_table && stride == 0 => 0,
        0 if is_table => (reply.len() - DATA_OFFSET) / stride,
        0 => 1,
        _ => 0,
    };
    (header.status(), records)
}

#[test]
fn methods_that_an_attribute_does_not_have() {
    let world = World::new();
    let mut sa = world.responder();
    for (name, attribute, cells) in attributes() {
        let known = SaAttr::name(attribute);
        assert_eq!(known, if name == "none" { "unknown attribute" } else { name });
        let of_the_class = OF_THE_CLASS.iter().zip(&cells).filter(|(_, cell)| **cell != "+");
        let refused = of_the_class.map(|((_, method), cell)| (*method, Some(number(cell))));
        for (method, status) in refused.chain(other_methods()) {
            let request = Request::new(attribute, method);
            let expected = status.map(|status| (status, 0));
            for key in [0, KEY] {
                let answer = ask(&world, &mut sa, &request, key);
                assert_eq!(answer, expected, "{name} {:#x}, key {key}", method.0);
            }
            let answer = ask(&world, &mut sa, &request, WRONG_KEY);
            assert_eq!(answer, None, "{name} {:#x}", method.0);
        }
    }
}

/// Every attribute of which the responder knows the name is in the table, and so are all named
/// methods of 7 bits.
#[test]
fn the_table_is_complete() {
    let listed: BTreeSet<u16> = attributes().iter().map(|row| row.1).collect();
    let known = (0..=u16::MAX).filter(|id| SaAttr::name(*id) != "unknown attribute");
    let absent: Vec<u16> = known.filter(|id| !listed.contains(id)).collect();
    assert_eq!(absent, [0u16; 0], "attributes that methods.txt does not have");
    let methods = OF_THE_CLASS.iter().map(|(_, method)| method.0);
    let methods: BTreeSet<u8> = methods.chain(other_methods().iter().map(|m| m.0.0)).collect();
    let named = [Method::SEND, Method::TRAP, Method::REPORT, Method::TRAP_REPRESS];
    assert!(named.iter().all(|method| methods.contains(&method.0)));
    let has_cases = cases().into_iter().map(|case| (case.attribute, case.method, case.kind));
    let has_cases: BTreeSet<_> = has_cases.collect();
    for (name, _, cells) in attributes() {
        for ((method, _), cell) in OF_THE_CLASS.iter().zip(cells) {
            for kind in ["good", "missing", "bad"] {
                let has = has_cases.contains(&(name, *method, kind));
                assert_eq!(has, cell == "+", "cases of {name} {method}, {kind}");
            }
        }
    }
}

/// A line of `cases.txt`.
struct Case {
    line: &'static str,
    attribute: &'static str,
    method: &'static str,
    kind: &'static str,
    /// The request; `None` if there is no such case.
    request: Option<&'static str>,
    /// The replies without and with our SM_Key.
    answers: [Answer; 2],
}

fn cases() -> Vec<Case> {
    let case = |line: &'static str| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let (attribute, method) = cells[0].split_once(' ').expect("attribute and method");
        let kind = cells[1];
        let request = cells[2];
        let is_none = request.starts_with("none: ");
        let answers = match (is_none, &cells[3..]) {
            (true, []) => [None; 2],
            (false, [both]) => [answer(both); 2],
            (false, [without, with]) => [answer(without), answer(with)],
            _ => panic!("{line}"),
        };
        let request = (!is_none).then_some(request);
        Case { line, attribute, method: method.trim(), kind, request, answers }
    };
    lines(CASES).map(case).collect()
}

fn answer(text: &str) -> Answer {
    if text == "-" {
        return None;
    }
    let (name, records) = text.split_once(' ').unwrap_or((text, "0"));
    let status = STATUSES.iter().find(|(status, _)| *status == name);
    let status = status.unwrap_or_else(|| panic!("{text}")).1;
    Some((status, records.parse().expect("a number of records")))
}

#[test]
fn every_case_has_its_answer() {
    let world = World::new();
    let attributes: BTreeMap<_, _> = attributes().iter().map(|row| (row.0, row.1)).collect();
    let methods: BTreeMap<_, _> = OF_THE_CLASS.into();
    let mut sa = world.responder();
    let mut wrong = Vec::new();
    for case in cases() {
        let Some(text) = case.request else { continue };
        let attribute = *attributes.get(case.attribute).expect(case.line);
        let method = *methods.get(case.method).expect(case.line);
        let request = world.request(attribute, method, text);
        for (key, expected) in [0, KEY].into_iter().zip(case.answers) {
            let answer = ask(&world, &mut sa, &request, key);
            if matches!(method, Method::SET | Method::DELETE) {
                sa = world.responder();
            }
            if answer != expected {
                let text = answer.map(|(status, records)| format!("{status:#06x} {records}"));
                wrong.push(format!("{}\n    key {key}: {text:?}", case.line));
            }
        }
        assert_eq!(ask(&world, &mut sa, &request, WRONG_KEY), None, "{}", case.line);
    }
    assert!(wrong.is_empty(), "{} are answered otherwise:\n{}", wrong.len(), wrong.join("\n"));
}

/// The records on which the cases depend exist; without them Delete cases would test nothing.
#[test]
fn the_initial_registry_is_complete() {
    let sa: Responder = World::new().responder();
    assert_eq!(sa.registry().iter().count(), 2);
    assert_eq!(sa.registry().services().iter().count(), 2);
    assert_eq!(sa.registry().subscriptions().iter().count(), 2);
}

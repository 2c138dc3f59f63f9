//! Min Hop with random balancing options.

use super::{EngineCase, daemons};
use std::fmt::Write as _;
use testkit::fabrics::Family;
use testkit::torus::random::Random;

#[test]
fn minhop_equals_opensm() {
    super::compare("minhop", &Family::ALL, balancing, 90);
}

#[test]
fn minhop_runs_as_opensm() {
    daemons::compare("minhop", &Family::ALL, balancing, 0);
}

/// Random options of the balancing that minhop, updn, dnup and dor share.
pub(super) fn balancing(case: &mut EngineCase, random: &mut Random) {
    for key in ["port_profile_switch_nodes", "port_shifting"] {
        if random.percent(25) {
            case.set(key, "TRUE");
        }
    }
    if random.percent(25) {
        case.set("scatter_ports", random.below(100_000));
    }
    if random.percent(25) {
        case.add_file("guid_routing_order_file", routing_order(case, random));
        if random.percent(50) {
            case.set("guid_routing_order_no_scatter", "TRUE");
        }
    }
    if random.percent(25) {
        let text = switch_ports(case, random, |_| String::new());
        case.add_file("port_prof_ignore_file", text);
    }
    if random.percent(15) {
        let text = switch_ports(case, random, |random| format!(" {}", 1 + random.below(4)));
        case.add_file("hop_weights_file", text);
    }
    if random.percent(15) {
        case.add_file("port_search_ordering_file", search_orders(case, random));
    }
}

fn routing_order(case: &EngineCase, random: &mut Random) -> String {
    let switches = case.switches().into_iter().map(|(guid, _)| guid);
    let mut ports: Vec<_> = case.host_ports().into_iter().chain(switches).collect();
    random.shuffle(&mut ports);
    ports.truncate(1 + random.below(ports.len()));
    ports.iter().map(|guid| format!("{:#x}\n", guid.0)).collect()
}

/// Lines of switch GUID and port, each followed by `rest`.
pub(super) fn switch_ports(
    case: &EngineCase,
    random: &mut Random,
    rest: impl Fn(&mut Random) -> String,
) -> String {
    let mut text = String::new();
    for (guid, ports) in case.switches() {
        for port in (1..=ports).filter(|_| random.percent(20)).collect::<Vec<_>>() {
            let _ = writeln!(text, "{:#x} {port}{}", guid.0, rest(random));
        }
    }
    text
}

fn search_orders(case: &EngineCase, random: &mut Random) -> String {
    let mut text = String::new();
    for (guid, ports) in case.switches() {
        if random.percent(50) {
            let mut ports: Vec<u8> = (1..=ports).collect();
            random.shuffle(&mut ports);
            ports.truncate(1 + random.below(ports.len()));
            let ports: Vec<String> = ports.iter().map(u8::to_string).collect();
            let _ = writeln!(text, "{:#x} {}", guid.0, ports.join(" "));
        }
    }
    text
}

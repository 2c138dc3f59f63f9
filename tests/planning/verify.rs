//! Verification against brute force, and against hand-made credit loops.

use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use testkit::dimension_order::{Torus, with_lfts};
use testkit::planning::{PlanSetup, options};
use torus_sm::fabric::{Fabric, PortId, SwitchId, ibnet};
use torus_sm::ids::{Mlid, Sl};
use torus_sm::notes::{Note, Severity};
use torus_sm::plan::Plan;
use torus_sm::plan::multicast::GroupMembers;
use torus_sm::plan::routing::{PortMask, RoutingPolicy};
use torus_sm::sim::generate::Shape;
use torus_sm::verify::held_mappings::HeldMappings;
use torus_sm::verify::walk::{WalkEnd, walk};
use torus_sm::verify::{Checks, Cycle, Fault, Summary, verify};
use torus_sm::wire::attr::tables::SlToVl;

#[test]
fn tori_with_datelines_are_clean() {
    for (radix, parallel) in [([6, 5, 1], 1), ([3, 3, 3], 1), ([4, 4, 4], 2), ([5, 1, 1], 1)] {
        let torus = Torus::new(radix, 2, parallel);
        let verified = verify(&torus.fabric, torus.plan(true, true), &Checks::new(true)).unwrap();
        let summary = verified.summary();
        assert_eq!(summary.lids, torus.fabric.end_ports().count());
        assert!(summary.dependencies > 0 && summary.cycle.is_none() && summary.notes.is_empty());
        let reach = radix.iter().map(|r| u32::from(r / 2)).sum::<u32>() + 1;
        assert_eq!(summary.longest_path, reach);
    }
}

/// Asserts that every channel of a cycle leads to the switch of the next.
fn assert_is_cycle(fabric: &Fabric, cycle: &Cycle) {
    for (index, channel) in cycle.0.iter().enumerate() {
        let next = &cycle.0[(index + 1) % cycle.0.len()];
        let node = fabric.node_by_guid(channel.guid).unwrap();
        let peer = fabric.port(fabric.port_of(node, channel.port).unwrap()).peer.unwrap();
        assert_eq!(fabric.node_of(peer).guid(), next.guid);
    }
}

#[test]
fn without_vls_a_torus_has_a_credit_loop() {
    let torus = Torus::new([5, 4, 1], 1, 1);
    let checks = Checks::new(false);
    let verified = verify(&torus.fabric, torus.plan(false, false), &checks).unwrap();
    let cycle = verified.summary().cycle.clone().expect("a credit loop");
    assert_is_cycle(&torus.fabric, &cycle);
    assert!(verified.summary().notes[0].text.contains(&cycle.to_string()));

    let one_vl = |mut plan: Plan| {
        map_all(&mut plan, SlToVl::default());
        plan
    };
    let failure = verify(&torus.fabric, one_vl(torus.plan(true, true)), &checks).unwrap_err();
    assert_eq!(failure.total, 1);
    assert!(matches!(&failure.faults[..], [Fault::CreditLoop(found)] if *found == cycle));
}

/// A ring on which all packets travel upwards.
fn clockwise(torus: &Torus, plan: Plan) -> Plan {
    let up = |switch: usize| {
        let here = torus.at[switch][0];
        let node = torus.fabric.switches()[switch];
        let ports = torus.fabric.ports_of(node);
        let leads = |peer: PortId| {
            let to = torus.fabric.node_of(peer).switch;
            to.is_some_and(|to| torus.at[to.index()][0] == (here + 1) % torus.shape.radix[0])
        };
        ports.into_iter().find(|port| port.peer.is_some_and(leads)).unwrap().num.0
    };
    let lids = plan.lids.clone();
    with_lfts(plan, |tables| {
        for (switch, table) in tables.iter_mut().enumerate() {
            for (lid, port) in lids.iter() {
                if torus.fabric.switch_behind(port) != Some(SwitchId(switch as u32)) {
                    table[lid.index()] = up(switch);
                }
            }
        }
    })
}

#[test]
fn a_clockwise_ring_on_one_vl_is_the_cycle_that_is_printed() {
    let torus = Torus::new([5, 1, 1], 1, 1);
    let plan = clockwise(&torus, torus.plan(false, true));
    let failure = verify(&torus.fabric, plan, &Checks::new(false)).unwrap_err();
    let [Fault::CreditLoop(cycle)] = &failure.faults[..] else { panic!("{failure}") };
    assert_eq!(cycle.0.len(), 5);
    assert_is_cycle(&torus.fabric, cycle);
    let text = failure.to_string();
    for node in torus.fabric.nodes().iter().filter(|node| node.is_switch()) {
        assert!(text.contains(&node.guid().to_string()), "{text}");
    }
    assert!(text.ends_with("VL 0 -> the first again"), "{text}");
}

#[test]
fn multicast_adds_to_the_dependencies_and_must_not_loop() {
    // On a ring of three no unicast path passes two links, so all dependencies are the group's.
    let torus = Torus::new([3, 1, 1], 1, 1);
    let group = |closed: bool| {
        let mut plan = torus.plan(true, true);
        Arc::make_mut(&mut plan.multicast).by_switch = vec![Vec::new(); 3];
        for switch in torus.fabric.switch_ids() {
            let at = usize::from(torus.at[switch.index()][0]);
            let mut mask = PortMask::default();
            for port in torus.fabric.ports_of(torus.fabric.switches()[switch.index()]) {
                let Some(peer) = port.peer else { continue };
                let to = torus.fabric.node_of(peer).switch;
                let to = to.map(|to| usize::from(torus.at[to.index()][0]));
                // A chain 0-1-2, closed to a ring if `to` says so.
                if to.is_none_or(|to| to.abs_diff(at) == 1 || closed) {
                    mask.insert(port.num.0);
                }
            }
            Arc::make_mut(&mut plan.multicast).by_switch[switch.index()].push((Mlid(0xC000), mask));
        }
        plan
    };
    let unicast = verify(&torus.fabric, torus.plan(true, true), &Checks::new(true)).unwrap();
    assert_eq!(unicast.summary().dependencies, 0);
    let tree = verify(&torus.fabric, group(false), &Checks::new(true)).unwrap();
    assert_eq!(tree.summary().dependencies, 2, "0-1 before 1-2, and 2-1 before 1-0");
    let failure = verify(&torus.fabric, group(true), &Checks::new(true)).unwrap_err();
    assert!(failure.faults.iter().any(|fault| matches!(fault, Fault::MulticastLoop { .. })));
}

/// All hosts in one group.
fn everybody(fabric: &Fabric, mlid: u16, sl: u8) -> GroupMembers {
    let hosts = fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch());
    GroupMembers { mlid: Mlid(mlid), sl: Sl(sl), members: hosts.collect(), senders: Vec::new() }
}

#[test]
fn groups_are_checked_with_their_own_sls() {
    let shape = Shape { hosts: 1, ..Shape::torus([6, 5, 1]) };
    let site = PlanSetup::generated(&shape, "torus-2QoS,no_fallback", true);
    let check = |groups: &[GroupMembers]| {
        let plan = site.plan(groups).unwrap();
        verify(&site.fabric, plan, &Checks::new(true)).unwrap().summary().clone()
    };
    let without = check(&[]);
    let clean = check(&[everybody(&site.fabric, 0xC000, 0), everybody(&site.fabric, 0xC001, 8)]);
    assert_eq!((&clean.cycle, clean.notes.len()), (&None, without.notes.len()));
    // With SL 1 the tree spans the whole ring on the VL behind the dateline, which closes a cycle.
    let looped = check(&[everybody(&site.fabric, 0xC000, 0), everybody(&site.fabric, 0xC001, 1)]);
    assert_is_cycle(&site.fabric, looped.cycle.as_ref().expect("a credit loop"));
    assert!(looped.notes.iter().any(|note| note.text.contains("multicast group")));
}

#[test]
fn tables_must_fit_and_used_sls_must_not_be_dropped() {
    let torus = Torus::new([3, 3, 1], 1, 1);
    let mut plan = torus.plan(true, true);
    map_all(&mut plan, SlToVl::new([15; 16]));
    let failure = verify(&torus.fabric, plan, &Checks::new(true)).unwrap_err();
    assert!(failure.faults.iter().all(|fault| matches!(fault, Fault::Dropped { .. })));

    // An administrator may drop SLs.
    let mut plan = torus.plan(true, false);
    let mut vls = SlToVl::default().vls();
    (vls[0], vls[8]) = (15, 15);
    map_all(&mut plan, SlToVl::new(vls));
    let verified = verify(&torus.fabric, plan, &Checks::new(true)).expect("no fault");
    let is_about_options = |note: &Note| note.text.contains("as configured, ");
    assert!(verified.summary().notes.iter().any(is_about_options), "{:?}", verified.summary());

    let mut plan = torus.plan(true, true);
    map_all(&mut plan, SlToVl::new([9; 16]));
    Arc::make_mut(&mut plan.multicast).by_switch =
        vec![vec![(Mlid(0xFFF0), PortMask([1, 0, 0, 0]))]];
    let failure = verify(&torus.fabric, plan, &Checks::new(true)).unwrap_err();
    let limits = failure.faults.iter().filter(|fault| matches!(fault, Fault::Limit { .. }));
    assert!(limits.count() > 1, "{failure}");
}

#[test]
fn ports_without_routes_are_reported_but_not_rejected() {
    let torus = Torus::new([3, 3, 1], 1, 1);
    let host = torus.fabric.end_ports().find(|&p| !torus.fabric.node_of(p).is_switch()).unwrap();
    let plan = torus.plan(true, true);
    let lid = plan.lids.base(host).unwrap();
    let plan = with_lfts(plan, |tables| {
        tables.iter_mut().for_each(|table| table[lid.index()] = 0xFF);
    });
    let verified = verify(&torus.fabric, plan, &Checks::new(true)).unwrap();
    assert_eq!(verified.summary().left_out, [host]);
    assert_eq!(verified.summary().notes.len(), 1);
}

/// A policy that omits routes of switches.
struct OmitsSwitchRoutes;

impl RoutingPolicy for OmitsSwitchRoutes {
    fn may_omit_switch_routes(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn strict_checks_let_engines_omit_routes_of_switches_but_not_of_hosts() {
    // A line of three switches, with one host each, or with a router at the first one only.
    let line = Shape { looped: [false; 3], ..Shape::torus([3, 1, 1]) };
    let sparse = Shape { hosts: 0, router: true, ..line.clone() };
    let accepts = |shape: &Shape, switch: usize, to_end_of: usize, is_host: bool, omits: bool| {
        let setup = PlanSetup::generated(shape, "minhop", false);
        let fabric = &setup.fabric;
        let plan = setup.plan(&[]).expect("a plan");
        let is_target = |&port: &PortId| {
            fabric.switch_behind(port) == Some(SwitchId(to_end_of as u32))
                && fabric.node_of(port).is_switch() != is_host
        };
        let target = fabric.end_ports().find(is_target).expect("an end port");
        let lid = plan.lids.base(target).expect("a LID").index();
        let plan = with_lfts(plan, |tables| tables[switch][lid] = 0xFF);
        let mut routing = (*plan.routing).clone();
        if omits {
            routing.policy = Arc::new(OmitsSwitchRoutes);
        }
        let plan = Plan { routing: Arc::new(routing), ..plan };
        let verified = verify(fabric, plan.clone(), &Checks::new(false)).expect("a warning");
        assert!(!verified.summary().unrouted.is_empty());
        verify(fabric, plan, &Checks::new(false).strict()).is_ok()
    };
    assert!(!accepts(&line, 0, 2, false, false), "all routes are needed by default");
    assert!(accepts(&line, 0, 2, false, true), "hosts and switches to a switch");
    assert!(!accepts(&line, 1, 2, false, true), "a path begins at switch 0 and ends at switch 1");
    assert!(!accepts(&line, 0, 2, true, true), "from a host to a host");
    assert!(accepts(&sparse, 2, 0, true, true), "from a switch to a host");
    assert!(!accepts(&sparse, 2, 0, true, false), "all routes are needed by default");
    assert!(!accepts(&sparse, 0, 0, true, true), "the switch of the host itself");
}

#[test]
fn pairs_without_a_route_are_counted_and_named_in_one_warning() {
    // A line of three switches with two hosts each.
    let line = Shape { looped: [false; 3], hosts: 2, ..Shape::torus([3, 1, 1]) };
    let setup = PlanSetup::generated(&line, "minhop", false);
    let fabric = &setup.fabric;
    let host = |switch: u32| {
        let at = fabric.end_ports().filter(|&p| fabric.switch_behind(p) == Some(SwitchId(switch)));
        at.filter(|&port| !fabric.node_of(port).is_switch()).collect::<Vec<_>>()
    };
    let dropping = |switches: &[usize], to: PortId| {
        let plan = setup.plan(&[]).expect("a plan");
        let lid = plan.lids.base(to).expect("a LID").index();
        with_lfts(plan, |tables| switches.iter().for_each(|&at| tables[at][lid] = 0xFF))
    };
    let to = host(2)[0];
    let verified = verify(fabric, dropping(&[0], to), &Checks::new(false)).expect("a warning");
    let unrouted = verified.summary().unrouted;
    assert_eq!((unrouted.hosts, unrouted.with_switches), (2, 1), "those at the first switch");
    assert_eq!(verified.summary().notes.len(), 1);
    let text = &verified.summary().notes[0].text;
    let lid = verified.plan().lids.base(to).expect("a LID");
    let expected = format!(
        "routing engine minhop leaves 2 pairs of hosts and 1 pair with a switch without a route, the \
         first from {} to LID {lid} of {};",
        fabric.describe(host(0)[0]),
        fabric.describe(to)
    );
    assert!(text.starts_with(&expected), "{text}");
    // The switch in the middle drops the packets of the first one, too.
    let verified = verify(fabric, dropping(&[1], to), &Checks::new(false)).expect("a warning");
    assert_eq!(verified.summary().unrouted.hosts, 4);
    // No host reaches another one at its own switch.
    let verified = verify(fabric, dropping(&[2], to), &Checks::new(false)).expect("a warning");
    assert_eq!(verified.summary().unrouted.hosts, 5);
    // Packets must not loop, or leave through a port without a cable.
    for port in [1, 2, 0] {
        let plan = with_lfts(dropping(&[0], to), |tables| {
            let lid = lid.index();
            tables[0][lid] = port;
        });
        let walked = walk(fabric, &plan, host(0)[1], lid);
        let outcome = verify(fabric, plan, &Checks::new(false));
        assert_eq!(outcome.is_ok(), walked.end == WalkEnd::Delivered, "{walked}");
    }
}

/// What [`brute_force`] finds.
#[derive(Default, PartialEq, Eq, Debug)]
struct Found {
    /// (Source, LID) pairs whose packets a switch drops: those of hosts, and others.
    unrouted: [usize; 2],
    /// Other unreachable pairs.
    faults: usize,
    dependencies: usize,
}

/// Unreachable (source, LID) pairs, and all dependencies, pair by pair.
fn brute_force(fabric: &Fabric, plan: &Plan, hints: &[Sl]) -> Found {
    let mut found = Found::default();
    let mut dependencies = BTreeSet::new();
    for (lid, to) in plan.lids.iter() {
        if plan.routing.lfts.iter().all(|lft| lft.out(lid).is_none()) {
            continue;
        }
        for source in fabric.end_ports().filter(|&source| source != to) {
            let path = walk(fabric, plan, source, lid);
            let with_switch = [source, to].iter().any(|&end| fabric.node_of(end).is_switch());
            match path.end {
                WalkEnd::Delivered => {}
                WalkEnd::NoEntry(_) => found.unrouted[usize::from(with_switch)] += 1,
                _ => found.faults += 1,
            }
            for &hint in hints {
                let sl = plan.routing.policy.path_sl(source, to, hint);
                let lanes: Vec<_> = path
                    .hops
                    .iter()
                    .filter(|hop| {
                        let peer = fabric.port(hop.output).peer;
                        peer.is_some_and(|peer| fabric.node_of(peer).is_switch())
                    })
                    .map(|hop| {
                        let node = fabric.port(hop.output).node;
                        let ports = (fabric.port(hop.input).num.0, fabric.port(hop.output).num.0);
                        let rows = &plan.qos.sl_to_vl[node.index()];
                        let row = rows.iter().find(|row| (row.0, row.1) == ports).unwrap();
                        (hop.output, row.2.vl(sl).0)
                    })
                    .collect();
                dependencies.extend(lanes.windows(2).map(|pair| (pair[0], pair[1])));
            }
        }
    }
    found.dependencies = dependencies.len();
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_fast_check_equals_brute_force(
        radix in (2u16..5, 1u16..4, 1u16..3),
        hosts in 0u8..3,
        parallel in 1u8..3,
        breaks in prop::collection::vec((any::<u16>(), any::<u16>(), 0u8..12), 0..4),
    ) {
        let torus = Torus::new([radix.0, radix.1, radix.2], hosts, parallel);
        let plan = with_lfts(torus.plan(true, false), |tables| {
            for &(switch, lid, port) in &breaks {
                let switch = usize::from(switch) % tables.len();
                let lid = usize::from(lid) % tables[switch].len();
                tables[switch][lid] = if port == 11 { 0xFF } else { port };
            }
        });
        let checks = Checks::new(true);
        let found = brute_force(&torus.fabric, &plan, &checks.hints);
        match verify(&torus.fabric, plan.clone(), &checks) {
            Ok(verified) => {
                let Summary { unrouted, dependencies, .. } = *verified.summary();
                let unrouted = [unrouted.hosts, unrouted.with_switches];
                prop_assert_eq!(Found { unrouted, faults: 0, dependencies }, found);
            }
            Err(failure) => {
                prop_assert_eq!(failure.total, found.faults, "{}", failure);
                let failure = verify(&torus.fabric, plan, &Checks::new(true).strict()).unwrap_err();
                let all = found.faults + found.unrouted.iter().sum::<usize>();
                prop_assert_eq!(failure.total, all, "{}", failure);
            }
        }
    }
}

/// Engines that keep paths apart by SLs need SL to VL mappings, which are written with QoS only.
#[test]
fn layers_without_sl_to_vl_mappings_are_no_proof() {
    let ring = Shape { hosts: 1, ..Shape::torus([6, 1, 1]) };
    for engine in ["lash,no_fallback", "dfsssp,no_fallback"] {
        let summary = |qos| {
            let outcome = PlanSetup::generated(&ring, engine, qos).verdict().expect("a plan");
            outcome.verdict.expect("it is written").summary().clone()
        };
        let mapped = summary(true);
        assert_eq!(mapped.cycle, None, "{engine}");
        let unmapped = summary(false);
        assert!(unmapped.cycle.is_some(), "{engine} is free of credit loops with mappings only");
        let warnings = unmapped.notes.iter().filter(|note| note.severity == Severity::Warning);
        let warnings: Vec<_> = warnings.map(|note| note.text.as_str()).collect();
        let [warning] = warnings[..] else { panic!("{warnings:?}") };
        let expected = "no SL to VL mappings are written while qos is FALSE";
        assert!(warning.contains(expected) && warning.ends_with("set qos TRUE (-Q)"), "{warning}");
    }
    let lash = PlanSetup::generated(&ring, "lash,no_fallback", false);
    let plan = lash.plan(&[]).expect("a plan");
    // Maps each SL to the VL of the same number, and all of a switch that could not be read to VL 0.
    let read = |unread: usize| {
        let mut held = HeldMappings::default();
        for (node, pair) in held.missing(&lash.fabric) {
            let at = lash.fabric.switches().iter().position(|&switch| switch == node);
            let vls = SlToVl::new(std::array::from_fn(|sl| sl as u8));
            let map = at.is_some_and(|at| at >= unread).then_some(vls);
            held.record(lash.fabric.node(node).guid(), pair, map);
        }
        let checks = Checks::new(false).with_held(Arc::new(held));
        let verified = verify(&lash.fabric, plan.clone(), &checks).expect("no fault");
        verified.summary().clone()
    };
    let all = read(0);
    assert_eq!((all.cycle, all.notes.len(), all.assumes_mappings), (None, 0, false));
    let none = read(6);
    assert!(none.cycle.is_some() && none.assumes_mappings);
    let expected = "on the same VL (unread ones of 6 switches count as SLs on VL 0)";
    assert!(none.notes[0].text.contains(expected), "{}", none.notes[0]);
    assert_eq!(read(1).cycle, None, "one switch alone closes no ring");
    // A tree needs one layer, and no mapping.
    let tree = PlanSetup::new(
        &ibnet::parse(Path::new("tree"), crate::up_down::TREE).expect("a fabric"),
        4,
        options("lash,no_fallback", false),
        String::new(),
    );
    let verified = tree.verdict().expect("a plan").verdict.expect("it is written");
    assert_eq!(verified.summary().cycle, None);
    assert!(verified.summary().notes.is_empty(), "{:?}", verified.summary().notes);
}

/// Gives all pairs of ports the same SL to VL mapping.
fn map_all(plan: &mut Plan, map: SlToVl) {
    for rows in &mut plan.qos.sl_to_vl {
        *rows = rows.iter().map(|&(input, output, _)| (input, output, map)).collect();
    }
}

use super::{SetupContext, diagnostics};
use crate::config::excerpt;
use crate::config::options::Options;
use crate::config::qos_policy::{
    PortChoice, PortRange, QosPolicy, SlToVlScope, VlArbEntry, VlArbScope,
};
use crate::fabric::synthetic::SyntheticView;
use crate::fabric::{Fabric, PortId};
use crate::paged_vec::PagedVec;
use crate::plan::Plan;
use crate::plan::compute::{Planned, compute};
use crate::plan::lids::Memory;
use crate::plan::partitions;
use crate::plan::port_targets::PortTargets;
use crate::plan::tests::{ring, with_input};
use crate::plan::update::{BaselineInputs, PlanBaseline, update};
use crate::wire::attr::tables::VlArbBlock;
use crate::wire::attr::{PortInfo, PortState};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

/// A ring of four switches with a host at port 1 of each; port 2 leads to port 3 of the next
/// switch. `caps` are the VLCaps of the nodes in the order host 0, switch 0, host 1, …; a port has
/// as many VL arbitration entries as VLs.
fn fabric(caps: [u8; 8]) -> Fabric {
    let view = SyntheticView { state: PortState::Active, ..SyntheticView::default() };
    let mut fabric = Fabric::from_topology(&ring(4, &[]), 0, &view).expect("node 0");
    let mut ports = Vec::new();
    for id in fabric.port_ids() {
        let (index, Some(mut info)) = (place(&fabric, id), fabric.port(id).info()) else {
            continue;
        };
        let cap = caps[index];
        info.set_vl_cap(cap);
        let entries = if cap == 1 { 0 } else { PortInfo::data_vls(cap) };
        info.set_vl_arb_high_cap(entries);
        info.set_vl_arb_low_cap(entries);
        ports.push((id, info));
    }
    fabric.acknowledge(&ports, &[]);
    fabric
}

/// The index of a port's node in the ring.
fn place(fabric: &Fabric, port: PortId) -> usize {
    let guid = fabric.node_of(port).guid().0 as usize;
    if guid < 0x20_0000 { (guid - 0x10_0000) / 8 } else { (guid - 0x20_0000) * 2 + 1 }
}

fn host(fabric: &Fabric, number: usize) -> PortId {
    let port =
        fabric.port_ids().find(|&id| place(fabric, id) == 2 * number && fabric.port(id).num.0 == 1);
    port.expect("a host")
}

fn switch(fabric: &Fabric, number: usize, port: u8) -> PortId {
    let port = fabric
        .port_ids()
        .find(|&id| place(fabric, id) == 2 * number + 1 && fabric.port(id).num.0 == port);
    port.expect("a switch")
}

/// A policy with the given scopes and the groups `h0` to `h3` (the port of one host each), `s0` to
/// `s3` (one switch each) and `s0p2` (one port of switch 0).
fn policy_text(arbitration: &str, mappings: &str) -> String {
    let fabric = fabric([4; 8]);
    let mut text = "port-groups\n".to_owned();
    for number in 0..4 {
        let [host, switch] = [host(&fabric, number), switch(&fabric, number, 0)];
        for (name, port) in [("h", host), ("s", switch)] {
            let guid = fabric.port(port).guid;
            text += &format!("port-group name: {name}{number} port-guid: {guid} end-port-group\n");
        }
    }
    text += "port-group name: s0p2 port-name: N200000/P2 end-port-group\nend-port-groups\n\
             qos-setup\nvlarb-tables\n";
    text += arbitration;
    text += "end-vlarb-tables\nsl2vl-tables\n";
    text += mappings;
    text + "end-sl2vl-tables\nend-qos-setup\nqos-ulps\ndefault : 0\nend-qos-ulps\n"
}

fn policy(text: &str) -> Arc<QosPolicy> {
    let (policy, findings) = QosPolicy::parse(Path::new("qos-policy.conf"), text);
    Arc::new(policy.unwrap_or_else(|| panic!("{findings:?}")))
}

fn options() -> Options {
    Options {
        qos: true,
        qos_vlarb_high: Some("0:1".into()),
        qos_vlarb_low: Some("1:1".into()),
        qos_sl2vl: Some("0,1,2,3,4,5,6,7".into()),
        qos_high_limit: 3,
        ..Options::default()
    }
}

fn planned(fabric: &Fabric, policy: &Arc<QosPolicy>) -> Planned {
    let nothing = (&Memory::default(), &[][..]);
    with_input(fabric, &options(), nothing, Some(policy), |input| compute(input).expect("a plan"))
}

fn plan(fabric: &Fabric, arbitration: &str, mappings: &str) -> Plan {
    planned(fabric, &policy(&policy_text(arbitration, mappings))).plan
}

/// The low and high priority tables of a port without trailing empty entries, and VLHighLimit.
fn arbitration(plan: &Plan, port: PortId) -> (String, String, u8) {
    let info = plan.ports.of(port).expect("a target");
    (
        table(&plan.qos.vl_arbitration, 1, port),
        table(&plan.qos.vl_arbitration, 3, port),
        info.vl_high_limit(),
    )
}

fn table(vl_arbitration: &PagedVec<Arc<[(u8, VlArbBlock)]>>, first: u8, port: PortId) -> String {
    let blocks = vl_arbitration[port.index()].iter();
    let mut entries: Vec<(u8, u8)> = blocks
        .filter(|(number, _)| (first..first + 2).contains(number))
        .flat_map(|(_, block)| block.entries())
        .collect();
    while entries.last() == Some(&(0, 0)) {
        entries.pop();
    }
    let entries: Vec<_> = entries.iter().map(|(vl, weight)| format!("{vl}:{weight}")).collect();
    entries.join(",")
}

/// The VLs of SL 0 to 7 from an input to an output.
fn mapping(fabric: &Fabric, plan: &Plan, input: u8, output: PortId) -> String {
    let rows = &plan.qos.sl_to_vl[fabric.port(output).node.index()];
    let num = fabric.port(output).num.0;
    let row = rows.iter().find(|&&(from, to, _)| (from, to) == (input, num)).expect("a row");
    row.2.vls()[..8].iter().map(|vl| format!("{vl:x}")).collect()
}

fn expected(low: &str, high: &str, limit: u8) -> (String, String, u8) {
    (low.to_owned(), high.to_owned(), limit)
}

#[test]
fn arbitration_is_that_of_the_first_scope_for_a_port() {
    let fabric = fabric([4; 8]);
    let plan = plan(
        &fabric,
        "vlarb-scope\ngroup: h0\nacross: h0\nvlarb-high: 0:255,1:127\nvlarb-low: 2:9\n\
         vl-high-limit: 10\nend-vlarb-scope\n\
         vlarb-scope\ngroup: s0, h1\nvlarb-low: 7:7\nend-vlarb-scope\n",
        "",
    );
    assert_eq!(of(&plan, host(&fabric, 0)), expected("2:9", "0:255,1:127", 10));
    assert_eq!(of(&plan, switch(&fabric, 0, 1)), expected("2:9", "0:255,1:127", 10), "across");
    assert_eq!(
        of(&plan, switch(&fabric, 0, 2)),
        expected("7:7", "0:1", 3),
        "what is not said is the options'"
    );
    assert_eq!(of(&plan, host(&fabric, 1)), expected("7:7", "0:1", 3));
    assert_eq!(of(&plan, switch(&fabric, 1, 1)), expected("1:1", "0:1", 3), "no scope is for it");
    assert_eq!(plan.notes, []);
}

fn of(plan: &Plan, port: PortId) -> (String, String, u8) {
    arbitration(plan, port)
}

#[test]
fn mappings_are_chosen_by_input_and_output() {
    let fabric = fabric([4; 8]);
    let scopes = [
        sl2vl_scope("1", "group: s0\nfrom: 1\nto: 2-3"),
        sl2vl_scope("2,2,2", "across-to: h0\nacross-from: s3"),
        sl2vl_scope("3,3", "across-to: h0"),
        sl2vl_scope("4,4", "group: s1\nfrom: *\nto: *"),
        sl2vl_scope("5", "group: h0, h1"),
        sl2vl_scope("6", "across: s2\nfrom: 0"),
    ];
    let plan = plan(&fabric, "", &scopes.concat());
    let usual = "01234567";
    let of = |input, output| mapping(&fabric, &plan, input, output);
    assert_eq!(of(1, switch(&fabric, 0, 2)), "10000000", "SLs that are not written have VL 0");
    assert_eq!(of(2, switch(&fabric, 0, 2)), usual);
    assert_eq!(of(1, switch(&fabric, 0, 3)), "10000000");
    // Port 3 of switch 0 leads to switch 3.
    assert_eq!(of(3, switch(&fabric, 0, 1)), "22200000");
    assert_eq!(of(2, switch(&fabric, 0, 1)), "33000000");
    assert_eq!(of(0, switch(&fabric, 0, 1)), "33000000");
    for input in 0..=4 {
        for output in 1..=3 {
            assert_eq!(of(input, switch(&fabric, 1, output)), "44000000");
        }
    }
    assert_eq!(of(0, host(&fabric, 0)), "50000000");
    assert_eq!(of(0, host(&fabric, 2)), "60000000", "its own packets are input 0");
    assert_eq!(of(0, host(&fabric, 3)), usual);
    assert_eq!(of(0, switch(&fabric, 3, 3)), "60000000");
    assert_eq!(of(1, switch(&fabric, 3, 3)), usual);
    assert_eq!(plan.notes, []);
}

fn sl2vl_scope(vls: &str, fields: &str) -> String {
    format!("sl2vl-scope\n{fields}\nsl2vl-table: {vls}\nend-sl2vl-scope\n")
}

#[test]
fn a_group_may_be_one_port_of_a_switch() {
    let fabric = fabric([4; 8]);
    let plan = plan(
        &fabric,
        "vlarb-scope\nacross: s0p2\nvlarb-low: 5:5\nend-vlarb-scope\n",
        "sl2vl-scope\ngroup: s0p2\nsl2vl-table: 7\nend-sl2vl-scope\n",
    );
    assert_eq!(arbitration(&plan, switch(&fabric, 1, 3)).0, "5:5");
    assert_eq!(arbitration(&plan, switch(&fabric, 0, 2)).0, "1:1");
    assert_eq!(mapping(&fabric, &plan, 1, switch(&fabric, 0, 2)), "70000000");
    assert_eq!(mapping(&fabric, &plan, 2, switch(&fabric, 0, 1)), "01234567");
}

#[test]
fn tables_are_limited_to_port_capabilities() {
    // Host 1 has one VL, switch 2 four, switch 3 two.
    let fabric = fabric([4, 4, 1, 4, 4, 3, 4, 2]);
    let all = "s0, s1, s2, s3, h0, h1, h2, h3";
    let plan = plan(
        &fabric,
        &format!(
            "vlarb-scope\ngroup: {all}\nvlarb-high: 0:1,1:2,2:3,3:4,6:5\nvl-high-limit: 9\n\
             end-vlarb-scope\n"
        ),
        &format!("sl2vl-scope\ngroup: {all}\nsl2vl-table: 7,6,5,4,3,15\nend-sl2vl-scope\n"),
    );
    assert_eq!(of(&plan, switch(&fabric, 0, 1)), expected("1:1", "0:1,1:2,2:3,3:4,6:5", 9));
    assert_eq!(of(&plan, switch(&fabric, 2, 1)), expected("1:1", "0:1,1:2,2:3,3:4", 9));
    assert_eq!(
        of(&plan, switch(&fabric, 2, 2)),
        expected("1:1", "0:1,1:2,0:3,1:4", 9),
        "to one with two"
    );
    assert_eq!(of(&plan, switch(&fabric, 3, 1)), expected("1:1", "0:1,1:2", 9));
    assert_eq!(of(&plan, host(&fabric, 1)), expected("", "", 0));
    assert_eq!(mapping(&fabric, &plan, 0, switch(&fabric, 0, 1)), "76543f00");
    assert_eq!(mapping(&fabric, &plan, 0, switch(&fabric, 2, 1)), "32103f00");
    assert_eq!(mapping(&fabric, &plan, 0, switch(&fabric, 3, 1)), "10101f00");
    assert_eq!(mapping(&fabric, &plan, 0, host(&fabric, 1)), "00000f00");
}

/// The diagnostics of scopes that a fabric cannot implement, with source excerpts.
#[test]
fn scopes_that_the_fabric_cannot_implement_are_reported() {
    let fabric = fabric([4, 4, 1, 4, 4, 3, 4, 2]);
    let text = policy_text(
        "vlarb-scope\n    group: h0, s2\n    vlarb-high: 0:1,1:2,2:3,3:4,6:5\n    \
         vlarb-low: 0:4, 4:0, 9:1, 14:1\nend-vlarb-scope\n\
         vlarb-scope\n    group: h0\n    vlarb-low: 1:1\nend-vlarb-scope\n\
         vlarb-scope\n    group: h1\n    vlarb-low: 1:1\nend-vlarb-scope\n\
         vlarb-scope\n    across: s0p2\n    vlarb-low: 1:1\nend-vlarb-scope\n",
        "sl2vl-scope\n    group: s0, s2, h1\n    from: 1-4, 7\n    to: 2, 5-36\n    \
         sl2vl-table: 0,1,2,3,15,9\nend-sl2vl-scope\n\
         sl2vl-scope\n    group: s2\n    from: 2-3\n    to: 2\n    sl2vl-table: 0\n\
         end-sl2vl-scope\n\
         sl2vl-scope\n    across-to: h0\n    across-from: h1\n    sl2vl-table: 0\n\
         end-sl2vl-scope\n\
         sl2vl-scope\n    group: h2\n    sl2vl-table: 0,1,2,8\nend-sl2vl-scope\n",
    );
    let plan = planned(&fabric, &policy(&text)).plan;
    let setup = plan.qos.setup.as_ref().expect("scopes");
    let engine = plan.routing.engine;
    let policy = &*plan.routing.policy;
    let context = SetupContext { fabric: &fabric, setup, engine, policy, targets: &plan.ports };
    let found = diagnostics(&context);
    let notes: Vec<_> = found.iter().map(crate::notes::Note::from).collect();
    assert!(plan.notes.ends_with(&notes), "{:?}", plan.notes);
    let said: Vec<String> =
        found.iter().map(|found| excerpt::render(found, &text) + "\n").collect();
    let golden = include_str!("../../../../tests/vectors/qos-policy/setup.expected");
    assert_eq!(said.concat(), golden);
}

fn choice() -> impl Strategy<Value = PortChoice> {
    let at = Default::default();
    let range = (0_u8..6, 0_u8..3).prop_map(move |(first, more)| PortRange {
        first,
        last: first + more,
        at,
    });
    prop_oneof![
        Just(PortChoice::All),
        Just(PortChoice::Unspecified),
        proptest::collection::vec(range, 1..3).prop_map(PortChoice::Ranges)
    ]
}

/// A subset of the nine groups of [`policy_text`].
fn some_groups() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0_usize..9, 0..4)
}

fn arbitration_scope() -> impl Strategy<Value = VlArbScope> {
    let weight = (0_u8..15, any::<u8>());
    let entry = weight.prop_map(|(vl, weight)| VlArbEntry { vl, weight, ..VlArbEntry::default() });
    let table = proptest::option::of(proptest::collection::vec(entry, 1..65));
    let limit = proptest::option::of(any::<u8>());
    (some_groups(), some_groups(), table.clone(), table, limit).prop_map(
        |(groups, across, high, low, high_limit)| VlArbScope {
            groups,
            across,
            high,
            low,
            high_limit,
            ..VlArbScope::default()
        },
    )
}

fn mapping_scope() -> impl Strategy<Value = SlToVlScope> {
    let groups = [some_groups(), some_groups(), some_groups(), some_groups()];
    (groups, choice(), choice(), proptest::array::uniform16(0_u8..16)).prop_map(
        |([groups, across, across_from, across_to], from, to, vls)| SlToVlScope {
            groups,
            across,
            across_from,
            across_to,
            from,
            to,
            vls,
            ..SlToVlScope::default()
        },
    )
}

/// Checks that the plan uses no VL and no arbitration entry that a port lacks.
fn fits(fabric: &Fabric, plan: &Plan) -> Result<(), TestCaseError> {
    for node in fabric.node_ids() {
        for &(_, output, map) in plan.qos.sl_to_vl_of(node) {
            let output = fabric.port_of(node, output.into()).expect("a port");
            prop_assert!(
                map.vls().iter().all(|&vl| vl < vls(fabric, &plan.ports, output) || vl == 15)
            );
        }
    }
    for port in fabric.port_ids() {
        let info = fabric.port(port).info().unwrap_or_default();
        for &(number, block) in plan.qos.vl_arbitration[port.index()].iter() {
            let caps = [info.vl_arb_low_cap(), info.vl_arb_high_cap()];
            let cap = usize::from(caps[usize::from(number > 2)]);
            let before = usize::from(number - 1) % 2 * 32;
            for (index, (vl, weight)) in block.entries().enumerate() {
                prop_assert!(vl < vls(fabric, &plan.ports, port));
                prop_assert!(before + index < cap || (vl, weight) == (0, 0));
            }
        }
    }
    Ok(())
}

fn vls(fabric: &Fabric, ports: &PortTargets, port: PortId) -> u8 {
    let info = ports.of(port).or(fabric.port(port).info());
    PortInfo::data_vls(info.map_or(0, |info| info.operational_vls().min(info.vl_cap()))).max(1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Holds for any policy. An incremental plan also equals a plan from scratch.
    #[test]
    fn no_port_gets_a_vl_that_it_lacks(
        caps in proptest::array::uniform8(1_u8..6),
        others in proptest::array::uniform8(1_u8..6),
        changed in 0_usize..8,
        arbitrations in proptest::collection::vec(arbitration_scope(), 0..4),
        mappings in proptest::collection::vec(mapping_scope(), 0..4),
    ) {
        let before = fabric(caps);
        let mut mixed = caps;
        mixed[changed] = others[changed];
        let after = fabric(mixed);
        let base = policy(&policy_text("", ""));
        let policy = QosPolicy { vl_arbitration: arbitrations, sl_to_vl: mappings, ..(*base).clone() };
        let policy = Arc::new(policy);
        let options = options();
        let first = planned(&before, &policy);
        fits(&before, &first.plan)?;
        let inputs = BaselineInputs {
            fabric: Arc::new(before),
            options: Arc::new(options.clone()),
            partitions: Arc::new(partitions::default(&options)),
            observed_pkeys: Arc::default(),
            memory: Memory::default(),
        };
        let (plan, outcome) = first.split();
        let basis = PlanBaseline::new(inputs, outcome, Arc::new(plan));
        let nothing = (&Memory::default(), &[][..]);
        let whole = planned(&after, &policy).plan;
        let (updated, _) =
            with_input(&after, &options, nothing, Some(&policy), |input| update(input, &basis));
        let updated = updated.expect("a plan").plan;
        fits(&after, &updated)?;
        prop_assert_eq!(&updated.qos, &whole.qos);
        prop_assert_eq!(&updated.ports, &whole.ports);
        prop_assert_eq!(&updated.notes, &whole.notes);
        // A removed policy leaves no trace.
        let none = with_input(&after, &options, nothing, None, |input| update(input, &basis));
        let bare = with_input(&after, &options, nothing, None, compute);
        let none = none.0.expect("a plan").plan;
        let bare = bare.expect("a plan").plan;
        prop_assert_eq!(&none.qos, &bare.qos);
        prop_assert_eq!(&none.ports, &bare.ports);
    }
}

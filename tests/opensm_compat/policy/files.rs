//! Random partitions.conf and qos-policy.conf, right and wrong ones.

use super::random_case::end_ports;
use std::fmt::Write as _;
use testkit::torus::random::Random;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::Guid;
use torus_sm::wire::attr::NodeKind;

/// Values that files and queries of a case refer to.
pub(crate) struct Words {
    pub ports: Vec<Guid>,
    /// P_Keys without the membership bit.
    pub keys: Vec<u16>,
    pub service_ids: Vec<u64>,
    pub classes: Vec<u16>,
    /// Descriptions of nodes.
    names: Vec<String>,
}

const LEVELS: [&str; 4] = ["gold", "Silver level", "lead", "DEFAULT"];
const GROUPS: [&str; 3] = ["storage", "Some hosts", "rest"];

impl Words {
    pub(crate) fn new(random: &mut Random, topology: &Topology, home: &str) -> Self {
        let mut ports: Vec<Guid> = end_ports(topology).into_iter().map(|(_, guid)| guid).collect();
        random.shuffle(&mut ports);
        // A numbered port of a switch is that port; to OpenSM it is the whole switch.
        let hosts = topology.nodes.iter().filter(|node| node.kind == NodeKind::Ca);
        let mut names: Vec<String> = hosts.map(|node| node.description.clone()).collect();
        names.retain(|name| name != home);
        Self {
            ports,
            // Generated keys are 1, 2 …
            keys: vec![0x7fff, 0x11, 0x12, 0x1234, 0x300],
            service_ids: vec![
                0x10,
                0x20,
                0x1ff,
                0x10_0000,
                0x1_0000 + 30000,
                0x106_0000 + 900,
                0x106_0000,
                0x1_1f40,
                0x106_0cbc,
                0x48ca,
                0x10_0e5f_ffff,
            ],
            classes: vec![0, 1, 2, 7, 0xfff],
            names,
        }
    }
}

fn pick<'a, T: ?Sized>(random: &mut Random, items: &[&'a T]) -> &'a T {
    items[random.below(items.len())]
}

/// partitions.conf.
pub(crate) fn partitions(random: &mut Random, words: &Words) -> String {
    let mut text = String::from("# generated\n");
    if random.percent(70) {
        let members =
            ["ALL=full", "ALL, SELF=full", "ALL=limited, ALL_CAS=full", "SELF=full, ALL=both"];
        let ipoib = ["", ", ipoib", ",ipoib,mtu=5", ", ipoib , rate=6, sl=3"];
        let ipoib = pick(random, &ipoib);
        let members = pick(random, &members);
        let _ = writeln!(text, "Default = 0x7fff{ipoib} : {members} ;");
    }
    for number in 0..random.below(6) {
        text.push_str(&partition(random, words, number));
    }
    // Limited members do not reach each other: no client could send queries.
    text.push_str("Default=0x7fff : SELF=full ;\n");
    if random.percent(15) {
        damage(random, &mut text);
    }
    text
}

fn partition(random: &mut Random, words: &Words, number: usize) -> String {
    let mut text = match random.below(4) {
        0 => String::new(),
        _ => format!("part{}", number % 3),
    };
    if !random.percent(20) || text.is_empty() {
        let key = words.keys[random.below(words.keys.len())];
        let full = if random.percent(20) { 0x8000 } else { 0 };
        let _ = match random.below(3) {
            0 => write!(text, "={key}"),
            _ => write!(text, "={:#x}", key | full),
        };
    }
    for flag in [
        "indx0",
        "ipoib",
        "defmember=full",
        "defmember=both",
        "defmember=limited",
        "rate=3",
        "mtu=4",
        "sl=2",
        "sl=9",
        "scope=5",
        "Q_Key=0x1234",
        "TClass=7",
        "FlowLabel=0x12",
    ] {
        if random.percent(12) {
            let space = if random.percent(30) { " " } else { "" };
            let _ = write!(text, "{space},{space}{flag}");
        }
    }
    text.push_str([":", " : ", " :\n  "][random.below(3)]);
    let groups = if random.percent(60) { 0 } else { 1 + random.below(2) };
    for _ in 0..groups {
        group(random, &mut text);
    }
    // After a lone semicolon OpenSM continues with the rest of the line before.
    let count = random.below(6).max(groups);
    let members: Vec<String> = (0..count).map(|_| member(random, words)).collect();
    text.push_str(&members.join([",", ", ", " ,\n  "][random.below(3)]));
    if members.is_empty() {
        text.truncate(text.trim_end().len());
    }
    text.push_str([";\n", " ;\n", ";\n# end\n"][random.below(3)]);
    text
}

fn group(random: &mut Random, text: &mut String) {
    let mgid = [
        "ff12:401b::707",
        "ff12:601b::16",
        "ff12::1",
        "ff15:1::abcd",
        "ff12:401b:ffff::5",
        "ff12:601b:0::ffff:ffff",
    ];
    let _ = write!(text, "mgid={}", pick(random, &mgid));
    for flag in ["rate=3", "mtu=2", "mtu=5", "sl=1", "Q_Key=0xDEADBEEF", "scope=2", "TClass=3"] {
        if random.percent(20) {
            let _ = write!(text, ",{flag}");
        }
    }
    text.push('\n');
}

fn member(random: &mut Random, words: &Words) -> String {
    let port = words.ports[random.below(words.ports.len())];
    let mut text = match random.below(12) {
        0 => "ALL".to_owned(),
        1 => "ALL_CAS".to_owned(),
        2 => "ALL_SWITCHES".to_owned(),
        3 => "ALL_ROUTERS".to_owned(),
        4 => "SELF".to_owned(),
        5 => port.0.to_string(),
        6 => "0xdeadbeef".to_owned(),
        _ => format!("{:#x}", port.0),
    };
    text.push_str(["", "", "=full", "=full", "=limited", "=both", " = full"][random.below(7)]);
    text
}

/// Removes or inserts some text.
fn damage(random: &mut Random, text: &mut String) {
    let at = random.below(text.len());
    match random.below(4) {
        0 => text.truncate(at),
        1 => {
            if let Some(place) = text.rfind(';') {
                text.remove(place);
            }
        }
        2 => text.insert_str(at, ["=", ":", ",", ";"][random.below(4)]),
        _ => text.push_str("=0x10, flags=9 : ALL;\n"),
    }
}

/// qos-policy.conf.
pub(crate) fn policy(random: &mut Random, words: &Words) -> String {
    let mut text = String::new();
    let simple = random.percent(50);
    port_groups(random, words, &mut text);
    if !simple || random.percent(60) {
        let with_default = !simple || random.percent(70);
        levels(random, words, &mut text, with_default);
        rules(random, words, &mut text);
    }
    if simple {
        ulps(random, words, &mut text);
    }
    if random.percent(30) {
        damage_policy(random, &mut text);
    }
    text
}

fn port_groups(random: &mut Random, words: &Words, text: &mut String) {
    text.push_str("port-groups\n");
    for name in GROUPS {
        let _ = writeln!(text, "  port-group\n    name: {name}\n    use: something");
        for _ in 0..1 + random.below(2) {
            let port = |random: &mut Random| words.ports[random.below(words.ports.len())].0;
            let _ = match random.below(5) {
                0 => {
                    // OpenSM expands ranges one by one.
                    let first = port(random);
                    let last = first + 0xC0;
                    writeln!(text, "    port-guid: {:#x}, {first:#x}-{last:#x}", port(random))
                }
                1 => {
                    let name = &words.names[random.below(words.names.len())];
                    writeln!(text, "    port-name: {name}/P1")
                }
                2 => writeln!(text, "    pkey: {:#06x}", words.keys[random.below(5)]),
                3 => writeln!(text, "    partition: part{}", random.below(3)),
                _ => {
                    let kinds = ["CA", "SWITCH", "ROUTER, SELF", "ALL", "SELF"];
                    writeln!(text, "    node-type: {}", pick(random, &kinds))
                }
            };
        }
        text.push_str("  end-port-group\n");
    }
    text.push_str("end-port-groups\n");
}

fn levels(random: &mut Random, words: &Words, text: &mut String, with_default: bool) {
    text.push_str("qos-levels\n");
    for name in LEVELS {
        if name == "DEFAULT" && !with_default {
            continue;
        }
        let _ = writeln!(text, "  qos-level\n    name: {name}\n    sl: {}", random.below(16));
        if random.percent(30) {
            let _ = writeln!(text, "    mtu-limit: {}", 1 + random.below(5));
        }
        if random.percent(30) {
            let _ = writeln!(text, "    rate-limit: {}", 2 + random.below(9));
        }
        if random.percent(30) {
            let _ = writeln!(text, "    packet-life: {}", random.below(30));
        }
        if random.percent(20) {
            let _ = writeln!(text, "    path-bits: {}", ["0", "1", "0-3"][random.below(3)]);
        }
        if random.percent(40) {
            let key = words.keys[random.below(5)];
            let other = [0x12, 0x7fff][random.below(2)];
            let _ = writeln!(text, "    pkey: {key:#06x}, {other:#06x}");
        }
        text.push_str("  end-qos-level\n");
    }
    text.push_str("end-qos-levels\n");
}

fn rules(random: &mut Random, words: &Words, text: &mut String) {
    text.push_str("qos-match-rules\n");
    for _ in 0..random.below(7) {
        text.push_str("  qos-match-rule\n    use: by something\n");
        if random.percent(30) {
            let _ = writeln!(text, "    source: {}", pick(random, &GROUPS));
        }
        if random.percent(30) {
            let _ = writeln!(text, "    destination: {}", pick(random, &GROUPS));
        }
        if random.percent(40) {
            let class = words.classes[random.below(5)];
            let _ = writeln!(text, "    qos-class: {class}, 7-9");
        }
        if random.percent(40) {
            let first = words.service_ids[random.below(words.service_ids.len())];
            let _ = writeln!(text, "    service-id: {first:#x}-{:#x}", first + 0x100);
        }
        if random.percent(25) {
            let _ = writeln!(text, "    pkey: {:#06x}", words.keys[random.below(5)]);
        }
        let level = LEVELS[random.below(LEVELS.len())];
        let level = if random.percent(20) { level.to_uppercase() } else { level.to_owned() };
        let _ = writeln!(text, "    qos-level-name: {level}\n  end-qos-match-rule");
    }
    text.push_str("end-qos-match-rules\n");
}

fn ulps(random: &mut Random, words: &Words, text: &mut String) {
    text.push_str("qos-ulps\n");
    if random.percent(90) {
        let _ = writeln!(text, "  default : {}", random.below(16));
    }
    let port = words.ports[random.below(words.ports.len())].0;
    for rule in [
        "sdp, port-num 30000".to_owned(),
        "sdp".to_owned(),
        "rds".to_owned(),
        "iser, port-num 900".to_owned(),
        "iser".to_owned(),
        "srp, target-port-guid ".to_owned() + &format!("{port:#x}"),
        "ipoib, pkey 0x0011".to_owned(),
        "ipoib".to_owned(),
        "any, service-id 0x20".to_owned(),
        "any, pkey 0x1234".to_owned(),
        format!("any, target-port-guid {port:#x}-{:#x}", port + 3),
    ] {
        if random.percent(30) {
            let _ = writeln!(text, "  {rule} : {}", random.below(16));
        }
    }
    text.push_str("end-qos-ulps\n");
}

fn damage_policy(random: &mut Random, text: &mut String) {
    let lines: Vec<&str> = text.lines().collect();
    let at = random.below(lines.len());
    let mut lines: Vec<String> = lines.into_iter().map(str::to_owned).collect();
    match random.below(3) {
        0 => drop(lines.remove(at)),
        // A line in which OpenSM sees more of the preceding text.
        1 => {
            let text = lines.iter().position(|line| line.contains("use:"));
            lines.insert(text.map_or(at, |line| line + 1), "  nonsense".to_owned());
        }
        _ => lines.truncate(at),
    }
    *text = lines.join("\n") + "\n";
}

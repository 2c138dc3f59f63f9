//! Warnings about SLs of QoS levels and partitions that the SL to VL mappings drop: VL 15 is the usual
//! mapping of SLs that a site does not use.

use super::QosTables;
use super::options::QosConfig;
use super::vls::dropped_by;
use crate::config::qos_policy::MatchRule;
use crate::config::qos_policy::QosPolicy;
use crate::fabric::{Fabric, PortId};
use crate::ids::{PortNum, Sl};
use crate::notes::{Note, counted};
use crate::plan::partitions::Partition;

/// What uses SLs, and the mappings of a plan.
#[derive(Clone, Copy)]
pub struct SlUsers<'a> {
    pub fabric: &'a Fabric,
    /// The options for which the tables were computed.
    pub config: &'a QosConfig,
    pub tables: &'a QosTables,
    pub policy: Option<&'a QosPolicy>,
    pub partitions: &'a [Partition],
}

/// Ports on which an SL is mapped to VL 15.
#[derive(Clone, Copy, Default)]
struct DroppingPorts {
    count: usize,
    first: Option<PortId>,
}

impl SlUsers<'_> {
    /// A warning for each level in use, and one for each SL of partitions, that ports drop.
    pub fn notes(self) -> Vec<Note> {
        let levels = self.levels();
        let used = levels.iter().map(|(_, sl)| *sl).chain(self.partitions.iter().map(|it| it.sl));
        let used = used.fold(0_u16, |sls, sl| sls | 1 << (sl.0 & 0xF));
        // Most sites map no SL in use to VL 15, which shows without a look at each table.
        if self.tables.setup.is_none() && used & self.config.dropped_sls() == 0 {
            return Vec::new();
        }
        let dropping = self.dropping_ports();
        let mut notes = Vec::new();
        for (name, sl) in levels {
            notes.extend(self.note(&name, sl, dropping[usize::from(sl.0 & 0xF)]));
        }
        for sl in (0..16).map(Sl) {
            let mut of_sl = self.partitions.iter().filter(|partition| partition.sl == sl);
            let Some(first) = of_sl.next() else { continue };
            let others = match of_sl.count() {
                0 => String::new(),
                more => {
                    format!(
                        ", as {}",
                        counted(more, "other partition has", "other partitions have")
                    )
                }
            };
            let name = format!("partition \"{}\" ({}){others},", first.name, first.pkey);
            notes.extend(self.note(&name, sl, dropping[usize::from(sl.0)]));
        }
        notes
    }

    /// The levels that queries can get, as they are named in messages, and their SLs.
    fn levels(&self) -> Vec<(String, Sl)> {
        let Some(policy) = self.policy else { return Vec::new() };
        let used = policy
            .levels
            .iter()
            .enumerate()
            .filter(|(index, _)| is_used(&policy.default, &policy.rules, *index));
        let file = policy.file.display();
        used.map(|(index, level)| {
            let name = match (index == policy.default, level.name.as_str()) {
                (true, "") => "the default QoS level".to_owned(),
                (true, name) => format!("the default QoS level \"{name}\""),
                (false, "") => format!("QoS level {index}"),
                (false, name) => format!("QoS level \"{name}\""),
            };
            (format!("{file}:{}: {name}", level.line), level.sl)
        })
        .collect()
    }

    fn note(&self, name: &str, sl: Sl, ports: DroppingPorts) -> Option<Note> {
        let first = self.fabric.describe(ports.first?);
        let ports = match ports.count {
            1 => format!("port {first} maps"),
            count => format!("{count} ports map, such as {first},"),
        };
        Some(Note::warning(format!(
            "{name} has SL {sl}, which {ports} to VL 15, so that packets are dropped: queries for paths \
             over them get no records; change the SL, or qos_sl2vl"
        )))
    }

    /// By SL: the output ports of nodes with a mapping to VL 15.
    fn dropping_ports(&self) -> [DroppingPorts; 16] {
        let mut dropping = [DroppingPorts::default(); 16];
        for node in self.fabric.node_ids() {
            let rows = self.tables.sl_to_vl_of(node);
            for rows in rows.chunk_by(|(_, one, _), (_, two, _)| one == two) {
                let sls = rows.iter().fold(0, |sls, (.., map)| sls | dropped_by(map));
                let Some(&(_, output, _)) = rows.first().filter(|_| sls != 0) else { continue };
                let port = self.fabric.port_of(node, PortNum(output));
                for (sl, ports) in dropping.iter_mut().enumerate() {
                    if sls >> sl & 1 == 1 {
                        ports.count += 1;
                        ports.first = ports.first.or(port);
                    }
                }
            }
        }
        dropping
    }
}

fn is_used(default: &usize, rules: &[MatchRule], index: usize) -> bool {
    index == *default || rules.iter().any(|rule| rule.level == index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::Options;
    use crate::fabric::synthetic::SyntheticView;
    use crate::plan::compute::{PlanInput, compute};
    use crate::plan::lids::Memory;
    use crate::plan::partitions;
    use crate::plan::tests::{ring, with_input};
    use crate::wire::attr::PortState;
    use std::path::Path;
    use std::sync::Arc;

    /// Level 2 of the rules and the default have SLs that the mapping of the chapter's example drops.
    const POLICY: &str = "qos-levels\nqos-level\nname: DEFAULT\nsl: 9\nend-qos-level\n\
        qos-level\nname: low\nsl: 3\nend-qos-level\nqos-level\nname: spare\nsl: 10\nend-qos-level\n\
        end-qos-levels\nqos-match-rules\nqos-match-rule\nqos-class: 1\nqos-level-name: low\n\
        end-qos-match-rule\nend-qos-match-rules\nqos-ulps\nsdp : 8\nend-qos-ulps\n";

    fn warnings(options: &Options, policy: Option<&str>, sl: Sl) -> Vec<String> {
        let view = SyntheticView { state: PortState::Active, ..SyntheticView::default() };
        let fabric = Fabric::from_topology(&ring(4, &[]), 0, &view).expect("node 0");
        let policy = policy.map(|text| {
            let (policy, found) = QosPolicy::parse(Path::new("qos-policy.conf"), text);
            Arc::new(policy.unwrap_or_else(|| panic!("{found:?}")))
        });
        let mut partitions = partitions::default(options);
        partitions[0].sl = sl;
        let nothing = (&Memory::default(), &[][..]);
        let plan = with_input(&fabric, options, nothing, policy.as_ref(), |input| {
            let input = PlanInput { partitions: &partitions, ..*input };
            compute(&input).expect("a plan").plan
        });
        let about_vl_15 = plan.notes.iter().filter(|note| note.text.contains("to VL 15"));
        about_vl_15.map(|note| note.text.clone()).collect()
    }

    #[test]
    fn levels_and_partitions_whose_sl_is_dropped_are_reported_with_the_ports() {
        let map = Some("0,1,2,3,4,5,6,7,15,15,15,15,15,15,15,15".to_owned());
        let options = Options { qos: true, qos_sl2vl: map, ..Options::default() };
        let found = warnings(&options, Some(POLICY), Sl(0));
        let [default, implied] = &found[..] else { panic!("{found:#?}") };
        assert!(
            default.starts_with(
                "qos-policy.conf:2: the default QoS level \"DEFAULT\" has SL 9, which "
            ),
            "{default}"
        );
        assert!(implied.contains("QoS level \"SL 8 of qos-ulps\" has SL 8, which "), "{implied}");
        // A ring of four switches has 8 ports between switches, 4 to hosts and 4 of hosts.
        assert!(default.contains(" 16 ports map, such as Channel Adapter 0x"), "{default}");

        let found = warnings(&options, None, Sl(12));
        let [partition] = &found[..] else { panic!("{found:#?}") };
        assert!(partition.starts_with("partition \"Default\" (0x7fff), has SL 12"), "{partition}");

        let hosts_only =
            Options { qos_sl2vl: None, qos_ca_sl2vl: options.qos_sl2vl.clone(), ..options.clone() };
        let found = warnings(&hosts_only, None, Sl(12));
        assert!(found[0].contains(" 4 ports map, such as Channel Adapter 0x"), "{found:?}");
        assert_eq!(
            warnings(&Options { qos_sl2vl: None, ..options }, Some(POLICY), Sl(12)),
            [""; 0]
        );
    }
}

//! Ports that an earlier run of the subnet manager has seen, as its files in OSM_CACHE_DIR tell.

use crate::config::guid2lid::Guid2Lid;
use crate::config::neighbors::Neighbors;
use crate::fabric::Fabric;
use crate::ids::{Guid, Lid};
use std::collections::BTreeMap;

/// The contents of guid2lid and neighbors when the daemon started.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EarlierPorts {
    pub lids: Guid2Lid,
    pub cables: Neighbors,
}

impl EarlierPorts {
    /// What is known of a port with this port GUID or LID that is not in the fabric; `None` if
    /// nothing is.
    pub fn describe(&self, text: &str, fabric: &Fabric) -> Option<String> {
        let lid = text.parse().ok().map(Lid);
        let digits = text.strip_prefix("0x");
        let named = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).map(Guid);
        let guid = named.or_else(|| lid.and_then(|lid| has_lid(&self.lids, lid)))?;
        if fabric.port_by_guid(guid).is_some() {
            return None;
        }
        let lid = self.lids.get(&guid).map(|(first, _)| format!("it had the LID {first}"));
        let mut cables = self.cables.range((guid, 0.into())..=(guid, u8::MAX.into()));
        let cable = cables.next().map(|(_, &(far, num))| {
            let peer = fabric.port_by_guid(far);
            let peer = peer.and_then(|port| fabric.port_of(fabric.port(port).node, num));
            let far = format!("port {num} of {far}");
            let far = peer.map_or(far, |port| fabric.describe(port));
            format!("its cable led to {far}")
        });
        let known: Vec<String> = lid.into_iter().chain(cable).collect();
        if known.is_empty() {
            return None;
        }
        let known = known.join(", and ");
        Some(format!(
            "the port {guid} is missing: it has not been in the fabric since this subnet manager \
             started; as the files of an earlier run tell, {known}"
        ))
    }
}

fn has_lid(lids: &BTreeMap<Guid, (Lid, Lid)>, lid: Lid) -> Option<Guid> {
    let mut ranges = lids.iter();
    ranges.find(|(_, (first, last))| (*first..=*last).contains(&lid)).map(|(guid, _)| *guid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::ibnet;
    use crate::fabric::synthetic::SyntheticView;
    use crate::ids::PortNum;
    use std::path::Path;

    #[test]
    fn ports_of_an_earlier_run_are_described() {
        let text = "Switch 2 \"S-2\" # \"spine\"\n[1] \"H-1\"[1]\n\nCa 1 \"H-1\" # \"host\"\n\
                    [1](11) \"S-2\"[1]\n";
        let topology = ibnet::parse(Path::new("net"), text).expect("a fabric");
        let fabric =
            Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("a node");
        let spine = fabric.port(fabric.switch(crate::fabric::SwitchId(0)).first_port).guid;
        let gone = Guid(0x77);
        let earlier = EarlierPorts {
            lids: [(gone, (Lid(8), Lid(9))), (spine, (Lid(3), Lid(3)))].into(),
            cables: [((gone, PortNum(1)), (spine, PortNum(2)))].into(),
        };
        let expected =
            "as the files of an earlier run tell, it had the LID 8, and its cable led to ";
        for text in ["0x77", "9"] {
            let found = earlier.describe(text, &fabric).expect("it is known");
            assert!(found.contains(expected) && found.ends_with("\"spine\"[2]"), "{found}");
        }
        assert_eq!(earlier.describe("0x78", &fabric), None, "unknown");
        assert_eq!(earlier.describe("3", &fabric), None, "present");
        assert_eq!(earlier.describe("host", &fabric), None, "names are not in the files");
    }
}

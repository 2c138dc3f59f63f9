//! The members of multicast groups that packets reach by given tables.

use super::ours::Ours;
use std::collections::BTreeSet;
use testkit::dumps::Mfts;
use torus_sm::fabric::{PortId, SwitchId};
use torus_sm::ids::{Guid, PortNum};

/// Pairs of members, of which packets of the first reach the second.
pub(crate) type Delivered = BTreeSet<(Guid, Guid)>;

impl Ours<'_> {
    /// True if in each group whose entries differ, OpenSM's leave out pairs of members that ours
    /// connect, and connect none that ours leave out.
    pub(crate) fn reaches_more_members(&self, ours: &Mfts, theirs: &Mfts) -> bool {
        let differs = |mlid: u16| {
            let of_group = |mfts: &Mfts| -> Vec<_> {
                mfts.range((mlid, 0)..=(mlid, u64::MAX)).map(|(k, v)| (*k, v.clone())).collect()
            };
            of_group(ours) != of_group(theirs)
        };
        let groups = self.case.mlids().zip(&self.case.groups);
        let mut differing = groups.filter(|(mlid, _)| differs(*mlid)).peekable();
        differing.peek().is_some()
            && differing.all(|(mlid, members)| {
                let ours = self.delivered(ours, mlid, members);
                let theirs = self.delivered(theirs, mlid, members);
                theirs.is_subset(&ours) && theirs.len() < ours.len()
            })
    }

    /// The pairs of members that the entries of a group connect.
    pub(crate) fn delivered(&self, mfts: &Mfts, mlid: u16, members: &[Guid]) -> Delivered {
        let of_sender = |&sender: &Guid| {
            let reached = self.reached(mfts, mlid, sender).into_iter();
            reached.filter(|member| members.contains(member)).map(move |member| (sender, member))
        };
        members.iter().flat_map(of_sender).filter(|(from, to)| from != to).collect()
    }

    /// The end ports to which packets of a sender are forwarded.
    fn reached(&self, mfts: &Mfts, mlid: u16, sender: Guid) -> BTreeSet<Guid> {
        let mut reached = BTreeSet::new();
        let Some(start) = self.fabric.port_by_guid(sender).and_then(|port| self.entrance(port))
        else {
            return reached;
        };
        let mut waiting = vec![start];
        let mut met = BTreeSet::from([start]);
        while let Some((switch, input)) = waiting.pop() {
            let guid = self.fabric.switch(switch).guid();
            let outputs = mfts.get(&(mlid, guid.0)).into_iter().flatten();
            for &output in outputs.filter(|&&output| output != input) {
                if output == 0 {
                    reached.insert(guid);
                    continue;
                }
                let port = self.fabric.switch_port(switch, PortNum(output));
                let Some(peer) = port.and_then(|port| self.fabric.port(port).peer) else {
                    continue;
                };
                let node = self.fabric.node_of(peer);
                match node.switch {
                    Some(next) => {
                        let entrance = (next, self.fabric.port(peer).num.0);
                        if met.insert(entrance) {
                            waiting.push(entrance);
                        }
                    }
                    None => _ = reached.insert(self.fabric.port(peer).guid),
                }
            }
        }
        reached
    }

    /// The switch and its port at which packets of an end port arrive.
    fn entrance(&self, port: PortId) -> Option<(SwitchId, u8)> {
        match self.fabric.node_of(port).switch {
            Some(switch) => Some((switch, 0)),
            None => {
                let peer = self.fabric.port(port).peer?;
                Some((self.fabric.node_of(peer).switch?, self.fabric.port(peer).num.0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::EngineCase;
    use testkit::fabrics::Family;

    #[test]
    fn fewer_members_are_told_from_other_differences() {
        let case = EngineCase::random("minhop", &[Family::Mesh], 0, |_, _| {});
        let ours = Ours::new(&case, "");
        let whole = ours.mfts(&ours.plan().expect("a plan"));
        let first = case.mlids().next().expect("groups");
        let members = &case.groups[0];
        let has_link = |guid: &&Guid| ours.fabric.port_by_guid(**guid).is_some();
        let linked = members.iter().filter(has_link).count();
        assert_eq!(ours.delivered(&whole, first, members).len(), linked * (linked - 1));
        let without = |mlid: u16| {
            let mut left = whole.clone();
            let key = *left.keys().find(|key| key.0 == mlid).expect("an entry");
            left.remove(&key);
            left
        };
        assert!(ours.reaches_more_members(&whole, &without(first)));
        assert!(!ours.reaches_more_members(&without(first), &whole), "theirs reach more");
        assert!(!ours.reaches_more_members(&whole, &whole), "nothing differs");
        // Each lacks what the other has, in different groups and in the same.
        assert!(!ours.reaches_more_members(&without(first), &without(first + 1)));
        // A port more than the tree has reaches a pair that ours does not, or none.
        let mut wider = whole.clone();
        wider.values_mut().next().expect("an entry").push(200);
        assert!(!ours.reaches_more_members(&whole, &wider), "the same members are reached");
    }
}

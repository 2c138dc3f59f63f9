//! Names of nodes that replace their NodeDescriptions (`node_name_map_name`).

use super::{Fabric, Node};
use crate::ids::Guid;
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::Arc;

/// The names of a node name map, by node GUID.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NodeNames(FxHashMap<Guid, Arc<str>>);

impl NodeNames {
    /// The name of the node with this GUID; `None` if the map has none.
    pub fn get(&self, guid: Guid) -> Option<&Arc<str>> {
        self.0.get(&guid)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names the nodes of a fabric; those without a name here have their descriptions.
    pub fn give_to(&self, fabric: &mut Fabric) {
        for index in 0..fabric.nodes.len() {
            let node = &fabric.nodes[index];
            let name = self.get(node.guid());
            // Most nodes have their name already: their pages stay shared.
            if node.mapped_name.as_ref() != name {
                fabric.nodes[index].mapped_name = name.cloned();
            }
        }
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// The first name of a GUID counts, as in OpenSM.
impl FromIterator<(Guid, Arc<str>)> for NodeNames {
    fn from_iter<I: IntoIterator<Item = (Guid, Arc<str>)>>(names: I) -> Self {
        let mut map = FxHashMap::default();
        for (guid, name) in names {
            map.entry(guid).or_insert(name);
        }
        Self(map)
    }
}

/// The name of a node for messages, dumps and interfaces: that of the node name map, else the
/// NodeDescription.
#[derive(Clone, Copy, Debug)]
pub struct NodeName<'a>(pub(super) &'a Node);

impl PartialEq for NodeName<'_> {
    fn eq(&self, other: &Self) -> bool {
        let Self(one) = self;
        let Self(other) = other;
        one.mapped_name == other.mapped_name && one.description == other.description
    }
}

impl fmt::Display for NodeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.mapped_name {
            Some(name) => f.pad(name),
            None => self.0.description.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_a_guid_counts() {
        let names = [(Guid(1), "one".into()), (Guid(2), "two".into()), (Guid(1), "other".into())];
        let names: NodeNames = names.into_iter().collect();
        assert_eq!(names.get(Guid(1)).map(|name| &**name), Some("one"));
        assert_eq!(names.get(Guid(3)), None);
        assert_eq!(names.len(), 2);
    }
}

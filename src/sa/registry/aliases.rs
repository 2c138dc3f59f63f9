//! Alias GUIDs as an earlier run left them in its dump: devices still hold them. They are kept as
//! they are, so that a dump that is loaded and written again has lost nothing, and name their
//! ports in queries.

use crate::ids::{Guid, Lid};
use std::collections::BTreeMap;

/// Entries of one block of a port's GUID table (IBA vol. 1, 14.2.5.5).
pub const BLOCK: usize = 8;

/// Blocks of alias GUIDs by port GUID and block number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Aliases {
    blocks: BTreeMap<(Guid, u8), (Lid, [Guid; BLOCK])>,
    /// Ports by their aliases.
    ports: BTreeMap<Guid, Guid>,
}

impl Aliases {
    /// All blocks: port GUID, block number, LID when it was written, entries.
    pub fn iter(&self) -> impl Iterator<Item = (Guid, u8, Lid, &[Guid; BLOCK])> {
        self.blocks.iter().map(|(&(port, block), (lid, guids))| (port, block, *lid, guids))
    }

    /// A block of a port's, if there is one.
    pub fn block(&self, port: Guid, block: u8) -> Option<&[Guid; BLOCK]> {
        self.blocks.get(&(port, block)).map(|(_, guids)| guids)
    }

    /// The GUID of the port that has `alias`.
    pub fn port(&self, alias: Guid) -> Option<Guid> {
        self.ports.get(&alias).copied()
    }

    /// Sets a block. An alias that another port has stays that port's in [`Self::port`].
    pub fn set(&mut self, port: Guid, block: u8, lid: Lid, guids: [Guid; BLOCK]) {
        let replaced = self.blocks.insert((port, block), (lid, guids));
        for old in replaced.iter().flat_map(|(_, guids)| guids) {
            if self.ports.get(old) == Some(&port) {
                self.ports.remove(old);
            }
        }
        for alias in guids.into_iter().filter(|&alias| alias != Guid::default() && alias != port) {
            self.ports.entry(alias).or_insert(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_is_that_of_one_port() {
        let block = |aliases: &[u64]| {
            let mut guids = [Guid::default(); BLOCK];
            guids.iter_mut().zip(aliases).for_each(|(guid, &alias)| *guid = Guid(alias));
            guids
        };
        let mut aliases = Aliases::default();
        aliases.set(Guid(1), 0, Lid(1), block(&[1, 11, 12]));
        aliases.set(Guid(2), 0, Lid(2), block(&[2, 11, 22]));
        let ports = |aliases: &Aliases| {
            [0, 1, 11, 12, 22, 33].map(|guid| aliases.port(Guid(guid)).map(|port| port.0))
        };
        assert_eq!(ports(&aliases), [None, None, Some(1), Some(1), Some(2), None]);
        aliases.set(Guid(1), 0, Lid(1), block(&[1, 0, 12, 33]));
        assert_eq!(ports(&aliases), [None, None, None, Some(1), Some(2), Some(1)]);
        assert_eq!(aliases.block(Guid(1), 0), Some(&block(&[1, 0, 12, 33])));
        assert_eq!(aliases.block(Guid(1), 1), None);
    }
}

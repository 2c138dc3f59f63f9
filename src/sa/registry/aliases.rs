//! Alias GUIDs as an earlier run left them in its dump: kept as they are, so that a dump that is
//! loaded and written again has lost nothing.

use crate::ids::{Guid, Lid};
use std::collections::BTreeMap;

/// Entries of one block of a port's GUID table (IBA vol. 1, 14.2.5.5).
pub const BLOCK: usize = 8;

/// Blocks of alias GUIDs by port GUID and block number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Aliases {
    blocks: BTreeMap<(Guid, u8), (Lid, [Guid; BLOCK])>,
}

impl Aliases {
    /// All blocks: port GUID, block number, LID when it was written, entries.
    pub fn iter(&self) -> impl Iterator<Item = (Guid, u8, Lid, &[Guid; BLOCK])> {
        self.blocks.iter().map(|(&(port, block), (lid, guids))| (port, block, *lid, guids))
    }

    /// Sets a block.
    pub fn set(&mut self, port: Guid, block: u8, lid: Lid, guids: [Guid; BLOCK]) {
        self.blocks.insert((port, block), (lid, guids));
    }
}

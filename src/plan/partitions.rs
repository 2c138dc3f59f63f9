//! P_Key tables.

use crate::ids::Pkey;
use crate::wire::attr::tables::PkeyBlock;

/// The P_Key tables of a fabric.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartitionTables {
    /// By port slot: the blocks to be written (block number, block); empty where none.
    pub blocks: Vec<Vec<(u16, PkeyBlock)>>,
    /// By port slot: the keys an end port holds, for path and group checks.
    pub keys: Vec<Vec<Pkey>>,
}

//! The options of LASH.

use crate::config::options::Options;

/// The options of the engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct LashOptions {
    pub start_vl: u8,
    /// A VLCap code; 0 leaves the VLs of links as they are.
    pub max_op_vls: u8,
    /// The random seed of the balancing.
    pub seed: u32,
    /// Orders switches and links along the dimensions of a mesh, and uses all parallel cables.
    pub do_mesh_analysis: bool,
}

impl From<&Options> for LashOptions {
    fn from(options: &Options) -> Self {
        Self {
            start_vl: options.lash_start_vl,
            max_op_vls: options.max_op_vls,
            seed: options.scatter_ports.max(1),
            do_mesh_analysis: options.do_mesh_analysis,
        }
    }
}

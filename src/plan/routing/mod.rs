//! Routing engines, and the chain in which they are tried.
//!
//! An engine gets a [`RoutingInput`] and returns a [`Routing`] or a [`RoutingError`]; it writes into
//! nothing and remembers nothing. What must outlive a pass (the torus of the last success, for
//! the change report) is an argument.

pub mod chain;
pub mod minhop;
pub mod torus;

use super::LidTable;
use crate::config::options::Options;
use crate::fabric::difference::Difference;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Lid, Mlid, Sl};
use crate::notes::Note;
use crate::wire::attr::tables::{LFT_NO_PATH, SlToVl, VlArbBlock};
use std::fmt;
use std::sync::Arc;

/// A linear forwarding table: the output port by LID, 0xFF where there is no path.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Lft(pub Vec<u8>);

impl Lft {
    /// A table for LIDs 0..=`max` without any path, its length a multiple of a block.
    pub fn empty(max: Lid) -> Self {
        use crate::wire::attr::tables::LFT_BLOCK;
        Self(vec![LFT_NO_PATH; (max.index() / LFT_BLOCK + 1) * LFT_BLOCK])
    }

    /// The output port for `lid`; `None` if packets to it are dropped.
    pub fn out(&self, lid: Lid) -> Option<u8> {
        self.0.get(lid.index()).copied().filter(|&port| port != LFT_NO_PATH)
    }
}

impl fmt::Debug for Lft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lft({} entries)", self.0.iter().filter(|&&port| port != LFT_NO_PATH).count())
    }
}

/// What an engine works on.
#[derive(Clone, Copy)]
pub struct RoutingInput<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// LIDs.
    pub lids: &'a LidTable,
    /// The configuration.
    pub options: &'a Options,
    /// torus-2QoS.conf as read at the start of this pass; the error is what the engine says
    /// when it needs the file.
    pub torus_config: &'a Result<crate::config::torus::TorusConfig, Vec<Note>>,
    /// What routed the fabric last time, if anything did.
    pub previous: Option<&'a Routing>,
    /// How the fabric differs from the one that `previous` routes, if it has the same nodes, able
    /// to do the same, and the same LIDs; `None` if nobody knows.
    pub previous_fabric: Option<PreviousFabric<'a>>,
}

/// How a fabric differs from an earlier one of the same nodes.
#[derive(Clone, Copy)]
pub struct PreviousFabric<'a> {
    /// The earlier one.
    pub fabric: &'a Fabric,
    /// The difference.
    pub difference: &'a Difference,
}

/// An engine.
pub trait Engine: Send + Sync {
    /// The name by which `-R` calls it.
    fn name(&self) -> &'static str;

    /// Routes the fabric.
    ///
    /// # Errors
    /// A [`RoutingError`] that says why this fabric cannot be routed; nothing may be written then.
    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError>;
}

/// An engine's "no", with its reasons.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutingError {
    /// Name of the engine.
    pub engine: &'static str,
    /// Everything it found, errors and the rest, in order.
    pub notes: Vec<Note>,
    /// What it had made of the fabric by then.
    pub dump: Option<Dump>,
}

/// A dump file that an engine has something to write into.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dump {
    /// Name of the file, without a folder.
    pub file: &'static str,
    /// What is to be in it.
    pub text: String,
}

/// Routes of a fabric.
#[derive(Clone)]
pub struct Routing {
    /// Name of the engine that made them.
    pub engine: &'static str,
    /// Forwarding tables, by [`SwitchId`].
    pub lfts: Vec<Arc<Lft>>,
    /// What else the engine decides.
    pub policy: Arc<dyn RoutingPolicy>,
    /// What the operator is to hear.
    pub notes: Vec<Note>,
    /// The engines that were asked before and refused.
    pub routing_errors: Vec<RoutingError>,
}

impl fmt::Debug for Routing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Routing({}, {} switches)", self.engine, self.lfts.len())
    }
}

impl Routing {
    /// The forwarding table of a switch.
    pub fn lft(&self, switch: SwitchId) -> &Lft {
        &self.lfts[switch.index()]
    }
}

/// What an engine decides beside forwarding tables. Port ids are those of the fabric that was
/// routed. The default answers are those of engines that leave SLs and VLs alone.
pub trait RoutingPolicy: Send + Sync {
    /// The SL of the path from one end port to another. `hint` is the SL asked for, or that of
    /// the QoS level or partition.
    fn path_sl(&self, _source: PortId, _destination: PortId, hint: Sl) -> Sl {
        hint
    }

    /// The SL to VL mapping from input to output port of a switch (`input` is a port of the same
    /// switch), or of an end port (`input == output`), before the operational VLs are applied;
    /// `None` leaves it to the configuration.
    fn sl_to_vl(&self, _input: PortId, _output: PortId) -> Option<SlToVl> {
        None
    }

    /// True if [`Self::sl_to_vl`] has an answer for all pairs of ports, so that nothing is left to
    /// the configuration.
    fn decides_sl_to_vl(&self) -> bool {
        false
    }

    /// What is wrong with a VL arbitration table for `port` in the view of this engine, if anything
    /// is. `weights` are the sums of its weights by VL.
    fn vl_arbitration_warning(&self, _port: PortId, _weights: &[u32; 16]) -> Option<&'static str> {
        None
    }

    /// Rewrites a configured VL arbitration block for `port`.
    fn vl_arbitration(&self, _port: PortId, configured: VlArbBlock) -> VlArbBlock {
        configured
    }

    /// The tree of a multicast group as (switch, output ports), switches in ascending order;
    /// notes tell which members could not be served. `None` leaves it to the general algorithm.
    fn multicast_tree(&self, _mlid: Mlid, _members: &[PortId]) -> Option<MulticastTree> {
        None
    }

    /// A class of ports that [`Self::path_sl`] treats alike: its answer must depend on the groups
    /// of source and destination (and the hint) alone. Coarser groups make verification faster.
    /// The default takes every port for a class of its own.
    fn sl_group(&self, port: PortId) -> u32 {
        port.0
    }

    /// What this policy answers otherwise than `before`, an earlier one for a fabric with the same
    /// nodes and ports: `Some` if all path SLs and SL groups are the same, with the ports (inputs
    /// or outputs) at which SL to VL mappings and VL arbitration may differ; `None` if more may
    /// differ or nobody knows.
    fn changes_since(&self, _before: &dyn RoutingPolicy) -> Option<Vec<PortId>> {
        None
    }

    /// True if this policy is known to give the same path SLs as `before`, an earlier one, to ports of
    /// the same groups ([`Self::sl_group`]), whatever their ids were then.
    fn same_path_sls_as(&self, _before: &dyn RoutingPolicy) -> bool {
        false
    }

    /// True if this policy is known to give every group the tree that `before`, an earlier one for
    /// a fabric with the same nodes and ports, gives it, and the same notes with it.
    fn same_multicast_trees_as(&self, _before: &dyn RoutingPolicy) -> bool {
        false
    }

    /// True if the engine promises routes without credit loops, so that one is a fault of the
    /// plan and not merely something to warn of.
    fn guarantees_no_credit_loops(&self) -> bool {
        false
    }

    /// For reports and later passes of the same engine: its own view of the fabric.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// The tree of a multicast group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MulticastTree {
    /// Switches with the ports that forward the group (256-bit masks), ascending.
    pub switches: Vec<(SwitchId, PortMask)>,
    /// Members left out, and why.
    pub notes: Vec<Note>,
}

/// A set of port numbers 0..=255.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct PortMask(pub [u64; 4]);

impl PortMask {
    /// Adds a port.
    pub fn insert(&mut self, port: u8) {
        self.0[usize::from(port) / 64] |= 1 << (port % 64);
    }

    /// Takes a port out.
    pub fn remove(&mut self, port: u8) {
        self.0[usize::from(port) / 64] &= !(1 << (port % 64));
    }

    /// True if the port is in the set.
    pub fn contains(&self, port: u8) -> bool {
        self.0[usize::from(port) / 64] >> (port % 64) & 1 == 1
    }

    /// The ports in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.into_iter().zip([0, 64, 128, 192]).flat_map(|(mut word, first)| {
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as u8)?;
                word &= word - 1;
                Some(first + bit)
            })
        })
    }

    /// The 16 ports of one position of a multicast forwarding table, bit 0 the lowest.
    pub fn position(&self, position: u8) -> u16 {
        (self.0[usize::from(position) / 4] >> (position % 4 * 16)) as u16
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }
}

impl fmt::Debug for PortMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

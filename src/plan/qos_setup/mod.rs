//! `qos-setup` of qos-policy.conf: SL to VL mappings and VL arbitration for groups of ports.
//!
//! OpenSM reads these scopes and ignores them; here they are carried out, as the proposal of 2007
//! that brought them describes them. A [`QosSetup`] answers which scope is for a port, or for a pair
//! of input and output port:
//!
//! * `vlarb-scope`: the ports of the groups of `group`, and those cabled to ports of the groups of
//!   `across`;
//! * `sl2vl-scope`: the same ports as outputs (all, where it names neither), of these those whose
//!   numbers `to` has and that are cabled to ports of the groups of `across-to`; each for the inputs
//!   of the same switch whose numbers `from` has and that are cabled to ports of the groups of
//!   `across-from`. A channel adapter or router has a single input, its own packets: it counts as
//!   number 0, as that of a switch's own packets does, and is cabled to nothing.
//!
//! The first scope that is for a port counts, with all it says; what it does not say, and ports
//! that no scope is for, are left to the `qos_*` options. Tables are cut to what a port supports
//! in the same way as those of the options, by [`super::qos`]. [`mod@findings`] tells what of the
//! scopes the fabric cannot follow (section 9 of the proposal).
//!
//! Nothing is computed ahead but the members of the groups: where cables change, the answers do,
//! too.

mod findings;
#[cfg(test)]
mod tests;

pub use findings::{Ground, findings};

use super::partitions::Partition;
use super::qos_policy::GroupPorts;
use super::shared::Shared;
use crate::config::qos_policy::{QosPolicy, SlToVlScope};
use crate::fabric::{Fabric, PortId};
use crate::ids::Pkey;
use std::sync::Arc;

/// The scopes of a policy, made for a fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QosSetup {
    policy: Arc<QosPolicy>,
    groups: GroupPorts,
}

impl QosSetup {
    /// Makes the scopes for a fabric. `keys` are the P_Keys of end ports by port slot; empty if
    /// all hold the default one. What the groups name and the fabric does not have is told where
    /// the policy's rules are made, see [`super::qos_policy`].
    pub fn new(
        policy: &Arc<QosPolicy>,
        fabric: &Fabric,
        keys: &Shared<Vec<Pkey>>,
        partitions: &[Partition],
    ) -> Self {
        let own = Some(fabric.local());
        let (groups, _) = GroupPorts::new(policy, fabric, keys, partitions, own);
        Self { policy: policy.clone(), groups }
    }

    /// The policy.
    pub fn policy(&self) -> &Arc<QosPolicy> {
        &self.policy
    }

    /// The scopes for the VL arbitration of a port, indexes of [`QosPolicy::vl_arbitration`]. The
    /// first one counts.
    pub fn arbitration_at<'a>(
        &'a self,
        fabric: &'a Fabric,
        port: PortId,
    ) -> impl Iterator<Item = usize> + 'a {
        let scopes = self.policy.vl_arbitration.iter().enumerate();
        scopes
            .filter(move |(_, scope)| {
                self.is_in(&scope.groups, port) || self.is_across(fabric, &scope.across, port)
            })
            .map(|(index, _)| index)
    }

    /// The scopes with mappings to an output, for some inputs or all: indexes of
    /// [`QosPolicy::sl_to_vl`], ascending.
    pub fn mappings_to<'a>(
        &'a self,
        fabric: &'a Fabric,
        output: PortId,
    ) -> impl Iterator<Item = usize> + 'a {
        let number = fabric.port(output).num.0;
        self.targeting(fabric, output)
            .filter(move |(_, scope)| scope.to.contains(number))
            .map(|(index, _)| index)
    }

    /// The scope for the mapping from an input to an output, the first of `scopes`, which are
    /// [those to the output](Self::mappings_to), that has it.
    pub fn mapping(&self, fabric: &Fabric, scopes: &[usize], input: PortId) -> Option<usize> {
        let is_switch = fabric.node_of(input).is_switch();
        let number = if is_switch { fabric.port(input).num.0 } else { 0 };
        let has = |scope: &SlToVlScope| {
            let cabled = || is_switch && self.is_across(fabric, &scope.across_from, input);
            scope.from.contains(number) && (scope.across_from.is_empty() || cabled())
        };
        let all = &self.policy.sl_to_vl;
        scopes.iter().copied().find(|&index| all.get(index).is_some_and(has))
    }

    /// The scopes that are for a port as output, were it not for its number.
    fn targeting<'a>(
        &'a self,
        fabric: &'a Fabric,
        port: PortId,
    ) -> impl Iterator<Item = (usize, &'a SlToVlScope)> + 'a {
        self.policy.sl_to_vl.iter().enumerate().filter(move |(_, scope)| {
            let SlToVlScope { groups, across, across_to, .. } = scope;
            let of_all = groups.is_empty() && across.is_empty();
            (of_all || self.is_in(groups, port) || self.is_across(fabric, across, port))
                && (across_to.is_empty() || self.is_across(fabric, across_to, port))
        })
    }

    /// True if the port is in one of the groups.
    pub fn is_in(&self, groups: &[usize], port: PortId) -> bool {
        groups.iter().any(|&group| self.groups.contains(group, port))
    }

    /// True if the port is cabled to one that is in one of the groups.
    pub fn is_across(&self, fabric: &Fabric, groups: &[usize], port: PortId) -> bool {
        !groups.is_empty() && fabric.port(port).peer.is_some_and(|peer| self.is_in(groups, peer))
    }
}

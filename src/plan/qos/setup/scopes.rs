//! The scopes of a policy, resolved for a fabric.

use crate::config::qos_policy::{QosPolicy, SlToVlScope};
use crate::fabric::{Fabric, PortId};
use crate::ids::Pkey;
use crate::paged_vec::PagedVec;
use crate::plan::partitions::Partition;
use crate::plan::qos::policy::GroupPorts;
use std::sync::Arc;

/// The `qos-setup` scopes of a policy, resolved for a fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QosSetup {
    policy: Arc<QosPolicy>,
    groups: GroupPorts,
}

impl QosSetup {
    /// Resolves the scopes for a fabric. `keys` are the P_Keys of end ports by port slot; empty if
    /// all ports hold the default key only. Names that match nothing in the fabric are reported by
    /// [`crate::plan::qos::policy::EffectivePolicy::new`].
    pub fn new(
        policy: &Arc<QosPolicy>,
        fabric: &Fabric,
        keys: &PagedVec<Arc<[Pkey]>>,
        partitions: &[Partition],
    ) -> Self {
        let own = Some(fabric.local());
        let (groups, _) = GroupPorts::new(policy, fabric, keys, partitions, own);
        Self { policy: policy.clone(), groups }
    }

    pub fn policy(&self) -> &Arc<QosPolicy> {
        &self.policy
    }

    /// The `vlarb-scope`s of a port, as indexes of [`QosPolicy::vl_arbitration`]. The first one
    /// applies.
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

    /// The `sl2vl-scope`s with mappings to an output from some input, as ascending indexes of
    /// [`QosPolicy::sl_to_vl`].
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

    /// The scope of the mapping from an input to an output: the first of `scopes` (the
    /// [scopes of the output](Self::mappings_to)) that includes the input.
    pub fn mapping(&self, fabric: &Fabric, scopes: &[usize], input: PortId) -> Option<usize> {
        let is_switch = fabric.node_of(input).is_switch();
        let number = if is_switch { fabric.port(input).num.0 } else { 0 };
        let all = &self.policy.sl_to_vl;
        scopes.iter().copied().find(|&index| {
            all.get(index).is_some_and(|scope: &SlToVlScope| {
                scope.from.contains(number)
                    && (scope.across_from.is_empty()
                        || self.cabled(fabric, &scope.across_from, is_switch, input))
            })
        })
    }

    /// The scopes that apply to an output port, irrespective of its port number.
    pub(super) fn targeting<'a>(
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

    /// True if the port is linked to a port in one of the groups.
    pub fn is_across(&self, fabric: &Fabric, groups: &[usize], port: PortId) -> bool {
        !groups.is_empty() && fabric.port(port).peer.is_some_and(|peer| self.is_in(groups, peer))
    }

    fn cabled(
        &self,
        fabric: &Fabric,
        across_from: &[usize],
        is_switch: bool,
        input: PortId,
    ) -> bool {
        is_switch && self.is_across(fabric, across_from, input)
    }
}

//! The reply of `/v1/replay`: the fabric at the moments of a recording, as the page shows it.

#[cfg(test)]
use super::fabric::NodeView;
use super::fabric::{LinkView, cables, node_view};
#[cfg(test)]
use super::torus::TorusView;
use super::torus::torus_view;
use crate::fabric::PortId;
use crate::fabric::{End, Fabric};
use crate::ids::Guid;
use crate::ids::PortNum;
use crate::plan::routing::Routing;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::BTreeMap;

/// A recording, moment by moment.
#[derive(Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordedView {
    /// Name and version of the program that recorded.
    pub program: String,
    /// Reason for which the recording was written.
    pub reason: String,
    /// Time of writing.
    pub written: String,
    /// Device, number and GUID of the port of the subnet manager.
    pub port: String,
    /// The moments, oldest first.
    pub frames: Vec<Frame>,
    /// Moments without a frame of their own; the next frame contains their changes.
    pub left_out: usize,
    /// The plans that were in force, repeated from the recording.
    pub plans: Vec<RecordedPlan>,
    /// The last events, oldest first.
    pub events: Vec<RecordedEvent>,
}

/// The fabric at a moment, as its difference from the frame before.
#[derive(Serialize, Debug, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Frame {
    /// Time of day.
    pub time: String,
    /// The event that the frame follows.
    pub event: String,
    /// What this SM last said about its state, such as `entering MASTER state`; null if the recording does
    /// not tell.
    pub role: Option<String>,
    /// Index of the plan in force in `plans`; null if the recording has none.
    pub plan: Option<usize>,
    pub nodes: NodeChanges,
    pub links: LinkChanges,
    /// Sets that were sent since the frame before, by attribute.
    pub sets: BTreeMap<String, usize>,
    /// Open incidents.
    pub incidents: Vec<RecordedIncidentView>,
}

/// Nodes that differ from those of the frame before.
#[derive(Serialize, Debug, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NodeChanges {
    /// New and changed nodes.
    #[cfg_attr(test, schemars(with = "Vec<NodeView>"))]
    pub set: Vec<Box<RawValue>>,
    /// GUIDs of nodes that are gone.
    pub gone: Vec<String>,
}

/// Links that differ from those of the frame before.
#[derive(Serialize, Debug, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LinkChanges {
    /// New and changed links.
    #[cfg_attr(test, schemars(with = "Vec<LinkView>"))]
    pub set: Vec<Box<RawValue>>,
    /// Links that are gone, as node GUID and port of both ends: `0x…/1-0x…/2`.
    pub gone: Vec<String>,
}

/// A plan, repeated from the recording.
#[derive(Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordedPlan {
    /// Number since the start of the daemon, from 1.
    pub number: u64,
    /// The routing engine, or why there is no plan.
    pub result: String,
    /// The repeated plan has the tables of the recorded one: `lids` of the links are those that were
    /// programmed.
    pub is_as_recorded: bool,
    /// Its torus, as of `/v1/torus`; null without one.
    #[cfg_attr(test, schemars(with = "Option<TorusView>"))]
    pub torus: Option<Box<RawValue>>,
}

#[derive(Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordedEvent {
    /// Time of day.
    pub time: String,
    /// Kind, such as `trap` or `sweep`.
    pub kind: String,
    pub text: String,
}

/// An incident that was open.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordedIncidentView {
    pub id: String,
    /// `warning` or `critical`.
    pub severity: String,
    pub headline: String,
    pub repair: String,
    /// Time at which it opened; null if that was before the recording.
    pub opened: Option<String>,
}

/// Views by name: node GUID or ends of a link.
pub type Views = BTreeMap<String, Box<RawValue>>;

/// The nodes of a snapshot, by GUID.
///
/// # Errors
/// A node has no JSON form.
pub fn node_views(fabric: &Fabric) -> Result<Views, serde_json::Error> {
    let nodes = fabric.node_ids().map(|id| {
        let view = node_view(fabric, id);
        Ok((fabric.node(id).guid().to_string(), to_raw_value(&view)?))
    });
    nodes.collect()
}

/// The links of a snapshot, by their ends; `loads` are the LIDs that are forwarded through ports.
///
/// # Errors
/// A link has no JSON form.
pub fn link_views(
    fabric: &Fabric,
    loads: &BTreeMap<End, usize>,
) -> Result<Views, serde_json::Error> {
    let links = cables(fabric).map(|(a, b)| {
        let mut view = LinkView::new(fabric, a, b);
        view.lids = load(loads, fabric, a).zip(load(loads, fabric, b)).map(|(a, b)| [a, b]);
        Ok((view.key(), to_raw_value(&view)?))
    });
    links.collect()
}

fn load(loads: &BTreeMap<(Guid, PortNum), usize>, fabric: &Fabric, port: PortId) -> Option<usize> {
    loads.get(&fabric.end_of(port)).copied()
}

/// The torus of a routing; `None` if its engine knows none.
///
/// # Errors
/// It has no JSON form.
pub fn recorded_torus(
    fabric: &Fabric,
    routing: &Routing,
) -> Result<Option<Box<RawValue>>, serde_json::Error> {
    torus_view(fabric, routing).map(|view| to_raw_value(&view)).transpose()
}

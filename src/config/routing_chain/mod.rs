//! Routing chains: parts of a subnet with a routing engine each (MLNX OpenSM, "Routing Chains").
//!
//! * [`port_groups`]: `pgrp_policy_file`, named sets of ports;
//! * [`topologies`]: `topo_policy_file`, the switches and hosts of each part;
//! * [`steps`]: `rch_policy_file`, the engines in the order in which they route;
//! * `port_rules`: the groups and the rules that choose their ports;
//! * `settings`: the options of a step with its own configuration file;
//! * `paragraphs`: the syntax of all three files.
//!
//! A paragraph is a keyword such as `port-group`, qualifiers with a colon and a value, and
//! `end-port-group`. A value ends before the next qualifier, so that a file may be written in one
//! line. `#` starts a comment.

mod paragraphs;
pub mod port_groups;
mod port_rules;
mod settings;
pub mod steps;
pub mod topologies;

#[cfg(test)]
mod tests;

pub use settings::StepSettings;

use super::guid_lists::GuidLists;
use super::torus::TorusConfig;
use crate::notes::Note;
use port_groups::ChainPortGroup;
use std::sync::Arc;
use steps::UnicastStep;
use topologies::ChainTopology;

/// The engine list entry that enables routing chains.
pub const ENGINE: &str = "chain";

/// The contents of the three policy files, with the configuration of each step.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RoutingChain {
    pub groups: Vec<ChainPortGroup>,
    pub topologies: Vec<ChainTopology>,
    /// The steps by ascending ID.
    pub steps: Vec<ConfiguredStep>,
    /// Messages about the files, `skipped` included.
    pub notes: Vec<Note>,
    /// Findings about files of the steps that cannot be read, or of which lines are skipped.
    pub skipped: Vec<Note>,
}

/// A step with the options and files of its engine.
#[derive(Clone, PartialEq, Debug)]
pub struct ConfiguredStep {
    pub step: UnicastStep,
    pub settings: StepSettings,
    pub lists: Arc<GuidLists>,
    /// torus-2QoS.conf, if the step's configuration file names another one than opensm.conf.
    pub torus_config: Option<Result<TorusConfig, Vec<Note>>>,
}

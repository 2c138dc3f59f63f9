//! `topo_policy_file`: parts of the fabric, each with its switches and hosts.

use super::paragraphs::{Grammar, Paragraph, paragraphs};
use super::port_groups::{self, ChainPortGroup, GroupRef};
use crate::config::Diagnostic;
use crate::config::diagnostic::Diagnostics;
use crate::config::literal::{number, quoted};
use std::path::Path;

const SECTION: &str = "topology";

const GRAMMAR: Grammar = Grammar {
    section: SECTION,
    qualifiers: &["id", "sw-grp", "hca-grp"],
    repeatable: &[],
    with_colon: &[],
};

/// A part of the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainTopology {
    /// Its number, from 1.
    pub id: u64,
    /// Switches and switch ports.
    pub switches: GroupRef,
    /// Ports of channel adapters.
    pub hosts: GroupRef,
}

/// Parses the text of `file`. The topologies are complete unless a diagnostic is an error.
pub fn parse(
    file: &Path,
    text: &str,
    groups: &[ChainPortGroup],
) -> (Vec<ChainTopology>, Vec<Diagnostic>) {
    let mut diagnostics = Diagnostics::new(file);
    let mut topologies: Vec<(ChainTopology, u32)> = Vec::new();
    for paragraph in &paragraphs(text, &GRAMMAR, &mut diagnostics) {
        let id = id(paragraph, &topologies, &mut diagnostics);
        let switches = group(paragraph, "sw-grp", groups, &mut diagnostics);
        let hosts = group(paragraph, "hca-grp", groups, &mut diagnostics);
        if let (Some(id), Some(switches), Some(hosts)) = (id, switches, hosts) {
            topologies.push((ChainTopology { id, switches, hosts }, paragraph.at.line));
        }
    }
    let topologies = topologies.into_iter().map(|(topology, _)| topology).collect();
    (topologies, diagnostics.into_sorted())
}

fn id(
    paragraph: &Paragraph<'_>,
    earlier: &[(ChainTopology, u32)],
    diagnostics: &mut Diagnostics<'_>,
) -> Option<u64> {
    let value = paragraph.required("id", SECTION, diagnostics)?;
    let Some(id) = number(value.text()).filter(|&id| id > 0) else {
        let message =
            format!("the ID of a topology is a positive number, not {}", quoted(value.text()));
        diagnostics.error(value, message);
        return None;
    };
    if let Some((_, line)) = earlier.iter().find(|(topology, _)| topology.id == id) {
        diagnostics.error(value, format!("topology {id} is defined in line {line} already"));
        return None;
    }
    Some(id)
}

fn group(
    paragraph: &Paragraph<'_>,
    name: &str,
    groups: &[ChainPortGroup],
    diagnostics: &mut Diagnostics<'_>,
) -> Option<GroupRef> {
    let value = paragraph.required(name, SECTION, diagnostics)?;
    let found = port_groups::find(groups, value.text());
    if found.is_none() {
        let hint = port_groups::hint(groups, value.text());
        let message =
            format!("there is no group {} in pgrp_policy_file{hint}", quoted(value.text()));
        diagnostics.error(value, message);
    }
    found
}

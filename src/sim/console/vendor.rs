//! The command `vendor`: profiles of devices with vendor-specific attributes, and their Sets.

use super::ConsoleError;
use super::args::{Args, Parsed};
use super::command::{ConsoleCommand, NodeFault, TargetName, VendorCommand};
use super::resolve;
use crate::ids::{PortNum, Sl};
use crate::sim::net::Net;
use crate::sim::node_faults::AttributeFault;
use crate::sim::vendor::VendorSet;
use crate::wire::attr::AttrId;
use crate::wire::mad::Status;
use crate::wire::vendor::qos_config_sl::{QosConfigSl, SLS};
use std::fmt::Write as _;

/// Parses what follows the word `vendor`.
pub(super) fn parse(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let Some(target) = args.rest.next().cloned() else {
        return Ok(ConsoleCommand::Vendor(None, VendorCommand::Show));
    };
    let Some(word) = args.rest.next() else {
        return Ok(ConsoleCommand::Vendor(Some(target), VendorCommand::Show));
    };
    let fault = match () {
        () if word.is("off") => {
            return Ok(ConsoleCommand::Vendor(Some(target), VendorCommand::Profile(None)));
        }
        () if word.is("sets") => {
            return Ok(ConsoleCommand::Vendor(Some(target), VendorCommand::Sets));
        }
        () if word.is("silent") => Some(AttributeFault::Silent),
        () if word.is("refuse") => Some(AttributeFault::Refused(Status::BAD_METHOD_ATTR)),
        () if word.is("answer") => None,
        () => {
            let profile = word.text.parse().map_err(|text: String| word.error(text))?;
            let command = VendorCommand::Profile(Some(profile));
            return Ok(ConsoleCommand::Vendor(Some(target), command));
        }
    };
    let attr_id = args.number(1, u16::MAX, "an attribute ID, such as 0xff17")?;
    let fault = match fault {
        Some(AttributeFault::Refused(_)) if args.peek().is_some() => {
            let status = args.number(1, 0x7FFF, "a MAD status from 1 to 0x7fff")?;
            Some(AttributeFault::Refused(status))
        }
        other => other,
    };
    Ok(ConsoleCommand::NodeFault(target, NodeFault::Attribute { attr_id, fault }))
}

/// Shows the profiles or Sets of a node or of all nodes, or changes a profile.
pub(super) fn execute(
    net: &mut Net,
    name: Option<&TargetName>,
    command: VendorCommand,
) -> Result<String, ConsoleError> {
    let nodes = match name {
        Some(name) => {
            let node = resolve::node(&net.devices, name)?;
            node..node + 1
        }
        None => 0..net.devices.nodes.len() as u32,
    };
    let mut text = String::new();
    for node in nodes {
        match command {
            VendorCommand::Show => show(net, node, &mut text),
            VendorCommand::Sets => {
                let guid = net.devices.node(node).info.node_guid();
                let sets = net.devices.vendor.sets().filter(|set| set.guid == guid);
                sets.for_each(|set| text += &set_line(set));
            }
            VendorCommand::Profile(profile) => net.devices.set_vendor_profile(node, profile),
        }
    }
    Ok(text)
}

fn show(net: &Net, node: u32, text: &mut String) {
    let devices = &net.devices;
    let Some(profile) = devices.vendor.profile(node) else { return };
    let _ = writeln!(text, "\"{}\": {profile}", devices.node(node).description);
    for slot in devices.slots_of(node).filter(|&slot| devices.port(slot).num != PortNum::ZERO) {
        let limits = limits(&devices.vendor.config(slot));
        if !limits.is_empty() {
            let _ = writeln!(text, "  {}: {limits}", devices.port_name(slot));
        }
    }
}

/// The SLs with a rate limit.
fn limits(config: &QosConfigSl) -> String {
    let limits = (0..SLS as u8).map(|sl| (sl, config.rate_limit(Sl(sl))));
    let limited = limits.filter(|&(_, limit)| limit > 0);
    limited.map(|(sl, limit)| format!("SL{sl} {limit}")).collect::<Vec<_>>().join(", ")
}

fn set_line(set: &VendorSet) -> String {
    let VendorSet { attr_id, attr_mod, status, data, .. } = set;
    let name = AttrId::name(*attr_id);
    let limits = match *attr_id {
        AttrId::QOS_CONFIG_SL => limits(&QosConfigSl(*data)),
        _ => String::new(),
    };
    let limits = if limits.is_empty() { "no limits".to_owned() } else { limits };
    format!("Set({name}, 0x{attr_mod:x}) status 0x{status:02x}: {limits}\n")
}

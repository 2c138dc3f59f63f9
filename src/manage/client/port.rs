//! Ports by the names that operators use: `"node"[3]`.

use super::http::{HttpClient, with_query};
use super::values::{list, text};
use crate::cli::{CommandFailure, ExitCode};
use crate::fabric::node_name::split_port;
use serde_json::{Value, json};

/// The body of an action about the link at a port.
///
/// # Errors
/// There is no daemon, no such node, or the number of the port is missing.
pub(super) async fn link_body(client: &HttpClient, port: &str) -> Result<Value, CommandFailure> {
    let (name, number) = split_port(port);
    let reply = client.get_json(&with_query("/v1/nodes", &[("node", Some(name))])).await?;
    let Some(node) = list(&reply["nodes"]).first() else {
        return Err(CommandFailure::new(ExitCode::Fatal, format!("there is no node '{name}'")));
    };
    let number = match (number, node["ports"].as_u64()) {
        (Some(number), _) => u64::from(number),
        (None, Some(1)) => 1,
        (None, _) => {
            let description = text(&node["description"]);
            let text = format!("the number of the port is missing, as in \"{description}\"[3]");
            return Err(CommandFailure::new(ExitCode::Usage, text));
        }
    };
    Ok(json!({ "guid": node["guid"], "port": number }))
}

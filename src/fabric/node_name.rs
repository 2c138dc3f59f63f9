//! Names of nodes that operators use, the same in all commands: a GUID, a node description, its
//! first word or a unique beginning of it, or the position of a switch in a torus.

use crate::ids::Guid;

/// Prefixes of GUIDs: hexadecimal numbers, and the notations of fabric files.
const GUID_PREFIXES: [&str; 8] = ["0x", "0X", "S-", "H-", "R-", "SW-", "CA-", "RT-"];

/// A name that no node has, or several.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NodeNameError {
    #[error("no node has the GUID {0}")]
    NoGuid(Guid),
    #[error("there is no switch at {}", position_text(*.0))]
    NoPosition([u32; 3]),
    #[error("no node has the description \"{0}\"")]
    NoDescription(String),
    #[error("\"{name}\" matches {count} nodes, such as \"{first}\" and \"{second}\"")]
    Ambiguous { name: String, count: usize, first: String, second: String },
}

/// The node with this name among `nodes`, which have descriptions.
///
/// `by_guid` finds the node with a node GUID or port GUID; `by_position` the switch at coordinates,
/// if the caller knows more than the description `sw X,Y,Z` of generated fabrics.
///
/// # Errors
/// No node has the name, or several begin with it.
pub fn find<T: Copy>(
    name: &str,
    nodes: impl Iterator<Item = (T, String)>,
    by_guid: impl FnOnce(Guid) -> Option<T>,
    by_position: impl FnOnce([u32; 3]) -> Option<T>,
) -> Result<T, NodeNameError> {
    let nodes: Vec<(T, String)> = nodes.collect();
    if let [(only, _)] = described(&nodes, |description| description == name)[..] {
        return Ok(*only);
    }
    if let Some(guid) = guid(name) {
        return by_guid(guid).ok_or(NodeNameError::NoGuid(guid));
    }
    if let Some(at) = position(name) {
        let generated = format!("sw {}", position_text(at));
        return match described(&nodes, |description| description == generated)[..] {
            [(only, _)] => Ok(*only),
            _ => by_position(at).ok_or(NodeNameError::NoPosition(at)),
        };
    }
    if let [(only, _)] = described(&nodes, |text| text.split(' ').next() == Some(name))[..] {
        return Ok(*only);
    }
    match described(&nodes, |text| !name.is_empty() && text.starts_with(name))[..] {
        [(only, _)] => Ok(*only),
        [] => Err(NodeNameError::NoDescription(name.to_owned())),
        [(_, first), (_, second), ref more @ ..] => Err(NodeNameError::Ambiguous {
            name: name.to_owned(),
            count: 2 + more.len(),
            first: first.clone(),
            second: second.clone(),
        }),
    }
}

fn described<T>(nodes: &[(T, String)], is_wanted: impl Fn(&str) -> bool) -> Vec<&(T, String)> {
    nodes.iter().filter(|(_, description)| is_wanted(description)).collect()
}

/// Divides the name of a port, `"node"[3]` with or without quotes, into the name of the node and the
/// number of the port. Without a number, the name is that of a node.
pub fn split_port(text: &str) -> (&str, Option<u8>) {
    let text = text.trim();
    let numbered = text.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
    let (name, port) = match numbered {
        Some((name, number))
            if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) =>
        {
            match number.parse() {
                Ok(number) => (name.trim_end(), Some(number)),
                Err(_) => (text, None),
            }
        }
        _ => (text, None),
    };
    let unquoted = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    (unquoted.unwrap_or(name), port)
}

/// Parses `0x…`, or the notation of fabric files: `S-…`, `H-…`, `SW-0x…`.
fn guid(text: &str) -> Option<Guid> {
    let rest = GUID_PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix))?;
    let digits = rest.strip_prefix("0x").unwrap_or(rest);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| u64::from_str_radix(digits, 16).ok())?.map(Guid)
}

/// Parses a position of two or three coordinates; `1,0` is `1,0,0`.
fn position(text: &str) -> Option<[u32; 3]> {
    let mut place = [0u32; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if !(2..=3).contains(&parts.len()) {
        return None;
    }
    for (part, at) in parts.iter().zip(&mut place) {
        *at = part.trim().parse().ok()?;
    }
    Some(place)
}

fn position_text([x, y, z]: [u32; 3]) -> String {
    format!("{x},{y},{z}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str) -> Result<usize, String> {
        let names = ["sw 0,0,0", "sw 1,0,0", "h1 HCA-1", "h10 HCA-1", "h2-0 HCA-1", "spine"];
        let nodes = names.into_iter().map(str::to_owned).enumerate();
        find(
            name,
            nodes,
            |guid: Guid| (guid == Guid(0xAB)).then_some(5),
            |at| (at == [7, 0, 0]).then_some(5),
        )
        .map_err(|error| error.to_string())
    }

    #[test]
    fn nodes_are_found_by_description_guid_and_position() {
        for (name, node) in [
            ("sw 1,0,0", 1),
            ("1,0", 1),
            ("1, 0, 0", 1),
            ("7,0,0", 5),
            ("0xab", 5),
            ("S-00000000000000ab", 5),
            ("SW-0xab", 5),
            // The first word counts before the beginning of a longer one.
            ("h1", 2),
            ("h10", 3),
            ("h2", 4),
            ("sp", 5),
        ] {
            assert_eq!(found(name), Ok(node), "{name}");
        }
    }

    #[test]
    fn ports_are_names_with_numbers() {
        for (text, name, port) in [
            ("\"sw 1,0,0\"[3]", "sw 1,0,0", Some(3)),
            ("sw 1,0,0[3]", "sw 1,0,0", Some(3)),
            ("0x2c9[36]", "0x2c9", Some(36)),
            ("\"h1 HCA-1\"", "h1 HCA-1", None),
            ("h1", "h1", None),
            ("h1[]", "h1[]", None),
            ("h1[x]", "h1[x]", None),
            ("h1[256]", "h1[256]", None),
        ] {
            assert_eq!(split_port(text), (name, port), "{text}");
        }
    }

    #[test]
    fn missing_and_ambiguous_names_are_explained() {
        for (name, problem) in [
            ("0x77", "no node has the GUID 0x0000000000000077"),
            ("2,0", "there is no switch at 2,0,0"),
            ("nowhere", "no node has the description \"nowhere\""),
            ("", "no node has the description \"\""),
            ("h", "\"h\" matches 3 nodes, such as \"h1 HCA-1\" and \"h10 HCA-1\""),
        ] {
            assert_eq!(found(name), Err(problem.to_owned()), "{name}");
        }
    }
}

//! Ports by node description and port number: `node description/P1`.

use super::policy::PortName;

/// Splits the list within one pair of quotes. A comma separates names only after a port number or
/// `*`, since node descriptions may contain commas.
pub(super) fn split_quoted(list: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in list.split(',') {
        match names.last_mut() {
            Some(last) if !ends_with_port(last) => {
                last.push(',');
                last.push_str(part);
            }
            _ => names.push(part.trim().to_owned()),
        }
    }
    names
}

fn ends_with_port(name: &str) -> bool {
    let tail = name.rsplit_once('/').map_or("", |(_, tail)| tail);
    tail == "*" || port_number(tail).is_some()
}

/// The digits of `P1`.
fn port_number(tail: &str) -> Option<&str> {
    let digits = tail.strip_prefix(['P', 'p'])?;
    (!digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit())).then_some(digits)
}

/// Parses one port name.
pub(super) fn port_name(text: &str) -> Result<PortName, String> {
    let Some((node, tail)) = text.rsplit_once('/') else {
        return Ok(PortName { node: text.to_owned(), port: None });
    };
    if tail == "*" {
        return Ok(PortName { node: node.to_owned(), port: None });
    }
    match port_number(tail).map(str::parse::<u8>) {
        Some(Ok(port @ 1..=254)) => Ok(PortName { node: node.to_owned(), port: Some(port) }),
        Some(_) => Err(format!("`{text}`: port numbers are 1 to 254")),
        None => Err(format!("`{text}` does not end with a port: write `{node}/P1` or `{node}/*`")),
    }
}

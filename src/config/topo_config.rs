//! `topo_config_file`: the cables that the fabric should have, in the format of NVIDIA's subnet manager.
//!
//! A line is `source GUID,source port,destination GUID,destination port,device type,link state`; the last
//! two fields may be missing. Blank lines, and lines that begin with `#`, are skipped. Links whose state is
//! not `Active` are no cables that should be there.

use super::diagnostic::{Diagnostic, Diagnostics};
use crate::ids::{Guid, PortNum};
use crate::notes::Severity;
use std::collections::BTreeSet;
use std::path::Path;

/// A port: GUID of its node, and its number.
type End = (Guid, PortNum);

/// Highest number of a port (IBA vol. 1, 14.2.5.3).
const MAX_PORT: u8 = 254;

/// The cables of the file, the lower end of each first, and an error for each line that is wrong.
pub fn parse(file: &Path, text: &str) -> (BTreeSet<[End; 2]>, Vec<Diagnostic>) {
    let mut cables = BTreeSet::new();
    let mut diagnostics = Diagnostics::new(file);
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match cable(line) {
            Ok(Some(cable)) => drop(cables.insert(cable)),
            Ok(None) => {}
            Err(message) => diagnostics.add(Severity::Error, number, 0, message),
        }
    }
    (cables, diagnostics.into_sorted())
}

/// The cable of a line; `None` if its link should not be active.
fn cable(line: &str) -> Result<Option<[End; 2]>, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [guid, port, far_guid, far_port, ref rest @ ..] = fields[..] else {
        return Err(format!(
            "'{line}' is not a source GUID, a port, a destination GUID and a port, separated by commas"
        ));
    };
    let mut ends = [end(guid, port)?, end(far_guid, far_port)?];
    ends.sort_unstable();
    let is_active = rest.get(1).is_none_or(|state| state.eq_ignore_ascii_case("active"));
    Ok(is_active.then_some(ends))
}

fn end(guid: &str, port: &str) -> Result<End, String> {
    let digits = guid.strip_prefix("0x").unwrap_or(guid);
    let number = u64::from_str_radix(digits, 16).ok().filter(|&number| number > 0);
    let guid = number.ok_or_else(|| format!("'{guid}' is not a GUID"))?;
    let port = port.parse().ok().filter(|port| (1..=MAX_PORT).contains(port));
    let port = port.ok_or_else(|| format!("a port is not a number from 1 to {MAX_PORT}"))?;
    Ok((Guid(guid), PortNum(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cables_or_errors() {
        let text = "# source,port,destination,port,type,state\n\
                    0x2,3,0x1,4,Any,Active\n\
                    \n\
                    5,1,6,1\n\
                    0x7,1,0x8,1,Any,Down\n\
                    0x7,0,0x8,1\n\
                    0x7;1\n";
        let (cables, diagnostics) = parse(Path::new("topo"), text);
        let ends =
            |one, port, other, far| [(Guid(one), PortNum(port)), (Guid(other), PortNum(far))];
        assert_eq!(cables, BTreeSet::from([ends(1, 4, 2, 3), ends(5, 1, 6, 1)]));
        let texts: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[0].starts_with("topo:6"), "{texts:?}");
    }
}

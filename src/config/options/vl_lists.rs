//! Lists of VLs: the values of `qos_*_vlarb_high`, `qos_*_vlarb_low` and `qos_*_sl2vl`.
//!
//! An invalid list causes a warning with its position, and the value that the option inherits
//! applies, as in OpenSM.

/// An error in a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VlListError<'a> {
    /// Part of the list in error.
    pub at: &'a str,
    pub message: String,
}

impl<'a> VlListError<'a> {
    fn new(at: &'a str, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// Entries of a VL arbitration table (IBA vol. 1, 7.6.9).
const MAX_VLARB_ENTRIES: usize = 64;

/// Number of data VLs; VL 15 is for management.
const DATA_VLS: u8 = 15;

/// The entries of a list, without empty ones.
fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// Parses a decimal or 0x number, 0..=255.
fn byte(text: &str) -> Option<u8> {
    match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Parses VL arbitration entries `VL:weight,…`. As in OpenSM, VLs are taken modulo 15.
///
/// # Errors
/// An entry is invalid, or the list is longer than a table.
pub fn arbitration(text: &str) -> Result<Vec<(u8, u8)>, VlListError<'_>> {
    let mut found = Vec::new();
    for entry in entries(text) {
        let (vl, weight) = entry
            .split_once(':')
            .map(|(vl, weight)| (vl.trim(), weight.trim()))
            .ok_or_else(|| VlListError::new(entry, format!("`{entry}` is not VL:weight")))?;
        let vl = byte(vl).ok_or_else(|| {
            VlListError::new(vl, format!("a VL is a number from 0 to 14, not `{vl}`"))
        })?;
        let weight = byte(weight).ok_or_else(|| {
            VlListError::new(weight, format!("a weight is a number from 0 to 255, not `{weight}`"))
        })?;
        if found.len() == MAX_VLARB_ENTRIES {
            return Err(VlListError::new(entry, "a table has at most 64 entries"));
        }
        found.push((vl % DATA_VLS, weight));
    }
    Ok(found)
}

/// Parses the VLs of SL 0 to 15. VL 15 drops packets; missing VLs are 0.
///
/// # Errors
/// A VL is invalid, or the list has more than 16 entries.
pub fn mapping(text: &str) -> Result<[u8; 16], VlListError<'_>> {
    let mut vls = [0; 16];
    let mut slots = vls.iter_mut();
    for entry in entries(text) {
        let vl = byte(entry).filter(|&vl| vl <= DATA_VLS);
        let vl = vl.ok_or_else(|| {
            VlListError::new(entry, format!("a VL is a number from 0 to 15, not `{entry}`"))
        })?;
        *slots.next().ok_or_else(|| {
            VlListError::new(entry, "a VL for a seventeenth SL: SLs are 0 to 15")
        })? = vl;
    }
    Ok(vls)
}

/// A warning about the value of a key, if it is a list of VLs.
pub(super) fn warning<'a>(key: &str, value: &'a str) -> Option<VlListError<'a>> {
    let kind = key.strip_prefix("qos_")?;
    let is_arbitration = kind.ends_with("vlarb_high") || kind.ends_with("vlarb_low");
    let error = match is_arbitration {
        true => arbitration(value).err(),
        false if kind.ends_with("sl2vl") => mapping(value).err(),
        false => return None,
    };
    error
        .map(|error| {
            let message = format!("{}; the list is ignored", error.message);
            VlListError { message, ..error }
        })
        .or_else(|| {
            let beyond = entries(value)
                .map(|entry| entry.split(':').next().unwrap_or(entry).trim())
                .find(|vl| byte(vl).is_some_and(|vl| vl >= DATA_VLS))
                .filter(|_| is_arbitration)?;
            let vl = byte(beyond)? % DATA_VLS;
            let message = format!("`{beyond}` is not a data VL (0 to 14) and is used as VL {vl}");
            Some(VlListError::new(beyond, message))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_parsed_and_errors_located() {
        assert_eq!(arbitration("0:4, 15:0x10,14:0,"), Ok(vec![(0, 4), (0, 16), (14, 0)]));
        assert_eq!(mapping("3,2").map(|vls| vls[..3].to_vec()), Ok(vec![3, 2, 0]));
        let long = "1:1,".repeat(MAX_VLARB_ENTRIES);
        assert_eq!(arbitration(&long).map(|entries| entries.len()), Ok(MAX_VLARB_ENTRIES));
        for (text, at) in [("0:4,1", "1"), ("0:256", "256"), ("256:1", "256"), (":", "")] {
            assert_eq!(arbitration(text).map_err(|error| error.at), Err(at), "{text}");
        }
        assert_eq!(arbitration(&(long + "2:2")).map_err(|error| error.at), Err("2:2"));
        for (text, at) in [("1,16", "16"), ("x", "x"), ("0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,7", "7")] {
            assert_eq!(mapping(text).map_err(|error| error.at), Err(at), "{text}");
        }
    }
}

//! The header of a recording as JSON: configurations, plans with their inputs, and the devices at
//! the beginning.

use super::digest::DeviceDigest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The header of a recording.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderJson {
    /// Name and version of the program.
    pub program: String,
    /// Reason for which the recording was written.
    pub reason: String,
    /// Time of writing, RFC 3339.
    pub written: String,
    /// Time of writing in microseconds since the recorder was started: the clock of the entries.
    pub written_at: u64,
    /// Device, number and GUID of the port of the subnet manager.
    pub port: String,
    pub configurations: Vec<ConfigurationJson>,
    /// The last plans, oldest first.
    pub plans: Vec<PlanJson>,
    /// The devices before the entries; `None` if the entries begin with the start of the daemon.
    pub devices: Option<DevicesJson>,
    /// The incidents that were open at the time of writing, as texts of
    /// [`super::incidents::RecordedIncident`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incidents: Vec<String>,
}

/// The configuration of one or more plans.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigurationJson {
    /// opensm.conf with the options of the command line, without keys.
    pub options: String,
    /// The texts of the files that the options name, by path; those that could not be read are
    /// absent.
    pub files: BTreeMap<String, String>,
}

/// A plan with its inputs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanJson {
    /// Number of the plan since the start of the daemon, from 1.
    pub number: u64,
    /// Another plan was in force, on which this one may depend.
    pub has_previous: bool,
    /// Number of the entry at which planning began, counted from the start of the daemon.
    pub position: u64,
    /// Index of its configuration.
    pub configuration: usize,
    pub torus_config: TorusConfigJson,
    /// LIDs to keep, in the format of guid2lid.
    pub guid2lid: String,
    #[serde(alias = "lids_reassigned")]
    pub lids_assigned: bool,
    /// Removed P_Keys with their table indexes, by port GUID.
    pub removed_pkeys: Vec<(GuidJson, Vec<(u16, u16)>)>,
    pub groups: Vec<GroupJson>,
    pub aliases: Vec<AliasJson>,
    /// End ports to set ClientReregister for.
    pub reregister: Vec<PortJson>,
    pub result: ResultJson,
    pub digests: Vec<DigestJson>,
}

/// torus-2QoS.conf as the plan used it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TorusConfigJson {
    Text(String),
    /// The file had these errors.
    Errors(Vec<String>),
}

/// A multicast group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupJson {
    pub mlid: u16,
    pub sl: u8,
    pub members: Vec<PortJson>,
    pub senders: Vec<PortJson>,
}

/// A block of alias GUIDs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AliasJson {
    pub port: PortJson,
    pub block: u8,
    pub guids: [GuidJson; 8],
}

/// The result of planning.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultJson {
    /// The recording was written while the plan was being made.
    Unfinished,
    /// The name of the routing engine.
    Accepted(String),
    /// The reason.
    Rejected(String),
}

/// The digests of a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DigestJson {
    pub guid: GuidJson,
    pub description: String,
    pub digest: DeviceDigest,
}

/// Node GUID and port number.
pub type PortJson = (GuidJson, u8);

/// The devices of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DevicesJson {
    /// Number of the first entry that is not contained in the snapshot.
    pub position: u64,
    pub local: PortJson,
    pub nodes: Vec<NodeJson>,
}

/// A device with the attributes that it answered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeJson {
    pub info: BytesJson,
    pub description: BytesJson,
    pub switch_info: BytesJson,
    pub ports: Vec<NodePortJson>,
}

/// A port of a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePortJson {
    pub guid: GuidJson,
    /// PortInfo, if it was answered.
    pub info: Option<BytesJson>,
    /// The far end of the cable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PortJson>,
    /// The blocks of the P_Key table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pkeys: Vec<BytesJson>,
}

/// A GUID, as a string such as `0x0002c90300000001`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GuidJson(pub crate::ids::Guid);

impl From<GuidJson> for String {
    fn from(guid: GuidJson) -> Self {
        guid.0.to_string()
    }
}

impl TryFrom<String> for GuidJson {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 16);
        let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let number = number.ok_or_else(|| format!("\"{text}\" is no GUID (0x and 16 digits)"))?;
        Ok(Self(crate::ids::Guid(number)))
    }
}

/// At most 64 bytes in hexadecimal digits; zeros at the end are left out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BytesJson(pub [u8; 64]);

impl BytesJson {
    /// The first 64 bytes, the rest 0.
    pub fn new(bytes: &[u8]) -> Self {
        let mut all = [0; 64];
        let len = bytes.len().min(64);
        all[..len].copy_from_slice(&bytes[..len]);
        Self(all)
    }
}

impl From<BytesJson> for String {
    fn from(bytes: BytesJson) -> Self {
        use std::fmt::Write;
        let used = bytes.0.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        bytes.0[..used].iter().fold(Self::with_capacity(2 * used), |mut text, byte| {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

impl TryFrom<String> for BytesJson {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes: Option<Vec<u8>> = text
            .as_bytes()
            .chunks(2)
            .map(|pair| match pair {
                &[high, low] => Some(hexadecimal_digit(high)? << 4 | hexadecimal_digit(low)?),
                _ => None,
            })
            .collect();
        let bytes = bytes.filter(|bytes| bytes.len() <= 64);
        let bytes =
            bytes.ok_or_else(|| format!("\"{text}\" is not 1 to 64 bytes in hexadecimal"))?;
        Ok(Self::new(&bytes))
    }
}

fn hexadecimal_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

//! Types of the keys that permit requests of others: the mode, switches that the mode decides unless
//! they are set, and lists of ports.

use super::value::{NULL, Value, ValueFormat, words};
use crate::ids::Guid;

words! {
    /// Default of the switches that restrict SA clients and senders of traps.
    SaTrust, else Strict {
        /// Requests of known clients are granted, as by OpenSM.
        Compatible = "compatible",
        /// Requests on behalf of other ports require the SM_Key, and keys are not shown.
        Strict = "strict",
    }
}

/// A switch that may be left to the mode: `(null)`, TRUE or FALSE.
impl Value for Option<bool> {
    fn assign(&mut self, text: &str, format: ValueFormat) -> Result<(), String> {
        if text == NULL {
            *self = None;
            return Ok(());
        }
        let mut value = false;
        value.assign(text, format)?;
        *self = Some(value);
        Ok(())
    }

    fn lines(&self, format: ValueFormat) -> Vec<String> {
        self.map_or_else(|| vec![NULL.to_owned()], |value| value.lines(format))
    }

    fn expects(format: ValueFormat) -> String {
        format!("{}, or (null) for that of the mode", <bool as Value>::expects(format))
    }
}

/// A list of port GUIDs; `None` is `(null)`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortGuids(pub Option<Vec<Guid>>);

impl Value for PortGuids {
    fn assign(&mut self, text: &str, format: ValueFormat) -> Result<(), String> {
        if text == NULL {
            self.0 = None;
            return Ok(());
        }
        let mut guids = Vec::new();
        for word in text.split([',', ' ']).filter(|word| !word.is_empty()) {
            let mut guid = Guid::default();
            guid.assign(word, format)?;
            guids.push(guid);
        }
        self.0 = Some(guids);
        Ok(())
    }

    fn lines(&self, _: ValueFormat) -> Vec<String> {
        let Some(guids) = &self.0 else { return vec![NULL.to_owned()] };
        vec![guids.iter().map(Guid::to_string).collect::<Vec<_>>().join(",")]
    }

    fn expects(_: ValueFormat) -> String {
        "port GUIDs separated by commas, such as 0x0002c90300001234, or (null)".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_and_lists_may_be_null() {
        let mut switch = Some(true);
        for text in ["FALSE", "(null)", "TRUE"] {
            switch.assign(text, ValueFormat::PLAIN).expect("valid");
            assert_eq!(switch.lines(ValueFormat::PLAIN), [text]);
        }
        assert!(switch.assign("maybe", ValueFormat::PLAIN).is_err());
        let mut guids = PortGuids::default();
        guids.assign("0x5, 0x0000000000000006", ValueFormat::PLAIN).expect("valid");
        assert_eq!(guids.0, Some(vec![Guid(5), Guid(6)]));
        assert_eq!(guids.lines(ValueFormat::PLAIN), ["0x0000000000000005,0x0000000000000006"]);
        assert!(guids.assign("host", ValueFormat::PLAIN).is_err());
        guids.assign("(null)", ValueFormat::PLAIN).expect("valid");
        assert_eq!(guids, PortGuids::default());
    }
}

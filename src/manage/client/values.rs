//! Values of a reply as text for people.

use serde_json::Value;

/// A text of the reply; empty if it is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// A duration for people: `12.3 ms`, `4.56 s`, `3 h 5 min`.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.1} ms", s * 1000.0),
        s if s < 120.0 => format!("{s:.2} s"),
        s if s < 7200.0 => format!("{} min {} s", s as u64 / 60, s as u64 % 60),
        s if s < 172_800.0 => format!("{} h {} min", s as u64 / 3600, s as u64 / 60 % 60),
        s => format!("{} d {} h", s as u64 / 86_400, s as u64 / 3600 % 24),
    }
}

/// The elements of an array; empty if it is none.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_suitable_units() {
        let shown = [0.0123, 4.561, 185.0, 11_100.0, 200_000.0].map(duration);
        assert_eq!(shown, ["12.3 ms", "4.56 s", "3 min 5 s", "3 h 5 min", "2 d 7 h"]);
    }
}

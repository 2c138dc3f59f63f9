//! A key of opensm.conf.

/// When a change of a value takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reload {
    /// When the daemon starts.
    Restart,
    /// On SIGHUP, and when the daemon starts.
    Sighup,
}

/// Whether a key has an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    Implemented,
    /// The key is parsed and checked; a value other than the default causes a warning with this
    /// reason.
    Ignored(&'static str),
}

/// Keys whose values must not be shown.
pub const SECRET_KEYS: [&str; 4] = ["m_key", "sm_key", "sa_key", "cc_key"];

/// A key that sets a value in the options `O`.
pub struct KeyOf<O> {
    pub name: &'static str,
    /// Deprecated spelling that is also accepted.
    pub alias: Option<&'static str>,
    /// Heading in the template.
    pub section: &'static str,
    /// Lines of help, each with a leading space.
    pub help: &'static [&'static str],
    pub reload: Reload,
    pub support: Support,
    /// Sets the value from the text in the file.
    pub(super) assign: fn(&mut O, &str) -> Result<(), String>,
    /// Sets the value that OpenSM makes of invalid text; false if OpenSM ignores the line.
    pub(super) repair: fn(&mut O, &str) -> bool,
    /// The value as lines of the file, without the key; several for a key that may be repeated.
    pub(super) lines: fn(&O) -> Vec<String>,
    /// Copies the value from one set of options to another.
    pub(super) copy: fn(&O, &mut O),
    /// Description of valid values, for error messages.
    pub(super) expects: fn() -> String,
}

impl<O> KeyOf<O> {
    /// True for a key whose value must not be shown.
    pub fn is_secret(&self) -> bool {
        SECRET_KEYS.contains(&self.name)
    }

    /// Copies the value from one set of options to another.
    pub fn copy(&self, from: &O, to: &mut O) {
        (self.copy)(from, to);
    }

    /// The value in the format of the file; a key that may be repeated has several lines.
    pub fn text(&self, options: &O) -> String {
        (self.lines)(options).join("\n")
    }
}

//! The exit codes, as the manual page lists them.

/// How the process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ExitCode {
    /// Done: asked to end, or `--once` reached SUBNET UP.
    Ok = 0,
    /// A fatal fault of the fabric, such as a duplicate GUID, without `--stay_on_fatal`; or
    /// `--once` ended without SUBNET UP.
    Fatal = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// No usable InfiniBand port, or the port was lost or is in use.
    NoPort = 3,
    /// A configuration file that was asked for cannot be read, or is wrong.
    Config = 4,
    /// The log or another file or system resource that the daemon needs is not to be had.
    System = 5,
}

impl ExitCode {
    /// All codes with what they mean, for the help text.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Ok, "ended as asked"),
        (Self::Fatal, "fatal fault of the fabric, or --once without SUBNET UP"),
        (Self::Usage, "wrong command line"),
        (Self::NoPort, "no usable InfiniBand port"),
        (Self::Config, "unreadable or wrong configuration"),
        (Self::System, "log file or system resource not to be had"),
    ];
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

/// A reason not to start, or to give up, with its exit code. The text is for standard error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The exit code.
    pub code: ExitCode,
    /// What is wrong.
    pub text: String,
}

impl Failure {
    /// A failure with this code.
    pub fn new(code: ExitCode, text: impl ToString) -> Self {
        Self { code, text: text.to_string() }
    }
}

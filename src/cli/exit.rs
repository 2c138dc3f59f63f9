//! Exit codes of the program, as in the manual page.

/// Exit code of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ExitCode {
    /// The process ended on request, or `--once` reached SUBNET UP.
    Ok = 0,
    /// A fatal error of the fabric, such as a duplicate GUID, without `--stay_on_fatal`; or
    /// `--once` ended without SUBNET UP.
    Fatal = 1,
    /// The command line is invalid.
    Usage = 2,
    /// There is no usable InfiniBand port, or the port was lost or is in use.
    NoPort = 3,
    /// A configuration file cannot be read or has errors.
    Config = 4,
    /// The log file, another file or a system resource that the daemon needs is not available.
    System = 5,
    /// `--dry-start` and `shadow`: Sets would change what devices hold.
    Changes = 6,
}

impl ExitCode {
    /// All codes with their meaning, for the help text.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Ok, "success"),
        (Self::Fatal, "fatal error of the fabric, or --once without SUBNET UP"),
        (Self::Usage, "invalid command line"),
        (Self::NoPort, "no usable InfiniBand port"),
        (Self::Config, "unreadable or invalid configuration"),
        (Self::System, "log file or system resource not available"),
        (Self::Changes, "--dry-start, shadow: the first sweep would change what devices hold"),
    ];
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

/// An error that ends the process, with its exit code. The text goes to standard error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandFailure {
    pub code: ExitCode,
    pub text: String,
}

impl CommandFailure {
    pub fn new(code: ExitCode, text: impl ToString) -> Self {
        Self { code, text: text.to_string() }
    }

    /// An error in the configuration or in the files of a command.
    pub fn config(text: impl ToString) -> Self {
        Self::new(ExitCode::Config, text)
    }
}

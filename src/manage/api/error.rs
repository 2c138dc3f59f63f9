//! An error reply.

/// An error that the client gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApiError {
    /// HTTP status.
    pub status: u16,
    /// The problem and its object.
    pub text: String,
    /// Methods that the resource has (header Allow).
    pub allowed: Option<&'static str>,
}

impl ApiError {
    pub fn new(status: u16, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), allowed: None }
    }

    /// The client lacks the permission to `what`: read or act.
    pub fn forbidden(uid: Option<u32>, what: &str) -> Self {
        Self::new(
            403,
            match uid {
                Some(uid) => format!(
                    "user {uid} may not {what} here: the options management_group and \
                     management_read_all give permissions"
                ),
                None => format!("clients of management_tcp may {what} only with a token"),
            },
        )
    }
}

//! Names of SA methods and reasons, as replies and metrics show them.

use crate::sa::counters::DropReason;
use crate::wire::mad::Method;

/// The name of a method, such as `get_table`; its code for others.
pub fn method(method: Method) -> String {
    let name = match method {
        Method::GET => "get",
        Method::SET => "set",
        Method::GET_TABLE => "get_table",
        Method::GET_TRACE_TABLE => "get_trace_table",
        Method::GET_MULTI => "get_multi",
        Method::DELETE => "delete",
        Method(code) => return format!("0x{code:02x}"),
    };
    name.to_owned()
}

/// The name of the reason why a request got no reply.
pub fn drop_reason(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Truncated => "truncated",
        DropReason::WrongClass => "wrong_class",
        DropReason::NotARequest => "not_a_request",
        DropReason::WrongKey => "wrong_key",
        DropReason::UnknownRequester => "unknown_requester",
        DropReason::ForgedGid => "forged_gid",
        DropReason::Stale => "stale",
        DropReason::QueueFull => "queue_full",
    }
}

//! Recognises what diagnostic tools print besides fabric files: other lists of a fabric, which have
//! no cables in the form of fabric files, and messages on standard error.

use super::LineError;

/// First bytes of the files of `ibnetdiscover --cache`: 0x8FE7832B in little-endian order.
const CACHE_MAGIC: [u8; 4] = [0x2B, 0x83, 0xE7, 0x8F];

/// Name of such a file.
pub(super) const CACHE: &str = "a cache of ibnetdiscover (--cache)";

pub(super) fn is_cache(bytes: &[u8]) -> bool {
    bytes.starts_with(&CACHE_MAGIC)
}

/// The kind of list that has such a line.
pub(super) fn name(line: &str) -> Option<&'static str> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(4).collect();
    match words.as_slice() {
        _ if line.contains(" ==(") => Some("output of iblinkinfo"),
        ["CA:" | "Switch:" | "Router:" | "RT:", ..] => Some("output of iblinkinfo"),
        ["Ca" | "Switch" | "Router" | "Rt", ":", guid, "ports"] if guid.starts_with("0x") => {
            Some("a list of nodes (ibnetdiscover -l)")
        }
        ["CA" | "SW" | "RT", lid, port, guid]
            if is_number(lid) && is_number(port) && guid.starts_with("0x") =>
        {
            Some("a list of ports (ibnetdiscover -p)")
        }
        ["{", _, ports, ..] if ports.starts_with("Ports:") => {
            Some("a dump of links (opensm-subnet.lst, ibdiagnet.lst)")
        }
        ["{", "CA" | "SW" | "Rt" | "RT", ..] => {
            Some("a dump of links (opensm-subnet.lst, ibdiagnet.lst)")
        }
        _ => None,
    }
}

/// The error for such a list.
pub(super) fn error(name: &str, line: u32) -> LineError {
    let message = format!(
        "this is {name}: give the output of ibnetdiscover without options, or with -g or -f"
    );
    LineError { line, column: 1, message }
}

/// True for messages of infiniband-diags and its libraries.
pub(super) fn is_message(line: &str) -> bool {
    const PREFIXES: [&str; 4] = ["ibwarn: [", "ibdebug: [", "ibpanic: [", "ibnetdiscover: "];
    PREFIXES.iter().any(|prefix| line.starts_with(prefix))
        || line.contains(": iberror: ")
        || names_source_line(line)
}

/// True for lines such as `src/query_smp.c:228; umad (DR path …) bad status 110`.
fn names_source_line(line: &str) -> bool {
    let Some((path, rest)) = line.split_once(".c:") else { return false };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    !path.contains(char::is_whitespace) && digits > 0 && rest[digits..].starts_with([';', ':'])
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

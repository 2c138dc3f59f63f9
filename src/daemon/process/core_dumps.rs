//! Core dumps without the memory of the process, which contains M_Keys, SM_Keys and the private keys
//! of certificates.
//!
//! Keys are in options, requests, replies, files on their way, and on stacks. Single pages cannot be
//! left out, therefore, and /proc/self/coredump_filter (core(5)) leaves out all memory. It is also
//! obeyed by the kernel when it pipes the dump to a program such as systemd-coredump, unlike
//! RLIMIT_CORE, and unlike PR_SET_DUMPABLE it does not change who may read /proc or attach a debugger.

use crate::notes::Note;
use std::fs;
use std::path::Path;

/// The filter of this process. Processes that it starts inherit the filter.
const FILTER: &str = "/proc/self/coredump_filter";

/// Bit of the filter that dumps the headers of programs and libraries, by which debuggers find the
/// right versions.
const ELF_HEADERS: u32 = 1 << 4;

/// Leaves the memory of this process out of core dumps; registers and ELF headers remain. Returns a
/// warning if the kernel refuses.
pub fn leave_out_memory() -> Option<Note> {
    let problem = narrow(Path::new(FILTER)).err()?;
    Some(Note::warning(format!("core dumps of this process may contain keys: {FILTER}: {problem}")))
}

fn narrow(file: &Path) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    let filter = u32::from_str_radix(text.trim(), 16).map_err(|error| error.to_string())?;
    fs::write(file, format!("{:#x}", filter & ELF_HEADERS)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_elf_headers_remain() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("filter");
        for (before, after) in
            [("00000033\n", "0x10"), ("000001ff\n", "0x10"), ("00000003\n", "0x0")]
        {
            fs::write(&file, before).expect("a file");
            narrow(&file).expect("a filter");
            assert_eq!(fs::read_to_string(&file).expect("a file"), after);
        }
        fs::write(&file, "none").expect("a file");
        assert!(narrow(&file).is_err());
        assert!(narrow(&dir.path().join("absent")).is_err());
    }
}

//! Paths of the simulated node.

/// Type of a path of the simulated node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathKind {
    /// A device file in `/dev/infiniband`.
    Device,
    /// A file or directory of sysfs, or `/dev/infiniband` itself.
    Mirrored,
}

/// Directories of the simulated node.
const DIRECTORIES: [&[u8]; 3] =
    [b"/sys/class/infiniband_mad", b"/sys/class/infiniband", b"/dev/infiniband"];

/// Type of `path`; `None` if it is not a path of the simulated node.
pub fn kind(path: &[u8]) -> Option<PathKind> {
    // Fast path for nearly all calls.
    if !matches!(path.get(..5), Some(b"/sys/" | b"/dev/")) {
        return None;
    }
    let rest = DIRECTORIES.iter().find_map(|directory| path.strip_prefix(*directory))?;
    match rest {
        [] => Some(PathKind::Mirrored),
        [b'/', name @ ..] => {
            let has_name = name.iter().any(|&byte| byte != b'/');
            let is_device = path.starts_with(b"/dev/") && has_name;
            Some(if is_device { PathKind::Device } else { PathKind::Mirrored })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_infiniband_directories_are_redirected() {
        for (path, wanted) in [
            ("/sys/class/infiniband", Some(PathKind::Mirrored)),
            ("/sys/class/infiniband/", Some(PathKind::Mirrored)),
            ("/sys/class/infiniband/sim0/ports/1/lid", Some(PathKind::Mirrored)),
            ("/sys/class/infiniband_mad/abi_version", Some(PathKind::Mirrored)),
            ("/sys/class/infiniband_mad/umad0//port", Some(PathKind::Mirrored)),
            ("/sys/class/infiniband_verbs/uverbs0", None),
            ("/sys/class/infinibandx", None),
            ("/sys/class/net", None),
            ("/dev/infiniband", Some(PathKind::Mirrored)),
            ("/dev/infiniband/", Some(PathKind::Mirrored)),
            ("/dev/infiniband/umad0", Some(PathKind::Device)),
            ("/dev/infiniband/issm0", Some(PathKind::Device)),
            ("/dev/null", None),
            ("sys/class/infiniband", None),
            ("/sys", None),
            ("/", None),
            ("", None),
        ] {
            assert_eq!(kind(path.as_bytes()), wanted, "{path}");
        }
    }
}

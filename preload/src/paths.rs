//! Which paths belong to the simulated node.

/// A path of the simulated node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Something in `/dev/infiniband`.
    Device,
    /// Something of sysfs, or one of the folders themselves.
    Folder,
}

/// The folders that are the simulated node's.
const FOLDERS: [&[u8]; 3] =
    [b"/sys/class/infiniband_mad", b"/sys/class/infiniband", b"/dev/infiniband"];

/// What the path is, if it is one of the simulated node.
pub fn kind(path: &[u8]) -> Option<Kind> {
    // Nearly all calls end here.
    if !matches!(path.get(..5), Some(b"/sys/" | b"/dev/")) {
        return None;
    }
    let rest = FOLDERS.iter().find_map(|folder| path.strip_prefix(*folder))?;
    match rest {
        [] => Some(Kind::Folder),
        [b'/', name @ ..] => {
            let within = name.iter().any(|&byte| byte != b'/');
            let device = path.starts_with(b"/dev/") && within;
            Some(if device { Kind::Device } else { Kind::Folder })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_folders_of_infiniband_are_meant() {
        for (path, wanted) in [
            ("/sys/class/infiniband", Some(Kind::Folder)),
            ("/sys/class/infiniband/", Some(Kind::Folder)),
            ("/sys/class/infiniband/sim0/ports/1/lid", Some(Kind::Folder)),
            ("/sys/class/infiniband_mad/abi_version", Some(Kind::Folder)),
            ("/sys/class/infiniband_mad/umad0//port", Some(Kind::Folder)),
            ("/sys/class/infiniband_verbs/uverbs0", None),
            ("/sys/class/infinibandx", None),
            ("/sys/class/net", None),
            ("/dev/infiniband", Some(Kind::Folder)),
            ("/dev/infiniband/", Some(Kind::Folder)),
            ("/dev/infiniband/umad0", Some(Kind::Device)),
            ("/dev/infiniband/issm0", Some(Kind::Device)),
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

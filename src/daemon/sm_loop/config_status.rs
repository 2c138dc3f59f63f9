//! The configuration files as they were read, for the management interface.

use crate::config::options::Options;
use crate::manage::loop_status::{ConfigFile, ConfigStatus};
use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Time and hash of the configuration file and of the files that `options` name.
pub fn read(config_file: Option<&Path>, options: &Options) -> ConfigStatus {
    let named = [
        ("partition_config_file", options.partition_config_file.as_deref()),
        ("qos_policy_file", options.qos_policy_file.as_deref()),
        ("prefix_routes_file", options.prefix_routes_file.as_deref()),
        ("node_name_map_name", options.node_name_map_name.as_deref()),
        ("per_module_logging_file", options.per_module_logging_file.as_deref()),
        ("torus_config", Some(options.torus_config.as_str())),
        ("guid_routing_order_file", options.guid_routing_order_file.as_deref()),
        ("port_prof_ignore_file", options.port_prof_ignore_file.as_deref()),
        ("hop_weights_file", options.hop_weights_file.as_deref()),
        ("port_search_ordering_file", options.port_search_ordering_file.as_deref()),
    ];
    let named = named.into_iter().filter_map(|(option, path)| Some((option, Path::new(path?))));
    let files = config_file.map(|path| ("config", path)).into_iter().chain(named);
    let files = files.map(|(option, path)| config_file_status(option, path)).collect();
    ConfigStatus { files, read: Utc::now(), error: None }
}

/// True if the contents of the files differ from those of `last`.
pub fn differs(last: &ConfigStatus, now: &ConfigStatus) -> bool {
    let contents = |status: &ConfigStatus| -> Vec<_> {
        status.files.iter().map(|file| (file.path.clone(), file.sha256.clone())).collect()
    };
    contents(last) != contents(now)
}

fn config_file_status(option: &'static str, path: &Path) -> ConfigFile {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let modified = modified.map(DateTime::<Utc>::from);
    let sha256 = fs::read(path).ok().map(|text| hexadecimal(&Sha256::digest(text)));
    ConfigFile { option, path: path.to_owned(), modified, sha256 }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_hash_that_sha256sum_prints() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("opensm.conf");
        std::fs::write(&path, "abc").expect("a file");
        let absent = dir.path().join("absent").display().to_string();
        let options = Options {
            partition_config_file: None,
            torus_config: absent.clone(),
            ..Options::default()
        };
        let status = read(Some(&path), &options);
        let of = |option| status.files.iter().find(|file| file.option == option);
        let config = of("config").expect("it is listed");
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(config.sha256.as_deref(), Some(abc));
        assert!(config.modified.is_some());
        let torus = of("torus_config").expect("it is listed");
        assert_eq!((&torus.sha256, torus.modified), (&None, None));
        assert!(of("partition_config_file").is_none());

        assert!(!differs(&status, &read(Some(&path), &options)));
        std::fs::write(&path, "abcd").expect("a file");
        let changed = read(Some(&path), &options);
        assert!(differs(&status, &changed));
        std::fs::write(dir.path().join("absent"), "").expect("a file");
        assert!(differs(&changed, &read(Some(&path), &options)));
    }
}

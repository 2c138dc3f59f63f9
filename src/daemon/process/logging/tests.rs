use super::*;
use std::path::Path;

fn config(path: &Path) -> LogConfig {
    LogConfig {
        destination: LogDestination::File(path.into()),
        flags: 0x83,
        force_flush: false,
        append: true,
        max_size: 0,
        prefix: None,
        format: LogFormat::Text,
        syslog_identity: "OpenSM".into(),
        announce: false,
    }
}

/// Runs `body` with a log in a fresh folder, and returns the file's text.
fn logged(change: impl FnOnce(&mut LogConfig), body: impl FnOnce(&LogHandle, &Path)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("opensm.log");
    let mut config = config(&path);
    change(&mut config);
    let (layer, handle) = open(&config).unwrap();
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || body(&handle, &path));
    handle.flush();
    std::fs::read_to_string(&path).unwrap()
}

/// The lines without time and thread, whose format is checked.
fn tails(text: &str) -> Vec<String> {
    text.lines().map(|line| tail(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

/// Checks `Nov 21 01:34:05 123456 [5F3A] ` and returns the rest of the line.
fn tail(line: &str) -> Option<String> {
    let (date, rest) = line.split_at_checked(15)?;
    chrono::NaiveDateTime::parse_from_str(&format!("2024 {date}"), "%Y %b %d %H:%M:%S").ok()?;
    let (micros, rest) = rest.strip_prefix(' ')?.split_at_checked(6)?;
    micros.parse::<u32>().ok()?;
    let (thread, rest) = rest.strip_prefix(" [")?.split_once("] ")?;
    i32::from_str_radix(thread, 16).ok()?;
    Some(rest.to_owned())
}

#[test]
fn lines_have_opensms_shape() {
    let text = logged(
        |_| {},
        |_, _| {
            tracing::error!(code = 7, "ERR 4E11: no torus");
            tracing::warn!("minhop is the fallback");
            tracing::info!(target: "torus_sm::observe::sweep", switches = 30, "done");
            crate::daemon::process::operator_log::note(&crate::notes::Note::error(
                "4E05", "no rings",
            ));
            tracing::debug!("not shown");
            crate::log_plain!("SUBNET UP");
            crate::log_major!("Entering {} state", "MASTER");
            crate::log_with_flags!(flags::ROUTING, "not shown either");
        },
    );
    assert_eq!(
        tails(&text),
        [
            "0x01 -> daemon::process::logging::tests: ERR 4E11: no torus code=7",
            "0x01 -> daemon::process::logging::tests: WARNING: minhop is the fallback",
            "0x02 -> observe::sweep: done switches=30",
            "0x01 -> daemon::process::logging::tests: ERR 4E05: no rings",
            "0x02 -> SUBNET UP",
            "0x80 -> Entering MASTER state",
        ]
    );
}

#[test]
fn modules_have_flags_of_their_own() {
    let text = logged(
        |_| {},
        |handle, path| {
            let lines = "daemon::sa_server 0x04\nosm_torus.c 0x02\nosm_vl15intf.c 0x20\n";
            handle.set_flags(flags::ERROR);
            handle.set_module_flags(crate::config::log_modules::parse(path, lines).entries);
            tracing::debug!(target: "torus_sm::daemon::sa_server::joins", "one");
            tracing::info!(target: "torus_sm::daemon::sa_server", "not shown");
            tracing::debug!(target: "torus_sm::observe", "not shown");
            tracing::info!(place = "plan::routing::torus", "two");
            tracing::info!(place = "plan::routing", "not shown");
            assert!(tracing::enabled!(target: "torus_sm::frames::smp_sent", tracing::Level::TRACE));
            assert!(!tracing::enabled!(target: "torus_sm::frames::sa_sent", tracing::Level::TRACE));
            tracing::trace!(target: "torus_sm::frames::smp_sent", "three");
            tracing::trace!(target: "torus_sm::frames::sa_sent", "not shown");
            handle.set_module_flags(Vec::new());
            tracing::debug!(target: "torus_sm::daemon::sa_server", "not shown");
            handle.set_flags(flags::FRAMES);
            tracing::trace!(target: "torus_sm::frames::sa_sent", "four");
            tracing::trace!("not shown");
        },
    );
    assert_eq!(
        tails(&text),
        [
            "0x04 -> daemon::sa_server::joins: one",
            "0x02 -> plan::routing::torus: two",
            "0x20 -> three",
            "0x20 -> four",
        ]
    );
}

/// The last words of the lines logged while flags are enabled and disabled.
fn words_by_flags(announce: bool) -> Vec<String> {
    let text = logged(
        |config| {
            config.flags = 0;
            config.announce = announce;
        },
        |handle, _| {
            say();
            for flags in [0x04, 0x08, 0x20] {
                handle.set_flags(flags);
                say();
            }
        },
    );
    tails(&text).iter().filter_map(|tail| Some(tail.rsplit_once(' ')?.1.into())).collect()
}

fn say() {
    tracing::error!("error");
    tracing::debug!("verbose");
    tracing::trace!("debug");
    crate::log_with_flags!(flags::FRAMES, "frame");
    crate::log_major!("major");
}

#[test]
fn lines_may_be_json() {
    let text = logged(
        |config| {
            config.format = LogFormat::Json;
            config.prefix = Some("west".into());
        },
        |_, _| {
            tracing::warn!("a \"quoted\" word");
            crate::log_major!(event = "subnet_up", "SUBNET UP");
        },
    );
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [warning, up] = &lines[..] else { panic!("{text}") };
    assert_eq!(warning["level"], "warning");
    assert_eq!(warning["message"], "a \"quoted\" word");
    assert_eq!(warning["module"], "daemon::process::logging::tests");
    assert_eq!((&up["level"], &up["event"]), (&"major".into(), &"subnet_up".into()));
    assert_eq!((&up["message"], &up["prefix"]), (&"SUBNET UP".into(), &"west".into()));
    assert!(
        up["time"]
            .as_str()
            .is_some_and(|time| time.parse::<chrono::DateTime<chrono::Utc>>().is_ok())
    );
}

#[test]
fn a_log_in_json_has_the_events_of_the_management_interface() {
    let event = r#"{"number":7,"event":"role_changed","state":"MASTER"}"#;
    let text = events(LogFormat::Json, flags::INFO, event);
    let line: serde_json::Value = serde_json::from_str(text.trim_end()).expect("one object");
    assert_eq!(
        (&line["number"], &line["level"], &line["flags"]),
        (&7.into(), &"info".into(), &2.into())
    );
    assert_eq!((&line["event"], &line["state"]), (&"role_changed".into(), &"MASTER".into()));
    assert_eq!(events(LogFormat::Json, flags::ERROR, event), "");
    assert_eq!(events(LogFormat::Text, flags::INFO, event), "");
}

fn events(format: LogFormat, flags: u8, event: &str) -> String {
    logged(
        |config: &mut LogConfig| (config.format, config.flags) = (format, flags),
        |handle, _| handle.write_event(event),
    )
}

#[test]
fn flags_enable_and_disable() {
    assert_eq!(words_by_flags(false), ["verbose", "debug", "frame"]);
}

#[test]
fn announced_major_events_are_always_enabled() {
    let words = words_by_flags(true);
    assert_eq!(words, ["major", "verbose", "major", "debug", "major", "frame", "major"]);
}

#[test]
fn information_is_buffered_and_errors_are_not() {
    logged(
        |_| {},
        |handle, path| {
            tracing::info!("one");
            assert_eq!(size(path), 0);
            handle.flush();
            let one = size(path);
            assert!(one > 0);
            tracing::info!("two");
            tracing::error!("three");
            assert!(size(path) > 2 * one);
        },
    );
    logged(
        |config| config.force_flush = true,
        |_, path| {
            tracing::info!("one");
            assert!(std::fs::metadata(path).unwrap().len() > 0);
        },
    );
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

#[test]
fn rotation_continues_in_a_new_file() {
    let mut rotated = String::new();
    let text = logged(
        |config| config.prefix = Some("west".into()),
        |handle, path| {
            tracing::info!("before");
            let aside = path.with_extension("1");
            std::fs::rename(path, &aside).unwrap();
            tracing::info!("between");
            handle.reopen().unwrap();
            tracing::info!("after");
            rotated = std::fs::read_to_string(aside).unwrap();
        },
    );
    let place = "0x02 -> west: daemon::process::logging::tests";
    assert_eq!(tails(&rotated), [format!("{place}: before"), format!("{place}: between")]);
    assert_eq!(tails(&text), [format!("{place}: after")]);
}

#[test]
fn a_full_log_is_truncated() {
    let text = logged(
        |config| config.max_size = 1000,
        |handle, path| {
            for number in 0..100 {
                tracing::info!("line {number}");
                handle.flush();
                assert!(std::fs::metadata(path).unwrap().len() < 1200);
            }
        },
    );
    assert!(text.lines().last().unwrap().ends_with("line 99"));
}

#[test]
fn the_log_is_truncated_on_request() {
    for (append, expected) in [(true, 2), (false, 1)] {
        let text = logged(
            |config| {
                let LogDestination::File(path) = &config.destination else { unreachable!() };
                std::fs::write(path, "Nov 21 01:34:05 123456 [5F3A] 0x02 -> old\n").unwrap();
                config.append = append;
            },
            |_, _| tracing::info!("new"),
        );
        assert_eq!(text.lines().count(), expected);
    }
}

/// Set for the run of this binary whose log goes to a full device.
const FULL: &str = "TORUS_SM_TEST_FULL_LOG";

#[test]
fn lines_that_the_file_does_not_take_go_to_standard_error() {
    if std::env::var_os(FULL).is_some() {
        logged_to(Path::new("/dev/full"));
        return;
    }
    let name = "daemon::process::logging::tests::\
                lines_that_the_file_does_not_take_go_to_standard_error";
    let mut again = std::process::Command::new(std::env::current_exe().expect("this test"));
    let output = again.args([name, "--exact", "--nocapture"]).env(FULL, "1").output();
    let output = output.expect("it runs");
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    for word in ["buffered", "an error", "after it"] {
        assert_eq!(lines(&text, word), 1, "{word}: {text}");
    }
    assert_eq!(text.matches("cannot write the log").count(), 1, "{text}");
}

fn lines(text: &str, word: &str) -> usize {
    text.lines().filter(|line| line.ends_with(word)).count()
}

fn logged_to(path: &Path) {
    let (layer, handle) = open(&config(path)).expect("the device opens");
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!("buffered");
        tracing::error!("an error");
        tracing::info!("after it");
        handle.flush();
    });
}

#[test]
fn an_unwritable_file_is_an_error() {
    assert!(open(&config(Path::new("/nonexistent/opensm.log"))).is_err());
}

#[test]
fn names_of_destinations() {
    assert_eq!(LogDestination::from("stdout"), LogDestination::Stdout);
    assert_eq!(LogDestination::from("stderr"), LogDestination::Stderr);
    assert_eq!(LogDestination::from("/x"), LogDestination::File("/x".into()));
}

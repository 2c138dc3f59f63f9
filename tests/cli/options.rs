//! The command line: OpenSM's spellings, errors, and the effect on the options.

use std::path::{Path, PathBuf};
use torus_sm::cli::{self, Command, DaemonArgs, UsageError};
use torus_sm::config::options::{Console, Options, PartEnforce};
use torus_sm::ids::{Guid, SmKey};
use torus_sm::sim::generate::FabricShape;

fn parse(line: &str) -> Result<Command, UsageError> {
    cli::parse(line.split_whitespace())
}

fn daemon(line: &str) -> DaemonArgs {
    match parse(line) {
        Ok(Command::Daemon(args)) => args,
        other => panic!("{line}: {other:?}"),
    }
}

/// The options after a command line is applied to the defaults.
fn options(line: &str) -> Options {
    let mut options = Options::default();
    daemon(line).apply(&mut options);
    options
}

fn error(line: &str) -> String {
    match parse(line) {
        Err(error) => error.to_string(),
        Ok(command) => panic!("{line}: {command:?}"),
    }
}

/// The help of `-R` names all engines, chains among them.
#[test]
fn the_help_lists_the_engines() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_torus-sm")).arg("--help").output();
    let text = String::from_utf8_lossy(&output.expect("the help").stdout).into_owned();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(
            "minhop, updn, dnup, dor, file, ftree, pqft, lash, sssp, dfsssp, nue, torus-2QoS, chain"
        ),
        "{text}"
    );
}

#[test]
fn hints_name_the_command() {
    let hint = |line: &str| {
        let argv: Vec<_> = line.split_whitespace().map(Into::into).collect();
        cli::command_line_of(&argv)
    };
    assert_eq!(hint("--foo"), "torus-sm");
    assert_eq!(hint("plan --foo"), "torus-sm plan");
    assert_eq!(hint("sim ctl"), "torus-sm sim ctl");
    assert_eq!(hint("sim 4x4 --foo"), "torus-sm sim");
}

#[test]
fn invalid_numbers_are_quoted_as_given() {
    let text = error("-g foo");
    assert!(text.contains("'foo' is not a number"), "{text}");
    assert_eq!(options("-g 0x12").guid, options("-g 12").guid);
}

#[test]
fn hyphens_and_underscores_are_the_same_in_long_options() {
    for line in [
        "-ignore-guids f",
        "--ignore-guids f",
        "--ignore-guids=f",
        "-ignore_guids=f",
        "--ignore-g f",
        "-i f",
    ] {
        assert_eq!(options(line).port_prof_ignore_file.as_deref(), Some("f"), "{line}");
    }
    assert_eq!(options("--torus-config t").torus_config, "t");
    assert!(parse("resweep --no_wait").is_ok());
    assert!(error("--ignore f").contains("ambiguous"), "{}", error("--ignore f"));
}

#[test]
fn getopt_spellings_are_equivalent() {
    let base = Options::default;
    let cases: Vec<(&[&str], Options)> = vec![
        (
            &["-n64", "-n 64", "-n=64", "--maxsmps 64", "--maxsmps=64", "-maxsmps 64", "--maxs 64"],
            Options { max_wire_smps: 64, max_adaptive_wire_smps: 0, ..base() },
        ),
        (
            &["-g 0x12", "-g0x12", "-g=0x12", "-g 12", "--guid=0x12", "-guid=0x12", "--guid 12"],
            Options { guid: Guid(0x12), ..base() },
        ),
        (
            &["-D 0x43", "-D=0x43", "-D0x43", "--D 0x43", "--D=67"],
            Options { log_flags: 0x43, ..base() },
        ),
        (&["-d0", "-d 0", "--debug 0", "-debug=0"], Options { ignore_other_sm: true, ..base() }),
        (&["-d2", "-d 2"], Options { force_log_flush: true, ..base() }),
        (&["-V", "--V"], Options { log_flags: 0xff, force_log_flush: true, ..base() }),
        (&["-v", "--verbose", "-verb"], Options { log_flags: 0x07, ..base() }),
        (&["-vv", "-v -v"], Options { log_flags: 0x0f, ..base() }),
        (
            &["-R torus-2QoS -Q", "-QR torus-2QoS", "--routing_engine=torus-2QoS --qos"],
            Options { routing_engine: Some("torus-2QoS".into()), qos: true, ..base() },
        ),
        (&["--console=off", "-q off"], base()),
        (&["--console loopback", "-qloopback"], Options { console: Console::Loopback, ..base() }),
        (&["-Z out", "--part_enforce=out"], Options { part_enforce: PartEnforce::Out, ..base() }),
        (&["-s 10", "-s10"], base()),
        (&["-p9", "-pri 9", "--priority 0x9"], Options { sm_priority: 9, ..base() }),
        (&["-k 1f", "--smkey 0x1f"], Options { sm_key: SmKey(0x1f), ..base() }),
        (&["-B", "--daemon"], Options { daemon: true, ..base() }),
        (&["-y", "--stay_on_fatal"], Options { exit_on_fatal: false, ..base() }),
        (&["-e", "--erase_log_file"], Options { accum_log_file: false, ..base() }),
        (
            &["-O f", "--dimn_ports_file f", "--port_search_ordering_file f"],
            Options { port_search_ordering_file: Some("f".into()), ..base() },
        ),
        (&["-l 3 -l 2"], Options { lmc: 2, ..base() }),
    ];
    for (lines, expected) in cases {
        for line in lines {
            assert_eq!(options(line), expected, "{line}");
        }
    }
}

#[test]
fn options_without_a_key_are_kept_beside_the_file() {
    let args = daemon("-F /tmp/x.conf -once --pidfile /run/x.pid -g 0 -d5");
    assert_eq!(args.config_file(), (Path::new("/tmp/x.conf"), true));
    assert!(args.once && args.ask_for_port && args.trace_port);
    assert_eq!(args.pidfile, Some(PathBuf::from("/run/x.pid")));
    assert_eq!(daemon("").config_file(), (Path::new("/etc/opensm/opensm.conf"), false));
    assert!(!daemon("-g 0x10").ask_for_port);
}

#[test]
fn the_command_line_wins_over_the_file() {
    let (mut options, _) =
        Options::parse("lmc 1\nsm_priority 3\nlog_flags 0x07\n", Path::new("opensm.conf"));
    daemon("-p 5 -v").apply(&mut options);
    assert_eq!((options.lmc, options.sm_priority, options.log_flags), (1, 5, 0x0f));
}

#[test]
fn other_commands_are_recognised() {
    for line in ["-h", "-?", "--help", "-help", "-Q -h"] {
        let Ok(Command::ShowHelp(text)) = parse(line) else { panic!("{line}") };
        for arg in cli::command().get_arguments() {
            for name in arg.get_long_and_visible_aliases().unwrap_or_default() {
                assert!(text.contains(&format!("--{name}")), "{name}");
            }
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
    assert_eq!(parse("--version"), Ok(Command::ShowVersion));
    let Ok(Command::CreateConfig(path, args)) = parse("-c /tmp/t -n 7") else { panic!() };
    let mut options = Options::default();
    args.apply(&mut options);
    assert_eq!((path, options.max_wire_smps), (PathBuf::from("/tmp/t"), 7));
}

#[test]
fn errors_suggest_the_right_usage() {
    for (line, expected) in [
        ("--foo", "unexpected argument '--foo' found"),
        (
            "--maxsmp5 3",
            "unexpected argument '--maxsmp5' found\n\n  tip: a similar argument exists: '--maxsmps'",
        ),
        ("-n", "a value is required for '--maxsmps <NUMBER>' but none was supplied"),
        ("--maxsmps", "a value is required for '--maxsmps <NUMBER>' but none was supplied"),
        ("--qos=yes", "unexpected value 'yes' for '--qos' found; no more were expected"),
        (
            "-n many",
            "invalid value 'many' for '--maxsmps <NUMBER>': 'many' is not a number; expected a \
             number from 0 to 2147483647",
        ),
        (
            "-p 16",
            "invalid value '16' for '--priority <PRIORITY>': 16 is out of range; expected a number \
             from 0 to 15",
        ),
        ("--pr 3", "option '--pr' is ambiguous: it matches --priority, --prefix_routes_file"),
        ("-o1", "unexpected argument '-1' found"),
        ("-J x", "unexpected argument '-J' found"),
        (
            "-p 3 status",
            "the command 'status' must be the first word; write 'torus-sm status', with its own \
             options after it",
        ),
        ("simm 3x3", "unknown command 'simm'; did you mean 'sim'?"),
    ] {
        assert_eq!(error(line), expected, "{line}");
    }
}

#[test]
fn options_without_effect_are_reported() {
    assert_eq!(
        (
            options("-Z Both -q remote -t 0 -s 5000000 --perfmgr_sweep_time_s 0"),
            options("-n 0x80000000").max_wire_smps
        ),
        (Options::default(), 0)
    );
    let args = daemon("-q remote");
    assert_eq!(
        args.notes[0].text,
        "console: 'remote' is not one of the accepted words; expected one of off, local, loopback, \
         socket; the option is ignored, as in OpenSM"
    );
    let args = daemon("-d10 -o stray -- --qos");
    let texts: Vec<&str> = args.notes.iter().map(|note| note.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "debug option -d 10 has no effect",
            "argument 'stray' is ignored",
            "argument '--qos' is ignored"
        ]
    );
}

#[test]
fn simulations_have_a_shape_and_the_daemons_options() {
    let line = "sim -o 6x5mx1 --hosts 2 --missing-switch 1,2,0 -n 64 --missing-link=0,0,0:+x";
    let Ok(Command::Sim(sim)) = parse(line) else { panic!() };
    let Some(FabricShape::Grid(shape)) = sim.fabric.shape.clone() else { panic!("a torus") };
    assert_eq!((shape.radix, shape.looped), ([6, 5, 1], [true, false, true]));
    assert_eq!((sim.fabric.hosts, sim.fabric.parallel), (2, 1));
    assert_eq!(sim.fabric.missing_switch[0].0, [1, 2, 0]);
    assert_eq!((sim.fabric.missing_link[0].axis, sim.fabric.missing_link[0].up), (0, true));
    let mut options = Options::default();
    sim.daemon.apply(&mut options);
    assert!(sim.daemon.once);
    assert_eq!(options.max_wire_smps, 64);

    let Ok(Command::Sim(sim)) = parse("sim --file net.txt") else { panic!() };
    assert_eq!(sim.fabric.file, Some(PathBuf::from("net.txt")));
    let Ok(Command::ShowHelp(text)) = parse("sim --help") else { panic!() };
    assert!(text.contains("--missing-link"));
}

#[test]
fn invalid_simulations_are_rejected() {
    for line in [
        "sim",
        "sim 0x5",
        "sim 6y5",
        "sim 2x2x2x2",
        "sim 1000x1000x1000",
        "sim 4294967295x4294967295",
        "sim 3x3 4x4",
        "sim 3x3 --file net.txt",
        "sim 3x3 --hosts many",
        "sim 3x3 --missing-link 0,0,0",
        "sim 3x3 --missing-link 0,0,0:+w",
        "sim 3x3 --nonsense",
    ] {
        let Err(error) = parse(line) else { panic!("{line}") };
        assert!(!error.to_string().starts_with("error:"), "{error}");
    }
}

/// As with `torus-sm --help | head`.
#[test]
fn help_into_a_closed_pipe_succeeds() {
    for words in [&["--help"][..], &["check", "--help"], &["--version"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_torus-sm"));
        let output = command.args(words).stdout(writer).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{words:?}");
    }
}

#[test]
fn help_prints_the_texts_of_the_commands() {
    let help = |line: &str| match parse(line) {
        Ok(Command::ShowHelp(text)) => text,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(help("help"), help("--help"));
    assert_eq!(help("help plan"), help("plan --help"));
    assert_eq!(help("help sim ctl"), help("sim ctl --help"));
    let Err(error) = parse("help sim clt") else { panic!("it is accepted") };
    assert_eq!(error.to_string(), "unknown command 'clt'; did you mean 'ctl'?");
    // Options of the simulator are not offered where nothing is simulated.
    for option in ["--no-sm", "--socket", "--script"] {
        assert!(!help("help plan").contains(option), "{option}");
    }
}

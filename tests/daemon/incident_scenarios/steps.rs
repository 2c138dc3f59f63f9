//! The fabric of a scenario, and its steps:
//!
//! | step | meaning |
//! |---|---|
//! | `wait DURATION` | a pause |
//! | `join GROUPS`, `leave GROUPS` | hosts join or leave so many multicast groups, each with other members |
//! | `denied NODE COUNT` | a host requests so many memberships of a partition that it is not in |
//! | `unacknowledged NODE COUNT` | a host that acknowledges no table requests so many, three times |
//! | `manager NODE KEY VALUE` | another subnet manager starts, with an option of its own |
//! | `manager off` | it ends |
//! | `accept INCIDENT` | an operator accepts what an incident has lost |
//! | `disk gone`, `disk back` | the folder for the state of the daemon cannot be written |

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use testkit::sa_client::{self, Client, SilentClient, joins, with_tid};
use testkit::{SimCluster, Sm};
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::daemon::sm_loop::context::Configuration;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::ids::{Gid, Pkey};
use torus_sm::manage::action::OperatorAction;
use torus_sm::sim::console;
use torus_sm::sim::generate::Shape;
use torus_sm::wire::mad::Method;
use torus_sm::wire::record::{McMemberRecord, NodeRecord};
use torus_sm::wire::sa::SaAttr;

/// A step with the lines below it.
type Step<'a> = (&'a str, Vec<&'a str>);

/// The fabric, and the configuration of the daemons on it.
pub(super) struct Site {
    pub(super) cluster: SimCluster,
    /// The text of opensm.conf; both daemons have the same one.
    conf: Arc<Mutex<String>>,
    manager: Option<Sm>,
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

/// The position of a switch, such as `3,2,0`.
fn position(text: &str) -> [u16; 3] {
    let numbers: Vec<u16> = text.split(',').map(number).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("{text} is no position"))
}

/// The options of a file's text over those of the fabric, and the lines that are wrong.
fn options(cluster: &Options, conf: &str) -> (Options, Vec<String>) {
    let mut options = cluster.clone();
    let diagnostics = options.read(conf, Path::new("opensm.conf"));
    (options, diagnostics.iter().map(ToString::to_string).collect())
}

impl Site {
    pub(super) fn new(steps: &[Step<'_>]) -> Self {
        let mut shape: Option<Shape> = None;
        let mut hardware = Hardware::default();
        for (step, _) in steps {
            match step.split(' ').collect::<Vec<_>>()[..] {
                ["fabric", text, hosts] => {
                    let torus: Shape = text.parse().expect("a shape");
                    shape = Some(Shape { hosts: number(hosts), ..torus });
                }
                ["hardware", "multicast_fdb_cap", value] => {
                    hardware.multicast_fdb_cap = number(value);
                }
                ["hardware", "partition_cap", value] => hardware.partition_cap = number(value),
                ["hardware", "linear_fdb_cap", value] => hardware.linear_fdb_cap = number(value),
                _ => {}
            }
        }
        let cluster = SimCluster::new(shape.expect("a fabric"), hardware, 1);
        let mut site = Self { cluster, conf: Arc::default(), manager: None };
        for (step, below) in steps {
            let is_known =
                ["fabric", "hardware", "once", "faulty"].iter().any(|word| step.starts_with(word));
            if let Some(line) = step.strip_prefix("before ") {
                site.console(line);
            } else if step.starts_with("manager ") {
                site.start_manager(step);
            } else if !site.configure(step, below) {
                assert!(is_known, "unknown line of the first block: {step}");
            }
        }
        site
    }

    pub(super) fn start(&self, at: [u16; 3], sm_priority: u8) -> Sm {
        let standard =
            Options { sm_priority, sminfo_polling_timeout: 1000, ..self.cluster.options() };
        let conf = self.conf.clone();
        let read = move || {
            let conf = conf.lock().unwrap_or_else(PoisonError::into_inner).clone();
            options(&standard, &conf)
        };
        let (first, _) = read();
        let reload = Box::new(move || {
            let (options, ignored_lines) = read();
            Ok(Configuration { ignored_lines, ..options.into() })
        });
        self.cluster.start_with(at, first, reload)
    }

    fn console(&self, line: &str) {
        let result = console::run_line(&self.cluster.fabric, line);
        result.unwrap_or_else(|error| panic!("{line}: {error}"));
    }

    /// Changes the configuration; false if the step does not.
    fn configure(&self, step: &str, below: &[&str]) -> bool {
        let dir = self.cluster.dir().display().to_string();
        match step.split(' ').collect::<Vec<_>>()[..] {
            ["option", key, ref value @ ..] => {
                let line = format!("{key} {}", value.join(" ")).replace("DIR", &dir);
                let mut conf = self.conf.lock().unwrap_or_else(PoisonError::into_inner);
                let others = conf.lines().filter(|line| !line.starts_with(&format!("{key} ")));
                *conf = others.chain([line.as_str()]).map(|line| format!("{line}\n")).collect();
            }
            ["file", name] => {
                let text: String = below.iter().map(|line| format!("{line}\n")).collect();
                std::fs::write(self.cluster.file(name), text).expect("a file");
            }
            ["certificate", name, days] => {
                let now = std::time::SystemTime::now();
                let end = now + Duration::from_secs(24 * 3600 * number::<u64>(days) + 600);
                let mut params =
                    rcgen::CertificateParams::new(["torus-sm".to_owned()]).expect("a name");
                params.not_after = end.into();
                let key = rcgen::KeyPair::generate().expect("a key");
                let certificate = params.self_signed(&key).expect("a certificate");
                let write = |suffix: &str, text: String| {
                    let path = self.cluster.file(&format!("{name}{suffix}"));
                    std::fs::write(path, text).expect("a file");
                };
                write(".pem", certificate.pem());
                write(".key", key.serialize_pem());
            }
            _ => return false,
        }
        true
    }

    /// Does the steps of a block. The configuration is read again if it changes.
    pub(super) async fn take(&mut self, steps: &[Step<'_>], sm: &Sm) {
        let mut is_new = false;
        for (step, below) in steps {
            if self.configure(step, below) {
                is_new = true;
            } else if let Some(pause) = console::pause(step) {
                sleep(pause).await;
            } else if let Some(id) = step.strip_prefix("accept ") {
                let sources = sm.management.as_ref().expect("not taken");
                sources
                    .live
                    .control
                    .start(&OperatorAction::Accept(id.to_owned()))
                    .expect("a free slot");
            } else if !self.act(step).await {
                self.console(step);
            }
        }
        if is_new {
            sm.tell(SmEvent::Reload);
        }
    }

    /// False if the step is a console command.
    async fn act(&mut self, step: &str) -> bool {
        match step.split(' ').collect::<Vec<_>>()[..] {
            ["join", groups] => self.join(number(groups)).await,
            ["leave", groups] => {
                let hosts = joins::hosts(&self.cluster.topology);
                let fabric = &self.cluster.fabric;
                joins::all(fabric, &hosts, Method::DELETE, number(groups), 1).await;
            }
            ["denied", at, count] => self.flood_denied(position(at), number(count)).await,
            ["unacknowledged", at, count] => {
                self.request_tables(position(at), number(count)).await;
            }
            ["manager", "off"] => {
                if let Some(manager) = self.manager.take() {
                    manager.stop().await;
                }
            }
            ["manager", ..] => self.start_manager(step),
            ["disk", state] => {
                for home in [[0, 0, 0], [2, 0, 0]] {
                    let folder = self.cluster.cache_dir(home);
                    let aside = folder.with_extension("aside");
                    if state == "gone" && folder.is_dir() {
                        std::fs::rename(&folder, &aside).expect("a folder");
                        std::fs::write(&folder, "").expect("a file");
                    } else if state == "back" && aside.is_dir() {
                        std::fs::remove_file(&folder).expect("a file");
                        std::fs::rename(&aside, &folder).expect("a folder");
                    }
                }
            }
            _ => return false,
        }
        true
    }

    fn start_manager(&mut self, step: &str) {
        let words: Vec<&str> = step.split(' ').collect();
        let [_, at, key, value] = words[..] else { panic!("{step}: manager NODE KEY VALUE") };
        let (options, wrong) = options(&self.cluster.options(), &format!("{key} {value}\n"));
        assert!(wrong.is_empty(), "{wrong:?}");
        self.manager = Some(self.cluster.start(position(at), options));
    }

    /// Lets the other manager become master, if there is one.
    pub(super) async fn settle(&self) {
        if self.manager.is_some() {
            sleep(Duration::from_secs(5)).await;
        }
    }

    /// Each group has other members: equal ones could share an MLID.
    async fn join(&self, groups: usize) {
        let hosts = joins::hosts(&self.cluster.topology);
        for (first, count) in (1..=groups).enumerate() {
            let members = [hosts[first % 16], hosts[(first * 5 + 1) % 16]];
            joins::all(&self.cluster.fabric, &members, Method::SET, count, 1).await;
        }
    }

    /// Requests tables without acknowledging their segments: above its quota, the client gets BUSY.
    async fn request_tables(&self, at: [u16; 3], count: u64) {
        let host = self.cluster.shape.host_guid(at, 0);
        let client =
            SilentClient::attach(&self.cluster.fabric, host, self.cluster.host_lid([0; 3]));
        let wanted = NodeRecord::default();
        let mut tids = 1..;
        let mut request = |count: u64| {
            for tid in tids.by_ref().take(count as usize) {
                let table = sa_client::request(SaAttr::NODE_RECORD, Method::GET_TABLE, 0, &wanted);
                client.send(&with_tid(table, tid));
            }
        };
        // A new port has a large quota, which it loses when it does not acknowledge.
        request(50);
        sleep(Duration::from_secs(8)).await;
        for _ in 0..3 {
            request(count);
            sleep(Duration::from_secs(1)).await;
        }
    }

    async fn flood_denied(&mut self, at: [u16; 3], count: u64) {
        let client = Client::at(&self.cluster, at, false);
        for tid in 1..=count {
            let mut record = McMemberRecord::default();
            record.set_mgid(joins::mgid(1));
            record.set_port_gid(Gid::new(sa_client::DEFAULT_PREFIX, client.guid));
            record.set_pkey(Pkey(0x8123));
            let mask = joins::CREATE_GROUP;
            let mad = sa_client::request(SaAttr::MC_MEMBER_RECORD, Method::SET, mask, &record);
            client.call(&with_tid(mad, tid)).await;
        }
    }
}

//! Three managers of any mixture, and random events: after each of them exactly the elected one is
//! master, and LIDs, P_Key tables and path SLs are those that the first master gave out.

use super::observer::Facts;
use super::site::Program::{self, Opensm, Ours};
use super::site::{Kind, Site, is_only};
use super::{A, B, C, FAR_EYE, HOSTS, LIMIT, MASTER, STANDBY};
use std::time::Duration;
use testkit::seeds;
use testkit::torus::random::Random;

/// The variable with the seeds.
const VARIABLE: &str = "TORUS_SM_ROLES";

/// Priorities of the other managers.
const PRIORITIES: [u8; 4] = [6, 8, 8, 12];

/// Highest priority of managers that must not outrank others.
const LOW_PRIORITY: u8 = 5;

/// Time limit of a HANDOVER and of the end of a master that hands over.
const HANDOVER_LIMIT: Duration = Duration::from_secs(1);

/// Freezes on ibsim, shorter than the polling time.
const MOMENT: Duration = Duration::from_millis(150);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Start,
    Kill,
    End,
    Freeze,
    LinkDownAndUp,
    SplitAndMerge,
}

/// The events of a walk after the start of the three, in any order, besides new starts.
const EVENTS: [Event; 5] =
    [Event::Kill, Event::End, Event::Freeze, Event::LinkDownAndUp, Event::SplitAndMerge];

/// A site, and what the managers have to keep.
struct Walk {
    site: Site,
    kind: Kind,
    random: Random,
    programs: [Program; HOSTS],
    facts: Facts,
}

impl Walk {
    /// Starts three managers, one after the other or at once.
    fn begin(kind: Kind, programs: &[Program; HOSTS], seed: u64) -> Option<Self> {
        let mut random = Random::new(seed);
        let mut programs = *programs;
        random.shuffle(&mut programs);
        let site = Site::new(kind)?;
        let mut walk = Self { site, kind, random, programs, facts: Facts::new() };
        let mut order = [A, B, C];
        walk.random.shuffle(&mut order);
        // ibsim loses requests to an SM that is about to start.
        let at_once = kind == Kind::Own && walk.random.percent(30);
        for host in order {
            walk.launch(host);
            if !at_once {
                walk.settle("start");
            }
            if walk.facts.is_empty() {
                walk.facts = walk.site.first_facts();
            }
        }
        walk.settle("all started");
        Some(walk)
    }

    fn launch(&mut self, host: usize) {
        let mut priority = PRIORITIES[self.random.below(PRIORITIES.len())];
        let program = self.programs[host];
        if self.must_not_outrank(host) {
            priority = self.lower_priority(host);
        }
        self.site.log.push(format!("start {program:?} at {host}, priority {priority}"));
        self.site.start(program, host, priority);
    }

    /// The manager that has to be master.
    fn elected(&self) -> usize {
        self.site.elected(&self.site.running()).expect("a running manager")
    }

    /// Exactly the elected manager is master, and LIDs, P_Key tables and path SLs are unchanged.
    fn settle(&mut self, what: &str) {
        self.site.settle(what, self.elected());
        let facts = std::mem::take(&mut self.facts);
        if !facts.is_empty() {
            self.site.expect_facts(what, &facts);
        }
        self.facts = facts;
    }

    /// Each event of [`EVENTS`] once, and starts of managers that have ended.
    fn run(&mut self) {
        let mut events = EVENTS.to_vec();
        self.random.shuffle(&mut events);
        while !events.is_empty() {
            let (event, host) = self.draw(&events);
            events.retain(|&left| left != event);
            self.step(event, host);
        }
    }

    fn step(&mut self, event: Event, host: usize) {
        self.site.log.push(format!("{event:?} {host}"));
        match event {
            Event::Start => self.start(host),
            Event::Kill => self.site.kill(host),
            Event::End => self.end(host),
            Event::Freeze => self.freeze(host),
            Event::LinkDownAndUp => self.link_down_and_up(host),
            Event::SplitAndMerge => self.split_and_merge(),
        }
        self.settle(&format!("{event:?} {host}"));
    }

    /// True if the manager at `host` must not wait for the HANDOVER of another master. opensm asks
    /// for it by trap 144 and expects a TrapRepress; ibsim drops those, and opensm waits for ever.
    fn must_not_outrank(&self, host: usize) -> bool {
        self.kind == Kind::Ibsim && self.programs[host] == Opensm
    }

    /// A priority with which a manager at `host` does not outrank the running ones.
    fn lower_priority(&self, host: usize) -> u8 {
        let Some(master) = self.site.elected(&self.site.running()) else { return LOW_PRIORITY };
        // Among equal priorities the lower GUID is elected, which is that of the lower host number.
        let highest = self.site.priority(master).checked_sub(u8::from(host < master));
        highest.expect("few managers start").min(LOW_PRIORITY)
    }

    /// The next event, and a host where it can happen.
    fn draw(&mut self, events: &[Event]) -> (Event, usize) {
        let running = self.site.running();
        let idle: Vec<usize> = (0..HOSTS).filter(|host| !running.contains(host)).collect();
        let is_alone = running.len() == 1;
        if !idle.is_empty() && (is_alone || self.random.percent(40)) {
            return (Event::Start, idle[self.random.below(idle.len())]);
        }
        let mut hosts = running;
        self.random.shuffle(&mut hosts);
        // Half of the events happen to the master.
        if self.random.percent(50) {
            hosts.insert(0, self.elected());
        }
        let pairs = events.iter().flat_map(|&event| hosts.iter().map(move |&host| (event, host)));
        let mut possible = pairs.filter(|&(event, host)| self.is_possible(event, host));
        // Only an elected opensm on ibsim excludes events: a better manager has to start first.
        possible.next().unwrap_or_else(|| (Event::Start, idle[0]))
    }

    fn is_possible(&self, event: Event, host: usize) -> bool {
        let returns_as_best = match event {
            Event::LinkDownAndUp => host == self.elected(),
            Event::SplitAndMerge => true,
            _ => false,
        };
        !returns_as_best || !self.must_not_outrank(self.elected())
    }

    /// A newcomer becomes standby, and then, if it is better than the master, master within
    /// [`HANDOVER_LIMIT`].
    fn start(&mut self, host: usize) {
        let master = self.elected();
        let before = self.site.observer.fence();
        self.launch(host);
        if self.elected() != host {
            self.site.expect("newcomer", |states| states[host] == Some(STANDBY));
            return;
        }
        self.site.expect_master("newcomer", host);
        let samples = self.site.observer.samples(before);
        // Its sweep is over when it is standby, which may be for less than a round.
        let first = samples.iter().find(|sample| sample.states[host].is_some());
        let end = samples.iter().find(|sample| sample.states[host] == Some(MASTER));
        let is_ours = self.programs[master] == Ours;
        if let (Some(first), Some(end)) = (first, end) {
            let took = end.at.saturating_duration_since(first.at);
            self.site.log.push(format!("handover by {:?}: {took:?}", self.programs[master]));
            if is_ours && took > HANDOVER_LIMIT {
                self.site.fail(&format!("the handover took {took:?}"), before);
            }
        }
    }

    /// When a master of ours has ended, its successor is master.
    fn end(&mut self, host: usize) {
        let has_successor = self.site.running().len() > 1;
        let hands_over = has_successor && self.elected() == host && self.programs[host] == Ours;
        let before = self.site.observer.fence();
        let took = self.site.end(host);
        self.site.log.push(format!("the end of {:?} took {took:?}", self.programs[host]));
        if !hands_over {
            return;
        }
        let successor = self.elected();
        let from = self.site.observer.fence();
        let first = self.site.observer.wait_for(from, LIMIT, |states| states[successor].is_some());
        let is_master = first.is_some_and(|sample| is_only(&sample.states, successor));
        if !is_master || took > HANDOVER_LIMIT {
            self.site.fail(&format!("no successor {successor} at the end, after {took:?}"), before);
        }
    }

    /// The others go on without a frozen manager, until it goes on.
    fn freeze(&mut self, host: usize) {
        self.site.freeze(host);
        let mut others = self.site.running();
        others.retain(|&other| other != host);
        match self.site.elected(&others) {
            Some(master) if self.kind == Kind::Own => {
                self.site.settle("frozen", master);
            }
            _ => std::thread::sleep(MOMENT),
        }
        self.site.thaw(host);
    }

    fn link_down_and_up(&mut self, host: usize) {
        self.site.unplug(host);
        let mut others = self.site.running();
        others.retain(|&other| other != host);
        if let Some(master) = self.site.elected(&others) {
            self.site.settle("link down", master);
        }
        self.site.plug_in(host);
    }

    /// Each half has its own master until they are one subnet again.
    fn split_and_merge(&mut self) {
        let mut far = self.site.observer_at(FAR_EYE);
        self.site.set_halves(false);
        let (near, rest): (Vec<usize>, Vec<usize>) =
            self.site.running().into_iter().partition(|&host| host == A);
        if let Some(master) = self.site.elected(&near) {
            self.site.settle("split", master);
        }
        if let Some(master) = self.site.elected(&rest) {
            let from = far.fence();
            let found = far.wait_for(from, LIMIT, |states| is_only(states, master));
            if found.is_none() {
                let history = far.history(from);
                self.site.fail(&format!("far half: master {master} is missing\n{history}"), from);
            }
        }
        drop(far);
        self.site.set_halves(true);
    }
}

/// Walks with each of the seeds.
fn walk(kind: Kind, name: &str, programs: [Program; HOSTS]) {
    for seed in seeds(VARIABLE, 1..2) {
        let replay =
            format!("{VARIABLE}={seed} cargo test --test opensm_compat roles::mixture::{name}");
        println!("replay: {replay}");
        let Some(mut walk) = Walk::begin(kind, &programs, seed) else { return };
        walk.run();
        println!("{}\n", walk.site.log.join("\n"));
    }
}

macro_rules! mixtures {
    ($($name:ident: $kind:ident, $programs:expr;)*) => {$(
        #[test]
        fn $name() {
            walk(Kind::$kind, stringify!($name), $programs);
        }
    )*};
}

mixtures! {
    three_of_ours: Own, [Ours; HOSTS];
    two_of_ours_and_opensm: Own, [Ours, Ours, Opensm];
    one_of_ours_and_two_opensm: Own, [Ours, Opensm, Opensm];
    three_of_ours_on_ibsim: Ibsim, [Ours; HOSTS];
    two_of_ours_and_opensm_on_ibsim: Ibsim, [Ours, Ours, Opensm];
    one_of_ours_and_two_opensm_on_ibsim: Ibsim, [Ours, Opensm, Opensm];
}

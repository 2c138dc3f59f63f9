//! A recording moment by moment, for the page.

use super::compare::ReplayComparison;
use super::moments::{moments, spread};
use super::rerun::{Rerun, Routed, start_runtime};
use super::time_line::EntryClock;
use crate::fabric::End;
use crate::manage::api::recorded::{
    Frame, LinkChanges, NodeChanges, RecordedEvent, RecordedIncidentView, RecordedPlan,
    RecordedView, Views, link_views, node_views, recorded_torus,
};
use crate::publish::report::link_loads;
use crate::record::Recording;
use crate::record::entry::{EntryBody, EventKind, RecordEntry, RecordedMad};
use crate::record::incidents::{IncidentStep, RecordedIncident};
use crate::record::json::PlanJson;
use crate::transport::Agent;
use crate::transport::recorded::MadFate;
use crate::wire::attr::AttrId;
use crate::wire::mad::Method;
use chrono::SecondsFormat;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of frames: a sweep of a large fabric takes a fraction of a second for each.
const MAX_FRAMES: usize = 100;
/// Maximum number of events that are shown; the last ones are.
const MAX_EVENTS: usize = 2000;

/// The frames of a recording. Once `time` has passed, frames are left out, except for the last one.
///
/// # Errors
/// The recording has no moment to show, or a configuration in it is invalid.
pub fn frames(recording: &Recording, time: Duration) -> Result<RecordedView, String> {
    let runtime = start_runtime()?;
    let deadline = Instant::now() + time;
    let all = moments(recording);
    let wanted = spread(&all, MAX_FRAMES);
    let mut story = Story::new(recording);
    runtime.block_on(story.tell(&wanted, deadline))?;
    if story.frames.is_empty() {
        return Err(
            "the recording has no moment to show: it lacks the answers of a sweep".to_owned()
        );
    }
    let header = &recording.header;
    Ok(RecordedView {
        program: header.program.clone(),
        reason: header.reason.clone(),
        written: header.written.clone(),
        port: header.port.clone(),
        left_out: all.len() - wanted.len() + story.late,
        frames: story.frames,
        plans: story.plans,
        events: events(recording),
    })
}

/// The last events.
fn events(recording: &Recording) -> Vec<RecordedEvent> {
    let clock = EntryClock::new(&recording.header);
    let events = recording.entries.iter().rev().filter_map(|entry| match &entry.body {
        EntryBody::Event(kind, text) => Some(RecordedEvent {
            time: time_text(&clock, entry.at),
            kind: kind.name().to_owned(),
            text: text.clone(),
        }),
        EntryBody::Mad(_) => None,
    });
    let mut events: Vec<RecordedEvent> = events.take(MAX_EVENTS).collect();
    events.reverse();
    events
}

/// The time of day, RFC 3339; seconds since the start of the recorder if that is not known.
fn time_text(clock: &EntryClock, at: u64) -> String {
    match clock.time_of_day(at) {
        Some(time) => time.to_rfc3339_opts(SecondsFormat::Millis, true),
        None => format!("{}.{:03} s", at / 1_000_000, at / 1000 % 1000),
    }
}

/// The state of the recording at its present entry, and the frames up to there.
struct Story<'a> {
    recording: &'a Recording,
    rerun: Rerun<'a>,
    clock: EntryClock,
    shown: ShownFabric,
    plan: StoryPlan,
    role: Option<String>,
    incidents: BTreeMap<String, RecordedIncidentView>,
    sets: BTreeMap<String, usize>,
    plans: Vec<RecordedPlan>,
    frames: Vec<Frame>,
    /// Number of frames that were left out for lack of time.
    late: usize,
}

/// The fabric at the last frame.
#[derive(Default)]
struct ShownFabric {
    /// Revision of the devices; `None` if it is to be shown again.
    revision: Option<u64>,
    nodes: Views,
    links: Views,
}

/// The plan that is in force in the story.
#[derive(Default)]
struct StoryPlan {
    in_force: Option<usize>,
    /// LIDs that it forwards through each port.
    loads: BTreeMap<End, usize>,
    /// The plan that was begun, with its loads.
    begun: Option<(usize, BTreeMap<End, usize>)>,
}

impl<'a> Story<'a> {
    fn new(recording: &'a Recording) -> Self {
        Self {
            recording,
            rerun: Rerun::new(recording),
            clock: EntryClock::new(&recording.header),
            shown: ShownFabric::default(),
            plan: StoryPlan::default(),
            role: None,
            incidents: incidents_before(recording),
            sets: BTreeMap::new(),
            plans: Vec::new(),
            frames: Vec::new(),
            late: 0,
        }
    }

    /// Goes through the entries, and makes a frame after each of those with these indices.
    async fn tell(&mut self, moments: &[usize], deadline: Instant) -> Result<(), String> {
        let Recording { header, first, entries, .. } = self.recording;
        let mut plans = header.plans.iter().peekable();
        while let Some(plan) = plans.next_if(|plan| plan.position < *first) {
            self.repeat(plan).await?;
            self.enforce();
        }
        let mut begin = 0;
        for &moment in moments {
            for (entry, number) in entries[begin..=moment].iter().zip(*first + begin as u64..) {
                if let Some(plan) = plans.next_if(|plan| plan.position <= number) {
                    self.repeat(plan).await?;
                }
                self.note(entry);
            }
            begin = moment + 1;
            let is_last = moments.last() == Some(&moment);
            if is_last || Instant::now() < deadline {
                self.rerun.advance(*first + begin as u64);
                self.add_frame(&entries[moment]).await?;
            } else {
                self.late += 1;
            }
        }
        Ok(())
    }

    /// Repeats a plan, which is in force once it is accepted.
    async fn repeat(&mut self, plan: &PlanJson) -> Result<(), String> {
        let located = |problem: String| format!("plan {}: {problem}", plan.number);
        let again = self.rerun.plan(plan).await.map_err(located)?;
        let is_as_recorded = ReplayComparison::new(plan, &again).has_same_plan();
        self.rerun.compared(is_as_recorded);
        let result = match &again.plan {
            Ok(engine) => (*engine).to_owned(),
            Err(reason) => format!("no plan: {reason}"),
        };
        let torus = match &again.routed {
            Some(Routed { fabric, plan }) => recorded_torus(fabric, &plan.routing),
            None => Ok(None),
        };
        let torus = torus.map_err(|error| located(error.to_string()))?;
        let loads = again.routed.as_ref().map_or_else(BTreeMap::new, loads);
        self.plan.begun = Some((self.plans.len(), loads));
        self.plans.push(RecordedPlan { number: plan.number, result, is_as_recorded, torus });
        Ok(())
    }

    /// The plan that was begun is in force from now on. Its LIDs are part of the links.
    fn enforce(&mut self) {
        if let Some((plan, loads)) = self.plan.begun.take() {
            self.plan.in_force = Some(plan);
            self.plan.loads = loads;
            self.shown.revision = None;
        }
    }

    fn note(&mut self, entry: &RecordEntry) {
        match &entry.body {
            EntryBody::Mad(mad) => {
                if let Some(name) = set_name(mad) {
                    *self.sets.entry(name).or_insert(0) += 1;
                }
            }
            EntryBody::Event(EventKind::PlanAccepted, _) => self.enforce(),
            EntryBody::Event(EventKind::Role, text) if text.starts_with("entering ") => {
                self.role = Some(text.clone());
            }
            EntryBody::Event(EventKind::Incident, text) => self.note_incident(text, entry.at),
            EntryBody::Event(..) => {}
        }
    }

    fn note_incident(&mut self, text: &str, at: u64) {
        let Some((step, incident)) = RecordedIncident::parse_event(text) else { return };
        let before = self.incidents.remove(&incident.id);
        if step != IncidentStep::Ended {
            let opened =
                before.map_or_else(|| Some(time_text(&self.clock, at)), |before| before.opened);
            self.incidents.insert(incident.id.clone(), view(incident, opened));
        }
    }

    /// The open incidents, critical ones first.
    fn open_incidents(&self) -> Vec<RecordedIncidentView> {
        let mut open: Vec<RecordedIncidentView> = self.incidents.values().cloned().collect();
        open.sort_by_key(|incident| incident.severity != "critical");
        open
    }

    /// Adds the state after an entry, if anything is different from the frame before.
    async fn add_frame(&mut self, entry: &RecordEntry) -> Result<(), String> {
        let mut frame = Frame {
            time: time_text(&self.clock, entry.at),
            event: match &entry.body {
                EntryBody::Event(kind, text) => format!("{}: {text}", kind.name()),
                EntryBody::Mad(_) => "the end of the recording".to_owned(),
            },
            role: self.role.clone(),
            plan: self.plan.in_force,
            incidents: self.open_incidents(),
            ..Frame::default()
        };
        let revision = self.rerun.devices().revision();
        if self.shown.revision != Some(revision) {
            // Without a local port there is no fabric yet, in the middle of the first sweep.
            let Ok(fabric) = self.rerun.fabric().await else { return Ok(()) };
            let nodes = node_views(&fabric).map_err(|error| error.to_string())?;
            let links = link_views(&fabric, &self.plan.loads).map_err(|error| error.to_string())?;
            let (set, gone) = difference(&self.shown.nodes, &nodes);
            frame.nodes = NodeChanges { set, gone };
            let (set, gone) = difference(&self.shown.links, &links);
            frame.links = LinkChanges { set, gone };
            self.shown.nodes = nodes;
            self.shown.links = links;
            self.shown.revision = Some(revision);
        }
        frame.sets = std::mem::take(&mut self.sets);
        if self.frames.last().is_none_or(|before| is_news(before, &frame)) {
            self.frames.push(frame);
        }
        Ok(())
    }
}

fn is_news(before: &Frame, frame: &Frame) -> bool {
    let NodeChanges { set, gone } = &frame.nodes;
    let has_nodes = !set.is_empty() || !gone.is_empty();
    let LinkChanges { set, gone } = &frame.links;
    let has_links = !set.is_empty() || !gone.is_empty();
    has_nodes
        || has_links
        || !frame.sets.is_empty()
        || before.plan != frame.plan
        || before.role != frame.role
        || before.incidents != frame.incidents
}

/// What is new or different, and the names of what is gone.
fn difference(before: &Views, now: &Views) -> (Vec<Box<RawValue>>, Vec<String>) {
    let set =
        now.iter().filter(|(name, view)| is_new(before, name, view)).map(|(_, view)| view.clone());
    let gone = before.keys().filter(|name| !now.contains_key(*name)).cloned();
    (set.collect(), gone.collect())
}

fn is_new(before: &BTreeMap<String, Box<RawValue>>, name: &str, view: &RawValue) -> bool {
    before.get(name).is_none_or(|before| before.get() != view.get())
}

/// LIDs that a plan forwards through each port of switches.
fn loads(routed: &Routed) -> BTreeMap<End, usize> {
    let Routed { fabric, plan } = routed;
    let loads = link_loads(fabric, plan);
    fabric.port_ids().map(|port| (fabric.end_of(port), loads[port.index()])).collect()
}

/// The attribute of a Set that was sent; `None` for other MADs.
fn set_name(recorded: &RecordedMad) -> Option<String> {
    let RecordedMad { fate, agent, mad, .. } = recorded;
    let is_set = *fate == MadFate::Sent && mad.method() == Method::SET;
    let is_smp = matches!(agent, Agent::SmiDirected | Agent::SmiLid);
    (is_set && is_smp).then(|| AttrId::name(mad.header().attr_id()).to_string())
}

fn view(incident: RecordedIncident, opened: Option<String>) -> RecordedIncidentView {
    let RecordedIncident { id, severity, headline, repair, .. } = incident;
    RecordedIncidentView { id, severity, headline, repair, opened }
}

/// The incidents that were open before the first entry: those that were open at the end or that ended,
/// and did not open meanwhile.
fn incidents_before(recording: &Recording) -> BTreeMap<String, RecordedIncidentView> {
    let mut open = BTreeMap::new();
    for incident in
        recording.header.incidents.iter().filter_map(|text| RecordedIncident::parse(text))
    {
        open.insert(incident.id.clone(), view(incident, None));
    }
    for entry in recording.entries.iter().rev() {
        let EntryBody::Event(EventKind::Incident, text) = &entry.body else { continue };
        match RecordedIncident::parse_event(text) {
            Some((IncidentStep::Opened, incident)) => drop(open.remove(&incident.id)),
            Some((_, incident)) => drop(open.insert(incident.id.clone(), view(incident, None))),
            None => {}
        }
    }
    open
}

//! Requests of operators for the effect of the loss of a link.

use super::SmLoop;
use crate::fabric::End;
use crate::manage::action::{OperatorAction, RequestId};

impl SmLoop {
    /// Plans the fabric without the link at a port, on a thread of its own. One such plan is computed
    /// at a time; its result is an event.
    pub(super) async fn what_if(&mut self, request: RequestId, end: End) {
        let name = OperatorAction::WhatIf(end.0, end.1).name();
        let events = self.env.monitor.events().clone();
        let Ok(permit) = self.studies.clone().try_acquire_owned() else {
            let problem = "the loss of another link is being planned".to_owned();
            events.action_ended(name, request, Err(problem));
            return;
        };
        let Some(observation) = &self.state.observation else {
            events.action_ended(name, request, Err("no sweep has been completed yet".to_owned()));
            return;
        };
        let context = &self.env.context;
        let options = &self.env.options;
        match self.reconfigurer.study_link(context, options, observation, end).await {
            Err(problem) => events.action_ended(name, request, Err(problem)),
            Ok(study) => drop(tokio::spawn(async move {
                events.action_ended(name, request, study.run().await);
                drop(permit);
            })),
        }
    }
}

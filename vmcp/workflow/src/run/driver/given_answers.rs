//! Answers of the user, handed to the steps that asked.

use std::time::Duration;

use serde_json::{Map, Value};

use super::Driver;
use crate::definition::{Action, ForEach, Question, Step};
use crate::run::call::{self, OVER};
use crate::run::questions::{self, Answered};
use crate::run::state::{ItemState, StepState, Waiting};
use crate::run::{Answers, Journal, Phase, ToolCaller};

impl<'a, C: ToolCaller, J: Journal> Driver<'a, C, J> {
    /// Hands the user's answers to the steps that wait for them. A question without an answer stays open.
    pub(super) fn take_answers(&mut self) {
        let tool = self.tool;
        let answers = std::mem::take(&mut self.answers);
        for (at, step) in tool.steps.iter().enumerate() {
            match (&step.action, self.state.steps.get(&step.id)) {
                (Action::Ask(question), Some(StepState::Waiting(waiting))) => {
                    let is_late = waiting.until.is_some_and(|until| until < self.elapsed());
                    let given = questions::answers_at(&step.id, waiting, &answers);
                    match (question.timeout.filter(|_| is_late), given) {
                        (Some(most), _) => {
                            self.fail(step, &format!("no answer within {}", call::shown(most)));
                        }
                        (None, Some(given)) => self.answered(step, question, &given),
                        (None, None) => {}
                    }
                }
                (Action::Call(call), Some(StepState::Waiting(waiting))) => {
                    if let Some(responses) = questions::answers_at(&step.id, waiting, &answers) {
                        let Waiting { state, arguments, .. } = waiting.clone();
                        self.set(step, StepState::Calling);
                        let answers = Answers { responses, state };
                        self.call((at, None), call, step.id.clone(), arguments, Some(answers), None);
                    }
                }
                (Action::ForEach(each), Some(StepState::Looping(_))) => {
                    self.take_answers_of_items(at, step, each, &answers);
                }
                _ => {}
            }
        }
    }

    /// Hands answers to the items of a `forEach` that wait for them.
    fn take_answers_of_items(
        &mut self,
        at: usize,
        step: &'a Step,
        each: &'a ForEach,
        answers: &Map<String, Value>,
    ) {
        let elapsed = self.elapsed();
        let Some(StepState::Looping(looping)) = self.state.steps.get_mut(&step.id) else { return };
        let left = looping.left(elapsed);
        if left == Some(Duration::ZERO) {
            let is_waiting = |item: &ItemState| matches!(item, ItemState::Waiting(_));
            let waiting = looping.begun.iter().filter(|(_, item)| is_waiting(item));
            for index in waiting.map(|(index, _)| *index).collect::<Vec<_>>() {
                if self.item_failed(step, each, index, OVER.to_owned()) {
                    return;
                }
            }
            return;
        }
        let mut calls = Vec::new();
        for (index, item) in &mut looping.begun {
            let ItemState::Waiting(waiting) = item else { continue };
            let place = questions::place_of_item(&step.id, *index);
            if let Some(responses) = questions::answers_at(&place, waiting, answers) {
                let Waiting { state, arguments, .. } = waiting.clone();
                calls.push((*index, place, arguments, Answers { responses, state }));
                *item = ItemState::Calling;
            }
        }
        looping.calling += calls.len();
        if !calls.is_empty() {
            self.journal.step(&step.id, Phase::Running, None);
        }
        for (index, place, arguments, answers) in calls {
            self.call((at, Some(index)), &each.call, place, arguments, Some(answers), left);
        }
    }

    /// Notes the answers to a question of the step itself.
    fn answered(&mut self, step: &Step, question: &Question, answers: &Map<String, Value>) {
        match questions::answered(question, answers) {
            Answered::Ended(end) => self.settle(step, end),
            Answered::SkipRest(end) => {
                self.settle(step, end);
                self.state.skips_rest = true;
            }
            Answered::Failed(error) => {
                self.fail(step, &error);
            }
        }
    }
}

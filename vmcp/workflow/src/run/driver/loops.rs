//! Items of a `forEach`: starts the next ones, and ends the step when all have ended.

use std::time::Duration;

use serde_json::Value;

use super::Driver;
use crate::definition::{Action, ForEach, MAX_PARALLEL, Step};
use crate::run::call::OVER;
use crate::run::state::{ItemState, StepEnd, StepState};
use crate::run::{Journal, ToolCaller, arguments, questions};

impl<'a, C: ToolCaller, J: Journal> Driver<'a, C, J> {
    /// Starts further items of a `forEach`; returns true if it has ended.
    pub(super) fn continue_loop(&mut self, at: usize, step: &'a Step) -> bool {
        let Action::ForEach(each) = &step.action else { return false };
        let progress = self.progress("running");
        let elapsed = self.elapsed();
        loop {
            let Some(StepState::Looping(looping)) = self.state.steps.get_mut(&step.id) else { return false };
            if self.under_way.len() >= MAX_PARALLEL || looping.calling >= each.max_parallel {
                return false;
            }
            let next = (0..looping.items.len()).find(|index| !looping.begun.contains_key(index));
            let Some((index, item)) = next.and_then(|index| Some((index, looping.items.get(index)?.clone())))
            else {
                return self.finish_loop(step);
            };
            let left = looping.left(elapsed);
            let data = self.scope.data_of_item(&progress, &each.item, index, &item);
            let filled = if left == Some(Duration::ZERO) {
                Err(OVER.to_owned())
            } else {
                arguments::fill(&each.call.arguments, &data)
            };
            match filled {
                Ok(filled) => {
                    looping.begun.insert(index, ItemState::Calling);
                    looping.calling += 1;
                    let place = questions::place_of_item(&step.id, index);
                    self.call((at, Some(index)), &each.call, place, filled, None, left);
                }
                Err(error) => {
                    if self.item_failed(step, each, index, error) {
                        return true;
                    }
                }
            }
        }
    }

    /// Ends a `forEach` whose items have all ended; returns true if they have.
    fn finish_loop(&mut self, step: &'a Step) -> bool {
        let Some(StepState::Looping(looping)) = self.state.steps.get(&step.id) else { return false };
        let has_ended = |item: &ItemState| matches!(item, ItemState::Ended(_));
        if looping.begun.len() < looping.items.len() || !looping.begun.values().all(has_ended) {
            return false;
        }
        let output = questions::loop_output(looping);
        self.settle(step, StepEnd::completed(output, Value::Null));
        true
    }

    /// Notes that an item has failed; returns true if the step ends over it.
    pub(super) fn item_failed(
        &mut self,
        step: &'a Step,
        each: &ForEach,
        index: usize,
        error: String,
    ) -> bool {
        if !each.items_may_fail {
            return self.fail(step, &format!("item {index}: {error}"));
        }
        self.item_ended(step, index, ItemState::Ended(StepEnd::failed(None, error)));
        false
    }

    /// Notes the end of an item, or its questions.
    pub(super) fn item_ended(&mut self, step: &Step, index: usize, item: ItemState) {
        if let Some(StepState::Looping(looping)) = self.state.steps.get_mut(&step.id)
            && let Some(ItemState::Calling) = looping.begun.insert(index, item)
        {
            looping.calling = looping.calling.saturating_sub(1);
        }
    }
}

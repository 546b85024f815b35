//! The loop of a run: starts the steps that may begin, waits for the steps under way, and ends when all have
//! ended.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::questions::{self, Answered};
use super::scope::{Progress, Scope};
use super::state::{ItemState, Loop, State, StepEnd, StepState, Waiting};
use super::{
    Answers, Begin, CallEnd, ContinueError, End, Finished, Journal, Phase, ToolCaller, arguments, call,
    output,
};
use crate::definition::{Action, Call, CompositeTool, ForEach, MAX_PARALLEL, Question, Step};

/// Runs a composite tool until it ends or asks.
pub(super) async fn run(
    tool: &Arc<CompositeTool>,
    caller: &impl ToolCaller,
    journal: &impl Journal,
    begin: Begin,
    now: Duration,
) -> Result<Finished, ContinueError> {
    let (mut state, answers) = match begin {
        Begin::New { id, arguments } => {
            (State::new(tool, id, tool.with_defaults(arguments), now), Map::new())
        }
        Begin::Continued { state, answers } => (State::read(&state, tool)?, answers),
    };
    let spent = now.saturating_sub(state.begun);
    let Some(left) = tool.timeout.checked_sub(spent) else {
        return Err(ContinueError::Late(call::shown(tool.timeout)));
    };
    let id = state.id.clone();
    journal.begins(&id, state.begun);
    let lost = state.recover(tool, |tool| caller.may_repeat(tool));
    for (step, known) in &state.steps {
        let error = if let StepState::Ended(end) = known { end.error.as_deref() } else { None };
        journal.step(step, known.phase(), error);
    }
    if !lost.is_empty() {
        return Ok(Finished { id, end: unknown(journal, &lost) });
    }
    let start = Instant::now();
    let mut driver = Driver {
        tool,
        caller,
        journal,
        scope: Scope::new(&state),
        state,
        answers,
        spent,
        start,
        under_way: FuturesUnordered::new(),
        is_unkept: false,
        failure: None,
    };
    let end = match timeout_at(start + left, driver.drive()).await {
        Ok(()) => driver.end(),
        Err(_) => End::Failed(format!("the run had no result within {}", call::shown(tool.timeout))),
    };
    Ok(Finished { id, end })
}

/// Returns the end of a run whose process has ended during these steps.
fn unknown(journal: &impl Journal, lost: &[String]) -> End {
    for place in lost {
        // An item counts as its step.
        journal.step(place.split('[').next().unwrap_or(place), Phase::Unknown, None);
    }
    let steps = lost.iter().map(|place| format!("`{place}`")).collect::<Vec<_>>().join(", ");
    End::Unknown(format!(
        "the end of step {steps} is unknown: its process ended while the call was under way. The call may have \
         been carried out and is not repeated; check its effect before you call again"
    ))
}

/// Failure of an item of a `forEach` whose time is over.
pub(super) const OVER: &str = "no result within the time of the step";

/// A call that is under way: the step, and the item of a `forEach`.
type Place = (usize, Option<usize>);

/// A call that has ended.
struct Called {
    place: Place,
    arguments: Map<String, Value>,
    end: CallEnd,
}

struct Driver<'a, C, J> {
    tool: &'a CompositeTool,
    caller: &'a C,
    journal: &'a J,
    state: State,
    scope: Scope,
    /// Answers to the questions of the part before.
    answers: Map<String, Value>,
    /// Time that earlier parts and waits took.
    spent: Duration,
    start: Instant,
    under_way: FuturesUnordered<BoxFuture<'a, Called>>,
    /// True if, since the state was kept, a call that may not be repeated was started or has ended, or a
    /// question was opened.
    is_unkept: bool,
    /// The failure that ended the run.
    failure: Option<String>,
}

impl<'a, C: ToolCaller, J: Journal> Driver<'a, C, J> {
    async fn drive(&mut self) {
        self.take_answers();
        loop {
            self.start();
            // A call is sent when it is first polled: here it is recorded, and below it is sent.
            if self.failure.is_none() {
                self.keep().await;
            }
            if self.failure.is_some() {
                // Dropping the calls under way cancels them.
                self.under_way.clear();
                return;
            }
            let Some(called) = self.under_way.next().await else { return };
            self.note(called);
        }
    }

    /// Keeps the state, if another process must know it before the run goes on.
    async fn keep(&mut self) {
        if std::mem::take(&mut self.is_unkept)
            && self.journal.keeps()
            && let Err(error) = self.journal.keep(self.state.write()).await
        {
            self.failure = Some(error);
        }
    }

    /// Notes the state of a step that has begun or goes on.
    fn set(&mut self, step: &Step, state: StepState) {
        let phase = state.phase();
        self.is_unkept |= phase == Phase::Waiting;
        self.journal.step(&step.id, phase, None);
        self.state.steps.insert(step.id.clone(), state);
    }

    /// Returns the end of the run, or of this part.
    fn end(mut self) -> End {
        if let Some(failure) = self.failure.take() {
            return End::Failed(failure);
        }
        let questions = questions::open(&self.state);
        if !questions.is_empty() {
            return End::Asks { questions, state: self.state.write() };
        }
        let Some(output) = &self.tool.output else {
            return End::Complete(questions::last_output(self.tool, &self.state));
        };
        let data = self.scope.data(&self.progress("completed"));
        match output::build(output, &data, self.state.skips_rest) {
            Ok(result) => End::Complete(result),
            Err(error) => End::Failed(error),
        }
    }

    fn progress(&self, status: &'static str) -> Progress {
        Progress { status, completed: self.state.completed.len(), elapsed: self.elapsed() }
    }

    /// Returns the time since the begin of the run.
    fn elapsed(&self) -> Duration {
        self.spent.saturating_add(self.start.elapsed())
    }

    /// Starts all that may begin now. A step that ends at once lets others begin.
    fn start(&mut self) {
        let tool = self.tool;
        let mut again = true;
        while again && self.failure.is_none() {
            again = false;
            for (at, step) in tool.steps.iter().enumerate() {
                if self.failure.is_some() {
                    return;
                }
                match self.state.steps.get(&step.id) {
                    None if self.is_ready(step) => again |= self.begin(at, step),
                    Some(StepState::Looping(_)) => again |= self.continue_loop(at, step),
                    _ => {}
                }
            }
        }
    }

    fn is_ready(&self, step: &Step) -> bool {
        let has_ended = |before: &usize| {
            self.tool.steps.get(*before).is_none_or(|before| self.state.has_ended(&before.id))
        };
        self.under_way.len() < MAX_PARALLEL && step.after.iter().all(has_ended)
    }

    /// Begins a step; returns true if it has ended already.
    fn begin(&mut self, at: usize, step: &'a Step) -> bool {
        if self.state.skips_rest {
            self.settle(step, StepEnd::skipped(step.default_results.as_ref()));
            return true;
        }
        let data = self.scope.data(&self.progress("running"));
        match step.condition.as_ref().map(|condition| arguments::holds(condition, &data)) {
            Some(Ok(false)) => {
                self.settle(step, StepEnd::skipped(step.default_results.as_ref()));
                return true;
            }
            Some(Err(error)) => return self.fail(step, &error),
            Some(Ok(true)) | None => {}
        }
        match &step.action {
            Action::Call(call) => match arguments::fill(&call.arguments, &data) {
                Ok(filled) => {
                    self.set(step, StepState::Calling);
                    self.call((at, None), call, step.id.clone(), filled, None, None);
                    false
                }
                Err(error) => self.fail(step, &error),
            },
            Action::Ask(question) => match self.caller.cannot_ask() {
                Some(why) => self.fail(step, &why),
                None => match questions::ask(question, &data) {
                    Ok(waiting) => {
                        let until = question.timeout.map(|most| self.elapsed().saturating_add(most));
                        self.set(step, StepState::Waiting(Waiting { until, ..waiting }));
                        false
                    }
                    Err(error) => self.fail(step, &error),
                },
            },
            Action::ForEach(each) => match arguments::items(&each.collection, &data) {
                Ok(items) if items.len() > each.max_iterations => {
                    let (found, most) = (items.len(), each.max_iterations);
                    self.fail(step, &format!("collection: {found} items; `maxIterations` is {most}"))
                }
                Ok(items) => {
                    let until = each.timeout.map(|most| self.elapsed().saturating_add(most));
                    let looping = Loop { items, until, ..Loop::default() };
                    self.set(step, StepState::Looping(looping));
                    self.continue_loop(at, step)
                }
                Err(error) => self.fail(step, &error),
            },
        }
    }

    /// Starts further items of a `forEach`; returns true if it has ended.
    fn continue_loop(&mut self, at: usize, step: &'a Step) -> bool {
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
    fn item_failed(&mut self, step: &'a Step, each: &ForEach, index: usize, error: String) -> bool {
        if !each.items_may_fail {
            return self.fail(step, &format!("item {index}: {error}"));
        }
        self.item_ended(step, index, ItemState::Ended(StepEnd::failed(None, error)));
        false
    }

    fn item_ended(&mut self, step: &Step, index: usize, item: ItemState) {
        if let Some(StepState::Looping(looping)) = self.state.steps.get_mut(&step.id)
            && let Some(ItemState::Calling) = looping.begun.insert(index, item)
        {
            looping.calling = looping.calling.saturating_sub(1);
        }
    }

    fn call(
        &mut self,
        place: Place,
        call: &'a Call,
        name: String,
        arguments: Map<String, Value>,
        answers: Option<Answers>,
        left: Option<Duration>,
    ) {
        let caller = self.caller;
        self.is_unkept |= !caller.may_repeat(&call.tool);
        let ended = async move {
            let end = call::call(caller, call, name, arguments.clone(), answers, left).await;
            Called { place, arguments, end }
        };
        self.under_way.push(Box::pin(ended));
    }

    /// Notes the end of a call.
    fn note(&mut self, Called { place: (at, item), arguments, end }: Called) {
        let tool = self.tool;
        let Some(step) = tool.steps.get(at) else { return };
        self.is_unkept |= step.action.tool().is_some_and(|tool| !self.caller.may_repeat(tool));
        match (item, &step.action, end) {
            (None, _, CallEnd::Complete { output, content }) => {
                self.settle(step, StepEnd::completed(output, content));
            }
            (None, Action::Call(call), CallEnd::Failed(error) | CallEnd::Refused(error)) => {
                self.fail(step, &format!("{}: {error}", call.tool));
            }
            (None, _, CallEnd::Failed(error) | CallEnd::Refused(error)) => {
                self.fail(step, &error);
            }
            (None, _, CallEnd::Asks { questions, state }) => {
                self.set(step, StepState::Waiting(Waiting { questions, state, arguments, until: None }));
            }
            (Some(index), Action::ForEach(each), CallEnd::Failed(error) | CallEnd::Refused(error)) => {
                self.item_failed(step, each, index, format!("{}: {error}", each.call.tool));
            }
            (Some(index), _, CallEnd::Complete { output, content }) => {
                self.item_ended(step, index, ItemState::Ended(StepEnd::completed(output, content)));
            }
            (Some(index), _, CallEnd::Asks { questions, state }) => {
                let waiting = Waiting { questions, state, arguments, until: None };
                self.item_ended(step, index, ItemState::Waiting(waiting));
                self.is_unkept = true;
                self.journal.step(&step.id, Phase::Waiting, None);
            }
            (Some(_), _, CallEnd::Failed(_) | CallEnd::Refused(_)) => {}
        }
    }

    /// Notes the end of a step.
    fn settle(&mut self, step: &Step, end: StepEnd) {
        self.journal.step(&step.id, end.status.phase(), end.error.as_deref());
        self.scope.ended(&step.id, &end);
        self.state.end(&step.id, end);
    }

    /// Notes the failure of a step: the run ends, or goes on without its result. Returns true.
    fn fail(&mut self, step: &Step, error: &str) -> bool {
        if step.may_fail {
            let end = StepEnd::failed(step.default_results.as_ref(), error.to_owned());
            self.settle(step, end);
        } else if self.failure.is_none() {
            self.journal.step(&step.id, Phase::Failed, Some(error));
            self.failure = Some(format!("step `{}` failed: {error}", step.id));
        }
        true
    }

    /// Hands the user's answers to the steps that wait for them. A question without an answer stays open.
    fn take_answers(&mut self) {
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

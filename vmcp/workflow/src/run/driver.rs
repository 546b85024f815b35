//! The loop of a run: starts the steps that may begin, waits for the steps under way, and ends when all have
//! ended.

mod given_answers;
mod loops;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::questions;
use super::scope::{Progress, Scope};
use super::state::{ItemState, Loop, State, StepEnd, StepState, Waiting};
use super::{
    Answers, Begin, CallEnd, ContinueError, End, Finished, Journal, Phase, ToolCaller, arguments, call,
    output,
};
use crate::definition::{Action, Call, CompositeTool, MAX_PARALLEL, Step};

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
}

//! [`Script`] and [`ScriptEnd`]: a script as the pool takes it, and as it comes back.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::ScriptLimits;
use crate::protocol::{CallEnd, Failure, Finished, StartScript, SuspendedScript};

/// A script for a worker. `A`: a call whose tool asks the user.
#[derive(Debug)]
pub enum Script<A> {
    /// A script from its begin.
    New(StartScript),
    /// A script with answers to its questions, under the limits of today.
    Waiting(WaitingScript<A>, ScriptLimits),
}

/// A call of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Called<A> {
    /// It has ended.
    Ended(CallEnd),
    /// Its tool asks the user.
    Asks(A),
}

/// A script outside of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub struct WaitingScript<A> {
    /// The script.
    pub script: SuspendedScript,
    /// The calls that it waits for, in their order; one at least asks the user.
    pub calls: Vec<Called<A>>,
    /// Calls that it has made so far, by the server's count.
    pub made: usize,
    /// Time that it has taken so far, without the time of the user.
    pub took: Duration,
}

/// The return of a script from its worker.
#[derive(Debug)]
pub enum ScriptEnd<A> {
    /// It has ended.
    Ended(Ran),
    /// It waits for answers of the user.
    Waits(Box<WaitingScript<A>>),
}

/// A script that has ended.
#[derive(Debug)]
pub struct Ran {
    /// Its end, and what it printed; without output where its worker died.
    pub finished: Finished,
    /// Calls that it made.
    pub calls: usize,
    /// Time that it took, without the time of the user.
    pub took: Duration,
}

impl<A> Script<A> {
    /// Bounds of the script.
    pub(super) fn limits(&self) -> &ScriptLimits {
        match self {
            Script::New(script) => &script.limits,
            Script::Waiting(_, limits) => limits,
        }
    }

    /// Returns the number of calls that the script has made before, and the time that it has taken.
    pub(super) fn spent(&self) -> (usize, Duration) {
        match self {
            Script::New(_) => (0, Duration::ZERO),
            Script::Waiting(waiting, _) => (waiting.made, waiting.took),
        }
    }
}

impl<A> ScriptEnd<A> {
    /// Makes the end of a script that did not run.
    pub(super) fn failed(failure: Failure) -> ScriptEnd<A> {
        let finished = Finished::failed(failure);
        ScriptEnd::Ended(Ran { finished, calls: 0, took: Duration::ZERO })
    }
}

//! The interpreter behind one trait, so that it can be raised or replaced.

mod arguments;
pub mod monty;
mod output;
mod parallel;
mod pictures;
mod snapshot;
mod source;
mod starlark;
mod statistics;
mod tool_uses;
mod values;

use vmcp_script::protocol::{
    CallEnd, Failure, Finished, HostCall, ResumeScript, StartScript, SuspendedScript, ToolUse,
};

/// Runs scripts.
pub trait Engine {
    /// Returns the tools that the text of a script names, as far as they can be seen without running it.
    fn uses(&self, script: &StartScript) -> Vec<ToolUse>;

    /// Runs a script to its first call, or its end.
    fn start(&self, script: StartScript) -> Step;

    /// Loads a script that [`PausedScript::suspend`] has written. Fails for the state of another interpreter,
    /// or of another version.
    fn resume(&self, script: ResumeScript) -> Result<Box<dyn PausedScript>, Failure>;
}

/// A script that waits for its calls.
pub trait PausedScript {
    /// Goes on with the ends of the calls, in their order.
    fn resume(self: Box<Self>, ends: Vec<CallEnd>) -> Step;

    /// Writes the state of the script, for another process. Fails beyond the limit of its size.
    fn suspend(self: Box<Self>) -> Result<SuspendedScript, Failure>;
}

/// Place at which a script has stopped.
pub enum Step {
    /// It waits for these calls.
    Calls(Vec<HostCall>, Box<dyn PausedScript>),
    /// It has ended.
    Finished(Finished),
}

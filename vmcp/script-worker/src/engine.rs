//! The interpreter behind one trait, so that it can be raised or replaced.

mod arguments;
mod monty;
mod output;
mod parallel;
mod values;

use vmcp_script::protocol::{CallEnd, Finished, HostCall, StartScript};

pub use monty::MontyEngine;

/// Runs scripts.
pub trait Engine {
    /// Runs a script to its first call, or its end.
    fn start(&self, script: StartScript) -> Step;
}

/// A script that waits for its calls.
pub trait PausedScript {
    /// Goes on with the ends of the calls, in their order.
    fn resume(self: Box<Self>, ends: Vec<CallEnd>) -> Step;
}

/// Place at which a script has stopped.
pub enum Step {
    /// It waits for these calls.
    Calls(Vec<HostCall>, Box<dyn PausedScript>),
    /// It has ended.
    Finished(Finished),
}

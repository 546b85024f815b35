//! [`Interpreter`]: the seam between a script and the engine that runs it.

use std::io;

use futures::future::BoxFuture;

use crate::protocol::{Failure, FromWorker, ToWorker};

/// An interpreter that takes one script: a worker process of this machine, or a pod of the cluster. Dropped,
/// it ends with its script.
pub trait Interpreter: Send {
    /// Reads the next frame.
    fn read(&mut self) -> BoxFuture<'_, io::Result<FromWorker>>;

    /// Writes a frame.
    fn write<'a>(&'a mut self, frame: &'a ToWorker) -> BoxFuture<'a, io::Result<()>>;

    /// Returns why a script cannot wait for an answer of the user outside of its interpreter, as a remedy for
    /// the model; `None`: it can.
    fn never_waits(&self) -> Option<&'static str>;

    /// Returns the failure of a script whose interpreter has closed its stream.
    fn explain(self: Box<Self>) -> BoxFuture<'static, Failure>;
}

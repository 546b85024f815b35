//! The operator: turns VirtualMCPServer and its companions into running pods.

use std::sync::Arc;

use futures::future::BoxFuture;

pub mod cli;
pub mod run;
pub mod runtime;
pub mod workload;

use runtime::Context;

/// All controllers. Each makes its triggers at once, before anything is watched, and works when it is polled.
pub fn controllers(_context: &Arc<Context>) -> Vec<BoxFuture<'static, ()>> {
    vec![]
}

//! The operator: turns VirtualMCPServer and its companions into running pods.

use std::sync::Arc;

use futures::future::BoxFuture;

pub mod cli;
pub mod embedding_server;
pub mod mcp_group;
pub mod mcp_server;
pub mod mcp_server_entry;
pub mod references;
mod report;
pub mod run;
pub mod runtime;
pub mod telemetry_config;
pub mod virtual_mcp_server;
pub mod workload;

use runtime::Context;

/// All controllers. Each makes its triggers at once, before anything is watched, and works when it is polled.
pub fn controllers(context: &Arc<Context>) -> Vec<BoxFuture<'static, ()>> {
    vec![
        embedding_server::controller(context),
        mcp_group::controller(context),
        mcp_server::controller(context),
        mcp_server_entry::controller(context),
        telemetry_config::controller(context),
        virtual_mcp_server::controller(context),
    ]
}

//! The operator: turns VirtualMCPServer, MCPServer and EmbeddingServer resources into running pods, and keeps
//! them so.
//!
//! One folder for each kind of resource, with the same files where the kind has the step: `controller`
//! (triggers and the pipeline), `dereference`, `validate`, `build`, `status`. [`runtime`] is what all of them
//! share; `workload` knows pods: how they are built and why they do not run; `references` resolves Secrets
//! and groups that several kinds name; `registry` asks what an image starts; [`cli`] is the process.

use std::sync::Arc;

use futures::future::BoxFuture;

pub mod cli;
mod embedding_server;
mod mcp_group;
mod mcp_server;
mod mcp_server_entry;
mod references;
mod registry;
pub mod runtime;
mod shared_settings;
mod virtual_mcp_server;
mod workload;

use runtime::Context;
use shared_settings::{
    composite_tool_definition, mcp_authz_config, mcp_external_auth_config, mcp_oidc_config,
    mcp_telemetry_config, mcp_tool_config, mcp_webhook_config,
};

/// Returns all controllers. Each registers its triggers at once, before any watch starts, and works when it
/// is polled.
pub(crate) fn controllers(context: &Arc<Context>) -> Vec<BoxFuture<'static, ()>> {
    vec![
        embedding_server::controller(context),
        mcp_group::controller(context),
        mcp_group::mcp_registry::controller(context),
        mcp_external_auth_config::controller(context),
        mcp_oidc_config::controller(context),
        mcp_server_entry::remote_proxy::controller(context),
        mcp_server::controller(context),
        mcp_server_entry::controller(context),
        mcp_authz_config::controller(context),
        mcp_telemetry_config::controller(context),
        mcp_tool_config::controller(context),
        mcp_webhook_config::controller(context),
        composite_tool_definition::controller(context),
        virtual_mcp_server::controller(context),
    ]
}

//! Approval of changed definitions: [`Engine::approve_tool`].

use std::sync::Arc;

use vmcp_store::StoreError;

use crate::engine::Engine;
use crate::engine::conductor::commands::ConductorHandle;
use crate::engine::tool_drift::DriftGuard;

impl Engine {
    /// Trusts the changed definition of a quarantined tool, by its own name at its backend; false if none
    /// waits for that, or if its hash is not the `expected` one.
    pub async fn approve_tool(
        &self,
        backend: &str,
        tool: &str,
        expected: Option<&str>,
    ) -> Result<bool, StoreError> {
        let (guard, conductor) = (Arc::clone(&self.0.shared.drift), self.0.conductor.clone());
        approve(guard, conductor, (backend, tool), expected).await
    }
}

/// Trusts the pending definition of a tool, named by its server and its own name, and publishes a snapshot
/// with it. Returns false in the cases of [`DriftGuard::approve`].
async fn approve(
    guard: Arc<DriftGuard>,
    conductor: ConductorHandle,
    (server, tool): (&str, &str),
    expected: Option<&str>,
) -> Result<bool, StoreError> {
    let (server, tool, expected) = (server.to_owned(), tool.to_owned(), expected.map(str::to_owned));
    // A task of its own: an operator who hangs up leaves no approval without its snapshot.
    let approval = tokio::spawn(async move {
        let approve = move || -> Result<bool, StoreError> {
            let is_approved = guard.approve(&server, &tool, expected.as_deref())?;
            if is_approved {
                let (server, tool) = (server.as_str(), tool.as_str());
                tracing::info!(server, tool, "the changed definition of a tool was approved");
            }
            Ok(is_approved)
        };
        let approved = tokio::task::spawn_blocking(approve).await.unwrap_or(Ok(false));
        if matches!(approved, Ok(true)) {
            conductor.rebuild().await;
        }
        approved
    });
    // The tasks fail only when the runtime is going down.
    approval.await.unwrap_or(Ok(false))
}

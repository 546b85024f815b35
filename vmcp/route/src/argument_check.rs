//! Arguments of a call against the tool's input schema.

use std::sync::Arc;

use serde_json::value::RawValue;
use vmcp_model::catalog::CatalogTool;

use crate::caller::CallContext;

/// Checks arguments against the tool's input schema. The error lists the violations, for a model to read.
pub(crate) async fn check_arguments(
    context: CallContext<'_>,
    tool: &Arc<CatalogTool>,
    arguments: &RawValue,
) -> Result<(), String> {
    let checked = context.snapshot.check(tool).check(tool, arguments).await;
    checked.map_err(|violations| misfit(context, tool, &violations))
}

/// Returns the error of arguments that do not fit the tool's schema, and counts it.
pub(crate) fn misfit(context: CallContext<'_>, tool: &CatalogTool, violations: &str) -> String {
    context.engine.metrics().schema_rejections.inc();
    format!("parameters do not fit the schema of {}: {violations}", tool.name)
}

//! Lowers the MCPToolConfigs of backends into `aggregation.tools`.

use serde_json::{Value, json};

use super::referenced_objects::Backend;
use crate::fields::yaml_block::Block;

/// Key of an entry of `aggregation.tools` that no `vmcp.yaml` has.
const REFERENCE: &str = "toolConfigRef";

/// Merges the settings of each backend's MCPToolConfig into the entry of the backend, and makes a missing
/// entry. Settings of the entry itself win, tool by tool, as with ToolHive.
pub(super) fn merge(aggregation: &mut Block, backends: &[Backend]) {
    if let Some(Value::Array(entries)) = aggregation.get_mut("tools") {
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            entry.remove(REFERENCE);
        }
    }
    for Backend { name, tool_config, .. } in backends {
        let Some(config) = tool_config else { continue };
        let entries = aggregation.entry("tools").or_insert_with(|| json!([]));
        // A value of a wrong shape is left to the validator of the file.
        let Value::Array(entries) = entries else { return };
        let of_backend = |entry: &Value| entry.get("workload").and_then(Value::as_str) == Some(name);
        let index = entries.iter().position(of_backend).unwrap_or_else(|| {
            entries.push(json!({ "workload": name }));
            entries.len() - 1
        });
        let Some(entry) = entries.get_mut(index).and_then(Value::as_object_mut) else { continue };
        if !config.tools_filter.is_empty() {
            entry.entry("filter").or_insert_with(|| json!(config.tools_filter));
        }
        if !config.tools_override.is_empty()
            && let Value::Object(overrides) = entry.entry("overrides").or_insert_with(|| Block::new().into())
        {
            for (tool, change) in &config.tools_override {
                overrides.entry(tool).or_insert_with(|| change.clone());
            }
        }
    }
}

//! Step 1 of a reconcile, validate: checks a filter and overrides. Pure.
//!
//! The validator of `vmcp.yaml` itself decides, on a file with one backend that has these settings: one
//! mistake would make the file of a VirtualMCPServer invalid as a whole.

use serde_json::{Map, Value, json};
use vmcp_crds::{Invalid, MCPToolConfigSpec, Problem};

/// Checks the settings; an error tells the place of the mistake and the remedy.
pub(crate) fn validate(spec: &MCPToolConfigSpec) -> Result<(), String> {
    const AT: &str = "aggregation.tools[0]";
    let mut rules = Map::new();
    rules.insert("workload".to_owned(), "any".into());
    if !spec.tools_filter.is_empty() {
        rules.insert("filter".to_owned(), json!(spec.tools_filter));
    }
    // A literal `$` would begin a reference in `vmcp.yaml`.
    rules.insert("overrides".to_owned(), escape(spec.tools_override.clone().into()));
    let backend = json!({ "name": "any", "url": "https://example.com/mcp" });
    let file = json!({ "backends": [backend], "aggregation": { "tools": [rules] } });
    let Err(problems) = vmcp_config::load(&file.to_string(), "vmcp.yaml", &|_| None) else { return Ok(()) };
    let place = |problem: Problem| {
        let path = problem.path.strip_prefix(AT).unwrap_or(&problem.path);
        let path = path.replacen(".filter", ".toolsFilter", 1).replacen(".overrides", ".toolsOverride", 1);
        Problem::new(format!("spec{path}"), problem.message, problem.remedy)
    };
    Err(Invalid(problems.list.into_iter().map(place).collect()).to_string())
}

fn escape(value: Value) -> Value {
    match value {
        Value::String(text) => text.replace('$', "$$").into(),
        Value::Object(entries) => entries.into_iter().map(|(key, value)| (key, escape(value))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validated(spec: &Value) -> Result<(), String> {
        validate(&serde_json::from_value(spec.clone()).unwrap())
    }

    #[test]
    fn a_mistake_is_told_by_its_place_in_the_resource() {
        let fine = json!({
            "toolsFilter": ["find", "get_*"],
            "toolsOverride": { "search": { "name": "find", "description": "costs ${5}", "annotations": { "readOnlyHint": true } } },
        });
        assert_eq!(validated(&fine), Ok(()));
        assert_eq!(validated(&json!({})), Ok(()));
        let clash = json!({ "toolsOverride": { "a": { "name": "x" }, "b": { "name": "x" } } });
        let message = validated(&clash).unwrap_err();
        assert!(message.starts_with("spec.toolsOverride.b.name: "), "{message}");
        let odd = validated(&json!({ "toolsOverride": { "a": { "nam": "x" } } })).unwrap_err();
        assert!(odd.contains("spec.toolsOverride.a.nam"), "{odd}");
    }
}

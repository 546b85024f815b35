//! Composite tools in the catalog: each as a tool of the backend [`COMPOSITE`], with the tools that its steps
//! call.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use vmcp_config::sanitize;
use vmcp_workflow::CompositeTool;
use vmcp_workflow::definition::StepHints;

use super::{Catalog, CatalogTool};
use crate::definition::{DefinitionKind, Tool};
use crate::issue::{Issue, IssueReason};
use crate::names::COMPOSITE;
use crate::tokens;

impl Catalog {
    /// Adds composite tools. A composite tool is left out if a step's tool is missing or `is_blocked`, or if
    /// its hints claim more safety than its steps have.
    pub fn add_composites(
        &mut self,
        tools: &[Arc<CompositeTool>],
        is_blocked: impl Fn(&CatalogTool) -> bool,
    ) {
        if tools.is_empty() {
            return;
        }
        let backend: Arc<str> = COMPOSITE.into();
        let mut added = Vec::new();
        for tool in tools {
            match offered(self, tool, &backend, &is_blocked) {
                Ok(tool) => added.push(Arc::new(tool)),
                Err((reason, message)) => {
                    self.issues.push(Issue::new(
                        reason,
                        &backend,
                        DefinitionKind::Tool,
                        &tool.name,
                        &message,
                    ));
                }
            }
        }
        self.tools.extend(added);
        self.tools.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        self.number();
    }

    /// Numbers the tools by name and by backend.
    pub(super) fn number(&mut self) {
        let by_name = self.tools.iter().enumerate().map(|(at, tool)| (tool.name.clone(), at)).collect();
        let mut by_backend: HashMap<Arc<str>, Vec<usize>> = HashMap::new();
        for (at, tool) in self.tools.iter().enumerate() {
            by_backend.entry(Arc::clone(&tool.backend)).or_default().push(at);
        }
        for positions in by_backend.values_mut() {
            positions.sort_by_key(|at| self.tools.get(*at).map(|tool| &tool.definition.name));
        }
        (self.by_name, self.by_backend) = (by_name, by_backend);
    }

    /// Returns the tool that a step names: by its listed name, or as `backend.tool`. Hidden tools count.
    pub fn step_tool(&self, name: &str) -> Option<&Arc<CatalogTool>> {
        let is_no_composite = |tool: &&Arc<CatalogTool>| &*tool.backend != COMPOSITE;
        if let Some(tool) = self.tool(name).filter(is_no_composite) {
            return Some(tool);
        }
        // A backend's name may have dots, and so may a tool's.
        let splits = name.match_indices('.');
        let mut found = splits.filter_map(|(at, _)| {
            let (backend, tool) = (name.get(..at)?, name.get(at + 1..)?);
            let mut fits = self.tool_of(backend, tool).into_iter().filter(is_no_composite);
            fits.next().filter(|_| fits.next().is_none())
        });
        found.next()
    }
}

/// Returns a composite tool as clients see it.
fn offered(
    catalog: &Catalog,
    tool: &CompositeTool,
    backend: &Arc<str>,
    is_blocked: &impl Fn(&CatalogTool) -> bool,
) -> Result<CatalogTool, (IssueReason, String)> {
    let (mut steps, mut missing) = (Vec::new(), Vec::new());
    for name in tool.tools() {
        match catalog.step_tool(name).filter(|step| !is_blocked(step)) {
            Some(step) => steps.push(Arc::clone(step)),
            None => missing.push(name),
        }
    }
    if !missing.is_empty() {
        let missing = missing.join(", ");
        let message =
            format!("a step calls {missing}, which no backend offers now; it is hidden until one does");
        return Err((IssueReason::MissingStepTool, message));
    }
    let hints = steps.iter().map(|step| {
        let hints = &step.annotations;
        let (reads, destroys) = (hints.read_only_hint, hints.destructive_hint);
        StepHints::new(reads, destroys, hints.idempotent_hint, hints.open_world_hint)
    });
    let annotations = tool.hints.above(&StepHints::floor(hints)).map_err(|safer| {
        let message = format!(
            "{} claim more safety than the tools of its steps have; it is left out",
            safer.join(", ")
        );
        (IssueReason::ContradictingHints, message)
    })?;
    let name = format!("{COMPOSITE}.{}", tool.name);
    let unreadable = |error: String| (IssueReason::RejectedDefinition, error);
    let listed = definition(tool, &name, &annotations).map_err(|error| unreadable(error.to_string()))?;
    let definition =
        definition(tool, &tool.name, &annotations).map_err(|error| unreadable(error.to_string()))?;
    let definition = Tool::parse(definition).map_err(|error| unreadable(error.to_string()))?;
    let description = sanitize::paragraphs(&tool.description);
    let size = tokens::size(&name, &tool.description, definition.schema_characters);
    Ok(CatalogTool {
        size,
        tokens: size.div_ceil(4),
        title: tool.hints.title.as_deref().map(sanitize::text),
        annotations: definition.annotations.clone(),
        hash: definition.hash,
        raw: listed.into(),
        own_name: tool.name.clone(),
        definition: Arc::new(definition),
        backend: Arc::clone(backend),
        listed: true,
        in_lists: true,
        description,
        name,
        steps,
    })
}

/// Writes the definition as MCP has it.
fn definition(
    tool: &CompositeTool,
    name: &str,
    annotations: &Map<String, Value>,
) -> serde_json::Result<Box<RawValue>> {
    let mut definition = Map::from_iter([("name".to_owned(), json!(name))]);
    if let Some(title) = &tool.hints.title {
        definition.insert("title".to_owned(), json!(title));
    }
    definition.insert("description".to_owned(), json!(tool.description));
    definition.insert("inputSchema".to_owned(), tool.input_schema());
    if let Some(schema) = tool.output_schema() {
        definition.insert("outputSchema".to_owned(), schema);
    }
    definition.insert("annotations".to_owned(), Value::Object(annotations.clone()));
    to_raw_value(&definition)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovered::{Discovered, Listing};
    use vmcp_config::rules::Aggregation;
    use vmcp_workflow::raw::RawCompositeTool;

    fn catalog(composites: &Value) -> Catalog {
        let tools = [
            json!({ "name": "search", "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true, "openWorldHint": false } }),
            json!({ "name": "wipe", "inputSchema": { "type": "object" } }),
        ];
        let tools = tools.iter().map(|tool| to_raw_value(tool).unwrap()).collect();
        let listing = Arc::new(Discovered::read(Listing { tools, ..Listing::default() }));
        let mut catalog = Catalog::build(&[("git.hub".into(), listing)], &Aggregation::default());
        let raw: Vec<RawCompositeTool> = serde_json::from_value(composites.clone()).unwrap();
        let tools: Vec<_> = raw.iter().map(|raw| Arc::new(CompositeTool::read(raw).unwrap())).collect();
        catalog.add_composites(&tools, |tool| tool.own_name == "blocked");
        catalog
    }

    fn calling(tool: &str, annotations: &Value) -> Value {
        json!([{ "name": "work", "description": "Works.", "annotations": annotations, "steps": [{ "id": "a", "tool": tool }] }])
    }

    #[test]
    fn a_composite_is_a_tool_of_its_own_backend() {
        for step in ["git.hub.search", "git_hub_search"] {
            let catalog = catalog(&calling(step, &json!({ "title": "Work" })));
            let tool = catalog.tool("composite.work").unwrap();
            assert_eq!((&*tool.backend, tool.steps[0].own_name.as_str()), (COMPOSITE, "search"));
            let raw: Value = serde_json::from_str(tool.raw.get()).unwrap();
            assert_eq!(raw["name"], "composite.work");
            assert_eq!(raw["annotations"]["readOnlyHint"], true);
            assert_eq!(tool.annotations.open_world_hint, Some(false));
            assert_eq!(catalog.tool_of(COMPOSITE, "work").len(), 1);
            assert_eq!(catalog.tools.len(), 3);
        }
    }

    #[test]
    fn one_that_cannot_be_offered_costs_itself() {
        let missing = catalog(&calling("jira.create", &json!(null)));
        assert!(missing.tool("composite.work").is_none());
        assert_eq!(missing.issues[0].reason, IssueReason::MissingStepTool);
        assert!(missing.issues[0].message.contains("jira.create"), "{}", missing.issues[0].message);
        // A composite calls no composite, nor itself, by whichever name.
        for name in ["work", "composite_work"] {
            assert!(catalog(&calling(name, &json!(null))).tool("composite.work").is_none(), "{name}");
        }

        let claims = catalog(&calling("git.hub.wipe", &json!({ "readOnlyHint": true })));
        assert!(claims.tool("composite.work").is_none());
        assert_eq!(claims.issues[0].reason, IssueReason::ContradictingHints);
    }
}

//! Definitions of vmcp's own tools for `tools/list`, written for the model that reads them. Limits and
//! defaults come from the configuration, and so does the choice of tools: `optimizer.tools`.

mod call_tool;
mod find_tool;
mod get_tool_alternatives;
mod get_tool_metrics;
mod get_tool_schema;
mod list_mcp_servers;
mod list_tools;
mod reading;
mod recommend_tools;
mod search_available_tools;
mod search_tools;
mod set_context;
mod upkeep;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use vmcp_config::Config;
use vmcp_model::tokens;

pub use self::find_tool::MAX_FOUND_TOOLS;
pub use self::list_tools::{LISTED_TOOLS, MAX_LISTED_TOOLS};
use super::names::{NameStyle, OptimTool};
use super::{client_hints, own_mark};

/// An own tool, ready to be listed.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The listed name.
    pub name: String,
    /// The entry of `tools/list`.
    pub raw: Box<RawValue>,
    /// Size in a token estimate; see [`tokens::size`].
    pub size: u32,
}

/// Listed names of own tools, for definitions that name each other.
struct Names<'a> {
    offered: &'a [OptimTool],
    style: NameStyle,
    find_tool: String,
    call_tool: String,
}

impl Names<'_> {
    /// Returns the listed name of a tool.
    fn listed(&self, tool: OptimTool) -> String {
        self.style.listed(tool)
    }

    /// Adds the parameter `context_id`, if set_context is on offer, which gives it out.
    fn with_context(&self, mut definition: Value) -> Value {
        let properties = definition.pointer_mut("/inputSchema/properties").and_then(Value::as_object_mut);
        if let Some(properties) = properties.filter(|_| self.offered.contains(&OptimTool::SetContext)) {
            let description =
                format!("Optional: the context_id that {} gave.", self.listed(OptimTool::SetContext));
            properties.insert("context_id".to_owned(), json!({"type": "string", "description": description}));
        }
        definition
    }

    /// Returns a sentence that ends with the name of a tool, if that tool is on offer, else nothing.
    fn if_offered(&self, tool: OptimTool, sentence: &str) -> String {
        if self.offered.contains(&tool) { format!("{sentence}{}", self.listed(tool)) } else { String::new() }
    }
}

/// Returns the definitions of the tools on offer, sorted by name, under names of this style. `hides_tools`
/// says that the list lacks tools, so that a model needs the search to know of them.
pub fn definitions(style: NameStyle, config: &Config, hides_tools: bool) -> Vec<Definition> {
    let names = Names {
        offered: &config.optimizer.tools,
        style,
        find_tool: style.listed(OptimTool::FindTool),
        call_tool: style.listed(OptimTool::CallTool),
    };
    let mark = own_mark::mark(config);
    let define = |tool: &OptimTool| {
        let value = match tool {
            OptimTool::FindTool => names.with_context(find_tool::definition(&names, config)),
            OptimTool::CallTool => names.with_context(call_tool::definition(&names, config)),
            OptimTool::ListTools => list_tools::definition(&names),
            OptimTool::GetToolSchema => get_tool_schema::definition(&names),
            OptimTool::ListMcpServers => list_mcp_servers::definition(&names),
            OptimTool::ReadMcpResource => reading::read_mcp_resource(&names),
            OptimTool::GetToolAlternatives => get_tool_alternatives::definition(&names),
            OptimTool::GetToolMetrics => get_tool_metrics::definition(&names),
            OptimTool::SearchTools => names.with_context(search_tools::definition(&names, config)),
            OptimTool::RecommendTools => names.with_context(recommend_tools::definition(&names, config)),
            OptimTool::SetContext => set_context::definition(&names, config),
            OptimTool::SearchAvailableTools => search_available_tools::definition(&names, config),
            OptimTool::ResetToolMetrics => upkeep::reset_tool_metrics(&names),
            OptimTool::RefreshTools => upkeep::refresh_tools(&names),
            OptimTool::RegenerateEmbeddings => upkeep::regenerate_embeddings(&names),
            OptimTool::ReadResult => reading::read_result(&names),
            OptimTool::SearchResult => reading::search_result(&names),
            OptimTool::ProcessLargeDataset => reading::process_large_dataset(&names),
            OptimTool::ExecuteCode => call_tool::execute_code::definition(&names, config),
            OptimTool::ExecuteToolScript => call_tool::execute_code::tool_script(&names),
            OptimTool::AddMcpServer => upkeep::servers::add(&names),
            OptimTool::SearchRegistry => upkeep::servers::search(&names),
            OptimTool::InstallServer => upkeep::servers::install(&names),
            OptimTool::RemoveMcpServer => upkeep::servers::remove(&names),
            OptimTool::EnableMcpServer => upkeep::servers::enable(&names),
            OptimTool::DisableMcpServer => upkeep::servers::disable(&names),
            OptimTool::CallHook => upkeep::call_hook::definition(&names),
        };
        let mut meta = client_hints::of_tool(*tool, hides_tools);
        meta.insert(own_mark::META_KEY.to_owned(), mark.as_str().into());
        definition(&names.listed(*tool), value, meta)
    };
    let mut all: Vec<_> = config.optimizer.tools.iter().map(define).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

fn definition(name: &str, mut definition: Value, meta: Map<String, Value>) -> Definition {
    if let Some(definition) = definition.as_object_mut() {
        definition.insert("_meta".to_owned(), Value::Object(meta));
    }
    let description = definition.get("description").and_then(Value::as_str).unwrap_or_default();
    let schema = definition.get("inputSchema").map(Value::to_string).unwrap_or_default();
    let schema_characters = u32::try_from(schema.chars().count()).unwrap_or(u32::MAX);
    Definition {
        name: name.to_owned(),
        size: tokens::size(name, description, schema_characters),
        // A `Value` cannot fail to serialize.
        raw: to_raw_value(&definition).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_llm_ready() {
        let config = crate::testing::config("");
        for style in [NameStyle::Dotted, NameStyle::Underscore] {
            let all = definitions(style, &config, true);
            let [call, find] = all.as_slice() else { panic!("{all:?}") };
            assert!(call.name < find.name, "tools/list is sorted");
            for (definition, required) in [(call, "tool_name"), (find, "tool_description")] {
                let value: Value = serde_json::from_str(definition.raw.get()).unwrap();
                assert_eq!(value["inputSchema"]["required"], json!([required]));
                for (field, schema) in value["inputSchema"]["properties"].as_object().unwrap() {
                    assert!(schema["description"].is_string(), "{field} has no description");
                }
                assert!((100..1000).contains(&tokens::estimate([definition.size])), "{}", definition.size);
            }
            let value: Value = serde_json::from_str(find.raw.get()).unwrap();
            assert_eq!(value["annotations"]["readOnlyHint"], true);
            assert!(value["description"].as_str().unwrap().contains(&call.name));
        }
        assert_eq!(definitions(NameStyle::Dotted, &config, true)[1].name, "optim.find_tool");
        assert_eq!(definitions(NameStyle::Underscore, &config, true)[1].name, "optim_find_tool");
    }

    #[test]
    fn further_tools_are_listed_when_they_are_configured_and_cost_little() {
        let names = OptimTool::ALL.map(OptimTool::bare).join(", ");
        let config = crate::testing::config(&format!(
            "optimizer: {{ tools: [{names}], largeResults: {{ enabled: true }} }}"
        ));
        let all = definitions(NameStyle::Underscore, &config, true);
        assert_eq!(all.len(), OptimTool::ALL.len());
        assert!(all.is_sorted_by_key(|definition| definition.name.clone()));
        for definition in all {
            let value: Value = serde_json::from_str(definition.raw.get()).unwrap();
            assert_eq!(value["name"], definition.name);
            let description = value["description"].as_str().unwrap();
            assert!(description.len() <= client_hints::MAX_DESCRIPTION_BYTES, "{}", definition.name);
            let default = ["optim_find_tool", "optim_call_tool"].contains(&definition.name.as_str());
            let tokens = tokens::estimate([definition.size]);
            assert!(default || (20..220).contains(&tokens), "{}: {tokens}", definition.name);
        }
        let listed = definitions(NameStyle::Dotted, &config, true);
        let listing = listed.iter().find(|definition| definition.name == "optim.list_tools").unwrap();
        assert!(listing.raw.get().contains("optim.get_tool_schema"), "{}", listing.raw);
    }
}

//! Definitions of find_tool and call_tool for `tools/list`, written for the model that reads them. Limits and
//! defaults come from the configuration.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use vmcp_config::Config;
use vmcp_model::tokens;

use super::find_arguments::MAX_LIMIT;
use super::names::{CALL_TOOL, FIND_TOOL, NameStyle};
use super::own_mark;

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

/// Returns the definitions of call_tool and find_tool (in the order of a list) under names of this style.
pub fn definitions(style: NameStyle, config: &Config) -> [Definition; 2] {
    let (find, call) = (style.listed(FIND_TOOL), style.listed(CALL_TOOL));
    let mark = own_mark::of(config);
    [
        definition(&call, call_tool(&call, &find, config), &mark),
        definition(&find, find_tool(&find, &call, config), &mark),
    ]
}

fn definition(name: &str, mut definition: Value, mark: &str) -> Definition {
    if let Some(definition) = definition.as_object_mut() {
        definition.insert("_meta".to_owned(), json!({ own_mark::META_KEY: mark }));
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

fn find_tool(name: &str, call: &str, config: &Config) -> Value {
    let limits = &config.optimizer.limits;
    json!({
        "name": name,
        "title": "Find tools",
        "description": format!(
            "Searches all connected tools, most of which are not listed, for those that can do a described task. Use it \
             first whenever no listed tool fits the task. Returns the best tools in order, each with its name, \
             description and the JSON schema of its parameters. Then call one with {call}. Describe one step of the task \
             per search."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "tool_description": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": limits.description_chars,
                    "description": "What the tool should do, in plain words, e.g. \"see who is following a ticket\"."
                },
                "tool_keywords": {
                    "anyOf": [
                        {"type": "string", "maxLength": limits.keywords_chars},
                        {"type": "array", "items": {"type": "string"}}
                    ],
                    "description": "Optional terms that the tool or its server is likely to contain, e.g. \"jira watchers\"."
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_LIMIT,
                    "default": config.optimizer.search.max_tools,
                    "description": "Most tools to return."
                },
                "detail": {
                    "enum": ["names", "summary", "full"],
                    "default": "full",
                    "description": "How much of each tool to return. \"names\" and \"summary\" are short; call_tool needs no more for simple tools."
                },
                "explain": {
                    "type": "boolean",
                    "default": false,
                    "description": "Also say why each tool was found. Only for diagnosis."
                }
            },
            "required": ["tool_description"]
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "tools": {
                    "type": "array",
                    "description": "Best first.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string", "description": format!("Pass it to {call} as tool_name.")},
                            "backend_id": {"type": "string", "description": "The server that has the tool."},
                            "description": {"type": "string"},
                            "parameters": {"type": "object", "description": "JSON schema of the tool's arguments."},
                            "score": {"type": "number", "minimum": 0, "maximum": 1},
                            "title": {"type": "string"},
                            "annotations": {"type": "object"},
                            "output_schema": {"type": "object"},
                            "explanation": {"type": "object"}
                        },
                        "required": ["name", "backend_id", "score"]
                    }
                },
                "token_metrics": {
                    "type": "object",
                    "properties": {
                        "baseline_tokens": {"type": "integer", "description": "What listing every tool would cost."},
                        "returned_tokens": {"type": "integer", "description": "What the tools in this answer cost."},
                        "tokens_saved": {"type": "integer"},
                        "savings_percent": {"type": "number"},
                        "optimizer_tokens": {"type": "integer", "description": "What the definitions of the search tools cost."}
                    },
                    "required": ["baseline_tokens", "returned_tokens", "tokens_saved", "savings_percent", "optimizer_tokens"]
                },
                "search_mode": {"enum": ["hybrid", "semantic", "keyword"]},
                "degraded": {"type": "boolean", "description": "Present when a part of the search was not available."},
                "degraded_reason": {"type": "string"},
                "explain": {"type": "object"}
            },
            "required": ["tools", "token_metrics", "search_mode"]
        },
        "annotations": {"title": "Find tools", "readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}

fn call_tool(name: &str, find: &str, config: &Config) -> Value {
    let name_chars = config.optimizer.limits.tool_name_chars;
    json!({
        "name": name,
        "title": "Call a tool",
        "description": format!(
            "Calls a tool that {find} returned and gives back that tool's result. Pass the tool's `name` as tool_name and \
             arguments that satisfy its `parameters` schema as parameters. Search with {find} first if you do not know the \
             tool's exact name and schema."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "tool_name": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": name_chars,
                    "description": format!("The tool's name as {find} returned it.")
                },
                "parameters": {
                    "type": "object",
                    "description": "The tool's arguments, as its schema wants them."
                },
                "server_name": {
                    "type": "string",
                    "maxLength": name_chars,
                    "description": "Optional: the server that has the tool; tool_name may then be the server's own name for it."
                },
                "timeout": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": config.proxy.max_tool_timeout.as_secs_f64(),
                    "description": "Optional: seconds to wait for the result."
                },
                "response_format": {
                    "enum": ["mcp", "envelope"],
                    "default": "mcp",
                    "description": "\"mcp\": the tool's result as it is. \"envelope\": {success, server, tool, result}."
                }
            },
            "required": ["tool_name"]
        },
        "annotations": {"title": "Call a tool", "readOnlyHint": false, "destructiveHint": true, "openWorldHint": true}
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_llm_ready() {
        let config = crate::testing::config("");
        for style in [NameStyle::Dotted, NameStyle::Underscore] {
            let [call, find] = definitions(style, &config);
            assert!(call.name < find.name, "tools/list is sorted");
            for (definition, required) in [(&call, "tool_name"), (&find, "tool_description")] {
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
        assert_eq!(definitions(NameStyle::Dotted, &config)[1].name, "optim.find_tool");
        assert_eq!(definitions(NameStyle::Underscore, &config)[1].name, "optim_find_tool");
    }
}

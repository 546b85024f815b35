//! Definitions of the tools that read: resources of servers, and large results.

use serde_json::{Value, json};

use super::{Names, OptimTool};

/// Returns the definition of read_mcp_resource.
pub(super) fn read_mcp_resource(names: &Names<'_>) -> Value {
    json!({
        "name": names.listed(OptimTool::ReadMcpResource),
        "title": "Read a resource",
        "description": "Reads a resource of a server, such as a document that a tool's result links to.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "resource_uri": {"type": "string", "description": "The resource's URI."},
                "server_name": {"type": "string", "description": "Optional: the server that has it."}
            },
            "required": ["resource_uri"]
        },
        "annotations": {"readOnlyHint": true, "openWorldHint": true}
    })
}

/// Returns the definition of read_result.
pub(super) fn read_result(names: &Names<'_>) -> Value {
    let call = &names.call_tool;
    json!({
        "name": names.listed(OptimTool::ReadResult),
        "title": "Read a large result",
        "description": format!("Reads a part of a large result that {call} answered with a result_ref."),
        "inputSchema": {
            "type": "object",
            "properties": {
                "result_ref": {"type": "string", "description": "The reference, such as res_…"},
                "path": {"type": "string", "description": "Optional: JSON path, such as $.items[0:10] or $..id."},
                "offset": {"type": "integer", "minimum": 0, "description": "Elements, entries, lines or characters to leave out."},
                "limit": {"type": "integer", "minimum": 1, "description": "Most of them to read."}
            },
            "required": ["result_ref"]
        },
        "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}

/// Returns the definition of search_result.
pub(super) fn search_result(names: &Names<'_>) -> Value {
    json!({
        "name": names.listed(OptimTool::SearchResult),
        "title": "Search a large result",
        "description": "Finds the parts of a large result that fit an intent, by their words.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "result_ref": {"type": "string", "description": "The reference, such as res_…"},
                "intent": {"type": "string", "description": "Description of what to find."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 20, "description": "Most parts; 5 by default."}
            },
            "required": ["result_ref", "intent"]
        },
        "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}

/// Returns the definition of process_large_dataset.
pub(super) fn process_large_dataset(names: &Names<'_>) -> Value {
    let has_code_mode = names.offered.contains(&OptimTool::ExecuteCode);
    let python = if has_code_mode { "; or \"python: max(row['n'] for row in rows)\"" } else { "" };
    let operation = format!(
        "Words, such as \"filter amount > 100 and top 10 by amount\" or \"group by city and sum amount\"; or \
         \"sql: SELECT … FROM data\" (SQLite){python}."
    );
    json!({
        "name": names.listed(OptimTool::ProcessLargeDataset),
        "title": "Process a large dataset",
        "description": "Filters, sorts, groups, counts or sums the rows of a large result; only the answer is returned.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "data": {"description": "The reference of a result, or the rows themselves."},
                "path": {"type": "string", "description": "Optional: JSON path to the rows, such as $.items."},
                "operation": {"type": "string", "description": operation},
                "parameters": {"type": "object", "description": "Optional: values for the operation."},
                "engine": {
                    "enum": ["words", "llm"],
                    "description": "Optional: llm lets a language model turn the operation into SQL."
                },
                "timeout": {"type": "number", "description": "Optional: seconds; 5 by default, 30 at most."}
            },
            "required": ["data", "operation"]
        },
        "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}
    })
}

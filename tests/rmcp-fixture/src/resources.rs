//! Resources and their one template.

use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, ResourceContents, ResourceTemplate};
use serde_json::json;

use crate::catalog::Catalog;

/// Returns the one resource template.
pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new("test://template/{id}/data", "Data by id")
        .with_description("A text that holds the id.")
        .with_mime_type("application/json")
}

/// Answers `resources/read`.
pub(crate) fn read(catalog: &Catalog, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    if let Some(id) = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data")) {
        let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
        let contents = ResourceContents::text(data.to_string(), uri).with_mime_type("application/json");
        return Ok(ReadResourceResult::new(vec![contents]));
    }
    let found = catalog.resources.iter().find(|entry| entry.definition.uri == uri);
    let unknown =
        || ErrorData::resource_not_found(format!("unknown resource: {uri}"), Some(json!({"uri": uri})));
    let contents = found.and_then(|entry| entry.answer.clone()).ok_or_else(unknown)?;
    let contents = serde_json::from_value(contents);
    let contents = contents.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(ReadResourceResult::new(vec![contents]))
}

//! Makes the search index's document of a tool: server, name, description and parameters, sanitized.

use serde::Deserialize;
use serde_json::value::RawValue;
use vmcp_config::sanitize;
use vmcp_json::object::Object;
use vmcp_model::catalog::CatalogTool;
use vmcp_search::Document;

/// Parameters of one tool that are indexed; further ones are left out. Larger schemas are generated, and each
/// of their parameters says little.
const MAX_PARAMETERS: usize = 200;

/// Makes the document of a tool. Its name is the one before prefixes and shortening: the prefix is the
/// server's name, which has a field to itself.
pub fn document(tool: &CatalogTool) -> Document {
    let schema = tool.definition.input_schema.as_deref();
    Document {
        server: tool.backend.to_string(),
        name: sanitize::text(&tool.own_name),
        description: tool.description.clone(),
        parameters: schema.map(parameters).unwrap_or_default(),
    }
}

/// Returns the sanitized names and descriptions of an input schema's top-level parameters.
pub fn parameters(schema: &RawValue) -> Vec<(String, String)> {
    #[derive(Deserialize)]
    struct Parameter {
        description: Option<String>,
    }
    let properties = Object::parse(schema).ok().and_then(|schema| schema.get("properties"));
    let properties = properties.and_then(|properties| Object::parse(properties).ok()).unwrap_or_default();
    let described = properties.iter().take(MAX_PARAMETERS).map(|(name, parameter)| {
        let parameter = serde_json::from_str::<Parameter>(parameter.get()).ok();
        let description = parameter.and_then(|parameter| parameter.description).unwrap_or_default();
        (sanitize::text(name), sanitize::text(&description))
    });
    described.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters_of(schema: &str) -> Vec<(String, String)> {
        parameters(&RawValue::from_string(schema.to_owned()).unwrap())
    }

    #[test]
    fn parameters_with_and_without_description() {
        let schema = r#"{"properties":{"issueKey":{"type":"string","description":"The \"key\"\u202e"},"b":{},"c":true}}"#;
        let expected = [("issueKey", "The \"key\""), ("b", ""), ("c", "")];
        assert_eq!(parameters_of(schema), expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }

    #[test]
    fn strange_schemas_have_no_parameters() {
        for schema in ["{}", r#"{"properties":null}"#, r#"{"properties":[1]}"#, r#"{"type":"string"}"#] {
            assert_eq!(parameters_of(schema), [], "{schema}");
        }
    }
}

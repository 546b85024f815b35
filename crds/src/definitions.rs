//! Writes CustomResourceDefinitions from the types. Kubernetes wants *structural* schemas: every node has one
//! type, and nothing but types decides which values it may hold.

pub mod api_group;
mod structural;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps,
};
use kube::CustomResourceExt;
use kube::core::object::{HasSpec, HasStatus};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use self::api_group::ApiGroup;
use self::structural::Structural;
use crate::embedding_server::EmbeddingServer;
use crate::fields::cel_rules::{Rule, rules};
use crate::fields::pending;
use crate::mcp_group::{MCPGroup, MCPRegistry};
use crate::mcp_remote_proxy::MCPRemoteProxy;
use crate::mcp_server::MCPServer;
use crate::mcp_server_entry::MCPServerEntry;
use crate::shared_settings::composite_tool_definition::VirtualMCPCompositeToolDefinition;
use crate::shared_settings::mcp_authz_config::MCPAuthzConfig;
use crate::shared_settings::mcp_external_auth_config::MCPExternalAuthConfig;
use crate::shared_settings::mcp_oidc_config::MCPOIDCConfig;
use crate::shared_settings::mcp_telemetry_config::MCPTelemetryConfig;
use crate::shared_settings::mcp_tool_config::MCPToolConfig;
use crate::shared_settings::mcp_webhook_config::MCPWebhookConfig;
use crate::virtual_mcp_server::VirtualMCPServer;

/// Returns the definitions of all kinds in a group.
///
/// All versions have one schema, so that the API server converts between them by itself.
pub fn in_group(group: ApiGroup) -> Vec<CustomResourceDefinition> {
    let mut definitions = all();
    for definition in &mut definitions {
        let CustomResourceDefinition { metadata, spec, .. } = definition;
        group.name().clone_into(&mut spec.group);
        metadata.name = Some(format!("{}.{}", spec.names.plural, spec.group));
        let Some(version) = spec.versions.pop() else { continue };
        spec.versions = group
            .versions()
            .iter()
            .map(|name| CustomResourceDefinitionVersion {
                name: (*name).to_owned(),
                storage: *name == group.version(),
                ..version.clone()
            })
            .collect();
    }
    definitions
}

/// Returns the definitions of all kinds in [`GROUP`](crate::GROUP).
pub fn all() -> Vec<CustomResourceDefinition> {
    // Names become names of Services and prefixes of tools, which are stricter than the DNS names that the
    // API server asks for.
    let vmcp: Rule = (
        "size(self.metadata.name) <= 52 && !self.metadata.name.contains('.')",
        "the name is too long or has a dot; choose at most 52 characters without dots, for a Service is named vmcp-NAME-peers",
    );
    let console: Rule = (
        "self.metadata.name.matches('^[a-z]') || !has(self.spec.console) || !(self.spec.console.access in ['tokens', 'oidc'])",
        "the name begins with a digit, and console.access makes a Service named NAME-console; choose a name that begins with a letter",
    );
    let server: Rule = (
        "size(self.metadata.name) <= 59 && !self.metadata.name.contains('.')",
        "the name is too long or has a dot; choose at most 59 characters without dots, for a Service is named mcp-NAME",
    );
    let entry: Rule = (
        "size(self.metadata.name) <= 63",
        "the name is too long; choose at most 63 characters, for it is the prefix of the server's tools",
    );
    let reserved: Rule = (
        "!(self.metadata.name in ['optim', 'composite'])",
        "the names optim and composite are reserved for vmcp's own tools; choose another",
    );
    let embedding: Rule = (
        "size(self.metadata.name) <= 48 && self.metadata.name.matches('^[a-z][a-z0-9-]*$')",
        "the name is too long, has a dot or begins with a digit; choose at most 48 letters, digits and '-' that begin with a letter, for a Service is named NAME-tei",
    );
    let registry: Rule = (
        "size(self.metadata.name) <= 59 && self.metadata.name.matches('^[a-z][a-z0-9-]*$')",
        "the name is too long, has a dot or begins with a digit; choose at most 59 letters, digits and '-' that begin with a letter, for a Service is named NAME-api",
    );
    vec![
        definition::<VirtualMCPServer>(&[vmcp, console]),
        definition::<MCPGroup>(&[]),
        definition::<MCPServer>(&[server, reserved]),
        definition::<MCPServerEntry>(&[entry, reserved]),
        definition::<MCPRemoteProxy>(&[entry, reserved]),
        definition::<EmbeddingServer>(&[embedding]),
        definition::<MCPRegistry>(&[registry]),
        definition::<MCPTelemetryConfig>(&[]),
        definition::<MCPAuthzConfig>(&[]),
        definition::<MCPOIDCConfig>(&[]),
        definition::<MCPExternalAuthConfig>(&[]),
        definition::<MCPToolConfig>(&[]),
        definition::<MCPWebhookConfig>(&[]),
        definition::<VirtualMCPCompositeToolDefinition>(&[]),
    ]
}

fn definition<K>(rules_of_root: &[Rule]) -> CustomResourceDefinition
where
    K: CustomResourceExt + HasSpec + HasStatus,
    K::Spec: JsonSchema,
    K::Status: JsonSchema,
{
    let mut spec = schema::<K::Spec>();
    let mut definition = K::crd();
    pending::add_to_schema(&definition.spec.names.kind, &mut spec);
    let mut status = schema::<K::Status>();
    if let Some(status) = status.as_object_mut() {
        // Marks an object that the operator has not seen: kstatus takes an object without
        // `observedGeneration` for current.
        status.insert("default".to_owned(), json!({ "observedGeneration": -1 }));
    }
    let mut root = json!({
        "type": "object",
        "description": spec.get("description"),
        "required": ["spec"],
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": { "type": "object" },
            "spec": spec,
            "status": status,
        },
    });
    if let (false, Some(root)) = (rules_of_root.is_empty(), root.as_object_mut()) {
        root.insert("x-kubernetes-validations".to_owned(), rules(rules_of_root));
    }
    definition.metadata.labels = Some([("app.kubernetes.io/part-of".to_owned(), "vmcp".to_owned())].into());
    for version in &mut definition.spec.versions {
        if let Some(validation) = &mut version.schema {
            #[expect(
                clippy::expect_used,
                reason = "it follows from the types alone, and is made in tests and by a subcommand"
            )]
            let schema: JSONSchemaProps =
                serde_json::from_value(root.clone()).expect("the schema is structural");
            validation.open_api_v3_schema = Some(schema);
        }
    }
    definition
}

fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.with_transform(Structural).into_generator().into_root_schema_for::<T>().to_value()
}

/// Turns `1.0` into `1`: limits are floats in the type of a schema, and read better as whole numbers.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0) {
                *number = (float as i64).into();
            }
        }
        Value::Object(entries) => entries.values_mut().for_each(whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Returns the file name of a definition, and its text.
pub fn yaml_file(definition: &CustomResourceDefinition) -> (String, String) {
    let names = &definition.spec.names;
    let mut plain = json!(definition);
    whole_numbers(&mut plain);
    let text = serde_saphyr::to_string(&plain).unwrap_or_default();
    let head = "# Generated from the types of the crate vmcp-crds by `make crds`; do not edit.\n";
    (format!("{}.{}.yaml", names.plural, definition.spec.group), format!("{head}{text}"))
}

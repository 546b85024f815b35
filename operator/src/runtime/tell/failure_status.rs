//! Conditions in the status of an object whose reconcile failed or is paused, or that could not be parsed.
//!
//! A reconciler that gets to its last step writes the status itself; this covers all that end before it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::DynamicObject;
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::{Map, Value, json};

use super::{Conditions, is_true};
use crate::runtime::context::Context;
use crate::runtime::watch::{CustomResource, Parsed, kind_of};
use crate::runtime::write::{CallError, Verb};
use vmcp_error_chain::error_chain;

/// The condition that is false while reconciles fail, and absent otherwise.
const RECONCILED: &str = "Reconciled";
/// The condition of a paused object, absent otherwise; also its reason.
const PAUSED: &str = "Paused";
/// Annotation of a resource. Its value `true` keeps the operator from the resource and its objects.
const PAUSED_ANNOTATION: &str = "toolhive.stacklok.com/paused";

/// Writes into the status why an object could not be reconciled. Best effort: the next attempt writes it
/// again.
pub(crate) async fn report_failure<K: CustomResource>(
    context: &Context,
    object: &K,
    category: &'static str,
    message: &str,
) {
    let (mut status, before, mut conditions) = kept_status(object);
    let kind = kind_of::<K>();
    conditions.set(RECONCILED, false, category, message);
    let summary = summary_condition(kind);
    // A fault of the operator or of the API server says nothing about an object that was well: its pods, if
    // it has any, serve on.
    let was_well = is_true(&before, summary);
    if !was_well {
        conditions.set(summary, false, category, message);
    }
    let conditions = conditions.finish();
    context.publish_transitions(object, &before, &conditions).await;
    let mut change = failed_status(kind, &conditions, message);
    if was_well {
        change.remove("phase");
    }
    status.extend(change);
    if let Err(error) = context.write_status(object, &status).await {
        tracing::debug!(
            object = object.name_any(),
            error = error_chain(&error),
            "cannot write the failure into the status"
        );
    }
}

/// Returns the status of an object, its conditions, and new conditions that begin with those: all but
/// [`PAUSED`], because the pause may be over.
fn kept_status<K: CustomResource>(object: &K) -> (Map<String, Value>, Vec<Condition>, Conditions) {
    let object_as_json = serde_json::to_value(object).unwrap_or_default();
    let status = object_as_json.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    let before = status.get("conditions").cloned().unwrap_or_default();
    let before: Vec<Condition> = serde_json::from_value(before).unwrap_or_default();
    let mut conditions = Conditions::new(&before, object.meta().generation.unwrap_or_default());
    for condition in before.iter().filter(|condition| condition.type_ != PAUSED) {
        conditions.keep(&condition.type_);
    }
    (status, before, conditions)
}

/// Returns true if a person paused an object by its annotation.
pub(crate) fn is_paused(object: &impl kube::ResourceExt) -> bool {
    object.annotations().get(PAUSED_ANNOTATION).is_some_and(|value| value == "true")
}

/// Writes into the status, once, that an object is paused.
pub(crate) async fn report_paused<K: CustomResource>(context: &Context, object: &K) -> Result<(), CallError> {
    let (mut status, before, mut conditions) = kept_status(object);
    if is_true(&before, PAUSED) {
        return Ok(());
    }
    let message = format!(
        "the operator leaves the resource and its objects as they are; remove the annotation `{PAUSED_ANNOTATION}`"
    );
    conditions.set(PAUSED, true, PAUSED, message);
    let conditions = conditions.finish();
    status.insert("conditions".to_owned(), json!(conditions));
    if context.write_status(object, &status).await? {
        context.publish_transitions(object, &before, &conditions).await;
    }
    Ok(())
}

/// Writes into the status, once for each edit, that an object cannot be parsed as its kind: probably it was
/// written under another version of the definition.
pub(crate) async fn report_malformed<K: CustomResource>(
    context: &Context,
    object: &Parsed<K>,
    error: &str,
) -> Result<(), CallError> {
    let kind = kind_of::<K>();
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    // The watch kept neither the malformed field's path nor the status: the object is read once more, as
    // JSON.
    let api: Api<DynamicObject> =
        Api::namespaced_with(context.client.clone(), &namespace, &context.resource_of::<K>());
    let Some(found) = context.call(Verb::Get, kind, &name, api.get_opt(&name)).await? else { return Ok(()) };
    let before = found.data.pointer("/status/conditions").cloned().unwrap_or_default();
    let before: Vec<Condition> = serde_json::from_value(before).unwrap_or_default();
    let found = serde_json::to_value(found).unwrap_or_default();
    let error = match serde_path_to_error::deserialize::<_, K>(found) {
        Err(error) => error.to_string(),
        Ok(_) => error.to_owned(),
    };
    let message =
        format!("this object cannot be read as {kind}: {error}; correct the field and apply it again");
    let mut conditions = Conditions::new(&before, object.meta().generation.unwrap_or_default());
    conditions.set(summary_condition(kind), false, "Malformed", &message);
    conditions.set("Stalled", true, "Malformed", &message);
    let conditions = conditions.finish();
    if before == conditions {
        return Ok(());
    }
    tracing::warn!(kind, namespace, name, error, "malformed object");
    let mut status = failed_status(kind, &conditions, &message);
    status.insert("observedGeneration".to_owned(), json!(object.meta().generation));
    context.patch_status(object, status.into()).await?;
    context.publish_transitions(object, &before, &conditions).await;
    Ok(())
}

const COMPOSITE_TOOL: &str = "VirtualMCPCompositeToolDefinition";

/// Returns the condition that sums an object up: `Valid` for kinds without pods, `Ready` for all others.
fn summary_condition(kind: &str) -> &'static str {
    match kind {
        "MCPServerEntry" => "Valid",
        COMPOSITE_TOOL => "Ready",
        kind if is_shared_settings(kind) => "Valid",
        _ => "Ready",
    }
}

/// Returns true for kinds whose status has neither phase nor message.
fn is_shared_settings(kind: &str) -> bool {
    matches!(
        kind,
        "MCPTelemetryConfig"
            | "MCPAuthzConfig"
            | "MCPOIDCConfig"
            | "MCPExternalAuthConfig"
            | "MCPToolConfig"
            | "MCPWebhookConfig"
            | COMPOSITE_TOOL
    )
}

/// Returns the status fields that tell of a failure, as far as the kind has them.
fn failed_status(kind: &str, conditions: &[Condition], message: &str) -> Map<String, Value> {
    let mut status = Map::new();
    status.insert("conditions".to_owned(), json!(conditions));
    if !is_shared_settings(kind) {
        status.insert("phase".to_owned(), "Failed".into());
    }
    if !is_shared_settings(kind) && !matches!(kind, "MCPServerEntry" | "MCPGroup") {
        status.insert("message".to_owned(), message.into());
    }
    status
}

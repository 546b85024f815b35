//! What an object's own status says when its reconciler did not come to say it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::{Map, Value, json};

use super::{CallError, Conditions, Context, Custom, Guarded, Verb, chain, kind_of};

/// Says why an object could not be reconciled. Best effort: the next attempt says it again.
pub(super) async fn of_failure<K: Custom>(
    context: &Context,
    object: &K,
    category: &'static str,
    message: &str,
) {
    let object_as_json = serde_json::to_value(object).unwrap_or_default();
    let mut status = object_as_json.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    let before = status.get("conditions").cloned().unwrap_or_default();
    let before: Vec<Condition> = serde_json::from_value(before).unwrap_or_default();
    let mut conditions = Conditions::new(&before, object.meta().generation.unwrap_or_default());
    for condition in &before {
        conditions.keep(&condition.type_);
    }
    let kind = kind_of::<K>();
    conditions.set(verdict(kind), false, category, message);
    let conditions = conditions.finish();
    context.tell_transitions(object, &before, &conditions).await;
    let mut said = failed(kind, &conditions, message);
    if status.get("readyReplicas").and_then(Value::as_i64).is_some_and(|ready| ready > 0) {
        // What ran before goes on.
        said.remove("phase");
    }
    status.extend(said);
    if let Err(error) = context.write_status(object, &status).await {
        tracing::debug!(object = object.name_any(), error = %chain(&error), "the failure could not be written to the status");
    }
}

/// Says, once for each edit, that an object cannot be read as its type: probably it was written under another version of its
/// definition.
pub(super) async fn of_malformed<K: Custom>(
    context: &Context,
    object: &Guarded<K>,
    error: &str,
) -> Result<(), CallError> {
    let kind = kind_of::<K>();
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    // The watch knows that it is malformed, not where, nor what its status says already: it is read once more to tell.
    let api: Api<DynamicObject> =
        Api::namespaced_with(context.client.clone(), &namespace, &ApiResource::erase::<K>(&()));
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
    conditions.set(verdict(kind), false, "Malformed", &message);
    let conditions = conditions.finish();
    if before == conditions {
        return Ok(());
    }
    tracing::warn!(kind, namespace, name, error, "malformed object");
    context.patch_status(object, failed(kind, &conditions, &message).into()).await?;
    context.tell_transitions(object, &before, &conditions).await;
    Ok(())
}

/// The condition that sums an object up: what has no pods is valid or not.
fn verdict(kind: &str) -> &'static str {
    match kind {
        "MCPServerEntry" | "MCPTelemetryConfig" => "Valid",
        _ => "Ready",
    }
}

/// The fields that tell of a failure, as far as the status of the kind has them.
fn failed(kind: &str, conditions: &[Condition], message: &str) -> Map<String, Value> {
    let mut status = Map::new();
    status.insert("conditions".to_owned(), json!(conditions));
    if kind != "MCPTelemetryConfig" {
        status.insert("phase".to_owned(), "Failed".into());
    }
    if !matches!(kind, "MCPTelemetryConfig" | "MCPServerEntry" | "MCPGroup") {
        status.insert("message".to_owned(), message.into());
    }
    status
}

//! References in the arguments of tools: `{"$result_ref": "res_…"}` stands for the value that is kept.

use serde_json::value::RawValue;
use vmcp_results::references::{RESULT_REF, ResultRef, find, replace};
use vmcp_results::store::StoredResult;
use vmcp_results::{Path, resolve};
use vmcp_wire::owned::OwnedParams;

use super::on_stored;
use crate::caller::CallContext;

/// References in the arguments of one call.
const MAX_REFERENCES: usize = 16;

/// Returns the arguments with each reference replaced by its value; `None` if they have none. The error is
/// for the model.
pub(in crate::own_tools) async fn replaced(
    context: CallContext<'_>,
    parameters: &RawValue,
) -> Result<Option<Box<RawValue>>, String> {
    let limit = context.snapshot.config.optimizer.limits.parameters_bytes;
    replaced_within(context, "parameters", parameters, limit).await
}

/// True if the parameters of a client's own call may have references.
pub(crate) fn may_have_some(context: CallContext<'_>, params: &OwnedParams) -> bool {
    let is_on = context.snapshot.config.optimizer.large_results.enabled;
    is_on && params.get("arguments").is_some_and(|arguments| arguments.contains(RESULT_REF))
}

/// As [`replaced`], in the parameters of a client's own call.
pub(crate) async fn replaced_in_params(
    context: CallContext<'_>,
    params: &OwnedParams,
) -> Result<Option<OwnedParams>, String> {
    let arguments = params.get("arguments").unwrap_or("{}");
    let arguments: &RawValue = serde_json::from_str(arguments).map_err(|error| error.to_string())?;
    let limit = context.snapshot.config.optimizer.limits.parameters_bytes;
    let Some(replaced) = replaced_within(context, "arguments", arguments, limit).await? else {
        return Ok(None);
    };
    let params = params.with(&[("arguments", Some(replaced.get()))]);
    params.map(Some).map_err(|error| error.to_string())
}

/// As [`replaced`], for an argument named `field`, of at most `limit` bytes with its values.
pub(in crate::own_tools) async fn replaced_within(
    context: CallContext<'_>,
    field: &str,
    argument: &RawValue,
    limit: usize,
) -> Result<Option<Box<RawValue>>, String> {
    if !context.snapshot.config.optimizer.large_results.enabled {
        return Ok(None);
    }
    let found = find(argument);
    if found.is_empty() {
        return Ok(None);
    }
    if found.len() > MAX_REFERENCES {
        return Err(format!("{field}: {} references, the limit is {MAX_REFERENCES}", found.len()));
    }
    let mut values: Vec<(ResultRef, Box<RawValue>)> = Vec::new();
    let mut size = argument.get().len();
    for reference in found {
        let value = value(context, &reference).await?;
        size += value.get().len();
        if size > limit {
            return Err(format!(
                "{field}: too long with the values of its references: the limit is {limit} bytes; name a part by `path`"
            ));
        }
        values.push((reference, value));
    }
    let value_of = |wanted: &ResultRef| {
        values.iter().find(|(reference, _)| reference == wanted).map(|(_, value)| value.clone())
    };
    Ok(Some(replace(argument, &value_of)))
}

/// Returns the value of a reference.
async fn value(context: CallContext<'_>, reference: &ResultRef) -> Result<Box<RawValue>, String> {
    let path = reference.path.as_deref().map(Path::parse).transpose().map_err(|error| error.to_string())?;
    let work = move |stored: &StoredResult| resolve(&stored.content, path.as_ref());
    let resolved = on_stored(context, &reference.result_ref, work).await;
    resolved.map_err(|unread| unread.text(context))?.map_err(|error| error.to_string())
}

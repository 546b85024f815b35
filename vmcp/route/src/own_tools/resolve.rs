//! Finds the one tool or server that an own tool's arguments name, within the caller's view: a tool by the
//! listed name, or with a server by the server's own, in any letter case that is unambiguous.

pub(super) mod tool_lookup;

use std::sync::Arc;

use serde::Serialize;
use vmcp_model::catalog::CatalogTool;

use super::fallback::call_failure::CallFailure;
use super::own_answer::Refusal;
use crate::answer::tool_result::ErrorType;
use crate::call;
use crate::caller::CallContext;

/// Returns the listed name that a name stands for: that of [`aliases`], unless a tool has the name itself. An
/// alias of a tool outside of the caller's view stays as written: answers with the listed name would tell a
/// denied tool from an unknown one.
///
/// [`aliases`]: vmcp_config::rules::Aggregation::aliases
pub(super) fn unaliased<'a>(context: CallContext<'a>, name: &'a str) -> &'a str {
    let (view, aliases) = (context.view, &context.snapshot.config.aggregation.aliases);
    if view.tool(name).is_some() {
        return name;
    }
    let listed = aliases.get(name).map(String::as_str);
    listed.filter(|listed| view.tool(listed).is_some()).unwrap_or(name)
}

/// Returns the tool; a tool that the caller may not call is answered like an unknown one.
pub(super) fn resolve<'a>(
    context: CallContext<'a>,
    name: &str,
    server: Option<&str>,
) -> Result<&'a Arc<CatalogTool>, Refusal> {
    let view = context.view;
    let name = if server.is_none() { unaliased(context, name) } else { name };
    let fits = if let Some(server) = server {
        visible_server(context, server)?;
        view.tools_of(server, name)
    } else {
        let like = || {
            let like = view.tools_like(name);
            if like.is_empty() { tool_lookup::alike(view, name) } else { like }
        };
        view.tool(name).map_or_else(like, |tool| vec![tool])
    };
    let fits: Vec<_> = fits.into_iter().filter(|tool| call::may_name(context, tool)).collect();
    let failure = |error| Refusal::json(&CallFailure::new(server, name, ErrorType::NotFound, error));
    match fits.as_slice() {
        [tool] => Ok(tool),
        [] => {
            let near = tool_lookup::nearest(view, name, |tool| call::may_name(context, tool));
            let near = if near.is_empty() {
                String::new()
            } else {
                format!("; did you mean {}?", near.join(" or "))
            };
            Err(failure(format!("tool not found: {name}{near}")))
        }
        several => {
            let names: Vec<_> = several.iter().map(|tool| tool.name.as_str()).collect();
            Err(failure(format!("{name} could be {}; use the exact name", names.join(" or "))))
        }
    }
}

/// Returns the server of this name that the caller sees, whatever the case of its letters.
pub(super) fn visible_server<'a>(context: CallContext<'a>, wanted: &str) -> Result<&'a Arc<str>, Refusal> {
    let visible = context.snapshot.backends.keys().filter(|backend| context.view.has_backend(backend));
    let found = visible.clone().find(|name| name.eq_ignore_ascii_case(wanted));
    found.ok_or_else(|| unknown_server(wanted, visible.map(AsRef::as_ref)))
}

/// Makes the failure for an unknown server.
pub(super) fn unknown_server<'a>(wanted: &str, available: impl Iterator<Item = &'a str>) -> Refusal {
    let error = format!("server not found: {wanted}");
    Refusal::json(&UnknownServer { success: false, error, available_servers: available.collect() })
}

/// The answer for a server that the caller does not see.
#[derive(Serialize)]
struct UnknownServer<'a> {
    success: bool,
    error: String,
    available_servers: Vec<&'a str>,
}

//! Messages between vmcp and a decision point: JSON, one object each.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use vmcp_config::{DecisionPoint as Settings, sanitize};

use super::{MAX_QUESTION_BYTES, PointDecision, PointFailure};
use crate::identity::Identity;
use crate::identity::claim_path::lookup;
use crate::policy::Kind;
use crate::policy::principal::groups;
use crate::policy::spellings::Spellings;

/// Version of the format.
const VERSION: u32 = 1;
/// Most characters of a reason.
const MAX_REASON_CHARS: usize = 300;

/// A question: may this client do this?
#[derive(Debug, Clone, Copy)]
pub struct PointQuestion<'a> {
    /// The client.
    pub identity: &'a Identity,
    /// The profile whose path the client calls.
    pub profile: Option<&'a str>,
    /// The MCP method, such as `tools/call`.
    pub method: &'a str,
    /// The item that the client wants to use.
    pub item: AskedItem<'a>,
    /// The arguments as JSON text, if the call has any. Sent only if the settings say so.
    pub arguments: Option<&'a str>,
}

/// An item of a backend.
#[derive(Debug, Clone, Copy)]
pub struct AskedItem<'a> {
    /// Kind of the item; the action follows from it.
    pub kind: Kind,
    /// Listed name of a tool or prompt, URI of a resource, name of a backend.
    pub name: &'a str,
    /// The backend.
    pub backend: &'a str,
    /// The backend's own name of a tool or prompt.
    pub original_name: Option<&'a str>,
}

#[derive(Serialize)]
struct Question<'a> {
    version: u32,
    principal: Principal<'a>,
    action: &'a str,
    method: &'a str,
    resource: Resource<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource<'a> {
    r#type: &'a str,
    /// Of a resource the URI in its normal form.
    name: Cow<'a, str>,
    backend: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_name: Option<&'a str>,
    /// Further spellings of the URI, as the client wrote it and decoded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    spellings: Vec<String>,
}

#[derive(Serialize)]
struct Principal<'a> {
    subject: &'a str,
    /// Absent: the client is anonymous.
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<&'a str>,
    groups: Vec<String>,
    claims: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'a str>,
}

/// A decision as it is written. A repeated key is an error; unknown keys are not looked at.
#[derive(Deserialize)]
struct Answer {
    allow: bool,
    #[serde(default)]
    reason: Option<String>,
}

/// Writes a question. Fails if the client's groups cannot be read, the URI has no normal form, the arguments
/// are no JSON, or the whole is too long: what cannot be shown cannot be allowed.
pub(super) fn question(settings: &Settings, asked: &PointQuestion<'_>) -> Result<Vec<u8>, PointFailure> {
    let unaskable = |reason: &str| PointFailure::Unaskable(reason.to_owned());
    let known = asked.identity.as_known();
    let no_claims = Map::new();
    let all = known.map_or(&no_claims, |known| known.claims());
    let groups = groups::groups(&settings.group_claims, settings.role_claim.as_ref(), all);
    if let Some(reason) = &groups.unreadable {
        return Err(unaskable(reason));
    }
    let claims = settings.claims.iter().filter_map(|name| Some((name.clone(), lookup(all, name)?.clone())));
    let arguments = asked.arguments.filter(|_| settings.include_arguments);
    let arguments = arguments.map(serde_json::from_str::<&RawValue>).transpose();
    let AskedItem { kind, name, backend, original_name } = asked.item;
    let spelled = if kind == Kind::Resource { Spellings::of_uri(name) } else { Ok(None) };
    let spelled = spelled.map_err(|_| unaskable("the URI has no normal form, or leaves its root"))?;
    let (name, spellings) = match spelled {
        Some(Spellings { normal, others }) => (Cow::Owned(normal), others),
        None => (Cow::Borrowed(name), Vec::new()),
    };
    let question = Question {
        version: VERSION,
        principal: Principal {
            subject: asked.identity.subject(),
            issuer: known.map(crate::identity::KnownIdentity::issuer),
            groups: groups.names,
            claims: claims.collect(),
            profile: asked.profile,
        },
        action: kind.action_name(),
        method: asked.method,
        resource: Resource { r#type: kind.feature(), name, backend, original_name, spellings },
        arguments: arguments.map_err(|_| unaskable("the arguments are no JSON"))?,
    };
    let text = serde_json::to_vec(&question).map_err(|error| PointFailure::Unaskable(error.to_string()))?;
    if text.len() > MAX_QUESTION_BYTES {
        return Err(unaskable("it has more than 1 MiB"));
    }
    Ok(text)
}

/// Reads an answer: `allow` must be there, and true or false.
pub(super) fn decision(answer: &[u8]) -> Result<PointDecision, PointFailure> {
    // A list would be read as the values in their order.
    if answer.trim_ascii_start().first() != Some(&b'{') {
        return Err(PointFailure::NoDecision("it is no object"));
    }
    let no_decision = |_| PointFailure::NoDecision("it has no `allow` that is true or false, or is no JSON");
    let Answer { allow, reason } = serde_json::from_slice(answer).map_err(no_decision)?;
    let reason = reason.map(|reason| sanitize::text(&reason)).filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| reason.chars().take(MAX_REASON_CHARS).collect::<String>());
    Ok(PointDecision { allowed: allow, reason: reason.map(Arc::from), cached: false })
}

//! Evaluation of one question, for each spelling of the item and of its arguments.

use std::borrow::Cow;

use cedar_policy::{AuthorizationError, Context, Decision, Effect, PolicySet, Request, Response};
use vmcp_config::{OnPolicyError, ResourceIds};

use super::question::{Kind, Question};
use super::reads::Reads;
use super::spellings::{Ambiguous, Spellings};
use super::subject::Subject;
use super::values::{Arguments, Attributes};
use super::{CedarPolicy, DEFAULT_DENY, Failure, FailureKind, OWN_TOOLS, Unevaluated, Verdict};
use crate::exact_json::{Entries, Json};

/// Most combinations of spellings that one call is judged by; a call with more is denied.
const MAX_COMBINATIONS: usize = 16;

/// The answer that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SoughtAnswer {
    /// A decision: one policy must permit.
    Decision,
    /// An objection: only a `forbid` counts, because another spelling has been permitted.
    Objection,
}

/// A way to decide.
#[derive(Debug, Clone, Copy)]
pub(super) struct EvaluationMode {
    /// True if policies take part that are only tried out.
    pub(super) all: bool,
    pub(super) wanted: SoughtAnswer,
}

/// The context of a question.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) context: &'a Context,
    /// Attributes of the item that are arguments.
    pub(super) arguments: &'a Attributes,
}

impl CedarPolicy {
    /// Asks about each id of the item: one `forbid` denies, one `permit` allows. ToolHive's form of a URI
    /// stands for many URIs, so that a `permit` by it counts only where the configuration says so.
    pub(super) fn ask(
        &self,
        subject: &Subject,
        policies: &PolicySet,
        question: &Question<'_>,
        facts: Facts<'_>,
        wanted: SoughtAnswer,
    ) -> Verdict {
        let allowed = question.is_own_tool() || wanted == SoughtAnswer::Objection;
        let policy = if question.is_own_tool() { OWN_TOOLS } else { DEFAULT_DENY };
        let mut verdict = Verdict { allowed, policy: policy.to_owned(), failures: Vec::new(), shadow: None };
        let by_form = self.rules.settings.resource_ids == ResourceIds::Toolhive;
        let may_permit = |position: usize| position == 0 || by_form || question.kind != Kind::Resource;
        for (position, id) in question.ids().into_iter().enumerate() {
            let response = match self.respond(subject, policies, question, &id, facts) {
                Ok(response) => response,
                Err(error) => return Verdict::failed(FailureKind::Entities, error.to_string()),
            };
            let broken = note_errors(policies, &response, &mut verdict.failures);
            let reason = response.diagnostics().reason().map(ToString::to_string).min();
            let allowed = response.decision() == Decision::Allow;
            match reason {
                Some(policy) if !allowed => return Verdict { allowed, policy, ..verdict },
                Some(policy) if may_permit(position) => (verdict.allowed, verdict.policy) = (true, policy),
                Some(_) | None => {}
            }
            if let Some(policy) = broken.filter(|_| self.rules.settings.on_error == OnPolicyError::Deny) {
                return Verdict { allowed: false, policy, ..verdict };
            }
        }
        verdict
    }

    fn respond(
        &self,
        subject: &Subject,
        policies: &PolicySet,
        question: &Question<'_>,
        id: &str,
        facts: Facts<'_>,
    ) -> Result<Response, Unevaluated> {
        let resource = question.entity(&self.rules.settings.server_name, id, facts.arguments)?;
        let action = question.kind.action()?;
        let request = Request::new(subject.uid.clone(), action, resource.uid(), facts.context.clone(), None)?;
        let entities = subject.entities_with(resource)?;
        Ok(self.authorizer.is_authorized(&request, policies, &entities))
    }
}

/// Adds the policies whose evaluation failed; returns a `forbid` among them, which may have applied.
fn note_errors(policies: &PolicySet, response: &Response, failures: &mut Vec<Failure>) -> Option<String> {
    let mut broken = None;
    for error in response.diagnostics().errors() {
        let AuthorizationError::PolicyEvaluationError(failed) = error;
        let policy = policies.policy(failed.policy_id());
        let kind = match policy.map(cedar_policy::Policy::effect) {
            Some(Effect::Permit) => FailureKind::Permit,
            Some(Effect::Forbid) | None => {
                broken.get_or_insert_with(|| failed.policy_id().to_string());
                FailureKind::Forbid
            }
        };
        failures.push(Failure { kind, text: error.to_string() });
    }
    broken
}

/// Returns the spellings of the item's name: the normal one first.
pub(super) fn names<'a>(question: &Question<'a>) -> Result<Vec<Cow<'a, str>>, Ambiguous> {
    if question.kind != Kind::Resource {
        return Ok(vec![question.name.into()]);
    }
    let Some(spellings) = Spellings::of_uri(question.name)? else { return Ok(vec![question.name.into()]) };
    Ok([spellings.normal].into_iter().chain(spellings.others).map(Cow::Owned).collect())
}

/// Returns the arguments in each combination of their spellings: the normal one first. Only arguments that
/// policies read count.
pub(super) fn combinations(arguments: Entries, reads: &Reads) -> Result<Vec<Entries>, Ambiguous> {
    let mut all = vec![arguments];
    let count = all.first().map_or(0, Vec::len);
    for position in 0..count {
        let Some((name, argument)) = all.first().and_then(|first| first.get(position)) else { break };
        if !is_read(name, reads) {
            continue;
        }
        let respelled = respelled(argument)?;
        let Some((normal, others)) = respelled.split_first() else { continue };
        let mut further = Vec::new();
        for combination in &mut all {
            for other in others {
                let mut with = combination.clone();
                if let Some((_, value)) = with.get_mut(position) {
                    value.clone_from(other);
                }
                further.push(with);
            }
            if let Some((_, value)) = combination.get_mut(position) {
                value.clone_from(normal);
            }
        }
        all.extend(further);
        if all.len() > MAX_COMBINATIONS {
            return Err(Ambiguous);
        }
    }
    Ok(all)
}

/// True if a policy reads the argument, by any of its attributes.
fn is_read(name: &str, reads: &Reads) -> bool {
    let attribute = format!("{}{name}", super::bounds::ARGUMENT);
    reads.reads_key(name) || reads.has(&attribute) || reads.has(&format!("{attribute}_text"))
}

/// Returns a value with its texts in their normal spelling, then in their others; empty if each text has one
/// spelling. Two keys that are equal in one spelling make a record that [`values`](super::values) refuses.
fn respelled(value: &Json) -> Result<Vec<Json>, Ambiguous> {
    let mut count = 0;
    let normal = with_texts(value, &mut |text| {
        let Some(spellings) = Spellings::of(text)? else { return Ok(text.to_owned()) };
        count = count.max(spellings.others.len());
        Ok(spellings.normal)
    })?;
    let mut all = Vec::new();
    for number in 0..count {
        all.push(with_texts(value, &mut |text| {
            let spellings = Spellings::of(text)?;
            let other = spellings.map(|mut spellings| {
                let other = (number < spellings.others.len()).then(|| spellings.others.swap_remove(number));
                other.unwrap_or(spellings.normal)
            });
            Ok(other.unwrap_or_else(|| text.to_owned()))
        })?);
    }
    Ok(if count == 0 { Vec::new() } else { [normal].into_iter().chain(all).collect() })
}

/// Returns a value with each text changed, at any depth. Keys are texts too: a tool may take a record of
/// files by their paths.
fn with_texts(
    value: &Json,
    change: &mut impl FnMut(&str) -> Result<String, Ambiguous>,
) -> Result<Json, Ambiguous> {
    Ok(match value {
        Json::Text(text) => Json::Text(change(text)?),
        Json::List(items) => {
            let items: Result<_, _> = items.iter().map(|item| with_texts(item, change)).collect();
            Json::List(items?)
        }
        Json::Object(entries) => {
            let mut changed = Entries::with_capacity(entries.len());
            for (name, entry) in entries {
                changed.push((change(name)?, with_texts(entry, change)?));
            }
            Json::Object(changed)
        }
        Json::Null | Json::Flag(_) | Json::Number(_) => value.clone(),
    })
}

/// Returns the context of a call with these arguments.
pub(super) fn context(subject: &Subject, arguments: &Arguments) -> Result<Context, Unevaluated> {
    let mut context = subject.context.clone();
    context.extend(arguments.flat.clone());
    if let Some(record) = &arguments.record {
        context.insert(super::bounds::ARGUMENTS.to_owned(), record.clone());
    }
    Ok(Context::from_pairs(context)?)
}

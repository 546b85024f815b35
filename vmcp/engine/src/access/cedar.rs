//! Cedar policies at the call seam: puts the items of backends to [`CedarPolicy`].

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use vmcp_access::policy::{Attribute, CedarPolicy, ClaimsKey, FailureKind, Kind, Question, Subject, Verdict};
use vmcp_model::catalog::CatalogTool;
use vmcp_model::definition::Annotations;

use super::identity::Principal;
use super::policy::{AccessRequest, Decision, Explanation, Item, ListedRights, Policy, PolicyId};
use crate::metrics::{Metrics, PolicyFailureLabels, PolicyShadowLabels};

/// Id of the decision about a task, which is that about some call of its tool.
const OF_TOOL: &str = "of-tool";
/// Most bytes of a text in a log line; a longer one is cut.
const MAX_LOGGED_BYTES: usize = 1024;

/// Cedar policies whose failures are logged and counted.
#[derive(Debug)]
pub(crate) struct MeasuredPolicy {
    policy: CedarPolicy,
    failures: Family<PolicyFailureLabels, Counter>,
    shadows: Family<PolicyShadowLabels, Counter>,
}

impl MeasuredPolicy {
    pub(crate) fn new(policy: CedarPolicy, metrics: &Metrics) -> MeasuredPolicy {
        let (failures, shadows) = (metrics.policy_failures.clone(), metrics.policy_shadow_decisions.clone());
        MeasuredPolicy { policy, failures, shadows }
    }

    /// Counts a shadow decision, and logs it where it differs from the decision in force.
    fn note_shadow(&self, principal: &Principal, name: &str, verdict: &Verdict) {
        let Some(shadow) = &verdict.shadow else { return };
        let (name, word) = (shortened(name), |allowed: bool| if allowed { "allow" } else { "deny" });
        let labels = PolicyShadowLabels { enforced: word(verdict.allowed), shadow: word(shadow.allowed) };
        self.shadows.get_or_create(&labels).inc();
        if shadow.allowed != verdict.allowed {
            let (subject, policy) = (principal.identity.subject(), shadow.policy.as_str());
            let reason = shadow.failures.first().map(|failure| shortened(&failure.text));
            let (enforced, would) = (labels.enforced, labels.shadow);
            tracing::info!(target: "vmcp::policy", subject, name, enforced, would, policy, reason, "a policy that is not enforced would decide otherwise");
        }
    }

    /// Logs and counts the failures in a decision. The reason of a denial is a warning: the client reads that
    /// the item is unknown.
    fn note(&self, principal: &Principal, name: &str, verdict: &Verdict) {
        let name = shortened(name);
        for failure in &verdict.failures {
            let kind = failure.kind.word();
            self.failures.get_or_create(&PolicyFailureLabels { kind }).inc();
            let (subject, reason) = (principal.identity.subject(), shortened(&failure.text));
            if failure.kind == FailureKind::Permit {
                tracing::debug!(target: "vmcp::policy", subject, name, kind, reason, "a policy was not evaluated");
            } else {
                let allowed = verdict.allowed;
                tracing::warn!(target: "vmcp::policy", subject, name, kind, reason, allowed, "policies could not judge a call whole");
            }
        }
    }
}

impl Policy for MeasuredPolicy {
    fn decide(&self, request: &AccessRequest<'_>) -> Decision {
        let subject = self.policy.subject(&request.principal.identity);
        if let Item::Task { tool, .. } = request.item {
            // The arguments were judged when the call became the task.
            let allowed = self.policy.could_allow(&subject, &question(Item::Tool(tool), request.backend));
            let policy = PolicyId::new(OF_TOOL);
            return if allowed { Decision::Allow { policy } } else { Decision::Deny { policy } };
        }
        let question = Question { arguments: request.arguments, ..question(request.item, request.backend) };
        let verdict = self.policy.decide(&subject, &question);
        self.note(request.principal, question.name, &verdict);
        self.note_shadow(request.principal, question.name, &verdict);
        let policy = PolicyId::new(verdict.policy);
        if verdict.allowed { Decision::Allow { policy } } else { Decision::Deny { policy } }
    }

    fn explain(&self, request: &AccessRequest<'_>) -> Explanation {
        let subject = self.policy.subject(&request.principal.identity);
        let listed = question(request.item, request.backend);
        let could_allow = self.policy.could_allow(&subject, &listed);
        let verdict = self.policy.decide(&subject, &Question { arguments: request.arguments, ..listed });
        let errors = verdict.failures.into_iter().map(|failure| failure.text).collect();
        let shadow = verdict.shadow.filter(|shadow| shadow.allowed != verdict.allowed);
        let shadow = shadow.map(|shadow| shadow.policy);
        Explanation { allowed: verdict.allowed, policy: verdict.policy, could_allow, errors, shadow }
    }

    fn reads_arguments(&self, request: &AccessRequest<'_>) -> bool {
        let subject = self.policy.subject(&request.principal.identity);
        self.policy.reads_arguments(&subject, &question(request.item, request.backend))
    }

    fn version(&self) -> Arc<str> {
        self.policy.version()
    }

    fn restricts_some(&self) -> bool {
        true
    }

    fn key(&self, principal: &Principal) -> ClaimsKey {
        self.policy.key(&principal.identity)
    }

    fn listed_rights<'a>(&'a self, principal: &Principal) -> Box<dyn ListedRights + 'a> {
        Box::new(ListedByCedar { policy: &self.policy, subject: self.policy.subject(&principal.identity) })
    }
}

/// Returns the beginning of a text for a log line: URIs and keys of arguments are a client's text.
fn shortened(name: &str) -> &str {
    name.get(..name.floor_char_boundary(MAX_LOGGED_BYTES)).unwrap_or(name)
}

/// The items that policies let one client list.
struct ListedByCedar<'a> {
    policy: &'a CedarPolicy,
    subject: Arc<Subject>,
}

impl ListedRights for ListedByCedar<'_> {
    fn could_allow(&self, item: Item<'_>, backend: &str) -> bool {
        self.policy.could_allow(&self.subject, &question(item, backend))
    }

    fn could_know(&self, backend: &str) -> bool {
        // A policy about one tool, or about the hints of tools, says nothing about a tool that it does not
        // know.
        let name = format!("{backend}_");
        let some_tool =
            Question { kind: Kind::Tool, name: &name, backend: Some(backend), ..Question::default() };
        self.could_allow(Item::Backend, backend) || self.policy.could_allow(&self.subject, &some_tool)
    }
}

/// Returns the question about an item.
fn question<'a>(item: Item<'a>, backend: &'a str) -> Question<'a> {
    let is_own = matches!(item, Item::OwnTool(_));
    Question {
        kind: item.kind(),
        name: item.name(backend),
        backend: (!is_own).then_some(backend),
        attributes: item.tool().map(|tool| attributes(tool)).unwrap_or_default(),
        arguments: None,
    }
}

/// Returns the attributes of a tool: its hints, its own name at the backend, the hash of its schema.
fn attributes(tool: &CatalogTool) -> Vec<(&'static str, Attribute<'_>)> {
    let texts = [
        ("original_name", tool.definition.name.as_str().into()),
        ("schema_hash", tool.hash.to_string().into()),
    ];
    let texts = texts.map(|(name, text)| (name, Attribute::Text(text)));
    let hints = hints(&tool.annotations).map(|(name, flag)| (name, Attribute::Flag(flag)));
    hints.chain(texts).collect()
}

/// Returns the hints that a tool has, after overrides.
fn hints(annotations: &Annotations) -> impl Iterator<Item = (&'static str, bool)> {
    let hints = [
        ("readOnlyHint", annotations.read_only_hint),
        ("destructiveHint", annotations.destructive_hint),
        ("idempotentHint", annotations.idempotent_hint),
        ("openWorldHint", annotations.open_world_hint),
    ];
    hints.into_iter().filter_map(|(name, hint)| Some((name, hint?)))
}

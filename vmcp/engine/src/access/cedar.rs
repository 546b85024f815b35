//! Cedar policies at the call seam: puts the items of backends to [`CedarPolicy`].

use std::sync::Arc;

use vmcp_access::policy::{Attribute, CedarPolicy, ClaimsKey, Kind, Question, Subject};
use vmcp_model::definition::Annotations;

use super::identity::Principal;
use super::policy::{AccessRequest, Decision, Explanation, Item, ListedRights, Policy, PolicyId};

/// Id of the decision about a task, which is that about some call of its tool.
const OF_TOOL: &str = "of-tool";

impl Policy for CedarPolicy {
    fn decide(&self, request: &AccessRequest<'_>) -> Decision {
        let subject = self.subject(&request.principal.identity);
        if let Item::Task { tool, .. } = request.item {
            // The arguments were judged when the call became the task.
            let allowed = self.could_allow(&subject, &question(Item::Tool(tool), request.backend));
            let policy = PolicyId::new(OF_TOOL);
            return if allowed { Decision::Allow { policy } } else { Decision::Deny { policy } };
        }
        let question = Question { arguments: request.arguments, ..question(request.item, request.backend) };
        let verdict = CedarPolicy::decide(self, &subject, &question);
        for error in &verdict.errors {
            tracing::debug!(target: "vmcp::policy", name = question.name, error, "a policy was not evaluated");
        }
        let policy = PolicyId::new(verdict.policy);
        if verdict.allowed { Decision::Allow { policy } } else { Decision::Deny { policy } }
    }

    fn explain(&self, request: &AccessRequest<'_>) -> Explanation {
        let subject = self.subject(&request.principal.identity);
        let listed = question(request.item, request.backend);
        let could_allow = self.could_allow(&subject, &listed);
        let verdict =
            CedarPolicy::decide(self, &subject, &Question { arguments: request.arguments, ..listed });
        Explanation { allowed: verdict.allowed, policy: verdict.policy, could_allow, errors: verdict.errors }
    }

    fn version(&self) -> Arc<str> {
        CedarPolicy::version(self)
    }

    fn restricts_some(&self) -> bool {
        true
    }

    fn key(&self, principal: &Principal) -> ClaimsKey {
        CedarPolicy::key(self, &principal.identity)
    }

    fn listed_rights<'a>(&'a self, principal: &Principal) -> Box<dyn ListedRights + 'a> {
        Box::new(ListedByCedar { policy: self, subject: self.subject(&principal.identity) })
    }
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
}

/// Returns the question about an item.
fn question<'a>(item: Item<'a>, backend: &'a str) -> Question<'a> {
    let question = |kind, name| Question { kind, name, backend: Some(backend), ..Question::default() };
    match item {
        Item::Tool(tool) | Item::Task { tool, .. } => {
            let texts = [
                ("original_name", tool.definition.name.as_str().into()),
                ("schema_hash", tool.hash.to_string().into()),
            ];
            let texts = texts.map(|(name, text)| (name, Attribute::Text(text)));
            let hints = hints(&tool.annotations).map(|(name, flag)| (name, Attribute::Flag(flag)));
            Question { attributes: hints.chain(texts).collect(), ..question(Kind::Tool, &tool.name) }
        }
        Item::OwnTool(name) => Question { name, ..Question::default() },
        Item::Prompt(prompt) => question(Kind::Prompt, &prompt.name),
        Item::Resource(uri) => question(Kind::Resource, uri),
        Item::Backend => question(Kind::Backend, backend),
    }
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

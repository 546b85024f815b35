//! [`Policy`]: decides whether a principal may reach a target. Asked at one place, the call seam
//! (`route::call::authorize`), about the tool that will really run.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vmcp_access::policy::{ClaimsKey, Kind};
use vmcp_model::catalog::{CatalogPrompt, CatalogTool};

use super::identity::Principal;

/// One question to a policy: principal, action, resource, context.
#[derive(Debug, Clone, Copy)]
pub struct AccessRequest<'a> {
    /// The caller.
    pub principal: &'a Principal,
    /// The MCP method, e.g. `tools/call`.
    pub action: &'a str,
    /// The backend that the call would reach.
    pub backend: &'a str,
    /// The item of the backend that the call is about.
    pub item: Item<'a>,
    /// The arguments as JSON text, if the call has any.
    pub arguments: Option<&'a str>,
}

/// An item of a backend, in the catalog's spelling.
#[derive(Debug, Clone, Copy)]
pub enum Item<'a> {
    /// A tool, with its annotations and its schema hash.
    Tool(&'a Arc<CatalogTool>),
    /// A tool of vmcp's own, by its dotted name: of no backend.
    OwnTool(&'a str),
    /// A prompt.
    Prompt(&'a CatalogPrompt),
    /// A resource or a resource template, by URI.
    Resource(&'a str),
    /// A task of a backend.
    Task {
        /// The tool whose call became the task: its rights are those of the task.
        tool: &'a Arc<CatalogTool>,
        /// The backend's own id.
        id: &'a str,
    },
    /// The backend as a whole: a method of an extension.
    Backend,
}

impl<'a> Item<'a> {
    /// Returns the tool, if the item is one, or the task of one.
    pub fn tool(self) -> Option<&'a Arc<CatalogTool>> {
        match self {
            Item::Tool(tool) | Item::Task { tool, .. } => Some(tool),
            _ => None,
        }
    }

    /// Returns the kind, as policies name it; a task has that of its tool.
    pub fn kind(self) -> Kind {
        match self {
            Item::Tool(_) | Item::Task { .. } => Kind::Tool,
            Item::OwnTool(name) => Kind::of_own_tool(name),
            Item::Prompt(_) => Kind::Prompt,
            Item::Resource(_) => Kind::Resource,
            Item::Backend => Kind::Backend,
        }
    }

    /// Returns the name, as policies know it: the listed name of a tool or prompt, the URI of a resource, or
    /// the name of `backend`.
    pub fn name(self, backend: &'a str) -> &'a str {
        match self {
            Item::Tool(tool) | Item::Task { tool, .. } => &tool.name,
            Item::Prompt(prompt) => &prompt.name,
            Item::OwnTool(name) | Item::Resource(name) => name,
            Item::Backend => backend,
        }
    }

    /// Returns the backend's own name of a tool or prompt.
    pub fn original_name(self) -> Option<&'a str> {
        match self {
            Item::Tool(tool) | Item::Task { tool, .. } => Some(&tool.definition.name),
            Item::Prompt(prompt) => Some(&prompt.definition.name),
            Item::OwnTool(_) | Item::Resource(_) | Item::Backend => None,
        }
    }
}

/// Names the policy that decided, for audit lines and for operators.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PolicyId(Arc<str>);

impl PolicyId {
    /// Makes the id of a policy.
    pub fn new(id: impl Into<Arc<str>>) -> PolicyId {
        PolicyId(id.into())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The answer of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The call may go on.
    Allow {
        /// The policy that decided.
        policy: PolicyId,
    },
    /// The call ends here. The caller reads the answer for an unknown item; operators read the policy's id.
    Deny {
        /// The policy that decided.
        policy: PolicyId,
    },
}

/// A decision, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// True if the call may go on.
    pub allowed: bool,
    /// The policy that decided.
    pub policy: String,
    /// True if some call of the item could be allowed, so that lists show it.
    pub could_allow: bool,
    /// Policies that were not evaluated, with the reason.
    pub errors: Vec<String>,
    /// A policy that is only tried out, and would decide otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<String>,
}

/// Decides about calls. Runs in the request path: must not block.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Decides about one call.
    fn decide(&self, request: &AccessRequest<'_>) -> Decision;

    /// Explains the decision about one call, to operators.
    fn explain(&self, request: &AccessRequest<'_>) -> Explanation {
        let (allowed, policy) = match self.decide(request) {
            Decision::Allow { policy } => (true, policy),
            Decision::Deny { policy } => (false, policy),
        };
        let rights = self.listed_rights(request.principal);
        let could_allow = rights.could_allow(request.item, request.backend);
        Explanation {
            allowed,
            policy: policy.as_str().to_owned(),
            could_allow,
            errors: Vec::new(),
            shadow: None,
        }
    }

    /// True if the arguments of a call may matter to the decision about it: they must fit the tool's schema,
    /// so that the policy judges values of the types that the tool takes.
    fn reads_arguments(&self, _: &AccessRequest<'_>) -> bool {
        false
    }

    /// Returns the digest of the policies, for audit events; empty without any.
    fn version(&self) -> Arc<str> {
        Arc::default()
    }

    /// True if clients may have different rights.
    fn restricts_some(&self) -> bool {
        false
    }

    /// True if something may be denied to this client; all others share one view.
    fn restricts(&self, _: &Principal) -> bool {
        self.restricts_some()
    }

    /// Returns the key of a client's rights: clients with the same key have the same.
    fn key(&self, _: &Principal) -> ClaimsKey {
        ClaimsKey::default()
    }

    /// Returns the rights that lists show.
    fn listed_rights<'a>(&'a self, _: &Principal) -> Box<dyn ListedRights + 'a> {
        Box::new(Everything)
    }
}

/// Rights of one identity before a call is made, with arguments that are not known yet.
pub trait ListedRights {
    /// True if some call of the item could be allowed: lists show it.
    fn could_allow(&self, item: Item<'_>, backend: &str) -> bool;

    /// True if a backend whose definitions are unknown may be known: the backend as a whole could be used, or
    /// a tool of it, whatever the tool is.
    fn could_know(&self, backend: &str) -> bool {
        self.could_allow(Item::Backend, backend)
    }
}

/// Rights without a restriction.
struct Everything;

impl ListedRights for Everything {
    fn could_allow(&self, _: Item<'_>, _: &str) -> bool {
        true
    }
}

/// Allows every call: the policy while no other is configured.
#[derive(Debug)]
pub struct AllowAll(PolicyId);

impl Default for AllowAll {
    fn default() -> AllowAll {
        AllowAll(PolicyId::new("allow-all"))
    }
}

impl Policy for AllowAll {
    fn decide(&self, _: &AccessRequest<'_>) -> Decision {
        Decision::Allow { policy: self.0.clone() }
    }
}

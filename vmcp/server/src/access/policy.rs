//! [`Policy`]: decides whether a principal may reach a target. Asked at one place, the call seam
//! (`route::call::authorize`), about the tool that will really run.

use std::fmt;
use std::sync::Arc;

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
    /// A prompt.
    Prompt(&'a CatalogPrompt),
    /// A resource or a resource template, by URI.
    Resource(&'a str),
    /// A task, by id.
    Task(&'a str),
    /// The backend as a whole: its list of tasks, a method of an extension.
    Backend,
}

impl<'a> Item<'a> {
    /// Returns the tool, if the item is one.
    pub fn tool(self) -> Option<&'a Arc<CatalogTool>> {
        match self {
            Item::Tool(tool) => Some(tool),
            _ => None,
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

/// Decides about calls. Runs in the request path: must not block.
pub trait Policy: fmt::Debug + Send + Sync {
    /// Decides about one call.
    fn decide(&self, request: &AccessRequest<'_>) -> Decision;
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

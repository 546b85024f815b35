//! [`CedarPolicy`]: decides by Cedar policies who may call which tool, get which prompt, read which resource.
//!
//! Entities and attributes are ToolHive's, so that its policies keep their meaning, and a backend is an
//! entity too:
//!
//! ```text
//! principal  Client::"<subject>" in THVGroup::"<group>"; claim_<name>
//! action     Action::"call_tool" | "get_prompt" | "read_resource" | "use_backend"
//! resource   Tool::"<listed name>" in MCP::"<server>", Backend::"<backend>"; name, hints, arg_<name>
//! context    claim_<name>, arg_<name>, arguments
//! ```
//!
//! With policies, all is denied that none permits; a `forbid` wins over every `permit`. A policy whose
//! evaluation fails, by an attribute that is not there, says nothing.
//!
//! `parsed` reads the texts, `question` holds what is asked about, `subject` the client with the policies
//! that may concern it, `bounds` the policies for lists, `values` and `strict_json` the types of arguments
//! and claims.

mod bounds;
mod groups;
mod parsed;
mod question;
mod strict_json;
mod subject;
mod values;

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;

use cedar_policy::{Authorizer, Context, Entities, Policy, PolicySet, Request, Response};
use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use vmcp_config::Authz;

use self::parsed::ParsedPolicies;
pub use self::parsed::findings;
use crate::identity::Identity;
pub use question::{Attribute, Kind, Question};
pub use subject::{ClaimsKey, Subject};

/// Clients whose prepared policies are cached (LRU).
const MAX_SUBJECTS: usize = 4096;
/// Claims that differ in each token of one client, and do not count unless a policy reads them: else each
/// renewed token would be a client to prepare for.
const VOLATILE_CLAIMS: [&str; 10] =
    ["exp", "iat", "nbf", "jti", "auth_time", "at_hash", "c_hash", "nonce", "sid", "session_state"];
/// Id of the decision that denies since no policy permits.
pub const DEFAULT_DENY: &str = "default-deny";
/// Id of the decision that allows an own tool of this server: the rights of its targets are asked about.
pub const OWN_TOOLS: &str = "own-tools";

/// Reason of a failed evaluation, which counts as a denial.
type Unevaluated = Box<dyn Error + Send + Sync>;

/// Policies in force. Cheap to ask; immutable.
#[derive(Debug)]
pub struct CedarPolicy {
    authz: Arc<Authz>,
    parsed: ParsedPolicies,
    version: Arc<str>,
    /// The policies by action, each as it decides about calls and as it decides about lists.
    policies: Vec<PreparedPolicy>,
    /// Volatile claims that no policy reads.
    ignored_claims: Vec<&'static str>,
    reads_arguments: bool,
    authorizer: Authorizer,
    subjects: Mutex<LruCache<ClaimsKey, Arc<Subject>>>,
}

/// A policy, and its bound for lists.
#[derive(Debug)]
struct PreparedPolicy {
    exact: Policy,
    for_lists: Policy,
    depends_on_arguments: bool,
}

/// A decision, and the policy that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// True if the client may.
    pub allowed: bool,
    /// The policy: its `@id`, or `policy0` for the first; [`DEFAULT_DENY`] if no policy permits.
    pub policy: String,
    /// Policies whose evaluation failed, with the reason; they said nothing.
    pub errors: Vec<String>,
}

impl CedarPolicy {
    /// Prepares policies; `None` if they have a mistake, which the check of a configuration refuses.
    pub fn new(authz: &Arc<Authz>) -> Option<CedarPolicy> {
        let parsed = ParsedPolicies::parse(authz, &mut Vec::new())?;
        let policies = parsed.policies.policies();
        let policies: Vec<_> = policies
            .map(|policy| PreparedPolicy {
                exact: policy.clone(),
                for_lists: bounds::for_lists(policy),
                depends_on_arguments: bounds::depends_on_arguments(policy),
            })
            .collect();
        let is_read = |claim: &str| {
            let attribute = format!("claim_{claim}");
            policies.iter().any(|policy| bounds::reads(&policy.exact, &attribute))
        };
        Some(CedarPolicy {
            ignored_claims: VOLATILE_CLAIMS.into_iter().filter(|claim| !is_read(claim)).collect(),
            reads_arguments: policies.iter().any(|policy| bounds::reads_arguments(&policy.exact)),
            policies,
            parsed,
            version: authz.version.as_str().into(),
            authz: Arc::clone(authz),
            authorizer: Authorizer::new(),
            subjects: Mutex::new(LruCache::new(NonZeroUsize::new(MAX_SUBJECTS).unwrap_or(NonZeroUsize::MIN))),
        })
    }

    /// Returns the digest of the policies.
    pub fn version(&self) -> Arc<str> {
        Arc::clone(&self.version)
    }

    /// Returns the key of a client's rights: two clients with the same key have the same.
    pub fn key(&self, identity: &Identity) -> ClaimsKey {
        let Some(known) = identity.as_known() else { return ClaimsKey::default() };
        let mut hash = Sha256::new();
        hash.update(identity.digest());
        for (name, claim) in known.claims() {
            if !self.ignored_claims.contains(&name.as_str()) {
                hash.update((name.len() as u64).to_le_bytes());
                hash.update(name);
                let claim = claim.to_string();
                hash.update((claim.len() as u64).to_le_bytes());
                hash.update(claim);
            }
        }
        ClaimsKey(hash.finalize().into())
    }

    /// Returns a client with the policies that may concern it.
    pub fn subject(&self, identity: &Identity) -> Arc<Subject> {
        let key = self.key(identity);
        if let Some(subject) = self.subjects.lock().get(&key) {
            return Arc::clone(subject);
        }
        // Prepared without the lock: of two that prepare at once, the later is kept.
        let subject = Arc::new(Subject::new(&self.authz, &self.parsed, &self.policies, identity));
        self.subjects.lock().put(key, Arc::clone(&subject));
        subject
    }

    /// Decides about one call.
    pub fn decide(&self, subject: &Subject, question: &Question<'_>) -> Verdict {
        let policies = subject.exact(question.kind);
        let Some(arguments) = question.parsed_arguments() else {
            let errors = vec!["the arguments are no object, or name a key twice".to_owned()];
            return Verdict { allowed: false, policy: DEFAULT_DENY.to_owned(), errors };
        };
        // Asked with each search: where arguments cannot matter, the answer is that of the first time.
        if question.is_own_tool() && !subject.tools_depend_on_arguments {
            let nothing = values::Attributes::new();
            let ask = || self.ask(subject, policies, question, &subject.context, &nothing);
            return subject.own_verdict(question.name, ask);
        }
        let mut context = subject.context.clone();
        let flat = values::arguments(&arguments);
        context.extend(flat.clone());
        if self.reads_arguments
            && let Some(record) = values::record(&arguments)
        {
            context.insert(bounds::ARGUMENTS.to_owned(), record);
        }
        self.ask(subject, policies, question, &context, &flat)
    }

    /// True if some call of this item could be allowed: lists show it.
    pub fn could_allow(&self, subject: &Subject, question: &Question<'_>) -> bool {
        let policies = subject.for_lists(question.kind);
        if policies.is_empty() && !question.is_own_tool() {
            return false;
        }
        let arguments = values::Attributes::new();
        self.ask(subject, policies, question, &subject.context, &arguments).allowed
    }

    /// Asks about each spelling of the item: one `forbid` denies, one `permit` allows.
    fn ask(
        &self,
        subject: &Subject,
        policies: &PolicySet,
        question: &Question<'_>,
        context: &values::Attributes,
        arguments: &values::Attributes,
    ) -> Verdict {
        let mut verdict = Verdict {
            allowed: question.is_own_tool(),
            policy: if question.is_own_tool() { OWN_TOOLS } else { DEFAULT_DENY }.to_owned(),
            errors: Vec::new(),
        };
        for id in question.ids() {
            let response = match self.respond(subject, policies, question, &id, context.clone(), arguments) {
                Ok(response) => response,
                Err(error) => {
                    let policy = DEFAULT_DENY.to_owned();
                    return Verdict { allowed: false, policy, errors: vec![error.to_string()] };
                }
            };
            verdict.errors.extend(response.diagnostics().errors().map(ToString::to_string));
            let reason = response.diagnostics().reason().map(ToString::to_string).min();
            let allowed = response.decision() == cedar_policy::Decision::Allow;
            match reason {
                Some(policy) if !allowed => return Verdict { allowed, policy, ..verdict },
                Some(policy) => (verdict.allowed, verdict.policy) = (true, policy),
                None => {}
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
        context: values::Attributes,
        arguments: &values::Attributes,
    ) -> Result<Response, Unevaluated> {
        let resource = question.entity(&self.authz.server_name, id, arguments)?;
        let context = Context::from_pairs(context)?;
        let action = question.kind.action()?;
        let request = Request::new(subject.uid.clone(), action, resource.uid(), context, None)?;
        let entities: Entities = subject.entities_with(resource)?;
        Ok(self.authorizer.is_authorized(&request, policies, &entities))
    }
}

#[cfg(test)]
mod tests;

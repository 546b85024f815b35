//! [`CedarPolicy`]: decides by Cedar policies who may call which tool, get which prompt, read which resource.
//!
//! Entities and attributes are ToolHive's, so that its policies keep their meaning, and a backend is an
//! entity too:
//!
//! ```text
//! principal  Client::"<subject>" in THVGroup::"<group>", Issuer::"<issuer>"; claim_<name>, scopes
//! action     Action::"call_tool" | "get_prompt" | "read_resource" | "use_backend" | "admin"
//! resource   Tool::"<listed name>" in MCP::"<server>", Backend::"<backend>"; name, hints, arg_<name>
//! context    claim_<name>, scopes, arg_<name>, arguments; numbers also with _long and _text
//! ```
//!
//! With policies, all is denied that none permits; a `forbid` wins over every `permit`. A `permit` whose
//! evaluation fails permits nothing, a `forbid` whose evaluation fails denies. Arguments and claims that a
//! policy reads reach it whole, or the call is denied.
//!
//! `question` is the item, `subject` the client with the policies that may concern it, `evaluation` one
//! decision, `bounds` the policies for lists. `values` converts arguments and claims, `reads` finds the
//! arguments and claims that policies read, `letter_case` finds arguments that backends may take for these,
//! `spellings` the normal forms of URIs and paths. [`cases`] are
//! tests of policies by their authors. A [`decision_point`] is asked about what policies permit.

mod bounds;
pub mod cases;
pub mod decision_point;
mod evaluation;
mod letter_case;
mod parsed;
mod principal;
mod question;
mod reads;
mod spellings;
mod subject;
mod values;

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cedar_policy::{Authorizer, Policy};
use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use vmcp_config::Authz;

use crate::exact_json::Entries;
use crate::identity::{Identity, KnownIdentity};
use evaluation::{EvaluationMode, Facts, SoughtAnswer};
use parsed::ParsedPolicies;
pub use parsed::findings;
pub use question::{Attribute, Kind, Question};
use reads::Reads;
pub use subject::{ClaimsKey, Subject};

/// Clients whose prepared policies are cached (LRU).
const MAX_SUBJECTS: usize = 4096;
/// Claims that differ in each token of one client, and do not count unless a policy reads them: else each
/// renewed token would be a client to prepare for.
const VOLATILE_CLAIMS: [&str; 10] =
    ["exp", "iat", "nbf", "jti", "auth_time", "at_hash", "c_hash", "nonce", "sid", "session_state"];
/// Id of the decision that denies since the client, the item or the arguments cannot be shown to policies.
pub const UNREADABLE: &str = "unreadable";
/// Id of the decision that allows since `enforce` is `false`.
pub const NOT_ENFORCED: &str = "not-enforced";
/// Policies that were made in this process.
static POLICIES: AtomicU64 = AtomicU64::new(1);
/// Id of the decision that denies since no policy permits.
pub const DEFAULT_DENY: &str = "default-deny";
/// Id of the decision that allows an own tool of this server: the rights of its targets are asked about.
pub const OWN_TOOLS: &str = "own-tools";

/// Reason of a failed evaluation, which counts as a denial.
type Unevaluated = Box<dyn Error + Send + Sync>;

/// Policies in force. Cheap to ask; immutable.
#[derive(Debug)]
pub struct CedarPolicy {
    rules: ParsedPolicies,
    version: Arc<str>,
    /// The policies by action, each as it decides about calls and as it decides about lists.
    policies: Vec<PreparedPolicy>,
    /// Arguments and claims that some policy reads.
    reads: Reads,
    /// Volatile claims that no policy reads.
    ignored_claims: Vec<&'static str>,
    /// Number of these policies within the process.
    number: u64,
    authorizer: Authorizer,
    subjects: Mutex<LruCache<ClaimsKey, Arc<Subject>>>,
}

/// A policy, and its bound for lists.
#[derive(Debug)]
struct PreparedPolicy {
    exact: Policy,
    for_lists: Policy,
    reads: Reads,
    /// False for a policy that is only tried out: `@enforce("false")`, or `enforce: false` for all.
    enforced: bool,
}

/// A decision, and the policy that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// True if the client may.
    pub allowed: bool,
    /// The policy: its `@id`, or `policy0` for the first; [`DEFAULT_DENY`] if no policy permits.
    pub policy: String,
    /// Policies whose evaluation failed, and values that policies could not read.
    pub failures: Vec<Failure>,
    /// The decision if all policies were enforced; `None` if all are.
    pub shadow: Option<ShadowVerdict>,
}

/// A decision that has no effect, because a policy that took part is only tried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowVerdict {
    /// True if the client could.
    pub allowed: bool,
    /// The policy that would decide.
    pub policy: String,
    /// Reasons of failures.
    pub failures: Vec<Failure>,
}

/// A part of a decision that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// The reason, for operators. Names attributes and policies, never values of arguments.
    pub text: String,
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// A `permit` was not evaluated; it permits nothing.
    Permit,
    /// A `forbid` was not evaluated; it denies, unless `onPolicyError` is `warn`.
    Forbid,
    /// Policies cannot read the arguments; the call is denied.
    Arguments,
    /// Policies cannot read a claim; the call is denied.
    Claims,
    /// Policies name groups, and the client's cannot be read; the call is denied.
    Groups,
    /// The URI has no normal form; the call is denied.
    Uri,
    /// The configured entities and the client's, or the item's, make a circle; the call is denied.
    Entities,
}

impl FailureKind {
    /// Returns the word for metrics and logs.
    pub fn word(self) -> &'static str {
        match self {
            FailureKind::Permit => "permit",
            FailureKind::Forbid => "forbid",
            FailureKind::Arguments => "arguments",
            FailureKind::Claims => "claims",
            FailureKind::Groups => "groups",
            FailureKind::Uri => "uri",
            FailureKind::Entities => "entities",
        }
    }
}

impl Verdict {
    /// Denies for a failure.
    fn failed(kind: FailureKind, text: impl Into<String>) -> Verdict {
        let failures = vec![Failure { kind, text: text.into() }];
        Verdict { allowed: false, policy: UNREADABLE.to_owned(), failures, shadow: None }
    }
}

impl CedarPolicy {
    /// Prepares policies; `None` if one has a mistake, which [`findings`] tells.
    pub fn new(authz: &Arc<Authz>) -> Option<CedarPolicy> {
        let rules = ParsedPolicies::parse(authz, &mut Vec::new())?;
        let policies = rules.policies.policies();
        let policies: Vec<_> = policies
            .map(|policy| PreparedPolicy {
                exact: policy.clone(),
                for_lists: bounds::for_lists(policy),
                reads: Reads::of(policy),
                enforced: authz.enforce && policy.annotation("enforce") != Some("false"),
            })
            .collect();
        let mut reads = Reads::default();
        for policy in &policies {
            reads.extend(&policy.reads);
        }
        let is_read = |claim: &str| {
            ["", "_long", "_text", "_present"]
                .iter()
                .any(|of| reads.has(&format!("{}{claim}{of}", reads::CLAIM)))
        };
        Some(CedarPolicy {
            ignored_claims: VOLATILE_CLAIMS.into_iter().filter(|claim| !is_read(claim)).collect(),
            policies,
            reads,
            rules,
            version: authz.version.as_str().into(),
            number: POLICIES.fetch_add(1, Ordering::Relaxed),
            authorizer: Authorizer::new(),
            subjects: Mutex::new(LruCache::sparse(
                NonZeroUsize::new(MAX_SUBJECTS).unwrap_or(NonZeroUsize::MIN),
            )),
        })
    }

    /// Returns the digest of the policies.
    pub fn version(&self) -> Arc<str> {
        Arc::clone(&self.version)
    }

    /// Returns the key of a client's rights: two clients with the same key have the same.
    pub fn key(&self, identity: &Identity) -> ClaimsKey {
        let Some(known) = identity.as_known() else { return ClaimsKey::default() };
        ClaimsKey(known.rights(self.number, || self.digest(identity, known)))
    }

    /// Digest of a client's identity and the claims that count.
    fn digest(&self, identity: &Identity, known: &KnownIdentity) -> [u8; 32] {
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
        hash.finalize().into()
    }

    /// Returns a client with the policies that may concern it.
    pub fn subject(&self, identity: &Identity) -> Arc<Subject> {
        let key = self.key(identity);
        if let Some(subject) = self.subjects.lock().get(&key) {
            return Arc::clone(subject);
        }
        // Prepared without the lock: of two that prepare at once, the later is kept.
        let subject = Arc::new(Subject::new(&self.rules, &self.policies, &self.reads, identity));
        self.subjects.lock().put(key, Arc::clone(&subject));
        subject
    }

    /// True if a policy that may decide about the item reads arguments.
    pub fn reads_arguments(&self, subject: &Subject, question: &Question<'_>) -> bool {
        subject.reads(question, &self.rules, false).reads_arguments()
    }

    /// Decides about one call. Policies that are only tried out take part in the shadow decision alone.
    pub fn decide(&self, subject: &Subject, question: &Question<'_>) -> Verdict {
        let enforced = if self.rules.settings.enforce {
            self.decide_by(subject, question, false)
        } else {
            let policy = NOT_ENFORCED.to_owned();
            Verdict { allowed: true, policy, failures: Vec::new(), shadow: None }
        };
        if !subject.has_shadow(question.kind) {
            return enforced;
        }
        let Verdict { allowed, policy, failures, .. } = self.decide_by(subject, question, true);
        Verdict { shadow: Some(ShadowVerdict { allowed, policy, failures }), ..enforced }
    }

    /// Decides by the enforced policies, or by all. A `forbid` also applies to a client by the bare names
    /// that its own source gives it, while a `permit` needs the names that tell it from clients of other
    /// sources.
    fn decide_by(&self, subject: &Subject, question: &Question<'_>, all: bool) -> Verdict {
        let verdict =
            self.decide_as(subject, question, EvaluationMode { all, wanted: SoughtAnswer::Decision });
        match subject.bare.as_deref().filter(|_| verdict.allowed) {
            None => verdict,
            Some(bare) => {
                let objection =
                    self.decide_as(bare, question, EvaluationMode { all, wanted: SoughtAnswer::Objection });
                if objection.allowed { verdict } else { objection }
            }
        }
    }

    fn decide_as(&self, subject: &Subject, question: &Question<'_>, mode: EvaluationMode) -> Verdict {
        let Some(arguments) = question.parsed_arguments() else {
            return Verdict::failed(
                FailureKind::Arguments,
                "the arguments are no object, or name a key twice",
            );
        };
        if let Some((kind, text)) = subject.fault(question, &self.rules, mode.all) {
            return Verdict::failed(kind, text);
        }
        let reads = subject.reads(question, &self.rules, mode.all);
        // Asked with each search: where arguments cannot matter, the answer is that of the first time.
        if question.is_own_tool() && !reads.reads_arguments() {
            let nothing = values::Attributes::new();
            let facts = Facts { context: &subject.list_context, arguments: &nothing };
            let policies = subject.exact(question.kind, mode.all);
            let ask = || self.ask(subject, policies, question, facts, mode.wanted);
            return subject.own_verdict(question.name, mode.all, ask);
        }
        self.decide_spellings(subject, question, arguments, (&reads, mode))
    }

    /// Decides about the normal spelling of item and arguments; further spellings may be forbidden.
    fn decide_spellings(
        &self,
        subject: &Subject,
        question: &Question<'_>,
        arguments: Entries,
        (reads, mode): (&Reads, EvaluationMode),
    ) -> Verdict {
        let Ok(names) = evaluation::names(question) else {
            return Verdict::failed(FailureKind::Uri, "the URI has no normal form, or leaves its root");
        };
        if let Err(unreadable) = letter_case::check(&arguments, reads) {
            return Verdict::failed(FailureKind::Arguments, unreadable.to_string());
        }
        let Ok(combinations) = evaluation::combinations(arguments, reads) else {
            let text = "an argument is a path that servers may resolve in different ways";
            return Verdict::failed(FailureKind::Arguments, text);
        };
        let policies = subject.exact(question.kind, mode.all);
        let mut decided: Option<Verdict> = None;
        for arguments in &combinations {
            let arguments = match values::arguments(arguments, reads) {
                Ok(arguments) => arguments,
                Err(unreadable) => return Verdict::failed(FailureKind::Arguments, unreadable.to_string()),
            };
            let context = match evaluation::context(subject, &arguments) {
                Ok(context) => context,
                Err(error) => return Verdict::failed(FailureKind::Arguments, error.to_string()),
            };
            let facts = Facts { context: &context, arguments: &arguments.flat };
            for name in &names {
                let wanted = if decided.is_none() { mode.wanted } else { SoughtAnswer::Objection };
                let verdict = self.ask(subject, policies, &question.spelled(name), facts, wanted);
                if !verdict.allowed {
                    return verdict;
                }
                decided.get_or_insert(verdict);
            }
        }
        decided.unwrap_or_else(|| Verdict::failed(FailureKind::Uri, "the item has no name"))
    }

    /// True if some call of this item could be allowed: lists show it.
    pub fn could_allow(&self, subject: &Subject, question: &Question<'_>) -> bool {
        let bare = || subject.bare.as_deref();
        !self.rules.settings.enforce
            || (self.could_allow_as(subject, question, SoughtAnswer::Decision)
                && bare().is_none_or(|bare| self.could_allow_as(bare, question, SoughtAnswer::Objection)))
    }

    fn could_allow_as(&self, subject: &Subject, question: &Question<'_>, first: SoughtAnswer) -> bool {
        let policies = subject.for_lists(question.kind);
        if policies.is_empty() {
            return question.is_own_tool() || first == SoughtAnswer::Objection;
        }
        if subject.fault(question, &self.rules, false).is_some() {
            return false;
        }
        let arguments = values::Attributes::new();
        let facts = Facts { context: &subject.list_context, arguments: &arguments };
        let Ok(names) = evaluation::names(question) else { return false };
        names.iter().enumerate().all(|(number, name)| {
            let wanted = if number == 0 { first } else { SoughtAnswer::Objection };
            self.ask(subject, policies, &question.spelled(name), facts, wanted).allowed
        })
    }
}

#[cfg(test)]
mod tests;

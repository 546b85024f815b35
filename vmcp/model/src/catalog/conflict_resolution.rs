//! Conflict resolution: gives every tool and prompt a name of its own by the strategies prefix, priority,
//! manual and passthrough.
//!
//! The outcome depends on the set of claims only, not on their order, and no name ever moves silently from
//! one backend to another: if two backends want the same generated name, neither keeps it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::definition::DefinitionKind;
use crate::issue::{Issue, IssueReason};
use crate::names::{self, Identity};
use vmcp_config::rules::{Aggregation, NameLength, PrefixFormat, Strategy};

/// Definition that wants a name.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    /// Backend that offers it.
    pub backend: &'a Arc<str>,
    /// The backend's name for it, unique within the backend.
    pub original: &'a str,
    /// Name after overrides.
    pub wanted: &'a str,
    /// True if clients will see it. A hidden definition never takes a name from a listed one.
    pub listed: bool,
}

impl Claim<'_> {
    fn identity(&self) -> Identity<'_> {
        Identity { backend: self.backend, original: self.original }
    }
}

/// Returns one name per claim, in the order of the claims; `None` for a definition that is left out, with an
/// issue that has the reason. Claims come sorted by backend and original name, and are all of one `kind`.
pub(crate) fn resolve(
    claims: &[Claim<'_>],
    kind: DefinitionKind,
    rules: &Aggregation,
    issues: &mut Vec<Issue>,
) -> Vec<Option<String>> {
    let (strategy, longest) = (&rules.strategy, rules.name_length);
    let mut resolver = Resolver { claims, kind, longest, drafts: Vec::with_capacity(claims.len()), issues };
    resolver.first_drafts(strategy);
    resolver.leave_out_reserved();
    if !matches!(strategy, Strategy::Prefix { .. }) {
        resolver.settle_conflicts(strategy);
        resolver.leave_out_reserved();
    }
    resolver.make_unique();
    resolver.drafts.into_iter().map(|draft| draft.map(|draft| draft.name)).collect()
}

/// Name while it is being resolved.
struct Draft {
    name: String,
    /// Text that the name is made from, before it was made legal.
    text: String,
}

struct Resolver<'a> {
    claims: &'a [Claim<'a>],
    kind: DefinitionKind,
    /// Longest name that is generated.
    longest: NameLength,
    /// One draft per claim; `None` once the definition is left out.
    drafts: Vec<Option<Draft>>,
    issues: &'a mut Vec<Issue>,
}

impl Resolver<'_> {
    fn first_drafts(&mut self, strategy: &Strategy) {
        for claim in self.claims {
            let draft = match strategy {
                Strategy::Prefix { format } => prefixed(claim, format, self.longest),
                Strategy::Priority { .. } | Strategy::Manual => {
                    legal(claim, claim.wanted.to_owned(), self.longest)
                }
                Strategy::Passthrough => {
                    Draft { name: claim.wanted.to_owned(), text: claim.wanted.to_owned() }
                }
            };
            self.drafts.push(Some(draft));
        }
    }

    /// Leaves out tools whose name is reserved. Prompts have no reserved names, because vmcp has no prompts
    /// of its own.
    fn leave_out_reserved(&mut self) {
        if self.kind != DefinitionKind::Tool {
            return;
        }
        for at in 0..self.drafts.len() {
            let Some(Some(draft)) = self.drafts.get(at) else { continue };
            let Some(name) = [&draft.text, &draft.name].into_iter().find(|name| names::is_reserved(name))
            else {
                continue;
            };
            let message = format!(
                "it would be listed as {name}, which is reserved for this server; \
                 it is left out until an override gives it another name"
            );
            self.leave_out(at, IssueReason::ReservedToolName, &message);
        }
    }

    /// Settles the clashes of bare names that several backends want.
    fn settle_conflicts(&mut self, strategy: &Strategy) {
        let default_format = PrefixFormat::default();
        let (order, format) = match strategy {
            Strategy::Priority { order, format } => (order.as_slice(), format),
            Strategy::Prefix { .. } | Strategy::Manual | Strategy::Passthrough => (&[][..], &default_format),
        };
        for members in self.clashes() {
            let (rivals, hidden) = self.rivals(members);
            for at in hidden {
                self.prefix(at, format);
            }
            if self.backends(&rivals).len() < 2 {
                continue;
            }
            let rank = |claim: &Claim<'_>| order.iter().position(|backend| backend == claim.backend);
            let best = rivals.iter().filter_map(|&at| rank(self.claims.get(at)?)).min();
            let who = self.describe(&rivals);
            for at in rivals {
                let Some(claim) = self.claims.get(at) else { continue };
                let own = rank(claim);
                if matches!(strategy, Strategy::Manual) && claim.listed {
                    let message = format!(
                        "the name is wanted by {who}; all are left out until overrides or filters leave one of them"
                    );
                    self.leave_out(at, IssueReason::UnresolvedConflict, &message);
                } else if best.is_none() || own.is_none() {
                    // The order names no rival at all, or not this one.
                    self.prefix(at, format);
                    let message =
                        format!("the name is wanted by {who}; this one is listed with its backend's prefix");
                    self.report(at, IssueReason::NamePrefixed, &message);
                } else if own != best {
                    let message =
                        format!("the name is wanted by {who}; the priority order gives it to another");
                    self.leave_out(at, IssueReason::Shadowed, &message);
                }
            }
        }
    }

    /// Adds hashes to generated names that are equal by accident: `a` + `b_c` and `a_b` + `c`, or `x.y` and
    /// `x/y` made legal.
    fn make_unique(&mut self) {
        // A hostile backend can offer a name that ends in another tool's hash; then a longer hash tells them
        // apart.
        for digits in [8, 16, 32] {
            let clashes = self.clashes();
            if clashes.is_empty() {
                return;
            }
            for members in clashes {
                let who = self.describe(&members);
                let keeper = self.keeper(&members);
                for at in members.into_iter().filter(|at| Some(*at) != keeper) {
                    let Some(claim) = self.claims.get(at) else { continue };
                    let Some(Some(draft)) = self.drafts.get_mut(at) else { continue };
                    let before = std::mem::replace(
                        &mut draft.name,
                        names::hashed(&draft.text, &claim.identity(), self.longest, digits),
                    );
                    let message = format!("{before} would stand for {who}; this one is named {}", draft.name);
                    self.report(at, IssueReason::NameCollision, &message);
                }
            }
        }
        for at in self.clashes().into_iter().flatten() {
            self.leave_out(at, IssueReason::NameCollision, "no free name is left for it; override its name");
        }
    }

    /// Returns the member of a clash that keeps the name: the only listed member or, within one backend, the
    /// only member whose name is not generated. A clash of several backends has no keeper, so that a tool
    /// never takes over a name that clients know as another backend's.
    fn keeper(&self, members: &[usize]) -> Option<usize> {
        let (rivals, _) = self.rivals(members.to_vec());
        if let [only] = rivals.as_slice() {
            return Some(*only);
        }
        if self.backends(&rivals).len() > 1 {
            return None;
        }
        let own =
            |at: &usize| self.drafts.get(*at).and_then(Option::as_ref).is_some_and(|d| d.name == d.text);
        let mut with_own_name = rivals.into_iter().filter(own);
        with_own_name.next().filter(|_| with_own_name.next().is_none())
    }

    /// Returns the groups of drafts with the same name, ordered by that name.
    fn clashes(&self) -> Vec<Vec<usize>> {
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::with_capacity(self.drafts.len());
        for (at, draft) in self.drafts.iter().enumerate() {
            if let Some(draft) = draft {
                by_name.entry(&draft.name).or_default().push(at);
            }
        }
        let mut clashes: Vec<_> = by_name.into_iter().filter(|(_, members)| members.len() > 1).collect();
        clashes.sort_unstable();
        clashes.into_iter().map(|(_, members)| members).collect()
    }

    /// Splits the members of a clash into the rivals (the listed ones, or all if none is listed) and the
    /// rest.
    fn rivals(&self, members: Vec<usize>) -> (Vec<usize>, Vec<usize>) {
        let (listed, hidden): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|at| self.claims.get(*at).is_some_and(|claim| claim.listed));
        if listed.is_empty() { (hidden, listed) } else { (listed, hidden) }
    }

    fn backends(&self, members: &[usize]) -> BTreeSet<&str> {
        members.iter().filter_map(|at| self.claims.get(*at)).map(|claim| &**claim.backend).collect()
    }

    /// Formats members for a message: `a/search, b/search and 3 more`.
    fn describe(&self, members: &[usize]) -> String {
        const MAX_SHOWN: usize = 4;
        let claims = members.iter().filter_map(|at| self.claims.get(*at)).take(MAX_SHOWN);
        let shown: Vec<_> = claims.map(|claim| format!("{}/{}", claim.backend, claim.original)).collect();
        let shown = shown.join(", ");
        match members.len().saturating_sub(MAX_SHOWN) {
            0 => shown,
            more => format!("{shown} and {more} more"),
        }
    }

    fn prefix(&mut self, at: usize, format: &PrefixFormat) {
        if let (Some(claim), Some(draft)) = (self.claims.get(at), self.drafts.get_mut(at)) {
            *draft = Some(prefixed(claim, format, self.longest));
        }
    }

    fn leave_out(&mut self, at: usize, reason: IssueReason, message: &str) {
        if let Some(draft) = self.drafts.get_mut(at) {
            *draft = None;
        }
        self.report(at, reason, message);
    }

    fn report(&mut self, at: usize, reason: IssueReason, message: &str) {
        if let Some(claim) = self.claims.get(at) {
            self.issues.push(Issue::new(reason, claim.backend, self.kind, claim.original, message));
        }
    }
}

fn prefixed(claim: &Claim<'_>, format: &PrefixFormat, longest: NameLength) -> Draft {
    legal(claim, format.prefix(claim.backend) + claim.wanted, longest)
}

fn legal(claim: &Claim<'_>, text: String, longest: NameLength) -> Draft {
    Draft { name: names::legal(&text, &claim.identity(), longest), text }
}

#[cfg(test)]
mod tests;

//! [`Subject`]: a client as a Cedar entity, with the policies that may concern it.

use std::collections::{HashMap, HashSet};

use cedar_policy::{
    ActionConstraint, Context, Entities, Entity, EntityId, EntityUid, Policy, PolicySet, PrincipalConstraint,
    ResourceConstraint, RestrictedExpression,
};
use parking_lot::Mutex;
use serde_json::Map;
use sha2::{Digest as _, Sha256};

use super::parsed::ParsedPolicies;
use super::principal::{self, PolicyNames, groups};
use super::question::{self, Kind, Question};
use super::reads::{CLAIM, Reads};
use super::values::{self, Attributes};
use super::{FailureKind, PreparedPolicy, Unevaluated, Verdict};
use crate::exact_json::Json;
use crate::identity::{Identity, scopes};

/// Name of the set of the token's scopes, in the client and in the context; always there.
const SCOPES: &str = "scopes";

/// Key of a client's rights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ClaimsKey(pub(super) [u8; 32]);

impl ClaimsKey {
    /// Returns the key of these rights within a part of the catalog.
    #[must_use]
    pub fn within(self, part: &str) -> ClaimsKey {
        ClaimsKey(Sha256::new().chain_update(self.0).chain_update(part).finalize().into())
    }
}

/// A client, prepared for questions.
#[derive(Debug)]
pub struct Subject {
    pub(super) uid: EntityUid,
    /// The client's claims that policies read, as entries of the context.
    pub(super) context: Attributes,
    /// The context of a question without arguments.
    pub(super) list_context: Context,
    /// Reason why no policy can judge this client: everything is denied.
    fault: Option<Fault>,
    /// The client by the names that its source gives it, where policies know it by others.
    pub(super) bare: Option<Box<Subject>>,
    /// The configured entities, and the client.
    entities: Entities,
    /// Policies that may concern this client, by action.
    policies: Vec<KindPolicies>,
    none: PolicySet,
    /// Verdicts about own tools, by name.
    own_verdicts: Mutex<HashMap<String, Verdict>>,
    own_shadows: Mutex<HashMap<String, Verdict>>,
}

/// Reason why policies cannot judge.
pub(super) type Fault = (FailureKind, String);

/// The policies about one kind of items that may concern a client.
#[derive(Debug)]
struct KindPolicies {
    kind: Kind,
    exact: PolicySet,
    /// `exact` and the policies that are tried out but not enforced; `None` without any of these.
    shadow: Option<PolicySet>,
    for_lists: PolicySet,
    readers: Vec<Reader>,
}

/// A policy that reads arguments, or a claim of the client that Cedar cannot hold.
#[derive(Debug)]
struct Reader {
    resource: ResourceConstraint,
    reads: Reads,
    unreadable: Option<Fault>,
    enforced: bool,
}

impl Subject {
    /// Prepares a client: sorts out policies whose scope excludes it, which most do where each is about one
    /// group. `reads`: the claims that some policy reads.
    pub(super) fn new(
        rules: &ParsedPolicies,
        policies: &[PreparedPolicy],
        reads: &Reads,
        identity: &Identity,
    ) -> Subject {
        let no_claims = Map::new();
        let claims = identity.as_known().map_or(&no_claims, |known| known.claims());
        let settings = &rules.settings;
        let groups = groups::groups(&settings.group_claims, settings.role_claim.as_ref(), claims);
        let bare = PolicyNames { subject: identity.subject().to_owned(), groups: groups.names.clone() };
        let names = principal::names(&rules.settings.sources, identity, &groups.names);
        let prepare =
            |names| Subject::named(rules, policies, reads, identity, names, groups.unreadable.clone());
        let is_bare = names == bare;
        let mut subject = prepare(names);
        subject.bare = (!is_bare).then(|| Box::new(prepare(bare)));
        subject
    }

    /// Prepares a client under these names.
    fn named(
        rules: &ParsedPolicies,
        policies: &[PreparedPolicy],
        reads: &Reads,
        identity: &Identity,
        names: PolicyNames,
        unreadable: Option<String>,
    ) -> Subject {
        let no_claims = Map::new();
        let known = identity.as_known();
        let claims = known.map_or(&no_claims, |known| known.claims());
        let claims: Vec<_> = claims.iter().map(|(name, claim)| (name.clone(), Json::from(claim))).collect();
        let claims_of = |reads: &Reads| values::attributes(&claims, CLAIM, reads);
        // Each policy's claims by itself: a claim that Cedar cannot hold matters to its readers only.
        let mut context = Attributes::new();
        policies.iter().filter_map(|policy| claims_of(&policy.reads).ok()).for_each(|of| context.extend(of));
        if let Ok(all) = claims_of(reads) {
            context = all;
        }
        let scopes = scopes::granted(identity).into_iter();
        let scopes = scopes.map(|scope| RestrictedExpression::new_string(scope.to_owned()));
        context.insert(SCOPES.to_owned(), RestrictedExpression::new_set(scopes));
        let uid = EntityUid::from_type_name_and_id(rules.client_type.clone(), EntityId::new(names.subject));
        let names_groups = || {
            let kind = format!("{}::", rules.group_type);
            // Configured entities may put a group into any other entity.
            has_entities(rules) || policies.iter().any(|policy| policy.exact.to_string().contains(&kind))
        };
        let unreadable = unreadable.filter(|_| names_groups());
        let issuer = known.and_then(|known| question::uid("Issuer", known.issuer()).ok());
        let parents = names
            .groups
            .into_iter()
            .map(|group| EntityUid::from_type_name_and_id(rules.group_type.clone(), EntityId::new(group)));
        let parents = parents.chain(issuer).collect();
        let entity = merged(rules.entities.get(&uid), &uid, context.clone(), parents);
        let (entities, mut fault) = match rules.entities.clone().upsert_entities(entity, None) {
            Ok(entities) => (entities, unreadable.map(|text| (FailureKind::Groups, text))),
            Err(error) => {
                let text = format!("the client's groups and `entitiesJson` do not fit together: {error}");
                (Entities::empty(), Some((FailureKind::Entities, text)))
            }
        };
        let list_context = Context::from_pairs(context.clone()).unwrap_or_else(|error| {
            fault = Some((FailureKind::Claims, error.to_string()));
            Context::empty()
        });
        let ancestors: HashSet<EntityUid> = match entities.ancestors(&uid) {
            Some(ancestors) => ancestors.cloned().chain([uid.clone()]).collect(),
            None => HashSet::from([uid.clone()]),
        };
        let of_kind = |kind| {
            let concerns = |policy: &&PreparedPolicy| {
                has_principal(&policy.exact, &uid, &ancestors) && has_action(&policy.exact, kind)
            };
            let chosen: Vec<_> = policies.iter().filter(concerns).collect();
            let set = |of: fn(&PreparedPolicy) -> &Policy, all: bool| {
                let chosen = chosen.iter().filter(|policy| all || policy.enforced);
                // Ids are unique since the configuration was validated.
                PolicySet::from_policies(chosen.map(|policy| of(policy).clone())).unwrap_or_default()
            };
            let reader = |policy: &&PreparedPolicy| {
                let unreadable = claims_of(&policy.reads).err();
                let unreadable = unreadable.map(|claim| (FailureKind::Claims, claim.to_string()));
                (unreadable.is_some() || policy.reads.reads_arguments()).then(|| Reader {
                    resource: policy.exact.resource_constraint(),
                    reads: policy.reads.clone(),
                    unreadable,
                    enforced: policy.enforced,
                })
            };
            let readers = chosen.iter().filter_map(reader).collect();
            let (exact, for_lists) =
                (set(|policy| &policy.exact, false), set(|policy| &policy.for_lists, false));
            // A server whose policies are all tried out has a shadow decision about each call.
            let is_tried = !rules.settings.enforce || chosen.iter().any(|policy| !policy.enforced);
            let shadow = is_tried.then(|| set(|policy| &policy.exact, true));
            KindPolicies { kind, exact, shadow, for_lists, readers }
        };
        let policies = Kind::ALL.into_iter().map(of_kind).collect();
        let (none, own_verdicts, own_shadows) = (PolicySet::new(), Mutex::default(), Mutex::default());
        Subject {
            uid,
            context,
            list_context,
            fault,
            bare: None,
            entities,
            policies,
            none,
            own_verdicts,
            own_shadows,
        }
    }

    /// Returns the arguments that policies read which may decide about an item.
    pub(super) fn reads(&self, question: &Question<'_>, rules: &ParsedPolicies, all: bool) -> Reads {
        let mut reads = Reads::default();
        self.readers(question, rules, all).for_each(|reader| reads.extend(&reader.reads));
        reads
    }

    /// Returns the reason why policies cannot judge this client's calls of an item.
    pub(super) fn fault(&self, question: &Question<'_>, rules: &ParsedPolicies, all: bool) -> Option<Fault> {
        let unreadable = || self.readers(question, rules, all).find_map(|reader| reader.unreadable.clone());
        self.fault.clone().or_else(unreadable)
    }

    /// Yields the policies whose scope may include the item, and which read arguments or unreadable claims.
    fn readers<'a>(
        &'a self,
        question: &'a Question<'_>,
        rules: &'a ParsedPolicies,
        all: bool,
    ) -> impl Iterator<Item = &'a Reader> {
        let readers = self.of_kind(question.kind).map(|own| own.readers.as_slice()).unwrap_or_default();
        let entities = has_entities(rules);
        readers
            .iter()
            .filter(move |reader| all || reader.enforced)
            .filter(move |reader| question.may_be(&reader.resource, &rules.settings.server_name, entities))
    }

    /// Returns the verdict about an own tool; asks once. There are as many as vmcp has tools of its own.
    pub(super) fn own_verdict(&self, name: &str, all: bool, ask: impl FnOnce() -> Verdict) -> Verdict {
        let verdicts = if all { &self.own_shadows } else { &self.own_verdicts };
        if let Some(known) = verdicts.lock().get(name) {
            return known.clone();
        }
        let verdict = ask();
        verdicts.lock().insert(name.to_owned(), verdict.clone());
        verdict
    }

    /// Returns the policies about calls of items of a kind: the enforced ones, or all.
    pub(super) fn exact(&self, kind: Kind, all: bool) -> &PolicySet {
        self.of_kind(kind).map_or(&self.none, |own| own.shadow.as_ref().filter(|_| all).unwrap_or(&own.exact))
    }

    /// True if policies about items of a kind are tried out but not enforced.
    pub(super) fn has_shadow(&self, kind: Kind) -> bool {
        let has = |subject: &Subject| subject.of_kind(kind).is_some_and(|own| own.shadow.is_some());
        has(self) || self.bare.as_deref().is_some_and(has)
    }

    /// Returns the policies about lists of items of a kind.
    pub(super) fn for_lists(&self, kind: Kind) -> &PolicySet {
        self.of_kind(kind).map_or(&self.none, |own| &own.for_lists)
    }

    fn of_kind(&self, kind: Kind) -> Option<&KindPolicies> {
        self.policies.iter().find(|own| own.kind == kind)
    }

    /// Returns the entities of a question about `resource`.
    pub(super) fn entities_with(&self, resource: Entity) -> Result<Entities, Unevaluated> {
        let configured = self.entities.get(&resource.uid()).cloned();
        let entities = self.entities.clone();
        let Some(configured) = configured else { return Ok(entities.add_entities([resource], None)?) };
        let (uid, attributes, parents) = resource.into_inner();
        let merged = merged(Some(&configured), &uid, attributes.into_iter().collect(), parents);
        Ok(entities.upsert_entities(merged, None)?)
    }
}

/// True if there are configured entities.
fn has_entities(rules: &ParsedPolicies) -> bool {
    rules.entities.iter().next().is_some()
}

/// Merges the known entity with the configured one: parents of both; known attributes win.
fn merged(
    configured: Option<&Entity>,
    uid: &EntityUid,
    attributes: Attributes,
    mut parents: HashSet<EntityUid>,
) -> Option<Entity> {
    let mut all: HashMap<String, RestrictedExpression> = HashMap::new();
    if let Some(configured) = configured {
        let (_, attributes, ancestors) = configured.clone().into_inner();
        all = attributes;
        parents.extend(ancestors);
    }
    all.extend(attributes);
    Entity::new(uid.clone(), all, parents).ok()
}

/// True if the scope of a policy includes this client.
fn has_principal(policy: &Policy, uid: &EntityUid, with_ancestors: &HashSet<EntityUid>) -> bool {
    match policy.principal_constraint() {
        PrincipalConstraint::Any => true,
        PrincipalConstraint::Eq(other) => other == *uid,
        PrincipalConstraint::In(group) => with_ancestors.contains(&group),
        PrincipalConstraint::Is(kind) => kind == *uid.type_name(),
        PrincipalConstraint::IsIn(kind, group) => kind == *uid.type_name() && with_ancestors.contains(&group),
    }
}

/// True if the scope of a policy includes the action of a kind. An action that is in another by configured
/// entities is left to Cedar.
fn has_action(policy: &Policy, kind: Kind) -> bool {
    let Ok(action) = kind.action() else { return true };
    match policy.action_constraint() {
        ActionConstraint::Any | ActionConstraint::In(_) => true,
        ActionConstraint::Eq(other) => other == action,
    }
}

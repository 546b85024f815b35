//! [`Subject`]: a client as a Cedar entity, with the policies that may concern it.

use std::collections::{HashMap, HashSet};

use cedar_policy::{
    ActionConstraint, Entities, Entity, EntityId, EntityUid, Policy, PolicySet, PrincipalConstraint,
    RestrictedExpression,
};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use vmcp_config::Authz;

use super::parsed::ParsedPolicies;
use super::question::Kind;
use super::values::{self, Attributes};
use super::{PreparedPolicy, Unevaluated, Verdict, groups};
use crate::identity::Identity;

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
    /// The client's claims, as entries of the context.
    pub(super) context: Attributes,
    /// The configured entities, and the client.
    entities: Entities,
    /// Policies that may concern this client, by action.
    policies: Vec<(Kind, PolicySet, PolicySet)>,
    none: PolicySet,
    /// True if arguments may matter to a policy about tools that may concern this client.
    pub(super) tools_depend_on_arguments: bool,
    /// Verdicts about own tools, by name.
    own_verdicts: Mutex<HashMap<String, Verdict>>,
}

impl Subject {
    /// Prepares a client: sorts out policies whose scope excludes it, which most do where each is about one
    /// group.
    pub(super) fn new(
        authz: &Authz,
        parsed: &ParsedPolicies,
        policies: &[PreparedPolicy],
        identity: &Identity,
    ) -> Subject {
        let no_claims = serde_json::Map::new();
        let claims = identity.as_known().map_or(&no_claims, |known| known.claims());
        let context = values::claims(claims);
        let groups = groups::groups(authz, claims);
        let uid =
            EntityUid::from_type_name_and_id(parsed.client_type.clone(), EntityId::new(identity.subject()));
        let parents = groups
            .into_iter()
            .map(|group| EntityUid::from_type_name_and_id(parsed.group_type.clone(), EntityId::new(group)));
        let parents = parents.collect();
        let entity = merged(parsed.entities.get(&uid), &uid, context.clone(), parents);
        let entities = parsed.entities.clone().upsert_entities(entity, None);
        // Configured entities that make a circle with this client's: it belongs to no group then.
        let entities = entities.unwrap_or_else(|error| {
            tracing::warn!(%error, "the client's groups and the configured entities do not fit together");
            Entities::empty()
        });
        let ancestors: HashSet<EntityUid> = match entities.ancestors(&uid) {
            Some(ancestors) => ancestors.cloned().chain([uid.clone()]).collect(),
            None => HashSet::from([uid.clone()]),
        };
        let sorted = Kind::ALL.into_iter().map(|kind| {
            let concerns = |policy: &&PreparedPolicy| {
                has_principal(&policy.exact, &uid, &ancestors) && has_action(&policy.exact, kind)
            };
            let chosen: Vec<_> = policies.iter().filter(concerns).collect();
            let set = |of: fn(&PreparedPolicy) -> &Policy| {
                let set = PolicySet::from_policies(chosen.iter().map(|policy| of(policy).clone()));
                // Ids are unique since the configuration was validated.
                set.unwrap_or_default()
            };
            (kind, set(|policy| &policy.exact), set(|policy| &policy.for_lists))
        });
        let matters = |policy: &PreparedPolicy| {
            policy.depends_on_arguments
                && has_principal(&policy.exact, &uid, &ancestors)
                && has_action(&policy.exact, Kind::Tool)
        };
        let tools_depend_on_arguments = policies.iter().any(matters);
        let (policies, none) = (sorted.collect(), PolicySet::new());
        let own_verdicts = Mutex::default();
        Subject { uid, context, entities, policies, none, tools_depend_on_arguments, own_verdicts }
    }

    /// Returns the verdict about an own tool; asks once. There are as many as vmcp has tools of its own.
    pub(super) fn own_verdict(&self, name: &str, ask: impl FnOnce() -> Verdict) -> Verdict {
        if let Some(known) = self.own_verdicts.lock().get(name) {
            return known.clone();
        }
        let verdict = ask();
        self.own_verdicts.lock().insert(name.to_owned(), verdict.clone());
        verdict
    }

    /// Returns the policies about calls of items of a kind.
    pub(super) fn exact(&self, kind: Kind) -> &PolicySet {
        let own = self.policies.iter().find(|(other, ..)| *other == kind);
        own.map_or(&self.none, |(_, exact, _)| exact)
    }

    /// Returns the policies about lists of items of a kind.
    pub(super) fn for_lists(&self, kind: Kind) -> &PolicySet {
        let own = self.policies.iter().find(|(other, ..)| *other == kind);
        own.map_or(&self.none, |(.., for_lists)| for_lists)
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

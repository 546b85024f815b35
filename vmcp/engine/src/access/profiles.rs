//! [`ProfilePolicy`]: holds the clients of a profile to its part of the catalog.

use std::collections::BTreeMap;
use std::sync::Arc;

use vmcp_access::policy::ClaimsKey;
use vmcp_config::{OptimTool, Profile};
use vmcp_model::names::COMPOSITE;

use super::identity::Principal;
use super::policy::{AccessRequest, Decision, Item, ListedRights, Policy, PolicyId};

/// A policy for the clients of profiles, before `inner`: a profile takes rights away and gives none.
#[derive(Debug)]
pub(crate) struct ProfilePolicy {
    profiles: BTreeMap<Arc<str>, Profile>,
    inner: Arc<dyn Policy>,
}

impl ProfilePolicy {
    /// Makes the policy; clients without a profile are asked about at `inner` alone.
    pub(crate) fn new(profiles: &BTreeMap<Arc<str>, Profile>, inner: Arc<dyn Policy>) -> ProfilePolicy {
        ProfilePolicy { profiles: profiles.clone(), inner }
    }

    /// True if an item belongs to the profile. Nothing belongs to one that was removed from the
    /// configuration.
    fn has(&self, profile: &str, item: Item<'_>, backend: &str) -> bool {
        let Some(profile) = self.profiles.get(profile) else { return false };
        let has_server = || profile.servers.as_ref().is_none_or(|servers| servers.contains(backend));
        match item {
            // A client of a part of the catalog does not change the whole.
            Item::OwnTool(name) => {
                !OptimTool::names_admin(name) && (profile.code_mode || !OptimTool::names_scripts(name))
            }
            Item::Tool(tool) | Item::Task { tool, .. } => {
                let named =
                    || profile.tools.is_empty() || profile.tools.iter().any(|p| p.matches(&tool.name));
                let only_reads = || tool.annotations.read_only_hint == Some(true);
                // A composite tool belongs to no server; its steps are asked about by themselves.
                let has_server = || backend == COMPOSITE || has_server();
                has_server() && named() && (!profile.read_only || only_reads())
            }
            Item::Prompt(_) | Item::Resource(_) | Item::Backend => has_server(),
        }
    }
}

impl Policy for ProfilePolicy {
    fn decide(&self, request: &AccessRequest<'_>) -> Decision {
        match &request.principal.profile {
            Some(profile) if !self.has(profile, request.item, request.backend) => {
                Decision::Deny { policy: PolicyId::new(format!("profile:{profile}")) }
            }
            _ => self.inner.decide(request),
        }
    }

    fn version(&self) -> Arc<str> {
        self.inner.version()
    }

    fn reads_arguments(&self, request: &AccessRequest<'_>) -> bool {
        self.inner.reads_arguments(request)
    }

    fn restricts_some(&self) -> bool {
        true
    }

    fn restricts(&self, principal: &Principal) -> bool {
        principal.profile.is_some() || self.inner.restricts(principal)
    }

    fn key(&self, principal: &Principal) -> ClaimsKey {
        let key = self.inner.key(principal);
        principal.profile.as_ref().map_or(key, |profile| key.within(profile))
    }

    fn listed_rights<'a>(&'a self, principal: &Principal) -> Box<dyn ListedRights + 'a> {
        let rights = self.inner.listed_rights(principal);
        match &principal.profile {
            None => rights,
            Some(profile) => Box::new(ListedByProfile { policy: self, profile: Arc::clone(profile), rights }),
        }
    }
}

/// The items of a profile that the other policy lets a client list.
struct ListedByProfile<'a> {
    policy: &'a ProfilePolicy,
    profile: Arc<str>,
    rights: Box<dyn ListedRights + 'a>,
}

impl ListedRights for ListedByProfile<'_> {
    fn could_allow(&self, item: Item<'_>, backend: &str) -> bool {
        self.policy.has(&self.profile, item, backend) && self.rights.could_allow(item, backend)
    }

    fn could_know(&self, backend: &str) -> bool {
        self.policy.has(&self.profile, Item::Backend, backend) && self.rights.could_know(backend)
    }
}

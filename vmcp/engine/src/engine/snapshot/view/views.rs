//! [`Views`]: the views of one snapshot, made when a client first needs one.
//!
//! Two steps, each kept: from a client's claims to its [`Permissions`], by a question to the policy for each
//! item, and from permissions to a [`View`], which clients with equal permissions share. Both are LRU caches,
//! so that clients without number cost time and not memory.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use lru::LruCache;
use parking_lot::Mutex;
use vmcp_access::policy::ClaimsKey;
use vmcp_config::{Config, Exposure};
use vmcp_model::catalog::Catalog;
use vmcp_wire::translate::Scope;

use super::View;
use crate::access::identity::{Identity, Principal};
use crate::access::policy::Policy;
use crate::engine::snapshot::permissions::Permissions;

/// Clients whose permissions are kept: two kilobytes each with 15,000 tools.
const MAX_CLIENTS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// Views that are kept: their lists may be a megabyte each.
const MAX_VIEWS: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// The views on one catalog under one policy.
#[derive(Debug)]
pub(crate) struct Views {
    catalog: Arc<Catalog>,
    config: Arc<Config>,
    policy: Arc<dyn Policy>,
    /// The view of a client that nothing is denied to.
    whole: Arc<View>,
    cache: Mutex<Cache>,
}

#[derive(Debug)]
struct Cache {
    permissions: LruCache<ClaimsKey, Arc<OnceLock<Arc<Permissions>>>>,
    views: LruCache<ViewKey, ViewSlot>,
    /// Views on the catalog before, whose unchanged lists the new ones share.
    before: HashMap<ClaimsKey, Arc<View>>,
}

/// Key of a view: all that its lists depend on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ViewKey {
    permissions: Arc<Permissions>,
    exposure: Exposure,
}

/// A view that is being made, or was.
type ViewSlot = Arc<OnceLock<Arc<View>>>;

impl Views {
    /// Makes the views on a catalog, none but the whole one yet.
    pub(in crate::engine::snapshot) fn new(
        catalog: &Arc<Catalog>,
        config: &Arc<Config>,
        policy: &Arc<dyn Policy>,
        before: Option<&Views>,
    ) -> Views {
        let whole = View::new(
            &Arc::new(Permissions::all(catalog)),
            config.optimizer.exposure,
            Scope::Public,
            catalog,
            config,
            before.map(|before| &*before.whole),
        );
        let (permissions, views) = (LruCache::sparse(MAX_CLIENTS), LruCache::sparse(MAX_VIEWS));
        Views {
            catalog: Arc::clone(catalog),
            config: Arc::clone(config),
            policy: Arc::clone(policy),
            whole: Arc::new(whole),
            cache: Mutex::new(Cache {
                permissions,
                views,
                before: before.map(Views::by_client).unwrap_or_default(),
            }),
        }
    }

    /// The view of a client that nothing is denied to: what operators count.
    pub(in crate::engine) fn whole(&self) -> &Arc<View> {
        &self.whole
    }

    /// Returns the view of a client; makes it if need be, which may take as long as a question to the policy
    /// for each item of the catalog.
    pub(in crate::engine::snapshot) fn get(&self, principal: &Principal) -> Arc<View> {
        if self.is_whole(principal) {
            return Arc::clone(&self.whole);
        }
        let (key, slot) = self.slot(principal);
        let permissions = slot.get_or_init(|| self.permissions(principal));
        let exposure = self.exposure(principal);
        let slot = self.view_slot(permissions, exposure);
        let made = slot.get_or_init(|| {
            let before = self.cache.lock().before.get(&key).cloned();
            let view = View::new(
                permissions,
                exposure,
                Scope::Private,
                &self.catalog,
                &self.config,
                before.as_deref(),
            );
            Arc::new(view)
        });
        Arc::clone(made)
    }

    /// True if [`Views::get`] returns at once.
    pub(in crate::engine::snapshot) fn is_ready(&self, principal: &Principal) -> bool {
        if self.is_whole(principal) {
            return true;
        }
        let (_, slot) = self.slot(principal);
        let is_made = |permissions| self.view_slot(permissions, self.exposure(principal)).get().is_some();
        slot.get().is_some_and(is_made)
    }

    /// True for clients without a name while nothing is denied to anyone: their lists are public.
    fn is_whole(&self, principal: &Principal) -> bool {
        !self.policy.restricts(principal) && principal.identity == Identity::Anonymous
    }

    /// The exposure that the client's profile has, or all clients.
    fn exposure(&self, principal: &Principal) -> Exposure {
        let profile = principal.profile.as_ref().and_then(|profile| self.config.profiles.get(profile));
        profile.and_then(|profile| profile.exposure).unwrap_or(self.config.optimizer.exposure)
    }

    fn slot(&self, principal: &Principal) -> (ClaimsKey, Arc<OnceLock<Arc<Permissions>>>) {
        let key = self.policy.key(principal);
        let mut cache = self.cache.lock();
        (key, Arc::clone(cache.permissions.get_or_insert(key, Arc::default)))
    }

    fn view_slot(&self, permissions: &Arc<Permissions>, exposure: Exposure) -> ViewSlot {
        let key = ViewKey { permissions: Arc::clone(permissions), exposure };
        Arc::clone(self.cache.lock().views.get_or_insert(key, Arc::default))
    }

    fn permissions(&self, principal: &Principal) -> Arc<Permissions> {
        if !self.policy.restricts(principal) {
            return Arc::clone(self.whole.permissions());
        }
        let rights = self.policy.listed_rights(principal);
        Arc::new(Permissions::ask(&*rights, &self.catalog, &self.config))
    }

    /// Returns the views that were made, by client.
    fn by_client(&self) -> HashMap<ClaimsKey, Arc<View>> {
        let cache = self.cache.lock();
        let made = cache.views.iter().filter_map(|(key, slot)| Some((&key.permissions, slot.get()?)));
        let by_permissions: HashMap<&Arc<Permissions>, &Arc<View>> = made.collect();
        let view = |permissions| by_permissions.get(permissions).map(|view| Arc::clone(view));
        let clients = cache.permissions.iter();
        clients.filter_map(|(client, slot)| Some((*client, view(slot.get()?)?))).collect()
    }
}

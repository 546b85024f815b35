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
use vmcp_config::Config;
use vmcp_model::catalog::Catalog;
use vmcp_wire::translate::Scope;

use super::permissions::Permissions;
use super::view::View;
use crate::access::identity::Identity;
use crate::access::policy::Policy;

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

/// Key of a view: the permissions, and whether its lists are the same for everyone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ViewKey(Arc<Permissions>, bool);

/// A view that is being made, or was.
type ViewSlot = Arc<OnceLock<Arc<View>>>;

impl Views {
    /// Makes the views on a catalog, none but the whole one yet.
    pub(super) fn new(
        catalog: &Arc<Catalog>,
        config: &Arc<Config>,
        policy: &Arc<dyn Policy>,
        before: Option<&Views>,
    ) -> Views {
        let whole = View::new(
            &Arc::new(Permissions::all(catalog)),
            Scope::Public,
            catalog,
            config,
            before.map(|before| &*before.whole),
        );
        let (permissions, views) = (LruCache::new(MAX_CLIENTS), LruCache::new(MAX_VIEWS));
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
    pub(super) fn get(&self, identity: &Identity) -> Arc<View> {
        if self.is_whole(identity) {
            return Arc::clone(&self.whole);
        }
        let (key, slot) = self.slot(identity);
        let permissions = slot.get_or_init(|| self.permissions(identity));
        let slot = self.view_slot(permissions, identity);
        let made = slot.get_or_init(|| {
            let before = self.cache.lock().before.get(&key).cloned();
            let view = View::new(permissions, Scope::Private, &self.catalog, &self.config, before.as_deref());
            Arc::new(view)
        });
        Arc::clone(made)
    }

    /// True if [`Views::get`] returns at once.
    pub(super) fn is_ready(&self, identity: &Identity) -> bool {
        if self.is_whole(identity) {
            return true;
        }
        let (_, slot) = self.slot(identity);
        slot.get().is_some_and(|permissions| self.view_slot(permissions, identity).get().is_some())
    }

    /// True for clients without a name while nothing is denied to anyone: their lists are public.
    fn is_whole(&self, identity: &Identity) -> bool {
        !self.policy.restricts() && *identity == Identity::Anonymous
    }

    fn slot(&self, identity: &Identity) -> (ClaimsKey, Arc<OnceLock<Arc<Permissions>>>) {
        let key = self.policy.key(identity);
        let mut cache = self.cache.lock();
        (key, Arc::clone(cache.permissions.get_or_insert(key, Arc::default)))
    }

    fn view_slot(&self, permissions: &Arc<Permissions>, identity: &Identity) -> ViewSlot {
        let key = ViewKey(Arc::clone(permissions), *identity == Identity::Anonymous);
        Arc::clone(self.cache.lock().views.get_or_insert(key, Arc::default))
    }

    fn permissions(&self, identity: &Identity) -> Arc<Permissions> {
        if !self.policy.restricts() {
            return Arc::clone(self.whole.permissions());
        }
        let rights = self.policy.listed_rights(identity);
        Arc::new(Permissions::ask(&*rights, &self.catalog, &self.config))
    }

    /// Returns the views that were made, by client.
    fn by_client(&self) -> HashMap<ClaimsKey, Arc<View>> {
        let cache = self.cache.lock();
        let views = |permissions: &Arc<Permissions>| {
            let keys = [true, false].map(|anonymous| ViewKey(Arc::clone(permissions), anonymous));
            keys.iter().find_map(|key| cache.views.peek(key)?.get().cloned())
        };
        let clients = cache.permissions.iter();
        clients.filter_map(|(client, slot)| Some((*client, views(slot.get()?)?))).collect()
    }
}

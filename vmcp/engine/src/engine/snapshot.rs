//! The snapshot: everything that a request needs, as of one moment. Immutable and swapped whole, so that a
//! request never sees a catalog of one moment and an index of another.

pub mod build;
pub mod client_records;
pub mod contextual;
pub(super) mod declarations;
pub(super) mod definition_changes;
pub(super) mod generation;
pub mod index_document;
mod instructions;
pub(super) mod list;
mod permissions;
pub(in crate::engine) mod reliability;
mod user_interfaces;
pub(super) mod view;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::value::RawValue;
use vmcp_access::authentication::Authentication;
use vmcp_access::outgoing::BackendTokens;
use vmcp_access::policy::decision_point::DecisionPoint;
use vmcp_access::rate_limit::RateLimiter;
use vmcp_backend::Backend;
use vmcp_config::Config;
use vmcp_json::object::Object;
use vmcp_model::catalog::{Catalog, CatalogTool};
use vmcp_model::discovered::Discovered;
use vmcp_search::Index;
use vmcp_wire::era::Revision;
use vmcp_wire::handshake::server_capabilities::ServerCapabilities;
use vmcp_wire::lists::pages::List;
use vmcp_wire::sealed::{KeyError, KeyRing};

use crate::access::configured::decision_point::decision_point;
use crate::access::configured::rate_limits::rate_limiter;
use crate::access::configured::webhooks::{CallWebhooks, webhooks};
use crate::access::identity::{Principal, PrincipalKey};
use crate::access::policy::Policy;
use crate::access::sealing_keys::SealingKeys;
use crate::schema::ToolChecks;
use crate::search::topics::TaggedTools;
use client_records::issued_tasks::IssuedTasks;
use client_records::linked_uris::LinkedUris;
use declarations::{BackendDeclarations, BackendListings};
use view::View;
use view::views::Views;

/// Tools that are hidden from clients, by backend and their own names there.
pub(super) type Quarantine = HashSet<(Arc<str>, String)>;

/// `Implementation` of vmcp, sent in the handshake.
const SERVER_INFO: &str =
    concat!(r#"{"name":"vmcp","title":"vmcp","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// Catalog, index, views and connections that belong together. Immutable; swapped whole.
#[derive(Clone)]
pub struct Snapshot {
    /// Number of snapshots published before this one.
    pub generation: u64,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// Every definition of all backends, hidden ones included: for operators. Code that acts for a client
    /// asks [`Snapshot::view`].
    pub(super) catalog: Arc<Catalog>,
    /// The tools, searchable; documents are numbered by position in [`Catalog::tools`].
    pub index: Arc<Index>,
    /// The views of clients.
    pub(super) views: Arc<Views>,
    /// The ways in which clients prove who they are.
    pub authentication: Arc<Authentication>,
    /// The policy that decides about each call.
    pub policy: Arc<dyn Policy>,
    /// The service that is asked about each call that the policy allows.
    pub decision_point: Option<Arc<DecisionPoint>>,
    /// The services that are asked about calls of tools.
    pub webhooks: Arc<CallWebhooks>,
    /// The enabled backends by name.
    pub backends: Arc<BTreeMap<Arc<str>, Backend>>,
    /// Access tokens for those backends that get any.
    pub tokens: Arc<BTreeMap<Arc<str>, Arc<BackendTokens>>>,
    /// The listing of each backend that this was built of.
    pub(super) listings: Arc<BackendListings>,
    /// The capabilities that the backends declare.
    pub(super) declarations: Arc<BackendDeclarations>,
    /// The tasks that clients know; shared by all snapshots.
    pub tasks: Arc<IssuedTasks>,
    /// The keys of sealed ids and states; shared by all snapshots.
    pub(super) keys: Arc<SealingKeys>,
    /// The backends of URIs that results named; shared by all snapshots.
    pub links: Arc<LinkedUris>,
    /// Tools that are hidden until their changed definitions are approved.
    pub(super) quarantine: Arc<Quarantine>,
    /// Token buckets of calls; shared by all snapshots whose configuration has the same limits.
    pub rate_limiter: Arc<RateLimiter<PrincipalKey>>,
    /// Text to embed, by position in [`Catalog::tools`]; empty for a tool that no client may find.
    pub(super) texts: Arc<Vec<String>>,
    /// Checks against schemas, by position in [`Catalog::tools`].
    pub(super) checks: Arc<Vec<ToolChecks>>,
    /// Contexts and categories of the tools, made at the first request for them.
    pub(super) tagged: OnceLock<Arc<TaggedTools>>,
    /// [`super::Options::bridge`].
    pub bridge: bool,
}

impl Snapshot {
    /// The snapshot before any backend has started. With issuers of tokens, it needs a tokio runtime.
    pub(super) fn empty(
        config: &Config,
        policy: Arc<dyn Policy>,
        bridge: bool,
    ) -> Result<Snapshot, KeyError> {
        let (catalog, config) = (Arc::default(), Arc::new(config.clone()));
        let keys = Arc::new(SealingKeys::new(&config)?);
        Ok(Snapshot {
            generation: 0,
            views: Arc::new(Views::new(&catalog, &config, &policy, None)),
            catalog,
            index: Arc::new(Index::new(&[])),
            authentication: Arc::new(Authentication::start(
                &config.incoming_auth,
                &Authentication::default(),
            )),
            policy,
            backends: Arc::default(),
            tokens: Arc::default(),
            listings: Arc::default(),
            declarations: Arc::new(BackendDeclarations::new(&Vec::new(), &config)),
            tasks: Arc::default(),
            keys,
            links: Arc::default(),
            quarantine: Arc::default(),
            rate_limiter: rate_limiter(None, &config),
            decision_point: decision_point(None, &config),
            webhooks: Arc::new(webhooks(&CallWebhooks::default(), &config)),
            texts: Arc::default(),
            checks: Arc::default(),
            tagged: OnceLock::new(),
            config,
            bridge,
        })
    }

    /// Returns the keys that seal and open session ids, request states and task ids.
    pub fn ring(&self) -> Arc<KeyRing> {
        self.keys.ring(&self.config)
    }

    /// Returns the part of the catalog that a client may list, find and call.
    ///
    /// Under a policy, the first request of a client makes its view;
    /// [`Engine::prepare`](super::Engine::prepare) does that on a thread that may be kept busy.
    pub fn view(&self, principal: &Principal) -> Arc<View> {
        self.views.get(principal)
    }

    /// True if [`Snapshot::view`] returns at once.
    pub(super) fn has_view(&self, principal: &Principal) -> bool {
        self.views.is_ready(principal)
    }

    /// Returns the view without a restriction: what operators count.
    pub fn whole_view(&self) -> &Arc<View> {
        self.views.whole()
    }

    /// Returns the `Implementation` of vmcp, or in bridge mode of the program behind it.
    pub fn server_info(&self) -> &str {
        let theirs = self.stands_for().and_then(|program| program.server_info.as_deref());
        theirs.map_or(SERVER_INFO, RawValue::get)
    }

    /// Returns instructions for the model: those of vmcp and its backends, or in bridge mode of the program
    /// behind it.
    pub fn instructions(&self, view: &View) -> Option<String> {
        if self.bridge {
            return self.stands_for()?.instructions.clone();
        }
        let enabled = self
            .listings
            .iter()
            .filter(|(name, _)| self.backends.contains_key(name) && view.has_backend(name));
        let listings = enabled.map(|(name, discovered)| (&**name, &**discovered));
        instructions::joined(listings, self.config.optimizer.enabled)
    }

    /// Returns the instructions of one backend.
    pub fn instructions_of(&self, backend: &str) -> Option<&str> {
        let listing = self.listings.iter().find(|(name, _)| &**name == backend);
        listing.and_then(|(_, discovered)| discovered.instructions.as_deref())
    }

    /// Returns the listing of the program behind the bridge, once there is one; `None` outside of bridge
    /// mode.
    pub fn stands_for(&self) -> Option<&Discovered> {
        self.listings.first().filter(|_| self.bridge).map(|(_, discovered)| &**discovered)
    }

    /// Returns every definition of all backends, regardless of views. For operators only.
    pub fn unfiltered(&self) -> &Catalog {
        &self.catalog
    }

    /// True if a tool is hidden until its changed definition is approved.
    pub fn is_quarantined(&self, tool: &CatalogTool) -> bool {
        build::is_quarantined(&self.quarantine, tool)
    }

    /// Returns contexts and categories of the tools, hidden ones included.
    pub fn tagged_tools(&self) -> &Arc<TaggedTools> {
        self.tagged.get_or_init(|| Arc::new(TaggedTools::tag_all(&self.config, &self.catalog)))
    }

    /// Returns `ServerCapabilities` for clients of a revision, as JSON: exactly the capabilities that are
    /// relayed.
    pub fn declaration(&self, view: &View, revision: Revision) -> Cow<'_, str> {
        if view.has_all_backends() {
            return self.declarations.declaration(revision).into();
        }
        self.declarations.declaration_of(|name| view.has_backend(name), revision).into()
    }

    /// True if the declaration for modern clients has the capability that a list belongs to.
    pub fn declares(&self, view: &View, list: List) -> bool {
        let declaration = self.declaration(view, Revision::MODERN);
        Object::parse_valid(&declaration).is_ok_and(|declared| declared.text(list.capability()).is_some())
    }

    /// Returns the capabilities of each backend that a client may see, sorted by name.
    pub fn declared_capabilities<'a>(
        &'a self,
        view: &'a View,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a ServerCapabilities)> {
        self.declarations.iter().filter(|(name, _)| view.has_backend(name))
    }

    /// Returns the capabilities that a backend declares.
    pub fn capabilities_of(&self, backend: &str) -> Option<&ServerCapabilities> {
        self.declarations.iter().find(|(name, _)| &***name == backend).map(|(_, offer)| offer)
    }

    /// Returns the number of tools that want a vector, and the number of tools that have a vector.
    pub(super) fn embedding_progress(&self) -> (usize, usize) {
        (self.texts.iter().filter(|text| !text.is_empty()).count(), self.index.vectors().count())
    }

    /// True if a tool differs from those of another snapshot.
    pub(super) fn catalog_differs(&self, other: &Snapshot) -> bool {
        let (tools, others) = (&self.catalog.tools, &other.catalog.tools);
        let same = |one: &CatalogTool, two: &CatalogTool| {
            one.name == two.name && one.hash == two.hash && one.raw.get() == two.raw.get()
        };
        tools.len() != others.len() || !tools.iter().zip(others).all(|(one, two)| same(one, two))
    }

    /// Returns the checks of a tool of this snapshot.
    pub fn check(&self, tool: &CatalogTool) -> ToolChecks {
        let position = self.catalog.tools.binary_search_by(|other| other.name.cmp(&tool.name));
        position.ok().and_then(|position| self.checks.get(position)).cloned().unwrap_or_default()
    }

    /// Returns the deadline of a call to this backend, unless the caller sets another one.
    pub fn tool_timeout(&self, backend: &str) -> Duration {
        let own = self.config.backends.iter().find(|other| &*other.name == backend);
        own.and_then(|own| own.timeout).unwrap_or(self.config.proxy.tool_timeout)
    }
}

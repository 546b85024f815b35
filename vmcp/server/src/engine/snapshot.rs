//! Everything that a request needs, as of one moment (invariant 1).

pub(crate) mod build;
pub(super) mod declarations;
pub mod index_document;
pub(super) mod list;
pub(super) mod task_owners;
mod user_interfaces;
pub(super) mod view;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use vmcp_backend::Backend;
use vmcp_config::Config;
use vmcp_model::catalog::{Catalog, CatalogTool};
use vmcp_model::discovered::Discovered;
use vmcp_search::Index;
use vmcp_wire::era::Revision;
use vmcp_wire::handshake::server_capabilities::ServerCapabilities;

use crate::identity::Identity;
use crate::schema::ArgumentCheck;
use declarations::{BackendDeclarations, BackendListings};
use task_owners::TaskOwners;
use view::View;

/// Our `Implementation`.
const SERVER_INFO: &str =
    concat!(r#"{"name":"vmcp","title":"vmcp","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
const WITH_SEARCH: &str = "This server stands for many MCP servers. When the tool you need is not listed, describe the task to find_tool: \
    it returns the tools that fit with their input schemas. Then run one with call_tool.";

/// Catalog, index, views and connections that belong together. Immutable; swapped whole.
#[derive(Clone)]
pub struct Snapshot {
    /// Counts snapshots.
    pub generation: u64,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// What all backends offer, hidden things too: for operators. Whatever acts for a client asks [`Snapshot::view`].
    pub(super) catalog: Arc<Catalog>,
    /// The tools, searchable; documents are numbered by position in [`Catalog::tools`].
    pub index: Arc<Index>,
    /// What somebody without an identity may see of it.
    pub(super) anonymous: Arc<View>,
    /// The enabled backends by name.
    pub backends: Arc<BTreeMap<Arc<str>, Backend>>,
    /// What each backend offered when this was built.
    pub(super) listings: Arc<BackendListings>,
    /// What the backends declare.
    pub(super) declarations: Arc<BackendDeclarations>,
    /// Which backend has which task; the same in all snapshots.
    pub tasks: Arc<TaskOwners>,
    /// What is embedded, by position in [`Catalog::tools`]; empty for a tool that nobody may find.
    pub(super) texts: Arc<Vec<String>>,
    /// By position in [`Catalog::tools`].
    pub(super) checks: Arc<Vec<ArgumentCheck>>,
    /// See [`super::Options::bridge`].
    pub bridge: bool,
}

impl Snapshot {
    /// What there is before any backend has started.
    pub(super) fn empty(config: &Config, bridge: bool) -> Snapshot {
        let catalog = Arc::default();
        Snapshot {
            generation: 0,
            anonymous: Arc::new(View::new(Identity::Anonymous, &catalog, config, None)),
            catalog,
            index: Arc::new(Index::new(&[])),
            backends: Arc::default(),
            listings: Arc::default(),
            declarations: Arc::new(BackendDeclarations::new(&Vec::new(), config)),
            tasks: Arc::default(),
            texts: Arc::default(),
            checks: Arc::default(),
            config: Arc::new(config.clone()),
            bridge,
        }
    }

    /// What an identity may list, find and call.
    pub fn view(&self, identity: Identity) -> &Arc<View> {
        match identity {
            Identity::Anonymous => &self.anonymous,
        }
    }

    /// Our `Implementation`, or that of the program whose place we take.
    pub fn server_info(&self) -> &str {
        let theirs = self.stands_for().and_then(|program| program.server_info.as_deref());
        theirs.map_or(SERVER_INFO, RawValue::get)
    }

    /// Our advice for the model, or that of the program whose place we take.
    pub fn instructions(&self) -> Option<&str> {
        if self.bridge {
            self.stands_for()?.instructions.as_deref()
        } else {
            self.config.optimizer.enabled.then_some(WITH_SEARCH)
        }
    }

    /// The program whose place we take, once it has said what it declarations.
    pub fn stands_for(&self) -> Option<&Discovered> {
        self.listings.first().filter(|_| self.bridge).map(|(_, discovered)| &**discovered)
    }

    /// What all backends offer, whoever may see it. For operators only.
    pub fn unfiltered(&self) -> &Catalog {
        &self.catalog
    }

    /// `ServerCapabilities` for clients of a revision, as JSON: what is really relayed to them.
    pub fn declaration(&self, identity: Identity, revision: Revision) -> &str {
        match identity {
            Identity::Anonymous => self.declarations.declaration(revision),
        }
    }

    /// What the backends declare that an identity may see, sorted by name.
    pub fn declared_capabilities(
        &self,
        identity: Identity,
    ) -> impl Iterator<Item = (&Arc<str>, &ServerCapabilities)> {
        let view = self.view(identity);
        self.declarations.iter().filter(|(name, _)| view.has_backend(name))
    }

    /// What a backend declares.
    pub fn capabilities_of(&self, backend: &str) -> Option<&ServerCapabilities> {
        self.declarations.iter().find(|(name, _)| &***name == backend).map(|(_, offer)| offer)
    }

    /// The argument check of a tool of this snapshot.
    pub(crate) fn check(&self, tool: &CatalogTool) -> ArgumentCheck {
        let position = self.catalog.tools.binary_search_by(|other| other.name.cmp(&tool.name));
        position.ok().and_then(|position| self.checks.get(position)).cloned().unwrap_or_default()
    }

    /// How long a call of a tool of this backend may take unless the caller says otherwise.
    pub fn tool_timeout(&self, backend: &str) -> Duration {
        let own = self.config.backends.iter().find(|other| &*other.name == backend);
        own.and_then(|own| own.timeout).unwrap_or(self.config.proxy.tool_timeout)
    }
}

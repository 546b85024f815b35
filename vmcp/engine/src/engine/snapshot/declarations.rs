//! Capabilities that the backends declare in their handshakes, and the declaration for clients that is made
//! of them.

use std::sync::Arc;

use vmcp_config::Config;
use vmcp_model::discovered::Discovered;
use vmcp_wire::era::{Era, Revision};
use vmcp_wire::handshake::{server_capabilities, server_capabilities::ServerCapabilities};

/// The last listing of each backend, by name.
pub(in crate::engine) type BackendListings = Vec<(Arc<str>, Arc<Discovered>)>;

/// The capabilities of every backend, and their union as it is declared to clients of each revision.
#[derive(Debug)]
pub(in crate::engine) struct BackendDeclarations {
    /// Sorted by name.
    backends: Vec<(Arc<str>, ServerCapabilities)>,
    /// vmcp's own: kept results and its state are resources.
    own: Option<ServerCapabilities>,
    modern: String,
    with_core_tasks: String,
    earlier: String,
}

impl BackendDeclarations {
    /// Reads the capabilities in `listings`. A backend that is configured and was never listed is assumed to
    /// have those that most servers have: a client asks once for capabilities, perhaps before the backend has
    /// answered.
    pub(super) fn new(listings: &BackendListings, config: &Config) -> Self {
        let backends: Vec<_> =
            listings.iter().map(|(name, discovered)| (Arc::clone(name), read(discovered))).collect();
        let known = |name: &str| backends.iter().any(|(known, _)| &**known == name);
        let unknown = config.backends.iter().any(|backend| backend.enabled && !known(&backend.name));
        let expected = unknown.then(ServerCapabilities::unknown);
        let optimizer = &config.optimizer;
        let has_resources = optimizer.large_results.enabled || optimizer.own_resources;
        let own = (optimizer.enabled && has_resources)
            .then(|| ServerCapabilities::of_resources(optimizer.own_resources));
        let declaration = |revision| {
            let known = backends.iter().map(|(_, capabilities)| capabilities);
            server_capabilities::declaration(known.chain(&expected).chain(&own), revision)
        };
        Self {
            modern: declaration(Revision::MODERN),
            with_core_tasks: declaration(Revision::V2025_11_25),
            earlier: declaration(Revision::V2025_06_18),
            backends,
            own,
        }
    }

    /// `ServerCapabilities` for clients of a revision, as JSON.
    pub(super) fn declaration(&self, revision: Revision) -> &str {
        match revision {
            Revision::V2026_07_28 => &self.modern,
            Revision::V2025_11_25 => &self.with_core_tasks,
            Revision::V2025_06_18 | Revision::V2025_03_26 | Revision::V2024_11_05 => &self.earlier,
        }
    }

    /// Makes the declaration of some backends only.
    pub(super) fn declaration_of(&self, wanted: impl Fn(&str) -> bool, revision: Revision) -> String {
        let chosen = self.backends.iter().filter(|(name, _)| wanted(name));
        let chosen = chosen.map(|(_, capabilities)| capabilities);
        server_capabilities::declaration(chosen.chain(&self.own), revision)
    }

    /// Returns the backends whose capabilities are known.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &ServerCapabilities)> {
        self.backends.iter().map(|(name, capabilities)| (name, capabilities))
    }
}

fn read(discovered: &Discovered) -> ServerCapabilities {
    let revision = discovered.revision.as_deref().and_then(Revision::parse);
    let era = revision.map_or(Era::Legacy, Revision::era);
    ServerCapabilities::read(era, &discovered.capabilities)
        .with_legacy(discovered.legacy_capabilities.as_deref())
}

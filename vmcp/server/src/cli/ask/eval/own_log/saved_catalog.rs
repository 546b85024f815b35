//! The catalog of a configuration from the definitions that a server saved, without asking any backend.

use std::path::Path;
use std::sync::Arc;

use vmcp_config::Config;
use vmcp_model::discovered::Discovered;
use vmcp_store::Store;

use super::super::corpus::Corpus;
use crate::cli::console::failure::CommandFailure;
use crate::cli::console::notes;
use crate::cli::saved_definitions;

/// A backend's name and its saved definitions.
pub(super) type BackendDefinitions = (Arc<str>, Arc<Discovered>);

/// Reads the definitions of the enabled backends of a configuration. A backend without any is left out, with
/// a note.
pub(super) fn definitions(config: &Config, dir: &Path) -> Result<Vec<BackendDefinitions>, CommandFailure> {
    let store = Store::open(dir)?;
    let mut definitions = Vec::new();
    for backend in config.backends.iter().filter(|backend| backend.enabled) {
        match saved_definitions::of_backend(&store, backend)? {
            Some(discovered) => definitions.push((Arc::clone(&backend.name), discovered)),
            None => notes::note(&format!(
                "warning: no saved definitions of {}; its tools are left out",
                backend.name
            )),
        }
    }
    Ok(definitions)
}

/// Builds the catalog of saved definitions by the rules of a configuration.
pub(super) fn corpus(definitions: &[BackendDefinitions], config: &Config) -> Corpus {
    let mut catalog = Corpus::build(definitions, &config.aggregation);
    catalog.add_composites(&config.composite_tools, |_| false);
    Corpus::of(catalog)
}

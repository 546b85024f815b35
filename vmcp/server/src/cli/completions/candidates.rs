//! Names that a shell completes: read from the configuration file and from the saved listings, without asking
//! any server. A person waits for each, so that every failure means no candidates.

use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use clap_complete::CompletionCandidate;
use vmcp_client_files::known_clients;
use vmcp_config::Config;
use vmcp_model::catalog::Catalog;
use vmcp_model::discovered::Discovered;
use vmcp_store::Store;

use crate::cli::console::brief::brief;
use crate::cli::options::GlobalOptions;
use vmcp_engine::folders;

/// Returns the names of all backends.
pub(in crate::cli) fn backends() -> Vec<CompletionCandidate> {
    let Some(config) = config() else { return Vec::new() };
    config.backends.iter().map(|backend| CompletionCandidate::new(backend.name.to_string())).collect()
}

/// Returns the names of all clients that vmcp knows the files of.
pub(in crate::cli) fn clients() -> Vec<CompletionCandidate> {
    known_clients::names().map(CompletionCandidate::new).collect()
}

/// Returns the names of all profiles.
pub(in crate::cli) fn profiles() -> Vec<CompletionCandidate> {
    let Some(config) = config() else { return Vec::new() };
    config.profiles.keys().map(|name| CompletionCandidate::new(name.to_string())).collect()
}

/// Returns the names of all tools, as they were listed last.
pub(in crate::cli) fn tools() -> Vec<CompletionCandidate> {
    let Some(catalog) = config().as_ref().and_then(saved_catalog) else { return Vec::new() };
    let listed = catalog.tools.iter().filter(|tool| tool.listed);
    let candidate = |name: &str, description: &str| {
        CompletionCandidate::new(name.to_owned()).help(Some(brief(description).into()))
    };
    listed.map(|tool| candidate(&tool.name, tool.definition.description.as_deref().unwrap_or(""))).collect()
}

fn saved_catalog(config: &Config) -> Option<Catalog> {
    let store = Store::open(&folders::storage_dir(config)).ok()?;
    let mut listings = Vec::new();
    for backend in &config.backends {
        let Ok(Some(saved)) = store.definitions(&backend.name, &backend.fingerprint()) else { continue };
        let Ok(discovered) = Discovered::from_json(&saved.json) else { continue };
        listings.push((Arc::clone(&backend.name), Arc::new(discovered)));
    }
    Some(Catalog::build(&listings, &config.aggregation))
}

fn config() -> Option<Config> {
    Some(GlobalOptions::of_file(named_file(env::args())).load().ok()?.config)
}

/// Returns the configuration file that the words of the command line, or the environment, name.
fn named_file(mut words: impl Iterator<Item = String>) -> Option<PathBuf> {
    while let Some(word) = words.next() {
        if word == "--config" || word == "-c" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word.strip_prefix("--config=") {
            return Some(path.into());
        }
    }
    env::var_os("VMCP_CONFIG").map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_the_one_of_the_command_line() {
        let named = |words: &str| named_file(words.split(' ').map(str::to_owned));
        for words in ["vmcp -- vmcp --config a.yaml call", "vmcp -- vmcp -c a.yaml", "x --config=a.yaml y"] {
            assert_eq!(named(words), Some(PathBuf::from("a.yaml")), "{words}");
        }
    }
}

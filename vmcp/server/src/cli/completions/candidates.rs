//! Names that a shell completes: read from the configuration file and from the saved listings, without asking
//! any server. A person waits for each, so that every failure means no candidates.

use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use clap_complete::CompletionCandidate;
use serde_json::Value;
use vmcp_client_files::known_clients;
use vmcp_config::Config;
use vmcp_model::catalog::Catalog;
use vmcp_store::Store;

use crate::cli::console::brief::brief;
use crate::cli::options::GlobalOptions;
use crate::cli::saved_definitions;
use crate::config_file::secret_store;
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

/// Returns the names of all stored secrets.
pub(in crate::cli) fn secrets() -> Vec<CompletionCandidate> {
    let stored = secret_store::path().and_then(|path| secret_store::read(&path).ok());
    stored.unwrap_or_default().into_keys().map(CompletionCandidate::new).collect()
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

/// Returns `name=` for each parameter of the tool that `vmcp call` names, the required ones first.
pub(in crate::cli) fn parameters() -> Vec<CompletionCandidate> {
    let Some(catalog) = config().as_ref().and_then(saved_catalog) else { return Vec::new() };
    let tool = env::args().find_map(|word| catalog.tools.iter().find(|tool| tool.name == word));
    tool.map(|tool| parameters_of(tool.raw.get())).unwrap_or_default()
}

/// Returns a candidate for each property of a definition's schema.
fn parameters_of(definition: &str) -> Vec<CompletionCandidate> {
    let definition: Value = serde_json::from_str(definition).unwrap_or_default();
    let schema = definition.get("inputSchema").unwrap_or(&Value::Null);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    let mut properties: Vec<_> =
        schema.get("properties").and_then(Value::as_object).into_iter().flatten().collect();
    properties.sort_by_key(|(name, _)| !is_required(name));
    let candidate = |(name, schema): (&String, &Value)| {
        let help = schema.get("description").and_then(Value::as_str).map(|text| brief(text).into());
        CompletionCandidate::new(format!("{name}=")).help(help)
    };
    properties.into_iter().map(candidate).collect()
}

fn saved_catalog(config: &Config) -> Option<Catalog> {
    let store = Store::open(&folders::storage_dir(config)).ok()?;
    let mut listings = Vec::new();
    for backend in &config.backends {
        let Ok(Some(discovered)) = saved_definitions::of_backend(&store, backend) else { continue };
        listings.push((Arc::clone(&backend.name), discovered));
    }
    Some(Catalog::build(&listings, &config.aggregation))
}

fn config() -> Option<Config> {
    let options = GlobalOptions::of_file(named_file(env::args()));
    // In another folder, commands mean the file of the running server.
    let path = options.config_or_running().ok()?;
    Some(options.load_file(&path).ok()?.config)
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
    fn parameters_are_completed_with_their_sign_and_the_required_ones_first() {
        let definition = r#"{"name": "t", "inputSchema": {"required": ["zone"], "properties":
            {"format": {"type": "string"}, "zone": {"description": "Name of the zone. IANA."}}}}"#;
        let found = parameters_of(definition);
        let values: Vec<_> = found.iter().map(|one| one.get_value().to_string_lossy()).collect();
        assert_eq!(values, ["zone=", "format="]);
        assert_eq!(found[0].get_help().map(ToString::to_string).as_deref(), Some("Name of the zone."));
        assert!(parameters_of("[]").is_empty());
    }

    #[test]
    fn the_file_is_the_one_of_the_command_line() {
        let named = |words: &str| named_file(words.split(' ').map(str::to_owned));
        for words in ["vmcp -- vmcp --config a.yaml call", "vmcp -- vmcp -c a.yaml", "x --config=a.yaml y"] {
            assert_eq!(named(words), Some(PathBuf::from("a.yaml")), "{words}");
        }
    }
}

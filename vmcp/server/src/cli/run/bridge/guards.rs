//! Guards of a bridge: a file with some blocks of `vmcp.yaml`, joined with the fixed settings of the bridge.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};
use vmcp_config::{Config, Problem};

use crate::cli::console::failure::CommandFailure;
use crate::config_file::reference_lookup::ReferenceLookup;
use crate::config_file::source::{self, ConfigInputs};

/// Blocks that the file may have. Others would have no effect, or change what the bridge is.
const BLOCKS: [&str; 7] =
    ["incomingAuth", "authServer", "audit", "rateLimiting", "sessionStorage", "telemetry", "server"];
/// The one setting of the block `server` that the file may have.
const SESSION_KEYS: &str = "sessionKeys";

/// Returns the configuration of `settings` with the guards of a file, and the warnings about them. Fails
/// closed: a file that is missing or has a mistake is an error.
pub(super) fn load(
    path: &Path,
    settings: Map<String, Value>,
    lookup: &ReferenceLookup,
) -> Result<(Config, Vec<String>), CommandFailure> {
    let text = source::read_config(path).map_err(|error| {
        CommandFailure::new(format!("cannot read the guards {}: {error}", path.display()))
            .remedy("correct --guards")
    })?;
    let joined = join(&text, settings)
        .map_err(|reason| CommandFailure::new(format!("the guards {}: {reason}", path.display())))?;
    let (_, loaded) = ConfigInputs::of_text(joined, path, lookup, &BTreeMap::new());
    let loaded =
        loaded.map_err(|problems| CommandFailure::new(format!("the guards have mistakes\n{problems}")))?;
    // The backends are the bridge's own. Lines are those of the joined text, which has one line.
    let of_guards = loaded.warnings.into_iter().filter(|warning| !warning.path.starts_with("backends"));
    let source = path.display().to_string();
    let warnings = of_guards.map(|warning| Problem { line: None, ..warning }.render(&source)).collect();
    Ok((loaded.config, warnings))
}

/// Returns true if the configuration `after` lets every client in, and the one `before` asks for credentials.
pub(super) fn opens(before: &Config, after: &Config) -> bool {
    after.incoming_auth.is_anonymous() && !before.incoming_auth.is_anonymous()
}

/// Joins the guards in `text` with `settings`, as YAML. Settings of the bridge win: guards cannot replace
/// them. A text without guards is an error: a file that was cut off must not open the bridge.
fn join(text: &str, mut settings: Map<String, Value>) -> Result<String, String> {
    let guards: Option<Map<String, Value>> =
        serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let Some(guards) = guards.filter(|guards| !guards.is_empty()) else {
        return Err(format!("the file has no guards; write one of `{}`", BLOCKS.join("`, `")));
    };
    for (key, mut value) in guards {
        if !BLOCKS.contains(&key.as_str()) {
            let known = BLOCKS.join("`, `");
            return Err(format!("`{key}` is no guard; remove it, or write one of `{known}`"));
        }
        if key != "server" {
            settings.insert(key, value);
            continue;
        }
        let keys = value.get_mut(SESSION_KEYS).map(Value::take);
        if let Some(other) = value.as_object().and_then(|block| block.keys().find(|key| *key != SESSION_KEYS))
        {
            return Err(format!("`server.{other}` is no guard; remove it, or give it as an option"));
        }
        let server = settings.entry(key).or_insert_with(|| Map::new().into());
        if let (Some(keys), Some(server)) = (keys, server.as_object_mut()) {
            server.insert(SESSION_KEYS.to_owned(), keys);
        }
    }
    Ok(Value::from(settings).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings() -> Map<String, Value> {
        let settings = json!({ "optimizer": { "enabled": false }, "server": { "adminTokens": ["a token of enough characters"] } });
        settings.as_object().unwrap().clone()
    }

    #[test]
    fn guards_join_the_settings_of_the_bridge() {
        let text = "audit: {enabled: true}\nserver: {sessionKeys: ['${file:/k}']}\n";
        let joined: Value = serde_json::from_str(&join(text, settings()).unwrap()).unwrap();
        let expected = json!({
            "optimizer": { "enabled": false }, "audit": { "enabled": true },
            "server": { "adminTokens": ["a token of enough characters"], "sessionKeys": ["${file:/k}"] },
        });
        assert_eq!(joined, expected);
        for empty in ["", "{}", "null", "# cut off"] {
            let refused = join(empty, settings()).unwrap_err();
            assert!(refused.starts_with("the file has no guards"), "{empty}: {refused}");
        }
    }

    #[test]
    fn other_settings_are_refused_by_name() {
        for (text, reason) in [
            ("optimizer: {enabled: true}", "`optimizer` is no guard"),
            ("backends: [{name: a, url: 'http://a/mcp'}]", "`backends` is no guard"),
            ("server: {listen: '0.0.0.0:1'}", "`server.listen` is no guard"),
        ] {
            let refused = join(text, settings()).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn a_file_that_guards_nothing_by_mistake_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("guards.yaml");
        let lookup = ReferenceLookup::new(|_| None);
        let load = || load(&path, settings(), &lookup).map_err(|failure| failure.message().to_owned());
        assert!(load().unwrap_err().contains("cannot read the guards"));
        for (text, reason) in [
            ("incomingAuth: {type: oidc}", "incomingAuth.oidc"),
            (
                "incomingAuth: {authz: {policies: ['permit(principal action, resource);']}}",
                "incomingAuth.authz.policies[0]",
            ),
            ("incommingAuth: {type: oidc}", "`incommingAuth` is no guard"),
        ] {
            std::fs::write(&path, text).unwrap();
            let refused = load().unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
        std::fs::write(&path, "incomingAuth: {authz: {policies: ['permit(principal, action, resource);']}}")
            .unwrap();
        assert!(load().unwrap().0.authz.is_some());
    }

    #[test]
    fn warnings_are_about_the_guards_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("guards.yaml");
        std::fs::write(&path, "audit: {enabled: true, excludeEventTypes: [mcp_tol_call]}").unwrap();
        let (_, warnings) = load(&path, settings(), &ReferenceLookup::new(|_| None)).unwrap();
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        let place = format!("{}: audit.excludeEventTypes[0]: ", path.display());
        assert!(warning.starts_with(&place), "{warning}");
    }

    #[test]
    fn guards_without_credentials_do_not_follow_guards_with_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("guards.yaml");
        let lookup = ReferenceLookup::new(|_| None);
        let load = |text: &str| {
            std::fs::write(&path, text).unwrap();
            load(&path, settings(), &lookup).unwrap().0
        };
        let keys = load("incomingAuth: {type: apiKeys, apiKeys: [{subject: ci, key: a-key-of-the-client}]}");
        let open = load("audit: {enabled: true}");
        assert!(opens(&keys, &open));
        assert!(!opens(&open, &keys) && !opens(&open, &open) && !opens(&keys, &keys));
    }
}

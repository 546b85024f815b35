//! `profiles`: parts of the catalog under paths of their own, `/mcp/NAME`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problems::{self, Report};
use crate::rules::NamePattern;
use crate::sections::aggregation;
use crate::sections::backend::is_backend_name;
use crate::sections::optimizer::Exposure;

/// Most profiles: each that is in use has lists of its own.
const MAX_PROFILES: usize = 64;

/// The part of the catalog that a profile's clients may list, find and call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Backends that belong to the profile; `None`: all.
    pub servers: Option<BTreeSet<Arc<str>>>,
    /// Patterns of the listed names of its tools; none: all of its servers.
    pub tools: Vec<NamePattern>,
    /// True if only tools belong to it that declare to change nothing.
    pub read_only: bool,
    /// True if its clients may run scripts, where vmcp offers that.
    pub code_mode: bool,
    /// Tools that its `tools/list` shows; `None`: as for all.
    pub exposure: Option<Exposure>,
}

/// A part of the catalog, under the path `/mcp/NAME`. Everything else is unknown there: to lists, search and
/// calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Profile")]
pub struct RawProfile {
    /// Backends that belong to the profile, with their tools, prompts and resources. None named: all.
    pub servers: Vec<String>,
    /// Tools of these servers that belong to it, by listed name; `*` stands for any characters.
    /// None named: all.
    pub tools: Vec<String>,
    /// Only tools belong to it that their server declares to change nothing (`readOnlyHint: true`).
    pub read_only: bool,
    /// Scripts belong to it where `optimizer.tools` offers them. `false`: for clients that bring a code mode
    /// of their own. Default: `true`.
    pub code_mode: Option<bool>,
    /// Tools that its `tools/list` shows. Default: `optimizer.exposure`.
    pub exposure: Option<Exposure>,
}

/// Validates all profiles; `backends` are the names of the configured ones.
pub(crate) fn validate(
    profiles: &BTreeMap<String, RawProfile>,
    backends: &BTreeSet<&str>,
    report: &mut Report,
) -> BTreeMap<Arc<str>, Profile> {
    if profiles.len() > MAX_PROFILES {
        let message = format!("{} profiles; at most {MAX_PROFILES} are served", profiles.len());
        report.problem("profiles", message, "let several clients share one, or run a second vmcp");
    }
    let validated = profiles.iter().map(|(name, raw)| {
        let path = problems::key("profiles", name);
        if !is_backend_name(name) {
            let remedy = "use lower-case letters, digits, `-`, `_` and `.`: the name is a part of the URL";
            report.problem(&path, format!("`{name}` is no name for a profile"), remedy);
        }
        for (index, server) in raw.servers.iter().enumerate() {
            let path = problems::item(&format!("{path}.servers"), index);
            aggregation::check_backend(server, &path, backends, report);
        }
        let servers = raw.servers.iter().map(|server| server.as_str().into()).collect::<BTreeSet<_>>();
        let profile = Profile {
            servers: (!servers.is_empty()).then_some(servers),
            tools: raw.tools.iter().map(|pattern| NamePattern::new(pattern.as_str())).collect(),
            read_only: raw.read_only,
            code_mode: raw.code_mode.unwrap_or(true),
            exposure: raw.exposure,
        };
        (name.as_str().into(), profile)
    });
    validated.collect()
}

//! Levels of log lines by module, which operators change while the process runs.
//!
//! Each layer of the log registers its filter once. A change makes a new filter of the directives at the
//! start and of all changes since, so that `info` with `vmcp_backend=debug` on top keeps `info` elsewhere.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing::Subscriber;
use tracing_subscriber::{EnvFilter, reload};

/// Words for levels.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// Module that stands for all of vmcp's own. Libraries keep their level unless they are named: at `debug` and
/// `trace`, some log headers.
const OWN_MODULES: &str = "vmcp";
/// Crates of the server, as modules.
const CRATES: [&str; 30] = [
    OWN_MODULES,
    "vmcp_access",
    "vmcp_backend",
    "vmcp_client_files",
    "vmcp_cluster_servers",
    "vmcp_codex",
    "vmcp_config",
    "vmcp_console",
    "vmcp_edge",
    "vmcp_egress",
    "vmcp_embed",
    "vmcp_engine",
    "vmcp_error_chain",
    "vmcp_exposition",
    "vmcp_hooks",
    "vmcp_json",
    "vmcp_lines",
    "vmcp_model",
    "vmcp_pictures",
    "vmcp_registry",
    "vmcp_results",
    "vmcp_route",
    "vmcp_script",
    "vmcp_script_job",
    "vmcp_script_worker",
    "vmcp_search",
    "vmcp_store",
    "vmcp_tools_client",
    "vmcp_wire",
    "vmcp_workflow",
];
/// Longest name of a module, in bytes.
const MAX_MODULE_BYTES: usize = 128;
/// Most modules with a level of their own: each costs a comparison for every kind of line.
const MAX_MODULES: usize = 32;
/// Longest time after which a change ends by itself.
pub const MAX_CHANGE: Duration = Duration::from_hours(24 * 30);

/// The filters of this process, and what operators changed. There is one log a process.
static LEVELS_IN_FORCE: Mutex<Levels> =
    Mutex::new(Levels { filters: Vec::new(), start: String::new(), changes: BTreeMap::new(), until: None });

/// Taken by tests that change levels and by tests that a changed level would disturb.
#[cfg(test)]
pub(in crate::telemetry) static TEST_TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Levels in force, as operators read them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LevelReport {
    /// Level or filter that the process was started with.
    pub start: String,
    /// Levels that were changed since, by module; `vmcp` stands for all of vmcp's own.
    pub changes: BTreeMap<String, String>,
    /// Time at which the changes end, RFC 3339; absent if they last until the process ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// Reasons why a level is not changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    /// Unknown word for a level.
    #[error("level: `{0}` is no level; use off, error, warn, info, debug or trace")]
    Level(String),
    /// Malformed name of a module.
    #[error(
        "module: `{0}` is no module; use letters, digits, `_` and `::`, at most 128 bytes, such as vmcp_backend"
    )]
    Module(String),
    /// Name of no module of vmcp.
    #[error(
        "module: vmcp has no module `{0}`; its crates are vmcp, vmcp_access, vmcp_backend, vmcp_edge, vmcp_engine and the others of `vmcp/` with `_` for `-`"
    )]
    UnknownModule(String),
    /// The module has the level of the start.
    #[error("module: `{0}` has no level of its own; `GET /admin/log-level` lists the modules that have one")]
    Unchanged(String),
    /// Too many modules have levels of their own.
    #[error("module: 32 modules have a level of their own already; go back to the start's with `reset`")]
    TooManyModules,
    /// The time is zero or too long.
    #[error("for: a change lasts from a second to 30 days")]
    Duration,
    /// The process has no log.
    #[error("this process writes no log")]
    NoLog,
}

struct Levels {
    filters: Vec<RegisteredFilter>,
    start: String,
    /// Changed levels by module.
    changes: BTreeMap<String, &'static str>,
    /// End of all changes, by which a timer knows its own.
    until: Option<SystemTime>,
}

struct RegisteredFilter {
    /// Directives at the start.
    start: String,
    /// Puts another filter in force; false if the layer is gone.
    replace: Box<dyn Fn(EnvFilter) -> bool + Send>,
}

/// Makes a filter of directives that later changes reach; `None` if they do not parse. `is_reported`: people
/// read them as those of the start.
pub(in crate::telemetry) fn adjustable<S: Subscriber>(
    directives: &str,
    is_reported: bool,
) -> Option<reload::Layer<EnvFilter, S>> {
    let filter = EnvFilter::builder().parse(directives).ok()?;
    let (layer, handle) = reload::Layer::new(filter);
    let start = directives.to_owned();
    let mut levels = LEVELS_IN_FORCE.lock();
    if is_reported {
        levels.start.clone_from(&start);
    }
    let replace = Box::new(move |filter| handle.reload(filter).is_ok());
    levels.filters.push(RegisteredFilter { start, replace });
    Some(layer)
}

/// Returns the levels in force.
pub fn report() -> LevelReport {
    LEVELS_IN_FORCE.lock().report()
}

/// Sets the level of one module, or of all of vmcp's own in place of their changes so far. After `life`, all
/// changes end; without it, they end at the time that an earlier change set, or with the process. Returns the
/// end, for [`reset`].
pub fn change(
    level: &str,
    module: Option<&str>,
    life: Option<Duration>,
) -> Result<Option<SystemTime>, LevelError> {
    let known = LEVELS.into_iter().find(|known| known.eq_ignore_ascii_case(level));
    let known = known.ok_or_else(|| LevelError::Level(level.chars().take(MAX_MODULE_BYTES).collect()))?;
    let module = module.unwrap_or(OWN_MODULES);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    if module.is_empty() || module.len() > MAX_MODULE_BYTES || !module.chars().all(is_name) {
        return Err(LevelError::Module(module.chars().take(MAX_MODULE_BYTES).collect()));
    }
    if !may_exist(module) {
        return Err(LevelError::UnknownModule(module.to_owned()));
    }
    if life.is_some_and(|life| life < Duration::from_secs(1) || life > MAX_CHANGE) {
        return Err(LevelError::Duration);
    }
    let mut levels = LEVELS_IN_FORCE.lock();
    let mut changes = levels.changes.clone();
    if module == OWN_MODULES {
        // In a filter, the directive of one module outweighs the one of all.
        changes.retain(|changed, _| !changed.starts_with(OWN_MODULES));
    }
    if !changes.contains_key(module) && changes.len() >= MAX_MODULES {
        return Err(LevelError::TooManyModules);
    }
    changes.insert(module.to_owned(), known);
    let until = life.map(|life| SystemTime::now() + life).or(levels.until);
    levels.put_in_force(changes, until)?;
    Ok(until)
}

/// Goes back to the levels of the start. With `until`, only if the changes end at that time.
pub fn reset(until: Option<SystemTime>) -> Result<bool, LevelError> {
    let mut levels = LEVELS_IN_FORCE.lock();
    if until.is_some() && until != levels.until {
        return Ok(false);
    }
    levels.put_in_force(BTreeMap::new(), None).map(|()| true)
}

/// Goes back to the level of the start for one module. Returns true if no change is left.
pub fn reset_module(module: &str) -> Result<bool, LevelError> {
    let mut levels = LEVELS_IN_FORCE.lock();
    let mut changes = levels.changes.clone();
    if changes.remove(module).is_none() {
        return Err(LevelError::Unchanged(module.chars().take(MAX_MODULE_BYTES).collect()));
    }
    let is_over = changes.is_empty();
    let until = levels.until.filter(|_| !is_over);
    levels.put_in_force(changes, until).map(|()| is_over)
}

/// False for a name that begins with `vmcp` and names none of its crates. A filter takes the begin of a name
/// too, and the modules of libraries are unknown here.
fn may_exist(module: &str) -> bool {
    let (name, is_whole) = module.split_once("::").map_or((module, false), |(name, _)| (name, true));
    let fits = |known: &&str| if is_whole { **known == *name } else { known.starts_with(name) };
    !module.starts_with(OWN_MODULES) || CRATES.iter().any(fits)
}

impl Levels {
    fn report(&self) -> LevelReport {
        let shown = |(module, level): (&String, &&str)| (module.clone(), (*level).to_owned());
        LevelReport {
            start: self.start.clone(),
            changes: self.changes.iter().map(shown).collect(),
            until: self.until.map(|until| humantime::format_rfc3339_seconds(until).to_string()),
        }
    }

    /// Replaces the filters of all layers that are left, and forgets the others.
    fn put_in_force(
        &mut self,
        changes: BTreeMap<String, &'static str>,
        until: Option<SystemTime>,
    ) -> Result<(), LevelError> {
        self.filters.retain(|filter| {
            match EnvFilter::builder().parse(directives(&filter.start, &changes)) {
                Ok(parsed) => (filter.replace)(parsed),
                // Not reached: levels and names of modules parse.
                Err(_) => true,
            }
        });
        if self.filters.is_empty() {
            return Err(LevelError::NoLog);
        }
        self.changes = changes;
        self.until = until;
        Ok(())
    }
}

/// Returns the directives of a filter: those of the start, then the changes. Of two directives for one
/// module, the later one counts.
fn directives(start: &str, changes: &BTreeMap<String, &'static str>) -> String {
    let changes = changes.iter().map(|(module, level)| format!(",{module}={level}"));
    std::iter::once(start.to_owned()).chain(changes).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
    use tracing_subscriber::registry::Registry;

    use super::*;
    use crate::telemetry::logs::tests::Lines;

    /// Counts the lines of two modules at level debug that pass.
    fn passed(lines: &Arc<Mutex<Vec<u8>>>) -> (usize, usize) {
        lines.lock().clear();
        tracing::debug!(target: "vmcp_backend::call", "of the backend");
        tracing::debug!(target: "vmcp_edge", "of the edge");
        let text = String::from_utf8(lines.lock().clone()).unwrap();
        (text.matches("of the backend").count(), text.matches("of the edge").count())
    }

    #[test]
    fn a_level_of_one_module_changes_while_the_log_runs_and_goes_back() {
        let _turn = TEST_TURN.blocking_lock();
        let lines = Lines::default();
        let to = lines.clone();
        let layer = tracing_subscriber::fmt::layer::<Registry>()
            .with_writer(move || to.clone())
            .with_filter(adjustable::<Registry>("info", true).unwrap());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            assert_eq!(passed(&lines.0), (0, 0));
            let first = change("DEBUG", Some("vmcp_backend"), Some(Duration::from_mins(1))).unwrap();
            assert_eq!(passed(&lines.0), (1, 0));
            let said = report();
            assert_eq!(said.changes, BTreeMap::from([("vmcp_backend".to_owned(), "debug".to_owned())]));
            assert!(said.until.is_some());
            assert_eq!(change("debug", Some("vmcp_edge"), None), Ok(first), "all changes end together");
            assert_eq!((passed(&lines.0), report().until), ((1, 1), said.until));
            let second = change("info", Some("vmcp_edge"), Some(Duration::from_mins(2))).unwrap();
            assert_eq!(reset(first), Ok(false), "a later end is in force");
            assert_eq!(passed(&lines.0), (1, 0));
            assert_eq!(reset(second), Ok(true));
            assert_eq!((passed(&lines.0), report().until), ((0, 0), None));
            assert_eq!(change("debug", Some("vmcp_backend"), None), Ok(None));
            change("debug", Some("vmcp_edge"), None).unwrap();
            assert_eq!(reset_module("vmcp_edge"), Ok(false));
            assert_eq!(passed(&lines.0), (1, 0), "the other change stays");
            change("debug", Some("hyper"), None).unwrap();
            change("info", None, None).unwrap();
            assert_eq!(passed(&lines.0), (0, 0), "the level is that of all of vmcp's own");
            assert_eq!(report().changes.into_keys().collect::<Vec<_>>(), ["hyper", "vmcp"]);
            assert_eq!(reset(None), Ok(true));
            assert_eq!(passed(&lines.0), (0, 0));
        });
        let wrong = change("debgu", None, None).unwrap_err();
        assert!(wrong.to_string().starts_with("level: `debgu` is no level"), "{wrong}");
        for module in ["", "a b", "x=debug,", "[span{a=b}]", &"m".repeat(129)] {
            assert!(matches!(change("info", Some(module), None), Err(LevelError::Module(_))), "{module}");
        }
        for life in [Duration::ZERO, MAX_CHANGE + Duration::from_secs(1)] {
            assert_eq!(change("info", None, Some(life)), Err(LevelError::Duration));
        }
    }

    #[test]
    fn the_crates_are_those_of_the_folder() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let names = std::fs::read_dir(folder).unwrap().filter_map(|entry| {
            let manifest = std::fs::read_to_string(entry.unwrap().path().join("Cargo.toml")).ok()?;
            let name = manifest.lines().find_map(|line| line.strip_prefix("name = "))?;
            Some(name.trim_matches('"').replace('-', "_"))
        });
        let mut names: Vec<String> = names.filter(|name| name != "vmcp_bench").collect();
        names.sort();
        assert_eq!(names, CRATES);
    }

    #[test]
    fn a_module_of_vmcp_that_does_not_exist_is_refused() {
        for module in ["vmcp_backed", "vmcp_backends", "vmcp_back::call", "vmcpx"] {
            let error = change("debug", Some(module), None).unwrap_err();
            assert_eq!(error, LevelError::UnknownModule(module.to_owned()), "{module}");
        }
        for module in ["vmcp", "vmcp_back", "vmcp_backend", "vmcp_backend::call", "hyper::client"] {
            assert!(may_exist(module), "{module}");
        }
        assert_eq!(reset_module("vmcp_wire"), Err(LevelError::Unchanged("vmcp_wire".to_owned())));
    }

    #[test]
    fn of_two_directives_for_a_module_the_later_one_counts() {
        let changes = BTreeMap::from([("vmcp".to_owned(), "debug"), ("hyper".to_owned(), "trace")]);
        let directives = directives("off,vmcp=info", &changes);
        assert_eq!(directives, "off,vmcp=info,hyper=trace,vmcp=debug");
        let filter = EnvFilter::builder().parse(directives).unwrap().to_string();
        assert!(filter.contains("vmcp=debug") && !filter.contains("vmcp=info"), "{filter}");
    }
}

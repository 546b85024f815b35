//! `vmcp eval --log`: reports on the searches that were logged with `optimizer.queryLog`, and replays them
//! under other settings.

mod recipes;
mod report;
mod saved_catalog;

use std::path::{Path, PathBuf};
use std::time::Duration;

use vmcp_config::Config;
use vmcp_engine::folders;
use vmcp_engine::random::now_ms;
use vmcp_engine::telemetry::query_log::reading::{self, LogReading};
use vmcp_store::{STATE_FILE_NAME, StateStore};

use super::BASELINE;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::output::OutputFormat;
use crate::cli::console::{notes, output};
use crate::cli::options::GlobalOptions;
use crate::cli::process::block_on;

/// Most searches that are read, the newest: the most that `optimizer.queryLog.maxSearches` allows.
const MAX_SEARCHES: usize = 100_000;

/// Options of the command that concern the log.
pub(super) struct OwnLogOptions {
    /// Age of the oldest search that is read; `None`: all are.
    pub(super) since: Option<Duration>,
    /// Deletes the log instead.
    pub(super) delete: bool,
    /// Configuration files to replay the searches under.
    pub(super) compare: Vec<PathBuf>,
    /// Number of tools in an answer.
    pub(super) limit: usize,
    /// Weight of search by meaning under the first configuration.
    pub(super) semantic_ratio: f32,
    /// Format of the result.
    pub(super) format: OutputFormat,
}

/// Reports on the log of a configuration, or replays or deletes it.
pub(super) fn run(
    config: &Config,
    options: &OwnLogOptions,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    let dir = folders::state_dir(config);
    let store = opened(&dir)?;
    if options.delete {
        let deleted = store.delete_searches()?;
        notes::note(&format!("deleted the log: {deleted} searches"));
        return Ok(Exit::Done);
    }
    let log = ended(&store, options.since)?;
    if log.searches.is_empty() {
        let failure = CommandFailure::new(format!("no searches are logged in {}", dir.display()));
        let remedy = if config.optimizer.query_log.enabled {
            "a search is reported ten minutes after it was made; --since may be too short"
        } else {
            "switch the log on with optimizer.queryLog.enabled: true, and come back when clients have searched"
        };
        return Err(failure.remedy(remedy));
    }
    let definitions = saved_catalog::definitions(config, &folders::storage_dir(config))?;
    let corpus = saved_catalog::corpus(&definitions, config);
    if options.compare.is_empty() {
        let report = report::OwnLogReport::new(&log, &corpus, config);
        output::print(options.format, &report, || report.human_text())?;
        return Ok(Exit::Done);
    }
    let queries = recipes::distinct(&log.searches);
    let findable = recipes::findable(&queries, &corpus);
    let mut others = Vec::with_capacity(options.compare.len());
    for path in &options.compare {
        let mut config = global.load_file(path)?.config;
        config.optimizer.enabled = true;
        others.push((path.display().to_string(), config));
    }
    let compared = block_on(async {
        let (name, ratio, limit) = (BASELINE.to_owned(), options.semantic_ratio, options.limit);
        let mut recipes = vec![recipes::replay(name, &queries, &corpus, config, ratio, limit).await?];
        for (name, config) in others {
            let corpus = saved_catalog::corpus(&definitions, &config);
            let ratio = config.optimizer.search.hybrid_semantic_ratio;
            recipes.push(recipes::replay(name, &queries, &corpus, &config, ratio, limit).await?);
        }
        Ok::<_, CommandFailure>(recipes::compared(&queries, &recipes, &findable, limit))
    })?;
    output::print(options.format, &compared, || compared.human_text())?;
    Ok(Exit::Done)
}

/// Opens the state of a folder; a folder without one is an error, and stays without.
fn opened(dir: &Path) -> Result<StateStore, CommandFailure> {
    if !dir.join(STATE_FILE_NAME).is_file() {
        let failure = CommandFailure::new(format!("there is no {STATE_FILE_NAME} in {}", dir.display()));
        return Err(failure.remedy("name the configuration of the server with --config"));
    }
    Ok(StateStore::open(dir)?)
}

/// Reads the searches that get no more calls.
fn ended(store: &StateStore, since: Option<Duration>) -> Result<LogReading, CommandFailure> {
    let now = now_ms();
    let milliseconds = |age: Duration| i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let since = since.map_or(0, |age| now.saturating_sub(milliseconds(age)).max(0));
    let mut log = reading::read(store, since, MAX_SEARCHES)?;
    log.retain_ended(now);
    Ok(log)
}

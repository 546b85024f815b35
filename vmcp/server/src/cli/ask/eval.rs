//! `vmcp eval`: measures how well the search of vmcp finds what a set of queries needs.

mod comparison;
mod corpus;
mod embedding;
mod evaluation;
mod experience;
mod files;
mod own_log;
mod partial;
mod replay;
mod report;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;
use url::Url;
use vmcp_config::Config;
use vmcp_search::learning::BONUS_MIN_SIMILARITY;

use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::notes;
use crate::cli::console::output::{self, OutputFormat};
use crate::cli::options::{GlobalOptions, environment};
use crate::cli::process::block_on;
use comparison::Recipe;
use corpus::Corpus;
use evaluation::{Measured, evaluate, searcher};
use experience::Experience;
use own_log::OwnLogOptions;
use report::Report;
use vmcp_engine::engine::embedding::configured;
use vmcp_engine::search::context::{Learned, learning_mode};

/// Name of the first recipe in a comparison.
const BASELINE: &str = "--config, or defaults";

/// Measure what search finds, on any catalog
///
/// Runs the search of find_tool over the tools in a file, and compares its hits with the tools that each
/// query needs. With `--log`, it reports on the searches of vmcp's own clients, which `optimizer.queryLog`
/// keeps. Vectors are kept in a cache, so that a second run is quick.
#[derive(Debug, Args)]
#[command(after_help = "\
Files are JSON lines, plain or gzipped:
  tools    {\"server\": \"jira\", \"name\": \"get_watchers\", \"description\": \"…\", \"input_schema\": {…}}
  queries  {\"query\": \"who follows the ticket\", \"groups\": [[[\"jira\", \"get_watchers\"]]]}
Each group is one need; any of its [server, name] pairs satisfies it. `id` and `keywords` may be added, and to a log
`failed`, the tools that were called for it and failed.

Examples:
  vmcp eval --tools tools.jsonl.gz --queries queries.jsonl.gz
  vmcp eval --tools tools.jsonl --queries queries.jsonl --provider none --explain-misses 5
  vmcp eval --tools tools.jsonl --queries queries.jsonl --keywords meta.server_hint -o json
  vmcp eval --tools tools.jsonl --queries queries.jsonl --learned
  vmcp eval --tools tools.jsonl --queries queries.jsonl --partial
  vmcp eval --tools tools.jsonl --queries queries.jsonl --compare reranked.yaml
  vmcp eval --log --since 7d
  vmcp eval --log --compare other.yaml
  vmcp eval --tools t.jsonl --queries q.jsonl --provider tei --endpoint http://localhost:8081")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(in crate::cli) struct Arguments {
    /// Tools of the catalog, as JSON lines
    #[arg(long, value_name = "FILE", required_unless_present = "log")]
    tools: Option<PathBuf>,
    /// Queries, as JSON lines
    #[arg(long, value_name = "FILE", required_unless_present = "log")]
    queries: Option<PathBuf>,
    /// Provider of vectors [default: that of the file of --config, else local]
    #[arg(long)]
    provider: Option<Provider>,
    /// Base URL of the provider tei or openai [default: that of the file of --config]
    #[arg(long, value_name = "URL", requires = "provider")]
    endpoint: Option<Url>,
    /// Model of the provider openai; its key is read from OPENAI_API_KEY
    #[arg(long, value_name = "NAME", requires = "provider")]
    model: Option<String>,
    /// Weight of search by meaning, 0 (words only) to 1 (meaning only) [default:
    /// optimizer.search.hybridSemanticRatio]
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    semantic_ratio: Option<f32>,
    /// Number of tools in an answer: for its tokens, and for what counts as missed
    #[arg(long, value_name = "N", default_value_t = vmcp_search::DEFAULT_LIMIT)]
    limit: usize,
    /// Field of a query with its keywords, such as meta.server_hint
    #[arg(long, value_name = "FIELD", default_value = "keywords")]
    keywords: String,
    /// Show this many queries with an unmet need, and the place at which the needed tool came
    #[arg(long, value_name = "N", default_value_t = 0)]
    explain_misses: usize,
    /// Learn from every second query, and show what that changes for the others
    ///
    /// The log of a server in use shows whether learning helps: a line for each query, with the tool that was
    /// used.
    #[arg(long)]
    learned: bool,
    /// Count which tools failed for every second query, and show what that changes for the others
    ///
    /// A line of a log names the tools that failed: `"failed": [[server, tool]]`.
    #[arg(long, conflicts_with = "learned")]
    reliability: bool,
    /// With --learned or --reliability: learn from the queries of this file, and measure all others. Without
    /// FILE: report on the searches of vmcp's own clients
    ///
    /// `optimizer.queryLog` keeps them in `state.db` of the configuration file. A search counts with its
    /// calls, or ten minutes after it was made.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "an option with an optional value")]
    log: Option<Option<PathBuf>>,
    /// With --log: only searches of this time, such as 7d or 12h
    #[arg(long, value_name = "DURATION", requires = "log", value_parser = humantime::parse_duration)]
    since: Option<Duration>,
    /// With --log: delete the log
    #[arg(long, requires = "log", conflicts_with_all = ["since", "compare"])]
    delete: bool,
    /// Measure the recipe of this configuration file too, and the differences; may be given several times
    ///
    /// With --log: replay the searches of the log under it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["learned", "reliability", "explain_misses"])]
    compare: Vec<PathBuf>,
    /// Measure the search while only a part of the tools has vectors, from none to all
    ///
    /// Shows what a cold start and a newly added server cost: once with the vectors of the first tools, once
    /// with those of tools of every server.
    #[arg(long, conflicts_with_all = ["learned", "reliability", "log", "explain_misses", "compare"])]
    partial: bool,
    /// Format of the result
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: OutputFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Provider {
    Local,
    None,
    Tei,
    Openai,
}

impl Provider {
    /// Returns the name that the configuration uses.
    fn name(self) -> &'static str {
        match self {
            Provider::Local => "local",
            Provider::None => "none",
            Provider::Tei => "tei",
            Provider::Openai => "openai",
        }
    }
}

fn ratio(text: &str) -> Result<f32, String> {
    text.parse()
        .ok()
        .filter(|ratio| (0.0..=1.0).contains(ratio))
        .ok_or_else(|| "a number from 0 to 1".to_owned())
}

/// Runs the command.
pub(in crate::cli) fn run(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    global.start_logs()?;
    if arguments.log == Some(None) { on_own_log(arguments, global) } else { on_files(arguments, global) }
}

/// Reports on the searches of vmcp's own clients.
fn on_own_log(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let Arguments { tools, queries, learned, reliability, explain_misses, .. } = &arguments;
    if tools.is_some() || queries.is_some() || *learned || *reliability || *explain_misses > 0 {
        let failure = CommandFailure::new("--log without a file reads the searches of vmcp's own clients");
        return Err(failure.remedy("name the file of --log, or leave out the options for files"));
    }
    let Arguments { provider, endpoint, model, semantic_ratio, limit, since, delete, .. } = arguments;
    let mut config = configuration(global, true)?;
    choose_provider(&mut config, provider, endpoint.as_ref(), model.as_deref())?;
    let options = OwnLogOptions {
        since,
        delete,
        compare: arguments.compare,
        limit,
        semantic_ratio: semantic_ratio.unwrap_or(config.optimizer.search.hybrid_semantic_ratio),
        format: arguments.output,
    };
    own_log::run(&config, &options, global)
}

/// Returns the files of tools and of queries. An option that is for vmcp's own log alone is an error.
fn files_of(arguments: &Arguments) -> Result<(PathBuf, PathBuf), CommandFailure> {
    let Arguments { tools, queries, log, since, delete, compare, .. } = arguments;
    if since.is_some() || *delete || (log.is_some() && !compare.is_empty()) {
        let failure = CommandFailure::new("--since, --delete and --compare do not go with the file of --log");
        return Err(failure.remedy("leave out the file to read the searches of vmcp's own clients"));
    }
    tools.clone().zip(queries.clone()).ok_or_else(|| {
        let failure = CommandFailure::new("a log in a file needs --tools and --queries");
        failure.remedy("add them, or name no file to read the searches of vmcp's own clients")
    })
}

/// Measures the queries of a file over the tools of a file.
fn on_files(arguments: Arguments, global: &GlobalOptions) -> Result<Exit, CommandFailure> {
    let (tools, queries) = files_of(&arguments)?;
    let Arguments {
        provider,
        endpoint,
        model,
        semantic_ratio,
        limit,
        keywords,
        explain_misses,
        learned,
        reliability,
        log,
        compare,
        partial,
        output: format,
        ..
    } = arguments;
    let log = log.flatten();
    let mut config = configuration(global, false)?;
    choose_provider(&mut config, provider, endpoint.as_ref(), model.as_deref())?;
    let corpus = Corpus::new(files::tools(&tools)?);
    let queries = files::queries(&queries, &keywords)?;
    if let Some(unknown) = queries.iter().find_map(|query| corpus.unknown(query)) {
        notes::note(&format!("warning: a query needs {unknown:?}, which the catalog does not have"));
    }
    let experience = experience(&config, learned, reliability);
    if experience.is_none() && log.is_some() {
        let failure = CommandFailure::new("a log teaches nothing by itself");
        return Err(failure.remedy("add --learned or --reliability"));
    }
    let (log, queries) = match (&experience, log) {
        (None, _) => (None, queries),
        (Some(_), Some(log)) => (Some(files::queries(&log, &keywords)?), queries),
        (Some(_), None) => {
            let (log, held_out) = replay::split(queries);
            (Some(log), held_out)
        }
    };
    let mut others = Vec::with_capacity(compare.len());
    for path in compare {
        let mut config = global.load_file(&path)?.config;
        config.optimizer.enabled = true;
        others.push((path.display().to_string(), config));
    }
    let ratio = semantic_ratio.unwrap_or(config.optimizer.search.hybrid_semantic_ratio);
    if !others.is_empty() {
        let recipes = block_on(async {
            let mut recipes = Vec::with_capacity(others.len() + 1);
            let named = others
                .iter()
                .map(|(name, config)| (name.clone(), config, config.optimizer.search.hybrid_semantic_ratio));
            for (name, config, ratio) in std::iter::once((BASELINE.to_owned(), &config, ratio)).chain(named) {
                let (searcher, timed) = searcher(&corpus, config, ratio, limit).await?;
                let report = evaluate(&corpus, &queries, &searcher, timed.as_deref(), Measured::Hits).await?;
                recipes.push(Recipe { name, report });
            }
            Ok(recipes)
        })?;
        let tools = corpus.len();
        output::print(format, &comparison::measures(&recipes, tools), || {
            comparison::human_text(&recipes, tools)
        })?;
        return Ok(Exit::Done);
    }
    if partial {
        let parts = block_on(async {
            partial::measure(&corpus, &queries, &searcher(&corpus, &config, ratio, limit).await?.0).await
        })?;
        output::print(format, &parts, || partial::human_text(&parts, queries.len(), corpus.len()))?;
        return Ok(Exit::Done);
    }
    let (report, replay) = block_on(async {
        let (searcher, timed) = searcher(&corpus, &config, ratio, limit).await?;
        if let Some((log, experience)) = log.as_ref().zip(experience) {
            let replay = replay::replay(&corpus, log, &queries, &searcher, experience).await?;
            return Ok((Report::default(), Some(replay)));
        }
        let measured = if explain_misses > 0 { Measured::Misses } else { Measured::Hits };
        let report = evaluate(&corpus, &queries, &searcher, timed.as_deref(), measured).await?;
        Ok((report, None))
    })?;
    if let Some(replay) = replay {
        output::print(format, &replay.measures(), || replay.human_text())?;
        return Ok(Exit::Done);
    }
    output::print(format, &report.measures(corpus.len(), explain_misses), || {
        report.human_text(corpus.len(), limit)
    })?;
    // Programs find them in the result.
    let explained = if format == OutputFormat::Table { explain_misses } else { 0 };
    for miss in report.misses.iter().take(explained) {
        notes::note(&format!("\n{miss}"));
    }
    Ok(Exit::Done)
}

/// Returns what a replay teaches, still empty; `None` if it teaches nothing.
fn experience(config: &Config, learned: bool, reliability: bool) -> Option<Experience> {
    let learning = &config.optimizer.learning;
    match (learned, reliability) {
        (true, _) => Some(Experience::Learned {
            pairs: Learned::default(),
            mode: learning_mode(learning.mode),
            min_similarity: learning.min_similarity.max(BONUS_MIN_SIMILARITY),
        }),
        (false, true) => Some(Experience::Reliability(BTreeMap::new())),
        (false, false) => None,
    }
}

/// Returns the configuration of `--config`, or the defaults. `is_servers`: without `--config`, the file of a
/// server.
fn configuration(global: &GlobalOptions, is_servers: bool) -> Result<Config, CommandFailure> {
    let mut config = match &global.config {
        Some(_) => global.load()?.config,
        None if is_servers => global.load_file(&global.config_or_running()?)?.config,
        None => vmcp_config::load("backends: []", "defaults", &|_| None)?.config,
    };
    config.optimizer.enabled = true;
    Ok(config)
}

/// Puts the embeddings that the options name into a configuration.
fn choose_provider(
    config: &mut Config,
    provider: Option<Provider>,
    endpoint: Option<&Url>,
    model: Option<&str>,
) -> Result<(), CommandFailure> {
    let configured = |provider: Provider| {
        endpoint.is_none() && model.is_none() && provider.name() == configured::provider_name(config)
    };
    if let Some(provider) = provider.filter(|provider| !configured(*provider)) {
        let block = match provider {
            Provider::Local | Provider::None => json!({ "provider": provider.name() }),
            Provider::Tei => json!({ "provider": "tei", "tei": { "endpoint": endpoint, "model": model } }),
            Provider::Openai => {
                let key = environment("OPENAI_API_KEY").map(|_| "${OPENAI_API_KEY}");
                json!({ "provider": "openai", "openai": { "endpoint": endpoint, "model": model, "apiKey": key } })
            }
        };
        // Loaded like a file, so that the same checks apply with the same messages.
        let text = json!({ "optimizer": { "embeddings": block } }).to_string();
        config.optimizer.embeddings =
            vmcp_config::load(&text, "options", &environment)?.config.optimizer.embeddings;
    }
    Ok(())
}

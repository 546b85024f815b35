//! `vmcp doctor`: looks at everything that has to work, and says what to do about what does not.

mod remedies;

use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use vmcp_embed::local;
use vmcp_model::config::{Config, EmbeddingProvider};
use vmcp_store::Store;

use super::connection::{self, Connection, Need, Reach};
use super::failure::{Exit, Failure};
use super::options::{Format, Global};
use super::output;
use super::status::{Backend, Embeddings, Status};
use crate::engine::provider;

/// How long an embedding service may take for one word.
const EMBEDDING: Duration = Duration::from_secs(10);

/// Find out what is wrong, and what to do about it
///
/// Looks at the configuration, the model, the storage folder and each backend: does it connect, which protocol does it
/// speak, what does it offer, how long does it take.
#[derive(Debug, Args)]
#[command(
    after_help = "Exits with 1 when something is broken.\n\nExamples:\n  vmcp doctor\n  vmcp doctor github --local"
)]
pub(super) struct Arguments {
    /// Only this backend
    backend: Option<String>,
    /// How the result looks
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
    #[command(flatten)]
    reach: Reach,
}

/// How one thing is doing.
#[derive(Debug, Serialize)]
struct Finding {
    subject: String,
    health: Health,
    finding: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Good,
    /// It works, with less.
    Degraded,
    Broken,
}

impl Finding {
    fn good(subject: &str, finding: impl Into<String>) -> Finding {
        Finding { subject: subject.to_owned(), health: Health::Good, finding: finding.into(), remedy: None }
    }

    fn degraded(subject: &str, finding: impl Into<String>, remedy: &str) -> Finding {
        Finding {
            health: Health::Degraded,
            remedy: Some(remedy.to_owned()),
            ..Finding::good(subject, finding)
        }
    }

    fn broken(subject: &str, finding: impl Into<String>, remedy: &str) -> Finding {
        Finding { health: Health::Broken, ..Finding::degraded(subject, finding, remedy) }
    }
}

/// Runs the command.
pub(super) fn run(arguments: Arguments, global: &Global) -> Result<Exit, Failure> {
    let Arguments { backend: only, output: format, reach } = arguments;
    connection::with(global, &reach, &Need::Backends, async |connection| {
        let status = connection.status().await?;
        let mut findings = Vec::new();
        let file = global.load_if_any()?;
        if only.is_none() {
            if let Some(file) = &file {
                let finding =
                    format!("{} is valid: {} backends", file.path.display(), file.config.backends.len());
                findings.push(Finding::good("configuration", finding));
            }
            findings.push(server(connection, &status));
            match (connection, &file) {
                (Connection::Own { .. }, Some(file)) => {
                    findings.push(storage(&file.config));
                    findings.push(embeddings(&file.config).await);
                }
                _ => findings.push(embeddings_of_server(&status.embeddings)),
            }
        }
        let wanted = |backend: &&Backend| only.as_ref().is_none_or(|only| *only == backend.name);
        let config = file.as_ref().map(|file| &file.config);
        let backends: Vec<_> = status
            .backends
            .iter()
            .filter(wanted)
            .map(|backend| of_backend(backend, config, connection))
            .collect();
        if backends.is_empty() {
            let name = only.unwrap_or_default();
            return Err(Failure::new(format!("no backend is called `{name}`"))
                .exit(Exit::NothingFound)
                .remedy("`vmcp backends` lists them"));
        }
        findings.extend(backends);
        if only.is_none() && !status.issues.is_empty() {
            let finding = format!("{} were renamed or left out", status.issues.len());
            findings.push(Finding::degraded("definitions", finding, "`vmcp backends -v` says which and why"));
        }
        output::print(format, &findings, || people(&findings))?;
        let broken = findings.iter().any(|finding| finding.health == Health::Broken);
        Ok(if broken { Exit::Failed } else { Exit::Done })
    })
}

fn people(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.subject.chars().count()).max().unwrap_or_default();
    let lines = findings.iter().map(|Finding { subject, health, finding, remedy }| {
        let mark = match health {
            Health::Good => "ok ",
            Health::Degraded => "~  ",
            Health::Broken => "!! ",
        };
        let remedy =
            remedy.as_ref().map(|remedy| format!("\n   {:width$}  → {remedy}", "")).unwrap_or_default();
        format!("{mark}{subject:width$}  {finding}{remedy}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn server(connection: &Connection, status: &Status) -> Finding {
    match (connection, &status.refused_configuration) {
        (Connection::Own { .. }, _) => {
            Finding::good("server", "none runs with this configuration; looked from here")
        }
        (Connection::Server { .. }, Some(refused)) => Finding::broken(
            "server",
            format!("the last edit of its configuration is not in force: {}", refused.message),
            "mend the file; it is read again at once",
        ),
        (Connection::Server { admin, .. }, None) => {
            let admin = admin.as_ref().map(ToString::to_string).unwrap_or_default();
            Finding::good("server", format!("vmcp {} answers at {admin}", status.version))
        }
    }
}

fn storage(config: &Config) -> Finding {
    let dir = provider::storage_dir(config);
    match Store::open(&dir) {
        Ok(_) => Finding::good("storage", dir.display().to_string()),
        Err(error) => Finding::degraded(
            "storage",
            format!("{error}; embeddings are made anew at each start"),
            "let this user write there, or set optimizer.storage.dir",
        ),
    }
}

async fn embeddings(config: &Config) -> Finding {
    const SUBJECT: &str = "embeddings";
    match &config.optimizer.embeddings.provider {
        _ if !config.optimizer.enabled => Finding::good(SUBJECT, "the optimizer is off"),
        EmbeddingProvider::None => Finding::good(SUBJECT, "none, by choice: searches go by keywords"),
        EmbeddingProvider::Local { .. } => {
            let dir = provider::model_dir(config);
            match local::status(&dir) {
                local::Status::Present { .. } => {
                    Finding::good(SUBJECT, format!("local model in {}", dir.display()))
                }
                local::Status::Missing => {
                    let finding =
                        format!("the local model is not in {}; searches go by keywords", dir.display());
                    Finding::degraded(SUBJECT, finding, "run `vmcp model pull`")
                }
                local::Status::Corrupt { file } => {
                    let finding = format!("{} is damaged; searches go by keywords", file.display());
                    Finding::broken(SUBJECT, finding, "run `vmcp model pull`")
                }
            }
        }
        EmbeddingProvider::Tei { .. } | EmbeddingProvider::OpenAi { .. } => service(config).await,
    }
}

async fn service(config: &Config) -> Finding {
    let subject = "embeddings";
    let started = Instant::now();
    let answer = async {
        let Some(embedder) = provider::embedder(config)? else { return Ok(String::new()) };
        embedder.embed(&["hello".to_owned()]).await?;
        embedder.model_id().await
    };
    match tokio::time::timeout(EMBEDDING, answer).await {
        Ok(Ok(model)) => {
            Finding::good(subject, format!("{model} answers within {}", shown(started.elapsed())))
        }
        Ok(Err(error)) => Finding::broken(
            subject,
            format!("{error}; searches go by keywords"),
            "check optimizer.embeddings, and whether the service runs",
        ),
        Err(_) => Finding::broken(
            subject,
            format!("no answer within {}; searches go by keywords", shown(EMBEDDING)),
            "look at the service's own log; is it still loading its model?",
        ),
    }
}

fn embeddings_of_server(embeddings: &Embeddings) -> Finding {
    let Embeddings { provider, state, reason, hint, wanted, embedded } = embeddings;
    let finding = format!("{provider}: {state}, {embedded} of {wanted} tools");
    match reason {
        None => Finding::good("embeddings", finding),
        Some(reason) => {
            let remedy = hint.as_deref().unwrap_or("check optimizer.embeddings");
            Finding::degraded("embeddings", format!("{finding}; {reason}"), remedy)
        }
    }
}

fn of_backend(backend: &Backend, config: Option<&Config>, connection: &Connection) -> Finding {
    let Backend {
        name,
        transport,
        state,
        revision,
        last_error,
        tools,
        resources,
        prompts,
        rejected,
        rest: _,
    } = backend;
    let subject = format!("backend {name}");
    let spec = config.and_then(|config| config.backends.iter().find(|spec| *spec.name == **name));
    let took = match connection {
        Connection::Own { took, .. } => took.get(name).map(|took| format!(" after {}", shown(*took))),
        Connection::Server { .. } => None,
    }
    .unwrap_or_default();
    let spoken = revision.as_deref().unwrap_or("no protocol yet");
    let offers = format!("{tools} tools, {resources} resources, {prompts} prompts");
    match (state.as_str(), last_error) {
        _ if spec.is_some_and(|spec| !spec.enabled) => {
            Finding::good(&subject, "switched off (enabled: false)")
        }
        ("connected", None) if *rejected > 0 => Finding::degraded(
            &subject,
            format!(
                "connected{took} ({transport}, {spoken}): {offers}; {rejected} definitions cannot be used"
            ),
            "`vmcp backends -v` says which and why",
        ),
        ("connected", None) => {
            Finding::good(&subject, format!("connected{took} ({transport}, {spoken}): {offers}"))
        }
        ("connected", Some(error)) => {
            let finding = format!("connected{took} ({transport}, {spoken}): {offers}; last error: {error}");
            Finding::degraded(
                &subject,
                finding,
                remedies::of(error, spec.map(|spec| &spec.transport)).as_str(),
            )
        }
        ("configured", None) => Finding::good(&subject, "not connected, because nobody has needed it yet"),
        (state, error) => {
            let error = error.as_deref().unwrap_or("it does not answer");
            let finding = format!("{state}{took} ({transport}): {error}");
            Finding::broken(&subject, finding, remedies::of(error, spec.map(|spec| &spec.transport)).as_str())
        }
    }
}

fn shown(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

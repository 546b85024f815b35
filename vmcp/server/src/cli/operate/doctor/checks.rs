//! Checks of `vmcp doctor`, one function for each thing that has to work.

use std::time::{Duration, Instant};

use vmcp_config::status::{BackendState, BackendStatus, EmbeddingStatus, StatusReport};
use vmcp_config::{Config, EmbeddingProvider};
use vmcp_embed::local;
use vmcp_store::Store;

use super::finding::Finding;
use super::remedies;
use crate::cli::connection::Connection;
use vmcp_engine::engine::embedding::configured;
use vmcp_engine::folders;

/// Time that an embedding service has to answer one word.
const EMBEDDING_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks whether a server runs, and whether the last edit of its configuration is in force.
pub(super) fn server(connection: &Connection, status: &StatusReport) -> Finding {
    match (connection, &status.configuration.refused) {
        (Connection::InProcess(_), _) => {
            Finding::good("server", "none runs with this configuration; checked from this process")
        }
        (Connection::Server { .. }, Some(refused)) => Finding::broken(
            "server",
            format!("the last edit of its configuration is not in force: {}", refused.message),
            "mend the file; it is read again at once",
        ),
        (Connection::Server { .. }, None) if connection.is_of_client() => {
            let says = format!("vmcp {} runs for a client (process {})", status.version, status.pid);
            Finding::good("server", says)
        }
        (Connection::Server { admin, .. }, None) => {
            let admin = admin.as_ref().map(|admin| admin.url.to_string()).unwrap_or_default();
            Finding::good("server", format!("vmcp {} answers at {admin}", status.version))
        }
    }
}

/// Checks whether the cache can be opened in the storage folder.
pub(super) fn storage(config: &Config) -> Finding {
    let dir = folders::storage_dir(config);
    match Store::open(&dir) {
        Ok(_) => Finding::good("storage", dir.display().to_string()),
        Err(error) => Finding::degraded(
            "storage",
            format!("{error}; embeddings are made anew at each start"),
            "let this user write there, or set optimizer.storage.dir",
        ),
    }
}

/// Checks the source of vectors that the configuration names.
pub(super) async fn embeddings(config: &Config) -> Finding {
    const SUBJECT: &str = "embeddings";
    match &config.optimizer.embeddings.provider {
        _ if !config.optimizer.enabled => Finding::good(SUBJECT, "the optimizer is off"),
        EmbeddingProvider::None => Finding::good(SUBJECT, "none, by choice: searches go by keywords"),
        EmbeddingProvider::Local { .. } => {
            let (model, dir) = folders::local_model(config);
            let remedy = format!("run `vmcp model pull {}`", model.name);
            match local::model_status(model, &dir) {
                local::ModelStatus::Present { .. } => {
                    Finding::good(SUBJECT, format!("local model in {}", dir.display()))
                }
                local::ModelStatus::Missing => {
                    let finding =
                        format!("the local model is not in {}; searches go by keywords", dir.display());
                    Finding::degraded(SUBJECT, finding, &remedy)
                }
                local::ModelStatus::Corrupt { file } => {
                    let finding = format!("{} is damaged; searches go by keywords", file.display());
                    Finding::broken(SUBJECT, finding, &remedy)
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
        let Some(embedder) = configured::embedder(config)? else { return Ok(String::new()) };
        embedder.embed(&["hello".to_owned()]).await?;
        embedder.model_id().await
    };
    match tokio::time::timeout(EMBEDDING_TIMEOUT, answer).await {
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
            format!("no answer within {}; searches go by keywords", shown(EMBEDDING_TIMEOUT)),
            "look at the service's own log; is it still loading its model?",
        ),
    }
}

/// Checks the source of vectors as a running server reports it.
pub(super) fn embeddings_of_server(embeddings: &EmbeddingStatus) -> Finding {
    let EmbeddingStatus { provider, state, reason, hint, wanted, embedded, .. } = embeddings;
    let finding = if *wanted == 0 {
        // Its state is a guess before the first request for a vector.
        format!("{provider}: no tool needs a vector yet")
    } else {
        format!("{provider}: {}, {embedded} of {wanted} tools", state.as_str())
    };
    match reason {
        None => Finding::good("embeddings", finding),
        Some(reason) => {
            let remedy = hint.as_deref().unwrap_or("check optimizer.embeddings");
            Finding::degraded("embeddings", format!("{finding}; {reason}"), remedy)
        }
    }
}

/// Checks one backend.
pub(super) fn of_backend(
    backend: &BackendStatus,
    config: Option<&Config>,
    connection: &Connection,
) -> Finding {
    let BackendStatus {
        name,
        transport,
        state,
        revision,
        last_error,
        tools,
        resources,
        prompts,
        rejected,
        proxy,
        ..
    } = backend;
    let through = proxy.as_ref().map(|proxy| format!(", through the proxy {proxy}")).unwrap_or_default();
    let transport = format!("{transport}{through}");
    let subject = format!("backend {name}");
    let spec = config.and_then(|config| config.backends.iter().find(|spec| *spec.name == **name));
    let took = match connection {
        Connection::InProcess(own) => own.took.get(name).map(|took| format!(" after {}", shown(*took))),
        Connection::Server { .. } => None,
    }
    .unwrap_or_default();
    let spoken = revision.as_deref().unwrap_or("no protocol yet");
    let offers = match tools {
        Some(tools) => format!("{tools} tools, {resources} resources, {prompts} prompts"),
        None => "its tools are not known yet".to_owned(),
    };
    match (*state, last_error) {
        _ if last_error.is_none() && spec.is_some_and(|spec| !spec.enabled) => {
            Finding::good(&subject, "switched off (enabled: false)")
        }
        (BackendState::Connected, None) if *rejected > 0 => Finding::degraded(
            &subject,
            format!(
                "connected{took} ({transport}, {spoken}): {offers}; {rejected} definitions cannot be used"
            ),
            "`vmcp backends -v` says which and why",
        ),
        (BackendState::Connected, None) if *tools == Some(0) && resources + prompts == 0 => {
            Finding::degraded(
                &subject,
                format!("connected{took} ({transport}, {spoken}), and offers nothing"),
                "its own log may say why; some servers offer nothing without their credentials",
            )
        }
        (BackendState::Connected, None) => {
            Finding::good(&subject, format!("connected{took} ({transport}, {spoken}): {offers}"))
        }
        (BackendState::Connected, Some(error)) => {
            let finding = format!("connected{took} ({transport}, {spoken}): {offers}; last error: {error}");
            Finding::degraded(
                &subject,
                finding,
                remedies::remedy_for(&backend.name, error, spec.map(|spec| &spec.transport)).as_str(),
            )
        }
        (BackendState::Configured, None) => {
            Finding::good(&subject, "not connected yet; it connects at its first call")
        }
        (state, error) => {
            let error = error.as_deref().unwrap_or("it does not answer");
            let finding = format!("{}{took} ({transport}): {error}", state.as_str());
            Finding::broken(
                &subject,
                finding,
                remedies::remedy_for(&backend.name, error, spec.map(|spec| &spec.transport)).as_str(),
            )
        }
    }
}

fn shown(duration: Duration) -> String {
    format!("{:.2} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::finding::Health;
    use super::*;

    #[test]
    fn embeddings_that_nothing_has_asked_for_are_not_said_to_be_ready() {
        let status = |wanted| EmbeddingStatus {
            provider: "local".to_owned(),
            wanted,
            embedded: wanted,
            ..EmbeddingStatus::default()
        };
        let shown = |wanted| serde_json::to_string(&embeddings_of_server(&status(wanted))).unwrap();
        assert!(shown(0).contains("no tool needs a vector yet"), "{}", shown(0));
        assert!(shown(3).contains("3 of 3 tools"), "{}", shown(3));
    }

    #[test]
    fn a_backend_that_lists_nothing_or_fails_to_list_is_no_good_news() {
        let connected = |tools, last_error: Option<&str>| {
            let status = BackendStatus {
                name: "b".to_owned(),
                state: BackendState::Connected,
                tools,
                last_error: last_error.map(str::to_owned),
                ..BackendStatus::default()
            };
            of_backend(&status, None, &Connection::Server { mcp: None, admin: None })
        };
        assert_eq!(connected(Some(2), None).health, Health::Good);
        assert_eq!(connected(Some(0), None).health, Health::Degraded);
        let failed = connected(None, Some("listing failed: fetch failed"));
        assert_eq!(failed.health, Health::Degraded);
        let status = BackendStatus {
            state: BackendState::Failed,
            transport: "streamable-http".to_owned(),
            proxy: Some("http://proxy:3128".to_owned()),
            ..BackendStatus::default()
        };
        let finding = of_backend(&status, None, &Connection::Server { mcp: None, admin: None });
        let shown = serde_json::to_string(&finding).unwrap();
        assert!(shown.contains("(streamable-http, through the proxy http://proxy:3128)"), "{shown}");
        let shown = serde_json::to_string(&failed).unwrap();
        assert!(shown.contains("not known yet") && shown.contains("fetch failed"), "{shown}");
    }
}

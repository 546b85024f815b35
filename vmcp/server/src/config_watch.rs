//! Hot reload: follows the configuration file, applies what is valid, and keeps the last good one otherwise.
//!
//! The folder is watched, not the file: editors replace files, and Kubernetes swaps a symbolic link in the folder. Whatever
//! happens there, the text decides; a look every half minute covers file systems that tell nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;
use vmcp_model::config::{self, Config, Problems};
use vmcp_model::status::{ConfigurationStatus, Refused, digest};

use crate::engine::{self, Engine};
use crate::telemetry::metrics::ReloadLabels;

/// Changes within this time of each other are one: a save is often several events.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// How often to look without being told.
const POLL: Duration = Duration::from_secs(30);

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The file has mistakes.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

/// Follows a file until dropped.
pub struct ConfigWatch {
    status: watch::Receiver<ConfigurationStatus>,
    _watcher: Option<RecommendedWatcher>,
    _task: AbortOnDropHandle<()>,
}

impl ConfigWatch {
    /// Starts to follow `path`, whose present text is `text`. `environment` is asked anew with every reload.
    pub fn start(
        path: PathBuf,
        text: String,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        engine: Engine,
    ) -> ConfigWatch {
        let (events, changes) = mpsc::channel(1);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let watcher = watch(folder, events)
            .inspect_err(|error| {
                tracing::warn!(%error, folder = %folder.display(), every = ?POLL, "changes are looked for, not announced");
            })
            .ok();
        let (report, status) = watch::channel(ConfigurationStatus {
            digest: digest(&text),
            applied_at: Some(SystemTime::now()),
            ..ConfigurationStatus::default()
        });
        let at_start = Arc::clone(&engine.snapshot().config);
        let follower = Follower { path, text, environment, engine, at_start, report };
        ConfigWatch {
            status,
            _watcher: watcher,
            _task: AbortOnDropHandle::new(tokio::spawn(follower.run(changes))),
        }
    }

    /// What has become of the file since the start.
    pub fn status(&self) -> ConfigurationStatus {
        self.status.borrow().clone()
    }
}

/// Reads and validates a file; returns its text too.
pub fn load(
    path: &Path,
    environment: config::Environment<'_>,
) -> Result<(String, config::Loaded), LoadError> {
    let read = std::fs::read_to_string(path);
    let text = read.map_err(|reason| LoadError::Unreadable { path: path.to_owned(), reason })?;
    let loaded = config::load(&text, &path.display().to_string(), environment)?;
    Ok((text, loaded))
}

fn watch(folder: &Path, events: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Reading the file is an event too. A full channel already says that something happened.
        if event.is_ok_and(|event| !event.kind.is_access()) {
            let _ = events.try_send(());
        }
    })?;
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

struct Follower<E> {
    path: PathBuf,
    /// The newest text that was looked at, valid or not.
    text: String,
    environment: E,
    engine: Engine,
    at_start: Arc<Config>,
    report: watch::Sender<ConfigurationStatus>,
}

impl<E: Fn(&str) -> Option<String>> Follower<E> {
    async fn run(mut self, mut changes: mpsc::Receiver<()>) {
        loop {
            tokio::select! {
                // Without a watcher the channel is closed, and only the clock is left.
                Some(()) = changes.recv() => tokio::time::sleep(DEBOUNCE).await,
                () = tokio::time::sleep(POLL) => {}
            }
            // What came during the pause is covered by the look that follows.
            let _ = changes.try_recv();
            self.look().await;
        }
    }

    async fn look(&mut self) {
        let text = match tokio::fs::read_to_string(&self.path).await {
            Ok(text) if text == self.text => return,
            Ok(text) => text,
            Err(reason) => {
                tracing::warn!(%reason, path = %self.path.display(), "configuration not readable at present");
                return;
            }
        };
        self.text = text;
        let loaded = config::load(&self.text, &self.path.display().to_string(), &self.environment);
        let outcome = match loaded {
            Ok(loaded) => {
                for warning in &loaded.warnings {
                    tracing::warn!("{}", warning.render(&self.path.display().to_string()));
                }
                let needs_restart = engine::needs_restart(&self.at_start, &loaded.config);
                let applied = self.engine.apply(loaded.config).await;
                tracing::info!(
                    added = ?applied.added, changed = ?applied.changed, removed = ?applied.removed,
                    unchanged = applied.unchanged, "configuration reloaded"
                );
                if !needs_restart.is_empty() {
                    tracing::warn!(settings = ?needs_restart, "these take effect after a restart");
                }
                self.report.send_modify(|status| {
                    status.digest = digest(&self.text);
                    status.applied_at = Some(SystemTime::now());
                    status.applied += 1;
                    status.refused = None;
                    status.needs_restart = needs_restart.into_iter().map(str::to_owned).collect();
                });
                "applied"
            }
            Err(problems) => {
                tracing::error!("configuration refused, the one before stays in force:\n{problems}");
                let refused = Refused {
                    digest: digest(&self.text),
                    message: problems.to_string(),
                    problems: problems.list,
                    at: Some(SystemTime::now()),
                };
                self.report.send_modify(|status| {
                    status.refusals += 1;
                    status.refused = Some(refused);
                });
                "refused"
            }
        };
        self.engine.metrics().config_reloads.get_or_create(&ReloadLabels { outcome }).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{KEYWORDS, backends, engine, eventually};

    fn names(engine: &Engine) -> Vec<String> {
        engine.snapshot().config.backends.iter().map(|backend| backend.name.to_string()).collect()
    }

    #[tokio::test]
    async fn follows_replaced_files_and_keeps_the_last_good_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vmcp.yaml");
        // Editors write elsewhere and rename.
        let save = |text: &str| {
            let new = dir.path().join("vmcp.yaml.new");
            std::fs::write(&new, text).unwrap();
            std::fs::rename(&new, &path).unwrap();
        };
        // Nobody listens there, which is no concern of the configuration.
        let yaml = |name: &str| backends(&[(name, "http://127.0.0.1:1/mcp")], KEYWORDS);
        save(&yaml("one"));
        let engine = engine(KEYWORDS).await;
        let (text, loaded) = load(&path, &|_| None).unwrap();
        engine.apply(loaded.config).await;
        let watch = ConfigWatch::start(path.clone(), text, |_| None, engine.clone());

        save(&yaml("two"));
        eventually("the second text is in force", || names(&engine) == ["two"]).await;
        save("backend: [{ name: three }]");
        eventually("the third text is refused", || watch.status().refused.is_some()).await;
        let refused = watch.status().refused.unwrap();
        assert!(refused.message.contains("vmcp.yaml") && !refused.problems.is_empty(), "{}", refused.message);
        assert_eq!(names(&engine), ["two"]);
        save(&yaml("four"));
        eventually("the fourth text is in force", || {
            names(&engine) == ["four"] && watch.status().refused.is_none()
        })
        .await;
        let status = watch.status();
        assert_eq!((status.applied, status.refusals), (2, 1));
        assert_eq!(status.digest, digest(&yaml("four")));
    }

    /// A ConfigMap volume: `vmcp.yaml -> ..data/vmcp.yaml`, `..data -> ..1`, and a change swaps `..data`.
    #[cfg(unix)]
    #[tokio::test]
    async fn follows_a_swapped_link() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let version = |number: &str, name: &str| {
            std::fs::create_dir(at(number)).unwrap();
            std::fs::write(
                at(number).join("vmcp.yaml"),
                backends(&[(name, "http://127.0.0.1:1/mcp")], KEYWORDS),
            )
            .unwrap();
            symlink(number, at("..tmp")).unwrap();
            std::fs::rename(at("..tmp"), at("..data")).unwrap();
        };
        version("..1", "one");
        symlink("..data/vmcp.yaml", at("vmcp.yaml")).unwrap();
        let engine = engine(KEYWORDS).await;
        let (text, _) = load(&at("vmcp.yaml"), &|_| None).unwrap();
        let _watch = ConfigWatch::start(at("vmcp.yaml"), text, |_| None, engine.clone());
        version("..2", "two");
        eventually("the second version is in force", || names(&engine) == ["two"]).await;
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = load(Path::new("/nonexistent/vmcp.yaml"), &|_| None).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/vmcp.yaml"), "{error}");
    }
}

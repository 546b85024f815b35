//! Hot reload: watches the configuration file and the files it refers to, applies a valid configuration, and
//! keeps the last good one otherwise.
//!
//! Folders are watched, not files: editors replace files, and Kubernetes swaps a symbolic link in the folder.
//! Writes into other files of a folder, such as logs, are passed over. All other events trigger a read; the
//! content decides whether something changed. A poll every 30 seconds covers
//! file systems without events, such as network shares.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use notify::event::ModifyKind;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::task::AbortOnDropHandle;
use vmcp_config::status::{ConfigurationStatus, RefusedConfiguration, digest};
use vmcp_config::{Config, Loaded, Problem, Problems};

use crate::config_file::reference_lookup::ReferenceLookup;
use crate::config_file::source::ConfigInputs;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::engine::{self, Engine};
use vmcp_engine::telemetry::calls::Action;
use vmcp_engine::telemetry::metrics::ReloadLabels;

/// Debounce of file events: a save is often several of them.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// Interval of the poll that needs no event.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Follows a configuration file until dropped.
pub struct ConfigWatch {
    status: watch::Receiver<ConfigurationStatus>,
    _task: AbortOnDropHandle<()>,
}

impl ConfigWatch {
    /// Starts to follow `path`, whose content `source` is in force. `lookup` is asked again at every
    /// reload. `written` tells of writes by this process, which may come without an event.
    pub fn start(
        path: PathBuf,
        source: ConfigInputs,
        lookup: ReferenceLookup,
        engine: Engine,
        written: Arc<Notify>,
    ) -> ConfigWatch {
        let (events, changes) = mpsc::channel(1);
        let (report, status) = watch::channel(ConfigurationStatus {
            digest: digest(&source.text),
            applied_at: Some(SystemTime::now()),
            ..ConfigurationStatus::default()
        });
        let at_start = Arc::clone(&engine.snapshot().config);
        let folders = FolderWatcher::default();
        let follower =
            ConfigFollower { path, source, lookup, folders, engine, at_start, unreadable: None, report };
        let following = async move {
            // A start has more urgent work. The first read finds what has changed since the file was loaded.
            tokio::time::sleep(DEBOUNCE).await;
            follower.run(events, changes, written).await;
        };
        ConfigWatch { status, _task: AbortOnDropHandle::new(tokio::spawn(following)) }
    }

    /// Returns a receiver of the outcome of all reloads since the start.
    pub fn status(&self) -> watch::Receiver<ConfigurationStatus> {
        self.status.clone()
    }
}

/// Watched folders.
#[derive(Default)]
struct FolderWatcher {
    /// `None` before the first watch, and if the operating system offers no file events; the poll remains.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
    /// Names of the files in them that are read.
    names: Arc<Mutex<BTreeSet<OsString>>>,
}

impl FolderWatcher {
    fn new(events: mpsc::Sender<()>) -> FolderWatcher {
        let names = Arc::<Mutex<BTreeSet<OsString>>>::default();
        let read_names = Arc::clone(&names);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // A full channel already holds a trigger, so that the event may be dropped.
            if event.is_ok_and(|event| may_change(&event, &read_names.lock())) {
                let _ = events.try_send(());
            }
        });
        let watcher = watcher
            .inspect_err(
                |error| tracing::warn!(%error, every = ?POLL_INTERVAL, "file events are unavailable; the configuration is polled"),
            )
            .ok();
        FolderWatcher { watcher, watched: BTreeSet::new(), names }
    }

    /// Watches exactly these folders, and in them the files of these names; returns true if a watch began.
    fn watch(&mut self, folders: BTreeSet<PathBuf>, names: BTreeSet<OsString>) -> bool {
        *self.names.lock() = names;
        let Some(watcher) = &mut self.watcher else { return false };
        for gone in self.watched.difference(&folders) {
            // A removed folder has lost its watch already.
            let _ = watcher.unwatch(gone);
        }
        let mut begun = false;
        for new in folders.difference(&self.watched) {
            match watcher.watch(new, RecursiveMode::NonRecursive) {
                Ok(()) => begun = true,
                Err(error) => {
                    let folder = new.display();
                    tracing::warn!(%error, %folder, every = ?POLL_INTERVAL, "file events are unavailable; the configuration is polled");
                }
            }
        }
        self.watched = folders;
        begun
    }
}

/// Returns true if an event may have changed a file of these names. A file that is created, renamed or
/// removed may be a link on the way to one of them.
fn may_change(event: &notify::Event, names: &BTreeSet<OsString>) -> bool {
    match event.kind {
        // Reading is an event too.
        EventKind::Access(_) => false,
        EventKind::Modify(ModifyKind::Data(_)) => {
            event.paths.iter().filter_map(|path| path.file_name()).any(|name| names.contains(name))
        }
        _ => true,
    }
}

struct ConfigFollower {
    path: PathBuf,
    /// Newest content that was read, valid or not; compared so that a refused text is reported once.
    source: ConfigInputs,
    lookup: ReferenceLookup,
    folders: FolderWatcher,
    engine: Engine,
    at_start: Arc<Config>,
    /// Reason why the file cannot be read at present; each is reported once.
    unreadable: Option<String>,
    report: watch::Sender<ConfigurationStatus>,
}

impl ConfigFollower {
    async fn run(mut self, events: mpsc::Sender<()>, mut changes: mpsc::Receiver<()>, written: Arc<Notify>) {
        self.folders = FolderWatcher::new(events);
        // Watched before the first read, which then covers all changes before the watch.
        self.folders.watch(self.source.folders(&self.path), self.source.names(&self.path));
        loop {
            // The read below covers a trigger that is already waiting.
            let _ = changes.try_recv();
            Box::pin(self.check_for_changes()).await;
            tokio::select! {
                // Without a watcher the channel is closed; only the poll is left.
                Some(()) = changes.recv() => tokio::time::sleep(DEBOUNCE).await,
                () = written.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    async fn check_for_changes(&mut self) {
        loop {
            let (path, lookup) = (self.path.clone(), self.lookup.clone());
            let read = tokio::task::spawn_blocking(move || ConfigInputs::read(&path, &lookup)).await;
            let (source, loaded) = match read {
                Ok(Ok(read)) => read,
                Ok(Err(reason)) => {
                    self.refuse_unreadable(reason.to_string());
                    return;
                }
                // The process ends.
                Err(error) if error.is_cancelled() => return,
                Err(error) => {
                    tracing::error!(%error, "reading the configuration failed; the one in force stays");
                    return;
                }
            };
            let (folders, names) = (source.folders(&self.path), source.names(&self.path));
            // A file that can be read again is applied even if it is as before, which ends the refusal.
            if self.unreadable.take().is_some() || source != self.source {
                self.source = source;
                let loaded = if self.source.text.trim().is_empty() { Err(self.empty()) } else { loaded };
                // A configuration by value makes a large future.
                Box::pin(self.apply_or_refuse(loaded)).await;
            }
            // A change between the read and the start of a watch raised no event, so read once more.
            if !self.folders.watch(folders, names) {
                return;
            }
        }
    }

    /// Reports a file that cannot be read as a refused configuration.
    fn refuse_unreadable(&mut self, reason: String) {
        if self.unreadable.as_ref() == Some(&reason) {
            return;
        }
        let remedy = "restore the file, or its permissions";
        let list = vec![Problem::new("", format!("the file cannot be read: {reason}"), remedy)];
        self.refuse(String::new(), Problems { source_name: self.path.display().to_string(), list });
        self.unreadable = Some(reason);
    }

    /// Returns the mistake of an empty file: a save or a copy under way, or a full disk. Applied, it would
    /// stop every backend.
    fn empty(&self) -> Problems {
        let remedy = "remove a backend by its entry; `backends: []` removes all";
        let list = vec![Problem::new("", "the file is empty", remedy)];
        Problems { source_name: self.path.display().to_string(), list }
    }

    async fn apply_or_refuse(&mut self, loaded: Result<Loaded, Problems>) {
        let digest = digest(&self.source.text);
        match loaded {
            Ok(Loaded { mut config, warnings }) => {
                for warning in &warnings {
                    tracing::warn!("{}", warning.render(&self.path.display().to_string()));
                }
                for name in keep_working(&mut config, &self.engine.snapshot().config) {
                    tracing::warn!(backend = %name, "a value that the backend refers to is gone; its settings before stay in force");
                }
                Box::pin(self.apply(config, digest)).await;
            }
            Err(problems) => return self.refuse(digest, problems),
        }
        self.count_reload("applied");
    }

    /// Reports a refused configuration to the log and the status.
    fn refuse(&self, digest: String, problems: Problems) {
        self.record("configuration.refuse", &digest, true);
        tracing::error!("configuration refused; the one before it stays in force:\n{problems}");
        let message = problems.to_string();
        let refused =
            RefusedConfiguration { digest, message, problems: problems.list, at: Some(SystemTime::now()) };
        self.report.send_modify(|status| {
            status.refusals += 1;
            status.refused = Some(refused);
        });
        self.count_reload("refused");
    }

    /// Puts a change of the file on record, by the digest of its text.
    fn record(&self, name: &str, digest: &str, is_refused: bool) {
        let process = Principal::default();
        self.engine.call_observers().acted(&Action {
            target: Some(digest),
            result: if is_refused { "refused" } else { "applied" },
            is_refused,
            ..Action::of_process(name, &process)
        });
    }

    fn count_reload(&self, outcome: &'static str) {
        self.engine.metrics().config_reloads.get_or_create(&ReloadLabels { outcome }).inc();
    }

    async fn apply(&self, config: Config, digest: String) {
        self.record("configuration.apply", &digest, false);
        let needs_restart = engine::needs_restart(&self.at_start, &config);
        let applied = self.engine.apply(config).await;
        tracing::info!(
            added = ?applied.added, changed = ?applied.changed, removed = ?applied.removed,
            unchanged = applied.unchanged, "configuration reloaded"
        );
        if !needs_restart.is_empty() {
            tracing::warn!(settings = ?needs_restart, "changed settings take effect after a restart");
        }
        self.report.send_modify(|status| {
            status.digest = digest;
            status.applied_at = Some(SystemTime::now());
            status.applied += 1;
            status.refused = None;
            status.needs_restart = needs_restart.into_iter().map(str::to_owned).collect();
        });
    }
}

/// Gives each backend that lost a value it refers to, such as a removed secret, its settings `before`;
/// returns the names.
fn keep_working(config: &mut Config, before: &Config) -> Vec<Arc<str>> {
    let mut kept = Vec::new();
    for spec in &mut config.backends {
        let working = before.backends.iter().find(|old| old.enabled && old.name == spec.name);
        if let Some(working) = working.filter(|_| config.unavailable.remove(&spec.name).is_some()) {
            *spec = working.clone();
            kept.push(Arc::clone(&working.name));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_file::source::load;
    use vmcp_config::Transport;
    use vmcp_engine::testing::{KEYWORDS, backends, config, engine, eventually};

    #[test]
    fn a_write_into_another_file_of_the_folder_triggers_no_read() {
        let names = BTreeSet::from(["vmcp.yaml".into(), ".env".into()]);
        let written = EventKind::Modify(ModifyKind::Data(notify::event::DataChange::Any));
        let renamed = EventKind::Modify(ModifyKind::Name(notify::event::RenameMode::To));
        let read = EventKind::Access(notify::event::AccessKind::Read);
        let triggers = |kind, path: &str| may_change(&notify::Event::new(kind).add_path(path.into()), &names);
        assert!(!triggers(written, "/home/me/audit.jsonl"));
        assert!(!triggers(read, "/home/me/vmcp.yaml"));
        for (kind, path) in
            [(written, "/home/me/vmcp.yaml"), (written, "/home/me/.env"), (renamed, "/etc/vmcp/..data")]
        {
            assert!(triggers(kind, path), "{kind:?} {path}");
        }
    }

    fn names(engine: &Engine) -> Vec<String> {
        engine.snapshot().config.backends.iter().map(|backend| backend.name.to_string()).collect()
    }

    #[tokio::test]
    async fn follows_replaced_files_and_keeps_the_last_good_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vmcp.yaml");
        // Editors write a new file and rename it.
        let save = |text: &str| {
            let new = dir.path().join("vmcp.yaml.new");
            std::fs::write(&new, text).unwrap();
            std::fs::rename(&new, &path).unwrap();
        };
        // Nothing listens at this address; the configuration does not care.
        let yaml = |name: &str| backends(&[(name, "http://127.0.0.1:1/mcp")], KEYWORDS);
        save(&yaml("one"));
        let engine = engine(KEYWORDS).await;
        let (source, loaded) = load(&path, &ReferenceLookup::new(|_| None)).unwrap();
        engine.apply(loaded.config).await;
        let watch = ConfigWatch::start(
            path.clone(),
            source,
            ReferenceLookup::new(|_| None),
            engine.clone(),
            Arc::default(),
        );

        save(&yaml("two"));
        eventually("the second text is in force", || names(&engine) == ["two"]).await;
        // A save under way, or a full disk.
        save("\n");
        eventually("the empty text is refused", || watch.status().borrow().refusals == 1).await;
        assert_eq!(names(&engine), ["two"]);
        save("backend: [{ name: three }]");
        eventually("the third text is refused", || watch.status().borrow().refusals == 2).await;
        let refused = watch.status().borrow().refused.clone().unwrap();
        assert!(refused.message.contains("vmcp.yaml") && !refused.problems.is_empty(), "{}", refused.message);
        assert_eq!(names(&engine), ["two"]);
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        eventually("the unreadable text is refused", || watch.status().borrow().refusals == 3).await;
        assert!(watch.status().borrow().refused.clone().unwrap().message.contains("cannot be read"));
        assert_eq!(names(&engine), ["two"]);
        save(&yaml("four"));
        eventually("the fourth text is in force", || {
            names(&engine) == ["four"] && watch.status().borrow().refused.is_none()
        })
        .await;
        let status = watch.status().borrow().clone();
        assert_eq!((status.applied, status.refusals), (2, 3));
        assert_eq!(status.digest, digest(&yaml("four")));
    }

    /// Layout of a mounted ConfigMap: `vmcp.yaml -> ..data/vmcp.yaml`, `..data -> ..1`; a change swaps
    /// `..data`.
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
        let (source, _) = load(&at("vmcp.yaml"), &ReferenceLookup::new(|_| None)).unwrap();
        let _watch = ConfigWatch::start(
            at("vmcp.yaml"),
            source,
            ReferenceLookup::new(|_| None),
            engine.clone(),
            Arc::default(),
        );
        version("..2", "two");
        eventually("the second version is in force", || names(&engine) == ["two"]).await;
    }

    /// A ConfigMap and a Secret, each swapped on its own.
    #[cfg(unix)]
    #[tokio::test]
    async fn follows_the_files_that_it_refers_to_and_keeps_a_backend_whose_file_goes() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let (path, secrets) = (dir.path().join("vmcp.yaml"), dir.path().join("secrets"));
        std::fs::create_dir(&secrets).unwrap();
        let version = |number: &str, host: Option<&str>| {
            std::fs::create_dir(secrets.join(number)).unwrap();
            if let Some(host) = host {
                std::fs::write(secrets.join(number).join("host"), host).unwrap();
            }
            symlink(number, secrets.join("..tmp")).unwrap();
            std::fs::rename(secrets.join("..tmp"), secrets.join("..data")).unwrap();
        };
        version("..1", Some("127.0.0.1:1\n"));
        symlink("..data/host", secrets.join("host")).unwrap();
        let url = format!("http://${{file:{}/host}}/mcp", secrets.display());
        let text = |names: &[&str]| {
            let entries: Vec<_> = names.iter().map(|name| (*name, url.as_str())).collect();
            backends(&entries, KEYWORDS)
        };
        std::fs::write(&path, text(&["one"])).unwrap();
        let (source, loaded) = load(&path, &ReferenceLookup::new(|_| None)).unwrap();
        let engine = engine(KEYWORDS).await;
        engine.apply(loaded.config).await;
        let watch = ConfigWatch::start(
            path.clone(),
            source,
            ReferenceLookup::new(|_| None),
            engine.clone(),
            Arc::default(),
        );
        let host = || match &engine.snapshot().config.backends.first().unwrap().transport {
            Transport::Http { url, .. } => url.authority().to_owned(),
            other => panic!("{other:?}"),
        };
        version("..2", Some("127.0.0.1:2\n"));
        eventually("the second host is in force", || host() == "127.0.0.1:2").await;
        version("..3", None);
        std::fs::write(&path, text(&["one", "two"])).unwrap();
        eventually("other edits are applied", || names(&engine) == ["one", "two"]).await;
        assert_eq!(host(), "127.0.0.1:2", "the last good one stays");
        let status = engine.backend_status();
        let two = status.iter().find(|status| status.name == "two").unwrap();
        assert_eq!(two.state, vmcp_backend::BackendState::Failed, "there is no good one before");
        assert!(two.last_error.as_deref().unwrap().contains("there is no file"), "{two:?}");
        version("..4", Some("127.0.0.1:4\n"));
        eventually("the fourth host is in force", || host() == "127.0.0.1:4").await;
        assert!(watch.status().borrow().refused.is_none());
    }

    #[test]
    fn a_restart_is_needed_until_the_setting_is_what_it_was_at_the_start() {
        let listen = |port| config(&format!("server: {{ listen: '127.0.0.1:{port}' }}"));
        assert_eq!(engine::needs_restart(&listen(1), &listen(2)), ["server.listen"]);
        assert!(engine::needs_restart(&listen(1), &listen(1)).is_empty());
    }
}

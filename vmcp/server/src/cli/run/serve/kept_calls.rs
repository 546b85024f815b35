//! Latest calls of a configuration, kept in a file so that `vmcp calls` shows them after a restart. The file
//! holds what `/admin/calls` shows: neither arguments nor results.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;
use vmcp_config::Config;
use vmcp_engine::folders;
use vmcp_engine::telemetry::recent::{RecentCall, RecentCalls};

use crate::config_file::secret_store::{private, private_folder, write_private};

/// Interval at which new calls are written; a process that is killed loses those of the last one.
const INTERVAL: Duration = Duration::from_secs(30);
/// Largest file that is read, 4 MiB: a thousand calls take a tenth of it. A larger one is ignored.
const MAX_BYTES: u64 = 4 << 20;

/// The file of one configuration. One process at a time has it, by an advisory lock of the operating system
/// (`flock`) on a file beside it; the lock ends with the process.
#[derive(Clone)]
pub(super) struct KeptCalls {
    path: PathBuf,
    calls: Arc<RecentCalls>,
    _lock: Arc<File>,
}

impl KeptCalls {
    /// Restores the calls of the process before. `digest` stands for the configuration file. Returns `None`
    /// while another process has the file, such as the first of two `serve --stdio`: each would overwrite the
    /// calls of the other.
    pub(super) fn open(config: &Config, digest: &str, calls: &Arc<RecentCalls>) -> Option<KeptCalls> {
        KeptCalls::at(folders::storage_dir(config).join(format!("calls-{digest}.json")), calls)
    }

    fn at(path: PathBuf, calls: &Arc<RecentCalls>) -> Option<KeptCalls> {
        let lock = lock(&path);
        let lock =
            lock.inspect_err(|error| tracing::debug!(%error, "no lock: the latest calls are not kept"));
        let lock = Arc::new(lock.ok()?);
        calls.restore(read(&path));
        Some(KeptCalls { path, calls: Arc::clone(calls), _lock: lock })
    }

    /// Writes new calls from time to time, until the result is dropped.
    pub(super) fn write_regularly(&self) -> AbortOnDropHandle<()> {
        let kept = self.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            let mut written = kept.calls.since(u64::MAX, None).next;
            loop {
                tokio::time::sleep(INTERVAL).await;
                let next = kept.calls.since(u64::MAX, None).next;
                if next != written {
                    written = next;
                    kept.write().await;
                }
            }
        }))
    }

    /// Writes the calls. A failure costs the history alone.
    pub(super) async fn write(&self) {
        let KeptCalls { path, calls, .. } = self.clone();
        let work = move || {
            let text = serde_json::to_string(&calls.since(0, None).entries)?;
            path.parent().map_or(Ok(()), private_folder)?;
            write_private(&path, &text)
        };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(work).await {
            tracing::debug!(%error, "the latest calls are not kept");
        }
    }
}

/// Locks the file beside `path`; an error if another process has the lock.
fn lock(path: &Path) -> io::Result<File> {
    path.parent().map_or(Ok(()), private_folder)?;
    let options = &mut OpenOptions::new();
    let file = private(options.create(true).append(true)).open(path.with_extension("lock"))?;
    file.try_lock()?;
    Ok(file)
}

fn read(path: &Path) -> Vec<RecentCall> {
    if !path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_BYTES) {
        return Vec::new();
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(item: &str) -> RecentCall {
        RecentCall {
            id: None,
            at: "2026-11-27T08:00:00.000Z".to_owned(),
            via: None,
            method: "tools/call".to_owned(),
            backend: Some("time".to_owned()),
            item: Some(item.to_owned()),
            outcome: "ok".to_owned(),
            took_ms: 1.5,
            bytes_in: 2,
            bytes_out: 3,
        }
    }

    /// Opens the calls once nothing has their lock. A process that another test starts has it, too, until it
    /// runs its own program.
    async fn opened(path: &Path, calls: &Arc<RecentCalls>) -> KeptCalls {
        for _ in 0..1_000 {
            if let Some(kept) = KeptCalls::at(path.to_owned(), calls) {
                return kept;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the lock of {} is held", path.display())
    }

    #[tokio::test]
    async fn calls_come_back_in_their_order_and_new_ones_follow() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/calls.json");
        for (added, expected) in [("one", vec!["one"]), ("two", vec!["one", "two"])] {
            let calls = Arc::<RecentCalls>::default();
            let kept = opened(&path, &calls).await;
            calls.restore(vec![call(added)]);
            let shown = calls.since(0, Some("time"));
            let items: Vec<_> = shown.entries.iter().filter_map(|call| call.item.as_deref()).collect();
            assert_eq!((items, shown.next), (expected.clone(), expected.len() as u64));
            assert!(calls.since(0, Some("other")).entries.is_empty());
            kept.write().await;
        }
    }

    #[tokio::test]
    async fn a_second_process_neither_shows_nor_overwrites_the_calls_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.json");
        let (first, second) = (Arc::<RecentCalls>::default(), Arc::<RecentCalls>::default());
        let kept = opened(&path, &first).await;
        first.restore(vec![call("one")]);
        kept.write().await;
        assert!(KeptCalls::at(path.clone(), &second).is_none());
        assert!(second.since(0, None).entries.is_empty());
        drop(kept);
        let _again = opened(&path, &second).await;
        assert_eq!(second.since(0, None).entries.len(), 1);
    }

    #[test]
    fn a_damaged_file_is_no_history() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.json");
        std::fs::write(&path, "[{").unwrap();
        assert!(read(&path).is_empty() && read(folder.path()).is_empty());
    }
}

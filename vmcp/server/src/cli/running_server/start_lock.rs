//! [`StartLock`]: one start, stop or restart of a server at a time; and the mark of a server that was stopped
//! on purpose, which its clients do not start again.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::cli::console::failure::CommandFailure;
use crate::config_file::secret_store::private;
use vmcp_engine::folders;

/// The lock of a configuration file, an advisory lock of the operating system (`flock`). Released when
/// dropped, and when its process ends.
pub(in crate::cli) struct StartLock {
    _file: File,
    mark: PathBuf,
}

impl StartLock {
    /// Waits for the lock of `config`.
    pub(in crate::cli) fn wait(config: &Path) -> Result<StartLock, CommandFailure> {
        StartLock::wait_below(&folders::cache_dir(), config)
    }

    fn wait_below(cache: &Path, config: &Path) -> Result<StartLock, CommandFailure> {
        let path = path(cache, config, "lock")
            .ok_or_else(|| CommandFailure::new(format!("there is no file {}", config.display())))?;
        let failed = |error: std::io::Error| {
            CommandFailure::new(format!("{}: {error}", path.display()))
                .remedy("set XDG_CACHE_HOME to a folder that you may write to")
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = private(OpenOptions::new().create(true).append(true)).open(&path).map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(StartLock { _file: file, mark: path.with_extension("stopped") })
    }

    /// Marks the server as stopped on purpose.
    pub(in crate::cli) fn mark_stopped(&self) -> Result<(), CommandFailure> {
        private(OpenOptions::new().create(true).write(true).truncate(true)).open(&self.mark)?;
        Ok(())
    }

    /// Removes the mark.
    pub(in crate::cli) fn unmark(&self) {
        // Fails without a mark, which is the aim.
        let _ = fs::remove_file(&self.mark);
    }
}

/// Returns true if the server of `config` was stopped on purpose and not started again since.
pub(in crate::cli) fn is_marked_stopped(config: &Path) -> bool {
    stopped_at(config).is_some()
}

/// Returns the time of the last stop on purpose; `None` if the server was started again since.
pub(in crate::cli) fn stopped_at(config: &Path) -> Option<SystemTime> {
    fs::metadata(path(&folders::cache_dir(), config, "stopped")?).ok()?.modified().ok()
}

fn path(cache: &Path, config: &Path, suffix: &str) -> Option<PathBuf> {
    Some(super::folder(cache).join(format!("{}.{suffix}", super::file_prefix(config)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_held_once_and_the_mark_outlives_it() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("vmcp.yaml");
        assert!(StartLock::wait_below(dir.path(), &config).is_err(), "no such file");
        fs::write(&config, "").unwrap();
        let held = StartLock::wait_below(dir.path(), &config).unwrap();
        let other = File::open(path(dir.path(), &config, "lock").unwrap()).unwrap();
        assert!(matches!(other.try_lock(), Err(fs::TryLockError::WouldBlock)));
        held.mark_stopped().unwrap();
        drop(held);
        assert!(other.try_lock().is_ok());
        other.unlock().unwrap();
        let mark = path(dir.path(), &config, "stopped").unwrap();
        assert!(mark.exists());
        StartLock::wait_below(dir.path(), &config).unwrap().unmark();
        assert!(!mark.exists());
    }
}

//! Files of which each process has one of its own, with its id in the name.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::sys::signal::kill;
use nix::unistd::Pid;

/// Returns the path of a process's file in `folder`.
pub(super) fn path(folder: &Path, prefix: &str, pid: u32, suffix: &str) -> PathBuf {
    folder.join(format!("{prefix}-{pid}{suffix}"))
}

/// Returns the files of living processes, the newest first, and removes those of dead ones; without a prefix,
/// the files of all prefixes. A file that is returned may be of a dead process, too, if another program has
/// got its id.
pub(super) fn of_living(folder: &Path, prefix: Option<&str>, suffix: &str) -> Vec<PathBuf> {
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let parts = name.to_str().and_then(|name| name.strip_suffix(suffix)?.rsplit_once('-'));
        let pid = parts.filter(|(of, _)| prefix.is_none_or(|prefix| prefix == *of)).map(|(_, pid)| pid);
        let Some(pid) = pid.and_then(|pid| pid.parse().ok()).map(Pid::from_raw) else { continue };
        if kill(pid, None).is_err() {
            let _ = fs::remove_file(path);
            continue;
        }
        let since = entry.metadata().and_then(|metadata| metadata.modified());
        found.push((since.unwrap_or(SystemTime::UNIX_EPOCH), path));
    }
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

//! Compares `server.maxConnections` with the limit on open files, and raises the soft limit.
//!
//! The usual soft limit of 1024 is there for programs that use `select`. At the limit no connection can be
//! accepted, so some files are kept for everything but clients, and [`SpareFiles`] for health probes.

use std::fs::File;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files kept for backends, databases and the admin port; at most a quarter of the limit.
const RESERVED_FILES: u64 = 256;
/// Part of the reserved files that connections of the admin port may use: one in so many.
const ADMIN_PART: u64 = 4;
/// Files that [`SpareFiles`] holds.
const SPARE_FILES: usize = 16;

/// Returns the number of client connections to allow, at most `wanted`. Raises the soft limit on open files
/// to the hard one if `wanted` needs it.
pub(super) fn connection_limit(wanted: usize) -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return wanted };
    let needed = (wanted as u64).saturating_add(RESERVED_FILES);
    let mut files = soft;
    if soft < needed.min(hard) {
        match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
            Ok(()) => {
                files = hard;
                tracing::info!(
                    from = soft,
                    to = hard,
                    "raised the limit on open files for server.maxConnections"
                );
            }
            Err(error) => tracing::warn!(%error, soft, hard, "the limit on open files could not be raised"),
        }
    }
    let limit = within(wanted, files);
    if limit < wanted {
        tracing::warn!(
            wanted,
            limit,
            files,
            "the limit on open files allows fewer client connections than server.maxConnections; raise it (ulimit -n)"
        );
    }
    limit
}

/// Returns how many of `wanted` connections fit in `files` open files.
fn within(wanted: usize, files: u64) -> usize {
    let room = files.saturating_sub(reserved(files));
    wanted.min(usize::try_from(room).unwrap_or(usize::MAX))
}

/// Returns the number of connections to allow at the admin port.
pub(super) fn admin_connection_limit() -> usize {
    admin_within(getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft))
}

fn admin_within(files: u64) -> usize {
    usize::try_from(reserved(files) / ADMIN_PART).unwrap_or(usize::MAX).max(1)
}

fn reserved(files: u64) -> u64 {
    RESERVED_FILES.min(files / 4)
}

/// File descriptors that are held to be given up: when the process has no other left, a probe gets one.
#[derive(Debug, Default)]
pub(super) struct SpareFiles(Vec<File>);

impl SpareFiles {
    /// Opens the files that are missing, as far as the process may.
    pub(super) fn refill(&mut self) {
        while self.0.len() < SPARE_FILES {
            let Ok(file) = File::open("/dev/null") else { return };
            self.0.push(file);
        }
    }

    /// Closes one file; false without one.
    pub(super) fn release(&mut self) -> bool {
        self.0.pop().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_kept_for_everything_but_clients() {
        assert_eq!(within(10_000, 1_048_576), 10_000);
        assert_eq!(within(10_000, 10_100), 9_844);
        assert_eq!(within(10_000, 64), 48);
        assert_eq!(within(10, 1024), 10);
    }

    #[test]
    fn the_admin_port_uses_a_part_of_the_files_that_are_kept() {
        assert_eq!([16, 64, 1024, 1_048_576].map(admin_within), [1, 4, 64, 64]);
    }

    #[test]
    fn spare_files_are_given_up_one_by_one() {
        let mut spare = SpareFiles::default();
        assert!(!spare.release());
        spare.refill();
        assert_eq!((0..100).filter(|_| spare.release()).count(), SPARE_FILES);
    }
}

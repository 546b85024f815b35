//! Compares `server.maxConnections` with the limit on open files, and raises the soft limit.
//!
//! The usual soft limit of 1024 is there for programs that use `select`. At the limit no connection can be
//! accepted, those of health probes included, so some files are kept for everything but clients.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files kept for backends, databases and the admin port; at most a quarter of the limit.
const RESERVED_FILES: u64 = 256;

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
    let room = files.saturating_sub(RESERVED_FILES.min(files / 4));
    wanted.min(usize::try_from(room).unwrap_or(usize::MAX))
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
}

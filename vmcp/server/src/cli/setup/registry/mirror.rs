//! [`Mirror`]: the copy of a registry in the cache folder.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;
use vmcp_engine::folders;

use super::fetch::Fetched;
use crate::config_file::secret_store::write_private;

/// Age up to which a mirror is used without asking its registry.
const FRESH: Duration = Duration::from_hours(1);

/// Place of the copy of one registry.
pub(super) struct Mirror {
    path: PathBuf,
}

/// A copy that was read.
pub(super) struct MirrorState {
    /// Its document: `servers` as the registry answered them, with the facts below.
    pub(super) text: String,
    /// Time of the last answer of the registry.
    fetched_at: SystemTime,
    /// Entity tag of the whole list, if it was one page.
    pub(super) etag: Option<String>,
}

impl Mirror {
    /// Returns the place of the copy of a registry.
    pub(super) fn of(url: &Url) -> Mirror {
        let name = hex::encode(Sha256::digest(url.as_str()));
        Mirror { path: folders::cache_dir().join("registry").join(format!("{name}.json")) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the copy; `None` without one. A damaged copy counts as absent and is fetched again.
    pub(super) fn read(&self) -> Option<MirrorState> {
        let text = std::fs::read_to_string(&self.path).ok()?;
        let document: Value = serde_json::from_str(&text).ok()?;
        let seconds = document.get("fetchedAt")?.as_u64()?;
        let fetched_at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
        let etag = document.get("etag").and_then(Value::as_str).map(str::to_owned);
        Some(MirrorState { text, fetched_at, etag })
    }

    /// Writes a copy, by a rename, so that a reader never sees half of it.
    pub(super) fn write(&self, state: &MirrorState) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        // A registry that wants a token is for its readers.
        write_private(&self.path, &state.text)
    }
}

impl MirrorState {
    /// Returns the copy of the fetched entries.
    pub(super) fn of(before: Option<MirrorState>, fetched: Fetched) -> serde_json::Result<MirrorState> {
        let now = SystemTime::now();
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let (servers, etag) = match fetched {
            Fetched::Servers { servers, etag } => (Value::Array(servers), etag),
            Fetched::Unchanged => {
                let before = before.map(|before| before.text).unwrap_or_default();
                let document: Value = serde_json::from_str(&before)?;
                let etag = document.get("etag").and_then(Value::as_str).map(str::to_owned);
                (document.get("servers").cloned().unwrap_or_default(), etag)
            }
        };
        let text = json!({ "fetchedAt": seconds, "etag": etag, "servers": servers }).to_string();
        Ok(MirrorState { text, fetched_at: now, etag })
    }

    /// True if the registry need not be asked again. A copy from the future is not fresh.
    pub(super) fn is_fresh(&self) -> bool {
        self.fetched_at.elapsed().is_ok_and(|age| age < FRESH)
    }

    /// Returns the age in words, such as `3h 20m`.
    pub(super) fn age_words(&self) -> String {
        let seconds = self.fetched_at.elapsed().unwrap_or_default().as_secs();
        let shown = if seconds < 60 { seconds } else { seconds - seconds % 60 };
        humantime::format_duration(Duration::from_secs(shown)).to_string()
    }
}

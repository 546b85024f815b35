//! Credentials that operators have withdrawn, kept beside the databases, so that a restart forgets none.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use vmcp_access::authentication::revocations::{
    Revocation, RevocationError, Revocations, RevokedCredentials,
};
use vmcp_access::identity::upstream_tokens::LatestTokens;

use super::Engine;

/// File in the storage folder.
const FILE: &str = "revocations.json";

/// The credentials that are refused, and the file that keeps them.
pub(super) struct WithdrawnCredentials {
    revocations: Arc<Revocations>,
    /// Tokens for listings, which may be of a person whose sign-in is withdrawn.
    latest: LatestTokens,
    file: Option<PathBuf>,
    /// Held while the file is written: of two orders at once, the later list must be written last.
    saving: Mutex<()>,
}

impl WithdrawnCredentials {
    /// Reads the orders of an earlier process from `dir`; without one, they are in memory.
    pub(super) fn open(
        dir: Option<&Path>,
        revocations: Arc<Revocations>,
        latest: LatestTokens,
    ) -> WithdrawnCredentials {
        let file = dir.map(|dir| dir.join(FILE));
        if let Some(text) = file.as_deref().and_then(|path| std::fs::read(path).ok()) {
            match serde_json::from_slice::<Vec<Revocation>>(&text) {
                Ok(orders) => drop(revocations.merge(&orders)),
                Err(error) => {
                    tracing::error!(%error, file = FILE, "withdrawn credentials cannot be read; give the orders again: `vmcp sessions end`");
                }
            }
        }
        WithdrawnCredentials { revocations, latest, file, saving: Mutex::default() }
    }

    /// Returns the credentials that are refused.
    pub(super) fn revocations(&self) -> &Arc<Revocations> {
        &self.revocations
    }

    /// Takes over the orders of another replica.
    pub(super) fn adopt(&self, orders: &[Revocation]) {
        if self.revocations.merge(orders) {
            tracing::info!("credentials that were withdrawn at another replica are refused here");
            self.take_effect();
        }
    }

    /// Lists with the tokens of no person whose sign-in is withdrawn, and writes the orders.
    fn take_effect(&self) {
        self.latest.forget_if(|client| self.revocations.refuses(client));
        self.save();
    }

    /// Writes the orders in force, whole or not at all.
    fn save(&self) {
        let Some(path) = self.file.as_deref() else { return };
        let _saving = self.saving.lock();
        let temporary = path.with_extension("json.new");
        let written = serde_json::to_vec(&*self.revocations.all())
            .map_err(std::io::Error::from)
            .and_then(|text| std::fs::write(&temporary, text))
            .and_then(|()| std::fs::rename(&temporary, path));
        if let Err(error) = written {
            tracing::error!(%error, "withdrawn credentials are forgotten by a restart: they could not be written");
        }
    }
}

impl Engine {
    /// Returns the credentials that are refused.
    pub fn revocations(&self) -> Arc<Revocations> {
        Arc::clone(self.0.withdrawn.revocations())
    }

    /// Withdraws credentials for `life`, here and at all replicas of `server.peers`, or lifts that.
    pub fn revoke(
        &self,
        of: RevokedCredentials,
        life: Duration,
        is_lifted: bool,
    ) -> Result<Revocation, RevocationError> {
        let order = self.revocations().order(of, life, is_lifted)?;
        self.0.withdrawn.take_effect();
        Ok(order)
    }

    /// Ends a session of the web console, here and at all replicas of `server.peers`; see
    /// [`Revocations::end_console_session`].
    pub fn end_console_session(&self, name: &str, end: u64) {
        self.revocations().end_console_session(name, end);
        self.0.withdrawn.save();
    }

    /// Returns true if a session of the web console was ended.
    pub fn has_ended_console_session(&self, name: &str) -> bool {
        self.0.withdrawn.revocations().has_ended_console_session(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Options, Storage};
    use crate::testing::{KEYWORDS, config};

    #[tokio::test]
    async fn a_restart_forgets_no_order() {
        let folder = tempfile::tempdir().unwrap();
        let start = async || {
            let storage = Storage::Dir(folder.path().to_owned());
            Box::pin(Engine::start(config(KEYWORDS), Options { storage, ..Options::default() }))
                .await
                .unwrap()
        };
        let of = RevokedCredentials { subject: Some("alice".into()), ..RevokedCredentials::default() };
        let order = start().await.revoke(of, Duration::from_hours(1), false).unwrap();
        assert_eq!(**start().await.revocations().all(), [order]);
        let end = crate::random::now() + 3600;
        start().await.end_console_session("first", end);
        let again = start().await;
        assert!(again.has_ended_console_session("first") && !again.has_ended_console_session("second"));
    }
}

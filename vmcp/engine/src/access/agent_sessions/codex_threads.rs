//! Threads of Codex: each is a session of the principal that started it, with the source `Codex`.

use serde_json::json;
use vmcp_config::SessionHooks;
use vmcp_hooks::hook_call::HookCall;

use super::{AgentSessionError, AgentSessions, is_local, owner};
use crate::access::identity::Principal;

/// Source of the sessions. Hooks report theirs in lower case, so a hook cannot claim a thread.
const SOURCE: &str = "Codex";

impl AgentSessions {
    /// Returns the id of a thread's session, which it registers the first time. `cwd` is the working
    /// directory that the caller named.
    pub async fn session_of_thread(
        &self,
        principal: &Principal,
        settings: &SessionHooks,
        thread_id: &str,
        cwd: Option<&str>,
    ) -> Result<String, AgentSessionError> {
        let params = json!({"session_id": thread_id, "source": "resume", "cwd": cwd});
        let hook = json!({"hook_type": "SessionStart", "params": params, "source": SOURCE});
        let hook = HookCall::read(&hook.to_string());
        let mut hook = hook.map_err(|error| AgentSessionError::Store(error.to_string()))?;
        SOURCE.clone_into(&mut hook.source);
        Ok(self.take_hook(principal, settings, hook).await?.result.session_id)
    }

    /// Returns those threads that a principal reaches, in their order: its own, and for clients without an
    /// identity on this machine also threads that were started outside of vmcp.
    pub async fn reachable_threads(
        &self,
        principal: &Principal,
        threads: Vec<String>,
    ) -> Result<Vec<String>, AgentSessionError> {
        let (me, takes_unknown) = (owner(principal), is_local(principal));
        self.on_store(move |store| {
            let mut reachable = Vec::new();
            for thread in threads {
                let owner = store.session_owner(SOURCE, &thread)?;
                if owner.map_or(takes_unknown, |owner| owner == me) {
                    reachable.push(thread);
                }
            }
            Ok(reachable)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use vmcp_store::SessionQuery;

    use super::*;

    #[tokio::test]
    async fn a_thread_keeps_its_session_and_its_owner_over_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let settings = crate::testing::config("").optimizer.session_hooks;
        let (me, other) = (Principal::at("192.0.2.1"), Principal::at("198.51.100.1"));
        let sessions = AgentSessions::new(Some(dir.path()));
        let first = sessions.session_of_thread(&me, &settings, "t", Some("/w")).await.unwrap();
        drop(sessions);
        let sessions = AgentSessions::new(Some(dir.path()));
        assert_eq!(sessions.session_of_thread(&me, &settings, "t", None).await.unwrap(), first);
        // A later session of the same id takes nothing over.
        sessions.session_of_thread(&other, &settings, "t", None).await.unwrap();
        let threads = || vec!["t".to_owned(), "unknown".to_owned()];
        assert_eq!(sessions.reachable_threads(&me, threads()).await.unwrap(), ["t"]);
        assert!(sessions.reachable_threads(&other, threads()).await.unwrap().is_empty());
        let local = Principal::at("127.0.0.1");
        assert_eq!(sessions.reachable_threads(&local, threads()).await.unwrap(), ["unknown"]);
    }

    #[tokio::test]
    async fn a_hook_does_not_claim_a_thread() {
        let settings = crate::testing::config("").optimizer.session_hooks;
        let (me, other) = (Principal::at("192.0.2.1"), Principal::at("198.51.100.1"));
        let sessions = AgentSessions::new(None);
        for source in ["codex", "Codex"] {
            let params = json!({"session_id": "t"});
            let hook = json!({"hook_type": "SessionStart", "params": params, "source": source});
            let hook = HookCall::read(&hook.to_string()).unwrap();
            sessions.take_hook(&other, &settings, hook).await.unwrap();
        }
        let thread = || vec!["t".to_owned()];
        assert!(sessions.reachable_threads(&other, thread()).await.unwrap().is_empty());
        sessions.session_of_thread(&me, &settings, "t", None).await.unwrap();
        assert_eq!(sessions.reachable_threads(&me, thread()).await.unwrap(), ["t"]);
        assert!(sessions.reachable_threads(&other, thread()).await.unwrap().is_empty());
        let query = SessionQuery { source: Some("codex".to_owned()), ..SessionQuery::default() };
        assert_eq!(sessions.list(&me, &settings, query).await.unwrap().len(), 1, "of either case");
    }
}

//! `optimizer.sessionHooks`: sessions of coding agents, as their hooks report them.

pub(crate) mod webhooks;

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::webhooks::{RawSessionWebhook, SessionWebhook};
use crate::problems::{self, Report};
use crate::sections::server::Server;

/// Path of the folders of transcripts.
const TRANSCRIPT_DIRS: &str = "optimizer.sessionHooks.transcriptDirs";
/// Most folders of transcripts; more are a mistake.
const MAX_DIRS: usize = 16;

/// Validated settings of session hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHooks {
    /// True if `POST /hooks/*` and `/sessions` are served on the client port.
    pub enabled: bool,
    /// Days without a hook after which a session is forgotten.
    pub keep_days: u32,
    /// Most sessions of one principal.
    pub max_sessions: usize,
    /// Folders in which the server itself reads transcripts; empty: it reads none.
    pub transcript_dirs: Vec<PathBuf>,
    /// Services that are told of hooks.
    pub webhooks: Vec<Arc<SessionWebhook>>,
}

/// Sessions of coding agents: their hooks register them, and a new session gets the summary of the one
/// before. The tool `call_hook` (`tools`) does the same without these paths.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SessionHooks")]
pub struct RawSessionHooks {
    /// Serve `POST /hooks/execute`, `/hooks/claude`, `/hooks/codex` and `/sessions` on the client port, to
    /// clients that may call `optim.call_hook`.
    pub enabled: bool,
    /// Days without a hook after which a session is forgotten.
    #[schemars(range(min = 1, max = 365))]
    pub keep_days: u32,
    /// Most sessions of one client, an identity or else an address. Beyond it the session without a hook for
    /// the longest time goes.
    #[schemars(range(min = 1, max = 1_000))]
    pub max_sessions: usize,
    /// Absolute paths of folders in which the server reads the transcript that a hook names by its path. Only
    /// without identities, and only for clients on the same machine. Default: none; hooks bring their
    /// transcripts themselves.
    pub transcript_dirs: Vec<String>,
    /// Services that are told of hooks, at most 16. Each gets what `/sessions` shows of the session, without
    /// its summary.
    pub webhooks: Vec<RawSessionWebhook>,
}

impl Default for RawSessionHooks {
    fn default() -> Self {
        Self {
            enabled: false,
            keep_days: 30,
            max_sessions: 200,
            transcript_dirs: Vec::new(),
            webhooks: Vec::new(),
        }
    }
}

impl RawSessionHooks {
    /// Refuses folders of transcripts that others than the person of this machine could read.
    /// `is_one_person`: clients have no identities.
    pub(crate) fn check_readers(&self, is_one_person: bool, server: &Server, report: &mut Report) {
        if self.transcript_dirs.is_empty() {
            return;
        }
        // Clients of a proxy on this machine come from its address.
        let may_be_proxied = !server.listen.ip().is_loopback() || !server.allowed_hosts.is_empty();
        if may_be_proxied && !report.is_dropped("server.listen") {
            report.problem(
                TRANSCRIPT_DIRS,
                "other machines may reach this server, and behind a proxy they look like this one",
                "remove it (`vmcp hooks send` brings the transcript with the hook), or listen at 127.0.0.1 \
                 without `server.allowedHosts`",
            );
        }
        if !is_one_person {
            report.problem(
                TRANSCRIPT_DIRS,
                "clients have identities (incomingAuth), and each could read the transcripts of all",
                "remove it; `vmcp hooks send` brings the transcript with the hook",
            );
        }
    }

    pub(crate) fn validate(&self, report: &mut Report) -> SessionHooks {
        if self.transcript_dirs.len() > MAX_DIRS {
            let message = format!("{} folders, the limit is {MAX_DIRS}", self.transcript_dirs.len());
            report.problem(TRANSCRIPT_DIRS, message, "name a folder above them");
        }
        for (index, dir) in self.transcript_dirs.iter().enumerate() {
            let path = PathBuf::from(dir);
            if !path.is_absolute() || path.parent().is_none() {
                report.problem(
                    &problems::item(TRANSCRIPT_DIRS, index),
                    format!("`{dir}` is not an absolute path of a folder below `/`"),
                    "write it as `${HOME}/.claude/projects`",
                );
            }
        }
        SessionHooks {
            enabled: self.enabled,
            keep_days: self.keep_days,
            max_sessions: self.max_sessions,
            transcript_dirs: self.transcript_dirs.iter().map(PathBuf::from).collect(),
            webhooks: webhooks::validate(&self.webhooks, report),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::load;

    fn problems(text: &str) -> String {
        load(text, "f", &|_| None).unwrap_err().to_string()
    }

    #[test]
    fn hooks_are_off_and_folders_are_absolute_and_of_one_person() {
        let hooks = load("", "f", &|_| None).unwrap().config.optimizer.session_hooks;
        assert_eq!((hooks.enabled, hooks.keep_days, hooks.transcript_dirs.len()), (false, 30, 0));
        let dirs = |dirs: &str| format!("optimizer: {{ sessionHooks: {{ transcriptDirs: {dirs} }} }}\n");
        for dir in ["/", "a/b", "''"] {
            let problems = problems(&dirs(&format!("[/t, {dir}]")));
            assert!(problems.contains("optimizer.sessionHooks.transcriptDirs[1]"), "{dir}: {problems}");
        }
        assert!(problems(&dirs(&format!("[{}]", vec!["/t"; 17].join(", ")))).contains("17 folders"));
        let keys = "incomingAuth: { type: apiKeys, apiKeys: [{ subject: a, key: 0123456789abcdef0123456789abcdef }] }";
        assert!(problems(&(dirs("[/t]") + keys)).contains("each could read the transcripts of all"));
        assert!(load(&dirs("[/t]"), "f", &|_| None).is_ok());
        for server in ["listen: '0.0.0.0:8080'", "allowedHosts: [mcp.example.com]"] {
            let problems = problems(&format!("{}server: {{ {server} }}\n", dirs("[/t]")));
            assert!(problems.contains("behind a proxy they look like this one"), "{server}: {problems}");
        }
    }
}

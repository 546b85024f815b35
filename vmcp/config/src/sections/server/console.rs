//! `server.console`: people to whom the web console on the admin port is served.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::console_sign_in::RawConsoleSignIn;
use crate::problems::Report;
use crate::values::secret::Secret;

/// People to whom the web console on the admin port is served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConsoleAccess {
    /// To no one.
    Off,
    /// To people on this machine: on a loopback address, or with `adminTokens` to senders on one. With
    /// `adminTokens`, people sign in with one of `adminTokens` or `viewerTokens`.
    #[default]
    Loopback,
    /// On any address, to people who sign in with one of `adminTokens` or `viewerTokens`; it needs
    /// `adminTokens`. The admin port speaks plain HTTP: beyond this machine it belongs behind a proxy that
    /// ends TLS.
    Tokens,
    /// On any address, to people who sign in at the provider of `consoleSignIn`, by their roles, or with one
    /// of `adminTokens` or `viewerTokens`. Beyond this machine it needs `adminTokens`.
    Oidc,
}

impl ConsoleAccess {
    pub(super) fn check(
        self,
        admin_tokens: &[Secret],
        viewer_tokens: &[Secret],
        sign_in: Option<&RawConsoleSignIn>,
        report: &mut Report,
    ) {
        if self == ConsoleAccess::Oidc && sign_in.is_none() {
            report.problem(
                "server.console",
                "`oidc` needs `server.consoleSignIn`, and there is none",
                "add the provider there, or write `loopback`",
            );
        }
        // A proxy beside vmcp reaches the port on loopback, where `/admin/*` is open without a token.
        let is_proxied = sign_in.is_some_and(RawConsoleSignIn::is_for_other_machines);
        if self == ConsoleAccess::Oidc && is_proxied && admin_tokens.is_empty() {
            report.problem(
                "server.console",
                "`oidc` needs `server.adminTokens`: without them `/admin/*` is open to everyone whom a proxy lets \
                 through",
                "add a token there",
            );
        }
        if self == ConsoleAccess::Tokens && admin_tokens.is_empty() {
            report.problem(
                "server.console",
                "`tokens` needs `server.adminTokens`, and there are none",
                "add a token there, or write `loopback`",
            );
        }
        if self == ConsoleAccess::Loopback && !viewer_tokens.is_empty() && admin_tokens.is_empty() {
            report.problem(
                "server.viewerTokens",
                "they protect nothing without `server.adminTokens`: everyone on this machine reads the console and \
                 gives orders there, without a token",
                "add a token to `server.adminTokens`, or remove `server.viewerTokens`",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::load;

    fn load_server(server: &str) -> Result<crate::Config, String> {
        let loaded = load(&format!("server: {server}"), "vmcp.yaml", &|_| None);
        loaded.map(|loaded| loaded.config).map_err(|problems| problems.to_string())
    }

    #[test]
    fn the_console_is_on_loopback_unless_the_file_says_otherwise() {
        use super::ConsoleAccess::{Loopback, Off, Tokens};
        for (server, expected) in [
            ("{}", Loopback),
            ("{ console: off }", Off),
            ("{ console: tokens, adminTokens: [a token of enough characters] }", Tokens),
        ] {
            assert_eq!(load_server(server).unwrap().server.console, expected, "{server}");
        }
        let refused = load_server("{ console: tokens }").unwrap_err();
        assert!(refused.contains("server.console") && refused.contains("server.adminTokens"), "{refused}");
    }

    #[test]
    fn tokens_of_viewers_that_protect_nothing_are_refused() {
        const VIEWERS: &str = "viewerTokens: [a token of enough characters]";
        let refused = load_server(&format!("{{ {VIEWERS} }}")).unwrap_err();
        assert!(refused.contains("server.viewerTokens: they protect nothing"), "{refused}");
        assert!(refused.contains("add a token to `server.adminTokens`"), "{refused}");
        for protected in ["adminTokens: [another token of some length]", "console: off"] {
            load_server(&format!("{{ {VIEWERS}, {protected} }}")).unwrap();
        }
    }
}

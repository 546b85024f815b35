//! Environment variables of child processes: a few of vmcp's own, and the configured ones.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use vmcp_config::Secret;
use vmcp_config::rules::NamePattern;

/// Environment variables that a child inherits; everything else, secrets above all, must be configured. The
/// first six are those that the MCP SDKs pass on; the others are needed for text, time, temporary files,
/// private networks, a desktop's windows, and the usual tools' choice of an agent, a daemon or a profile.
const INHERITED_VARIABLES: [&str; 37] = [
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_DIR",
    "ALL_PROXY",
    "all_proxy",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "SSH_AUTH_SOCK",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "KUBECONFIG",
    "AWS_PROFILE",
    "AWS_REGION",
];

/// Returns the variables of vmcp's environment that a program gets; `patterns` name more than the usual ones.
pub(crate) fn inherited(patterns: &[NamePattern]) -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(move |(name, _)| is_inherited(name, patterns))
}

/// Returns all variables of a program: the inherited ones, replaced and completed by `configured`.
pub(crate) fn of_program(
    configured: &BTreeMap<String, Secret>,
    patterns: &[NamePattern],
) -> BTreeMap<OsString, OsString> {
    let mut all: BTreeMap<_, _> = inherited(patterns).collect();
    all.extend(configured.iter().map(|(name, value)| (name.into(), value.expose().into())));
    all
}

/// True for a variable of vmcp's environment that a program gets.
fn is_inherited(name: &OsStr, patterns: &[NamePattern]) -> bool {
    let Some(name) = name.to_str() else { return false };
    INHERITED_VARIABLES.contains(&name) || patterns.iter().any(|pattern| pattern.matches(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_desktop_and_of_patterns_are_inherited_and_no_others() {
        let patterns = [NamePattern::new("AWS_*")];
        let inherited = |name: &str| is_inherited(OsStr::new(name), &patterns);
        for name in ["PATH", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "SSH_AUTH_SOCK", "DOCKER_HOST"] {
            assert!(inherited(name), "{name}");
        }
        for name in ["KUBECONFIG", "AWS_PROFILE", "SSL_CERT_DIR", "ALL_PROXY", "AWS_ENDPOINT_URL"] {
            assert!(inherited(name), "{name}");
        }
        for name in ["GITHUB_TOKEN", "VMCP_ADMIN_TOKEN", "OPENAI_API_KEY"] {
            assert!(!inherited(name), "{name}");
        }
    }
}

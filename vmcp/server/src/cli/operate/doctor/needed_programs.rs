//! Programs that servers need and this machine lacks: `vmcp init` and `vmcp add` tell of them when they write
//! the servers, `vmcp doctor` when the servers fail.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use vmcp_config::{Backend, Config, Transport};

use crate::cli::console::notes;

/// Programs that run servers, and how a person installs them.
const INSTALLATIONS: [(&[&str], &str); 10] = [
    (&["uvx", "uv"], "install uv: `curl -LsSf https://astral.sh/uv/install.sh | sh`, or `pipx install uv`"),
    (
        &["npx", "npm", "node"],
        "install Node.js 20 or newer, with the package manager of this system or from https://nodejs.org",
    ),
    (&["pnpm", "pnpx", "pn", "pnx"], "install pnpm: `npm install --global pnpm`"),
    // The package `yarn` of npm is Yarn 1, which lacks `dlx`.
    (&["yarn"], "install Yarn 2 or newer: `npm install --global @yarnpkg/cli-dist`"),
    (&["bunx", "bun"], "install Bun: `curl -fsSL https://bun.sh/install | bash`"),
    (&["deno"], "install Deno: `curl -fsSL https://deno.land/install.sh | sh`"),
    (&["pipx"], "install pipx, with the package manager of this system"),
    (
        &["python", "python3"],
        "install Python 3, with the package manager of this system or from https://www.python.org",
    ),
    (&["docker"], "install Docker: https://docs.docker.com/get-docker"),
    (&["codex"], "install Codex: `npm install --global @openai/codex`"),
];

/// Returns how to install a program; `None` for a program of an unknown name.
pub(super) fn installation(program: &str) -> Option<&'static str> {
    let name = Path::new(program).file_name()?.to_str()?;
    INSTALLATIONS.iter().find(|(names, _)| names.contains(&name)).map(|(_, text)| *text)
}

/// Tells the person of programs that servers of a configuration need and this machine lacks; of the servers
/// named `only`, or of all.
pub(in crate::cli) fn note_missing(config: &Config, only: Option<&[String]>) {
    let is_meant =
        |backend: &&Backend| only.is_none_or(|names| names.iter().any(|name| **name == *backend.name));
    let path = std::env::var_os("PATH");
    for (program, servers) in missing(config.backends.iter().filter(is_meant), path.as_deref()) {
        notes::note(&words(&program, &servers));
    }
}

fn words(program: &str, servers: &[String]) -> String {
    let installation = installation(program).unwrap_or("install it, or give its full path as `command`");
    let needs = if servers.len() == 1 { "needs" } else { "need" };
    format!(
        "`{program}` is missing, and {} {needs} it: {installation}; then `vmcp doctor` checks again",
        servers.join(", ")
    )
}

/// Returns the missing programs, each with the servers that need it. `path` is the `PATH` of vmcp, where a
/// server has none of its own.
fn missing<'a>(
    backends: impl Iterator<Item = &'a Backend>,
    path: Option<&OsStr>,
) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for backend in backends.filter(|backend| backend.enabled) {
        let Transport::Stdio { command, env, cwd, .. } = &backend.transport else { continue };
        let own = env.get("PATH").map(|path| OsString::from(path.expose()));
        if !is_there(command, cwd.as_deref(), own.as_deref().or(path)) {
            found.entry(command.clone()).or_default().push(backend.name.to_string());
        }
    }
    found
}

/// Returns true if a command can be started. A name without a slash is looked for in `path`, another one is a
/// file, relative to the working directory of its server.
fn is_there(command: &str, cwd: Option<&Path>, path: Option<&OsStr>) -> bool {
    let is_program = |file: &Path| {
        file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if command.contains('/') {
        return is_program(&cwd.unwrap_or(Path::new("")).join(command));
    }
    std::env::split_paths(path.unwrap_or_default()).any(|folder| is_program(&folder.join(command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_the_servers_that_need_it() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("there");
        std::fs::write(&program, "").unwrap();
        let text = format!(
            "backends:\n\
             - {{ name: time, command: [uvx, mcp-server-time] }}\n\
             - {{ name: fetch, command: [uvx, mcp-server-fetch] }}\n\
             - {{ name: idle, command: [npx, x], enabled: false }}\n\
             - {{ name: own, command: [there], env: {{ PATH: '{0}' }} }}\n\
             - {{ name: file, command: [./there], cwd: '{0}' }}\n\
             - {{ name: remote, url: 'https://mcp.example.com/mcp' }}\n",
            folder.path().display()
        );
        let config = vmcp_config::load(&text, "vmcp.yaml", &|_: &str| None).unwrap().config;
        let missing = || missing(config.backends.iter(), Some(OsStr::new("/nowhere")));
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let expected = [("./there", of(&["file"])), ("there", of(&["own"])), ("uvx", of(&["time", "fetch"]))];
        assert_eq!(missing(), expected.map(|(name, servers)| (name.to_owned(), servers)).into());
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(missing().into_keys().collect::<Vec<_>>(), ["uvx"], "a file that can be started is there");
        let told = words("uvx", &of(&["time", "fetch"]));
        assert!(told.starts_with("`uvx` is missing, and time, fetch need it: install uv: "), "{told}");
        assert!(words("/opt/own", &of(&["a"])).contains("a needs it: install it, or give its full path"));
    }
}

//! Names of servers that a person gives none: from the host of an address, or from the package of a command.

use std::ffi::OsStr;
use std::path::Path;

use url::{Host, Url};
use vmcp_config::normalize_name;

use super::typed_words::is_address;

/// Parts of hosts that many servers have.
const COMMON_LABELS: [&str; 5] = ["www", "mcp", "api", "app", "server"];
/// Files and folders that many programs have.
const COMMON_FILES: [&str; 11] =
    ["index", "main", "__main__", "server", "cli", "app", "build", "dist", "src", "lib", "bin"];
/// Words of package runners in front of the package.
const SUBCOMMANDS: [&str; 5] = ["exec", "x", "dlx", "tool", "run"];
/// Options of package runners and of `docker run` that take the next word.
const VALUE_OPTIONS: [&str; 17] = [
    "-p",
    "--package",
    "--from",
    "--python",
    "--with",
    "-w",
    "-e",
    "--env",
    "--env-file",
    "-v",
    "--volume",
    "--mount",
    "--name",
    "--network",
    "--platform",
    "--user",
    "--entrypoint",
];

/// Returns the name in a host: `notion` of `mcp.notion.com`.
pub(super) fn of_address(address: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    let Host::Domain(host) = url.host()? else { return None };
    let labels: Vec<&str> = host.split('.').filter(|label| !COMMON_LABELS.contains(label)).collect();
    let name = match labels.as_slice() {
        [] => return None,
        [only] => only,
        // `example.co.uk`
        [.., name, second, _] if second.len() <= 3 => name,
        [.., name, _] => name,
    };
    normalize_name(name)
}

/// Returns the name in a command: `time` of `uvx mcp-server-time`, `fetch` of `docker run -i mcp/fetch`.
pub(super) fn of_command(words: &[String]) -> Option<String> {
    let (program, args) = words.split_first()?;
    let program = stem(program);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let plain = plain_words(&args);
    let first = plain.first().copied();
    match program {
        "npx" | "npm" | "pnpm" | "pnpx" | "pn" | "pnx" | "yarn" | "bunx" | "uvx" | "uv" | "pipx"
        | "docker" | "podman" => {
            // A bridge to a remote server is named after the server.
            let is_bridge = first.is_some_and(|first| first.split('@').next() == Some("mcp-remote"));
            let address = plain.iter().find(|word| is_address(word)).filter(|_| is_bridge);
            address.and_then(|address| of_address(address)).or_else(|| normalize_name(&of_package(first?)))
        }
        "node" | "bun" | "deno" | "python" | "python3" => {
            let parts: Vec<&str> = first?.rsplit('/').map(stem).collect();
            let telling = parts.iter().find(|part| !part.is_empty() && !COMMON_FILES.contains(part));
            normalize_name(&of_package(telling?))
        }
        own => normalize_name(&of_package(own)),
    }
}

/// Returns the words that are neither options, nor their values, nor subcommands.
fn plain_words<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let mut plain: Vec<&str> = Vec::new();
    let mut is_value = false;
    for &word in args {
        if is_value {
            is_value = false;
        } else if word.starts_with('-') {
            is_value = VALUE_OPTIONS.contains(&word);
        } else if !plain.is_empty() || !SUBCOMMANDS.contains(&word) {
            plain.push(word);
        }
    }
    plain
}

/// Returns the name of a package or an image, without its scope, its version, and the words `mcp` and
/// `server`; a package that has no other word is named after its scope.
fn of_package(package: &str) -> String {
    let scoped = package.strip_prefix('@').and_then(|rest| rest.split_once('/'));
    let (scope, name) = match scoped {
        Some((scope, name)) => (scope, name),
        None => ("", package.rsplit('/').next().unwrap_or_default()),
    };
    let name = name.split(['@', '[', '=', '<', '>', '~', '!', ':']).next().unwrap_or_default();
    let is_telling = |word: &&str| !word.is_empty() && !matches!(*word, "mcp" | "server");
    let words: Vec<&str> = name.split(['-', '_', '.']).filter(is_telling).collect();
    if !words.is_empty() {
        return words.join("-");
    }
    if scope.is_empty() { name.to_owned() } else { scope.to_owned() }
}

/// Returns the name of a file without its suffix.
fn stem(path: &str) -> &str {
    Path::new(path).file_stem().and_then(OsStr::to_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_commands_have_the_name_that_people_would_give_them() {
        for (address, name) in [
            ("https://mcp.notion.com/mcp", Some("notion")),
            ("https://api.githubcopilot.com/mcp/", Some("githubcopilot")),
            ("https://mcp.example.co.uk/sse", Some("example")),
            ("http://localhost:3000/mcp", Some("localhost")),
            ("http://127.0.0.1:3000/mcp", None),
        ] {
            assert_eq!(of_address(address).as_deref(), name, "{address}");
        }
        for (line, name) in [
            ("uvx mcp-server-time --local-timezone UTC", Some("time")),
            ("npx -y @modelcontextprotocol/server-memory@latest", Some("memory")),
            ("npx -y @playwright/mcp@1.2", Some("playwright")),
            ("pn dlx kb-mcp", Some("kb")),
            ("npx -y @notionhq/notion-mcp-server", Some("notion")),
            ("npx -y mcp-remote https://mcp.linear.app/sse", Some("linear")),
            ("npx -y mcp-remote@latest https://mcp.linear.app/sse", Some("linear")),
            ("npm exec -y server-git -- --repo .", Some("git")),
            ("uv tool run --from git+https://host/x serena start", Some("serena")),
            ("docker run -i --rm -e TOKEN ghcr.io/github/github-mcp-server:v1", Some("github")),
            ("docker run -i mcp/fetch", Some("fetch")),
            ("python -m mcp_server_git", Some("git")),
            ("node /home/me/weather/build/index.js", Some("weather")),
            ("/opt/bin/notes-mcp --port 1", Some("notes")),
            ("npx -y", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(of_command(&words).as_deref(), name, "{line}");
        }
    }
}

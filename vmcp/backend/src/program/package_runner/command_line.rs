//! Command lines of package runners: `RUNNER OPTIONS [PACKAGE] PROGRAM ARGUMENTS`.

use std::path::Path;

/// A package runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runner {
    /// `npx`, or `npm exec`.
    Npx,
    /// `uvx`, or `uv tool run`.
    Uvx,
    /// `pnpx`, or `pnpm dlx`; pnpm 12 has `pnx` and `pn` as short names.
    Pnpm,
    /// `bunx`, or `bun x`.
    Bunx,
}

/// Words of a subcommand, each as the list of its names.
type Subcommand = &'static [&'static [&'static str]];

/// Programs that run packages, with the subcommand that does so.
static RUNNERS: [(&str, Runner, Subcommand); 10] = [
    ("npx", Runner::Npx, &[]),
    ("npm", Runner::Npx, &[&["exec", "x"]]),
    ("uvx", Runner::Uvx, &[]),
    ("uv", Runner::Uvx, &[&["tool"], &["run"]]),
    ("pnpx", Runner::Pnpm, &[]),
    ("pnpm", Runner::Pnpm, &[&["dlx"]]),
    ("pnx", Runner::Pnpm, &[]),
    ("pn", Runner::Pnpm, &[&["dlx"]]),
    ("bunx", Runner::Bunx, &[]),
    ("bun", Runner::Bunx, &[&["x"]]),
];

/// Words of a runner's command line, by their meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackageCommand {
    pub(super) runner: Runner,
    /// Words of the subcommand, such as `tool run` of uv.
    pub(super) subcommand: Vec<String>,
    /// The subcommand, and the options other than the package's.
    pub(super) options: Vec<String>,
    /// The package as typed, with its version.
    pub(super) package: String,
    /// Name of the program; `None`: the runner takes it from the package.
    pub(super) program: Option<String>,
    /// Number of arguments in front of the program's own.
    pub(super) skipped: usize,
}

/// Effect of an option of a runner on its words.
enum OptionKind {
    Switch,
    Value,
    /// Names the package, so that the first word names a program.
    Package,
}

impl PackageCommand {
    /// Parses a command line. Returns `None` for another program, and for options after which a start is not
    /// like the one before it: unknown options, and options that ask for a fresh installation.
    pub(super) fn parse(command: &str, args: &[String]) -> Option<Self> {
        let file = Path::new(command).file_name()?.to_str()?;
        let &(_, runner, words) = RUNNERS.iter().find(|(name, _, _)| *name == file)?;
        Self::of_words(runner, words, args)
    }

    fn of_words(runner: Runner, mut missing: Subcommand, args: &[String]) -> Option<Self> {
        let is_by_npm = runner == Runner::Npx && !missing.is_empty();
        let (mut options, mut subcommand, mut package) = (Vec::new(), Vec::new(), None);
        let mut words = args.iter().map(String::as_str).enumerate();
        while let Some((at, word)) = words.next() {
            if let Some((first, rest)) = missing.split_first().filter(|_| !word.starts_with('-')) {
                first.contains(&word).then_some(())?;
                subcommand.push(word.to_owned());
                options.push(word.to_owned());
                missing = rest;
                continue;
            }
            if word == "--" {
                // pnpm and bun give these two signs different meanings in different versions.
                (missing.is_empty() && matches!(runner, Runner::Npx | Runner::Uvx)).then_some(())?;
                let (at, word) = words.next()?;
                let words = Words { options, subcommand, package };
                return Self::complete(runner, words, word, at + 1);
            }
            if !word.starts_with('-') {
                let rest = args.get(at + 1..).unwrap_or_default();
                let skipped = at + 1 + own_words(runner, is_by_npm, rest)?;
                let words = Words { options, subcommand, package };
                return Self::complete(runner, words, word, skipped);
            }
            let (name, value) =
                word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            // `-p` of npm itself is another option than that of npx.
            (!is_by_npm || name != "-p").then_some(())?;
            match (runner.option(name)?, value) {
                (OptionKind::Switch, None) | (OptionKind::Value, Some(_)) => options.push(word.to_owned()),
                (OptionKind::Value, None) => {
                    let (_, value) = words.next()?;
                    options.extend([word.to_owned(), value.to_owned()]);
                }
                (OptionKind::Package, Some(value)) if package.is_none() => package = Some(value),
                (OptionKind::Package, None) if package.is_none() => package = Some(words.next()?.1),
                // A value for a switch, or a second package.
                (OptionKind::Switch | OptionKind::Package, _) => return None,
            }
        }
        None
    }

    fn complete(runner: Runner, words: Words<'_>, word: &str, skipped: usize) -> Option<Self> {
        let Words { options, subcommand, package } = words;
        let (package, program) = match package {
            Some(package) => (package, Some(word)),
            None if runner == Runner::Uvx => (word, Some(python_name(word))),
            None => (word, None),
        };
        let is_known = match runner {
            Runner::Npx | Runner::Pnpm | Runner::Bunx => npm_name(package).is_some(),
            Runner::Uvx => !package.is_empty(),
        };
        let is_file_name = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains('/');
        (is_known && program.is_none_or(is_file_name)).then(|| Self {
            runner,
            subcommand,
            options,
            package: package.to_owned(),
            program: program.map(str::to_owned),
            skipped,
        })
    }
}

/// Words in front of the package or the program.
struct Words<'a> {
    options: Vec<String>,
    subcommand: Vec<String>,
    package: Option<&'a str>,
}

/// Returns how many words behind the program's name are the runner's. `None` where the program does not get
/// the others as they are: npm takes options out of them, up to `--`.
fn own_words(runner: Runner, is_by_npm: bool, rest: &[String]) -> Option<usize> {
    let is_separated = rest.first().is_some_and(|first| first == "--");
    match runner {
        Runner::Npx if is_by_npm && is_separated => Some(1),
        Runner::Npx if is_by_npm => {
            let has_options = rest.iter().any(|word| word.starts_with('-'));
            (!has_options).then_some(0)
        }
        // Older versions of pnpm and bun take the two signs away.
        Runner::Pnpm | Runner::Bunx => (!is_separated).then_some(0),
        Runner::Npx | Runner::Uvx => Some(0),
    }
}

impl Runner {
    fn option(self, name: &str) -> Option<OptionKind> {
        match (self, name) {
            (Self::Npx | Self::Bunx, "-p" | "--package")
            | (Self::Pnpm, "--package")
            | (Self::Uvx, "--from") => Some(OptionKind::Package),
            (
                Self::Npx,
                "-y" | "--yes" | "-q" | "--quiet" | "-s" | "--silent" | "--prefer-offline"
                | "--prefer-online" | "--no-audit" | "--no-fund" | "--no-update-notifier",
            )
            | (Self::Pnpm, "-y" | "--yes" | "-s" | "--silent" | "--prefer-offline" | "--use-stderr")
            // bunx ignores `-y`.
            | (Self::Bunx, "-y" | "--yes" | "--silent" | "--verbose")
            | (
                Self::Uvx,
                "-q"
                | "--quiet"
                | "--no-progress"
                | "--no-config"
                | "--no-index"
                | "--lfs"
                | "--native-tls"
                | "--system-certs"
                | "--managed-python"
                | "--no-managed-python"
                | "--no-python-downloads"
                | "--no-env-file"
                | "--no-build"
                | "--no-binary",
            ) => Some(OptionKind::Switch),
            (Self::Npx, "--loglevel")
            | (Self::Pnpm, "--reporter" | "--loglevel" | "--registry" | "--allow-build")
            | (
                Self::Uvx,
                "-p"
                | "--python"
                | "-w"
                | "--with"
                | "-c"
                | "--constraints"
                | "--overrides"
                | "--index"
                | "--default-index"
                | "-i"
                | "--index-url"
                | "--extra-index-url"
                | "-f"
                | "--find-links"
                | "--index-strategy"
                | "--keyring-provider"
                | "--resolution"
                | "--prerelease"
                | "--exclude-newer"
                | "--link-mode"
                | "--cache-dir"
                | "--config-file"
                | "--python-platform"
                | "--torch-backend"
                | "--allow-insecure-host"
                | "--color",
            ) => Some(OptionKind::Value),
            _ => None,
        }
    }
}

/// Returns the name of a package of an npm registry, for a specifier with a version or a tag; `None` for
/// folders, archives, git repositories and aliases.
pub(super) fn npm_name(package: &str) -> Option<&str> {
    let at = package.char_indices().skip(1).find(|(_, each)| *each == '@').map(|(at, _)| at);
    let (name, version) = package.split_at_checked(at.unwrap_or(package.len()))?;
    let is_plain = |part: &str| {
        let is_allowed = |each: char| each.is_ascii_alphanumeric() || matches!(each, '-' | '.' | '_' | '~');
        !part.is_empty() && !part.starts_with(['.', '_']) && part.chars().all(is_allowed)
    };
    let is_name = match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| is_plain(scope) && is_plain(name)),
        None => is_plain(name),
    };
    let is_version =
        version.chars().all(|each| each.is_ascii_alphanumeric() || "@.-+^~<>=*| ".contains(each));
    (is_name && is_version).then_some(name)
}

/// Returns the name of a Python package without version and extras, which is the name of its program.
fn python_name(package: &str) -> &str {
    package.split(['@', '[', '=', '<', '>', '!', '~', ';', ' ']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<PackageCommand> {
        let mut words = line.split(' ');
        let command = words.next().unwrap();
        PackageCommand::parse(command, &words.map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_package_and_program_are_told_apart() {
        for (line, options, package, program, skipped) in [
            ("npx mcp-server -y", "", "mcp-server", None, 1),
            ("/usr/bin/npx -y @scope/server@1.2.3 --port 1", "-y", "@scope/server@1.2.3", None, 2),
            ("npx --yes --package=server@latest -- run x", "--yes", "server@latest", Some("run"), 4),
            ("npx -p server run", "", "server", Some("run"), 3),
            ("uvx mcp-server-time --zone x", "", "mcp-server-time", Some("mcp-server-time"), 1),
            ("uvx arxiv[pdf]@0.8.2", "", "arxiv[pdf]@0.8.2", Some("arxiv"), 1),
            ("uvx -p 3.12 --with=x tool==1", "-p 3.12 --with=x", "tool==1", Some("tool"), 4),
            ("uvx --from git+https://host/x@v1 x serve", "", "git+https://host/x@v1", Some("x"), 3),
            ("uv tool run -q time", "tool run -q", "time", Some("time"), 4),
            ("uv -q tool run time --zone x", "-q tool run", "time", Some("time"), 4),
            ("npm exec -y server", "exec -y", "server", None, 3),
            ("npm exec -y server@1 -- --port 1", "exec -y", "server@1", None, 4),
            ("npm x -- @me/server --port 1", "x", "@me/server", None, 3),
            ("npm exec --package=server -- run --port 1", "exec", "server", Some("run"), 4),
            ("npm -y exec server folder", "-y exec", "server", None, 3),
            ("pnpm dlx server@latest --port 1", "dlx", "server@latest", None, 2),
            ("pnpm --package=server -s dlx run --port 1", "-s dlx", "server", Some("run"), 4),
            ("pnpx server", "", "server", None, 1),
            ("pnx --yes @me/server@^1", "--yes", "@me/server@^1", None, 2),
            ("pn dlx -y server --port 1", "dlx -y", "server", None, 3),
            ("bunx -y @me/server --port 1", "-y", "@me/server", None, 2),
            ("bun x -p server run --port 1", "x", "server", Some("run"), 4),
        ] {
            let found = parsed(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(found.options.join(" "), options, "{line}");
            assert_eq!((found.package.as_str(), found.program.as_deref()), (package, program), "{line}");
            assert_eq!(found.skipped, skipped, "{line}");
        }
    }

    #[test]
    fn other_programs_and_starts_that_differ_each_time_are_left_alone() {
        for line in [
            "node server.js",
            "npx",
            "npx -y",
            "npx -c server",
            "npx ./server",
            "npx -y github:me/server",
            "npx me/server",
            "npx server@npm:other@1",
            "npx -p a -p b run",
            "npx -p server ../run",
            "uv run server.py",
            "uvx --isolated time",
            "uvx --refresh time",
            "uvx --no-cache time",
            "uvx ./folder",
            "uvx git+https://host/x",
            "npm exec server --port 1",
            "npm exec server folder -- --port 1",
            "npm exec -p server run",
            "npm run server",
            "npm -- exec server",
            "pnpm run server",
            "pnpm -c dlx server",
            "pnpm dlx -- server",
            "pnpm dlx server -- --port 1",
            "bun run server",
            "bunx --bun server",
            "yarn dlx server",
            "pipx run server",
            "deno run npm:server",
            "docker run server",
        ] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }
}

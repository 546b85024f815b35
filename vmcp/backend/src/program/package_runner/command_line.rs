//! Command lines of npx and uvx: `RUNNER OPTIONS [PACKAGE] PROGRAM ARGUMENTS`.

use std::path::Path;

/// A package runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runner {
    Npx,
    /// `uvx`, or `uv tool run`.
    Uvx,
}

/// Words of a runner's command line, by their meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackageCommand {
    pub(super) runner: Runner,
    /// `tool run` of uv, and the options other than the package's.
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
        match (file, args) {
            ("npx", _) => Self::of_words(Runner::Npx, 0, args),
            ("uvx", _) => Self::of_words(Runner::Uvx, 0, args),
            ("uv", [tool, run, ..]) if tool == "tool" && run == "run" => Self::of_words(Runner::Uvx, 2, args),
            _ => None,
        }
    }

    fn of_words(runner: Runner, subcommand: usize, args: &[String]) -> Option<Self> {
        let mut options: Vec<String> = args.iter().take(subcommand).cloned().collect();
        let mut package = None;
        let mut words = args.iter().map(String::as_str).enumerate().skip(subcommand);
        while let Some((at, word)) = words.next() {
            if word == "--" {
                let (at, word) = words.next()?;
                return Self::complete(runner, options, package, word, at + 1);
            }
            if !word.starts_with('-') {
                return Self::complete(runner, options, package, word, at + 1);
            }
            let (name, value) =
                word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
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

    fn complete(
        runner: Runner,
        options: Vec<String>,
        package: Option<&str>,
        word: &str,
        skipped: usize,
    ) -> Option<Self> {
        let (package, program) = match package {
            Some(package) => (package, Some(word)),
            None if runner == Runner::Uvx => (word, Some(python_name(word))),
            None => (word, None),
        };
        let is_known = match runner {
            Runner::Npx => npm_name(package).is_some(),
            Runner::Uvx => !package.is_empty(),
        };
        let is_file_name = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains('/');
        (is_known && program.is_none_or(is_file_name)).then(|| Self {
            runner,
            options,
            package: package.to_owned(),
            program: program.map(str::to_owned),
            skipped,
        })
    }
}

impl Runner {
    fn option(self, name: &str) -> Option<OptionKind> {
        match (self, name) {
            (Self::Npx, "-p" | "--package") | (Self::Uvx, "--from") => Some(OptionKind::Package),
            (
                Self::Npx,
                "-y" | "--yes" | "-q" | "--quiet" | "-s" | "--silent" | "--prefer-offline"
                | "--prefer-online",
            )
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
            (
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
        ] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }
}

//! [`PackageRun`]: a backend whose program a package runner starts, and the answers of that runner.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;
use vmcp_config::Transport;
use vmcp_config::status::digest;

use super::bun_cache;
use super::command_line::{PackageCommand, Runner, npm_name};
use super::npm_cache::{self, OwnInstallations, npmrc_value};
use super::pinned_program::PinnedProgram;
use super::pnpm_cache;
use super::uv_environment;
use crate::program::environment;

/// Time for a runner to say where a package is.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Time for a runner to install another version.
const INSTALL_TIME: Duration = Duration::from_mins(10);
/// Characters of a runner's error that are shown.
const MAX_ERROR: usize = 300;

/// A backend that a package runner starts: its command line and its environment.
#[derive(Clone)]
pub struct PackageRun {
    command: String,
    package: PackageCommand,
    env: BTreeMap<OsString, OsString>,
    cwd: PathBuf,
    /// Digest of all that decides which program is started.
    key: String,
}

impl fmt::Debug for PackageRun {
    /// Leaves the environment out, which holds secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PackageRun { command, package, env: _, cwd, key } = self;
        f.debug_struct("PackageRun")
            .field("command", command)
            .field("package", package)
            .field("cwd", cwd)
            .field("key", key)
            .finish_non_exhaustive()
    }
}

impl PackageRun {
    /// Returns the run of a backend; `None` if its program is another one, or its options ask for a fresh
    /// installation or a file of variables at each start.
    pub fn of(transport: &Transport) -> Option<Self> {
        let Transport::Stdio { command, args, env, cwd, inherit_env, idle_timeout: _ } = transport else {
            return None;
        };
        let package = PackageCommand::parse(command, args)?;
        let env = environment::of_program(env, inherit_env);
        if package.runner == Runner::Uvx
            && env.get(OsStr::new("UV_ENV_FILE")).is_some_and(|it| !it.is_empty())
        {
            // uvx gives its program the variables of this file, as with `--env-file`.
            return None;
        }
        let is_of_runner = |name: &str| {
            let lower = name.to_ascii_lowercase();
            let begins = ["npm_config_", "uv_", "pnpm_", "bun_"];
            begins.iter().any(|begin| lower.starts_with(begin)) || name == "HOME"
        };
        let settings: BTreeMap<_, _> = env
            .iter()
            .filter_map(|(name, value)| Some((name.to_str().filter(|name| is_of_runner(name))?, value)))
            .map(|(name, value)| (name, value.to_string_lossy()))
            .collect();
        // Without a configured folder, `vmcp update` in any folder is about the program of the server.
        let folder = cwd.as_deref().map(Path::to_string_lossy);
        let key = digest(&json!([command, args, folder, settings]).to_string());
        let cwd = std::path::absolute(cwd.as_deref().unwrap_or(Path::new("."))).ok()?;
        Some(Self { command: command.clone(), package, env, cwd, key })
    }

    /// Returns the package with its version, as typed.
    pub fn package(&self) -> &str {
        &self.package.package
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Finds the program that the runner has installed and would start; `None` if the runner alone can tell.
    pub async fn resolve(&self) -> Option<PinnedProgram> {
        match self.package.runner {
            Runner::Npx | Runner::Bunx => self.in_cache_folder().await,
            Runner::Pnpm => self.of_pnpm(false, ANSWER_TIME).await.ok()?,
            Runner::Uvx => {
                let question = uv_environment::question(&self.package, "--offline")?;
                let answer = self.output_of(OsStr::new(&self.command), &question, ANSWER_TIME).await.ok()?;
                self.of_uv(&answer)
            }
        }
    }

    /// Installs the newest version that the command line allows, and returns its program.
    pub async fn update(&self) -> Result<PinnedProgram, String> {
        let runner = OsStr::new(&self.command);
        let found = match self.package.runner {
            Runner::Npx => {
                let words = ["--yes", "--package", self.package(), "--call", ":"].map(str::to_owned);
                let words: Vec<_> = self.package.subcommand.iter().cloned().chain(words).collect();
                self.output_of(runner, &words, INSTALL_TIME).await?;
                self.in_cache_folder().await
            }
            Runner::Bunx => {
                self.update_bun_folder().await?;
                self.in_cache_folder().await
            }
            Runner::Pnpm => self.of_pnpm(true, INSTALL_TIME).await?,
            Runner::Uvx => {
                let question = uv_environment::question(&self.package, "--refresh");
                let question = question.ok_or_else(|| "its program has no name".to_owned())?;
                self.of_uv(&self.output_of(runner, &question, INSTALL_TIME).await?)
            }
        };
        found.ok_or_else(|| format!("`{}` installed no program that can be started alone", self.command))
    }

    /// Returns the newest version that the command line allows. Programs that are pinned stay as they are.
    pub async fn newest(&self) -> Result<String, String> {
        let (manager, subcommand) = match self.package.runner {
            Runner::Npx => ("npm", &["view"][..]),
            Runner::Pnpm => ("pnpm", &["view"][..]),
            Runner::Bunx => ("bun", &["pm", "view"][..]),
            // Each version has an environment of its own.
            Runner::Uvx => return self.update().await.map(|program| program.version),
        };
        let question = subcommand.iter().copied().chain([self.package(), "version", "--json"]);
        let words: Vec<_> = question.map(str::to_owned).collect();
        // The manager stands beside its runner.
        let program = Path::new(&self.command).with_file_name(manager);
        // Before 1.4, bun looks up packages in a project alone; the folder of the package is one.
        let of_bun = if manager == "bun" { self.bun_folder() } else { None };
        let asking = Self { cwd: of_bun.unwrap_or_else(|| self.cwd.clone()), ..self.clone() };
        let answer = asking.output_of(program.as_os_str(), &words, ANSWER_TIME).await?;
        newest_of(&answer).ok_or_else(|| format!("{manager} knows no version of {}", self.package()))
    }

    /// Runs a command with the program's environment; returns its standard output, or the end of its errors.
    async fn output_of(&self, program: &OsStr, args: &[String], limit: Duration) -> Result<String, String> {
        let shown = program.to_string_lossy();
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(&self.env).current_dir(&self.cwd);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = match timeout(limit, command.output()).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => return Err(format!("cannot start `{shown}`: {error}")),
            Err(_) => return Err(format!("`{shown}` gave no answer within {} seconds", limit.as_secs())),
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let line = errors.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("without a word");
        let line: String = line.chars().take(MAX_ERROR).collect();
        Err(format!("`{shown}` ended with {}: {line}", output.status))
    }

    async fn in_cache_folder(&self) -> Option<PinnedProgram> {
        let run = self.clone();
        // The cache may hold hundreds of folders.
        tokio::task::spawn_blocking(move || run.in_cache()).await.ok()?
    }

    /// Finds the program in the cache of npx or bunx.
    fn in_cache(&self) -> Option<PinnedProgram> {
        let PackageCommand { package, program, skipped, .. } = &self.package;
        let found = if self.package.runner == Runner::Bunx {
            let modules = self.bun_folder()?.join("node_modules");
            let found = npm_cache::in_modules(&modules, npm_name(package)?, program.as_deref())?;
            (!self.has_other_installation(&found)).then_some(found)?
        } else {
            let (cache, own) = self.npm_places()?;
            npm_cache::installed(package, program.as_deref(), &cache, &own)?
        };
        Some(PinnedProgram { skipped: *skipped, ..found })
    }

    /// Asks pnpm for the package's program; `is_fresh` has it look for the newest version.
    async fn of_pnpm(&self, is_fresh: bool, limit: Duration) -> Result<Option<PinnedProgram>, String> {
        let PackageCommand { package, program, skipped, .. } = &self.package;
        let question = pnpm_cache::question(&self.package, is_fresh);
        let answer = self.output_of(OsStr::new(&self.command), &question, limit).await?;
        let found = npm_name(package)
            .zip(pnpm_cache::modules(&answer))
            .and_then(|(name, modules)| npm_cache::in_modules(&modules, name, program.as_deref()));
        Ok(found.map(|found| PinnedProgram { skipped: *skipped, ..found }))
    }

    /// Has bun install the newest version in the folder of the package, as bunx does once a day.
    async fn update_bun_folder(&self) -> Result<(), String> {
        let folder = self.bun_folder();
        let cwd =
            folder.ok_or_else(|| format!("`{}` has not installed {} yet", self.command, self.package()))?;
        let bun = Path::new(&self.command).with_file_name("bun");
        let words = ["add", "--no-summary", "--force", self.package()].map(str::to_owned);
        let in_folder = Self { cwd, ..self.clone() };
        in_folder.output_of(bun.as_os_str(), &words, INSTALL_TIME).await.map(drop)
    }

    /// Returns the folder in which bunx has installed the package.
    fn bun_folder(&self) -> Option<PathBuf> {
        bun_cache::folder(self.package(), |name| self.variable(name))
    }

    /// True if the runner would start another installation than the pinned one. An installation of the
    /// working directory, which the key leaves out, comes first, then a global one; both may be newer.
    pub(super) fn has_other_installation(&self, pinned: &PinnedProgram) -> bool {
        let own = match self.package.runner {
            Runner::Npx => self.npm_places().map(|(_, own)| own),
            Runner::Bunx => {
                // Once its folder was cleaned away, another account may make one of its name.
                let is_in = |folder: &PathBuf| Path::new(&pinned.program).starts_with(folder);
                if !self.bun_folder().as_ref().is_some_and(is_in) {
                    return true;
                }
                let path = self.env.get(OsStr::new("PATH"));
                let path = path.map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
                Some(OwnInstallations { cwd: self.cwd.clone(), prefixes: Vec::new(), path })
            }
            Runner::Pnpm | Runner::Uvx => None,
        };
        let program = Path::new(&pinned.program).file_name().and_then(OsStr::to_str);
        program.zip(own).is_some_and(|(program, own)| own.may_have(&pinned.package, program))
    }

    /// Returns the folder of npm's cache, and the places where npx looks before it.
    fn npm_places(&self) -> Option<(PathBuf, OwnInstallations)> {
        let home = self.variable("HOME").map(PathBuf::from)?;
        let files = [self.cwd.join(".npmrc"), home.join(".npmrc")];
        let cache = match self.npm_setting("cache", &files) {
            Some(cache) => in_home(&cache, &home),
            None => home.join(".npm"),
        };
        let of_setting = self.npm_setting("prefix", &files).map(|prefix| in_home(&prefix, &home));
        let prefixes = of_setting.into_iter().chain(self.usual_prefixes()).collect();
        Some((cache, OwnInstallations { cwd: self.cwd.clone(), prefixes, path: Vec::new() }))
    }

    fn of_uv(&self, answer: &str) -> Option<PinnedProgram> {
        let found = uv_environment::parsed(answer, self.package.program.as_deref()?)?;
        Some(PinnedProgram { skipped: self.package.skipped, ..found })
    }

    /// Returns the prefixes that npm may have by default: the one of Debian, the one of the runner, and those
    /// of the file behind it, where the runner is a link.
    fn usual_prefixes(&self) -> Vec<PathBuf> {
        let mut prefixes = vec![PathBuf::from("/usr/local")];
        if let Some(bin) = self.runner_folder() {
            prefixes.extend(bin.parent().map(Path::to_owned));
            let file = Path::new(&self.command).file_name().map(|name| bin.join(name));
            let linked = file.and_then(|file| file.canonicalize().ok()).unwrap_or_default();
            prefixes.extend(linked.ancestors().skip(1).map(Path::to_owned));
        }
        prefixes
    }

    /// Returns the folder of the runner's program.
    fn runner_folder(&self) -> Option<PathBuf> {
        if self.command.contains('/') {
            return Path::new(&self.command).parent().map(Path::to_owned);
        }
        let path = self.env.get(OsStr::new("PATH"))?;
        std::env::split_paths(path).find(|folder| folder.join(&self.command).is_file())
    }

    /// Returns a setting of npm: of the environment, in any case of its letters, or of `.npmrc` files.
    fn npm_setting(&self, name: &str, files: &[PathBuf]) -> Option<String> {
        let variable = format!("npm_config_{name}");
        let is_it = |key: &OsStr| key.to_str().is_some_and(|key| key.eq_ignore_ascii_case(&variable));
        let of_environment = self.env.iter().find(|(key, value)| is_it(key) && !value.is_empty());
        match of_environment {
            Some((_, value)) => value.to_str().map(str::to_owned),
            None => npmrc_value(name, files),
        }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.env.get(OsStr::new(name))?.to_str().filter(|value| !value.is_empty())
    }
}

/// Returns a path that may begin with `~/`.
fn in_home(path: &str, home: &Path) -> PathBuf {
    path.strip_prefix("~/").map_or_else(|| path.into(), |rest| home.join(rest))
}

/// Returns the version that `npm view PACKAGE version --json` answers: one string, or a list in ascending
/// order.
fn newest_of(answer: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(answer.trim()).ok()?;
    let newest = match &answer {
        Value::Array(versions) => versions.last()?,
        one => one,
    };
    newest.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(args: &[&str], env: &[(&str, &str)]) -> PackageRun {
        run_by("npx", args, env).unwrap()
    }

    fn run_by(command: &str, args: &[&str], env: &[(&str, &str)]) -> Option<PackageRun> {
        let transport = Transport::Stdio {
            command: command.to_owned(),
            args: args.iter().map(|each| (*each).to_owned()).collect(),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect(),
            cwd: None,
            inherit_env: Vec::new(),
            idle_timeout: None,
        };
        PackageRun::of(&transport)
    }

    #[test]
    fn a_file_of_variables_is_left_to_uvx_and_debug_shows_no_secret() {
        let file = [("UV_ENV_FILE", "/srv/.env"), ("TOKEN", "s3cret")];
        assert!(run_by("uvx", &["time"], &file).is_none());
        assert!(run_by("uvx", &["time"], &[("UV_ENV_FILE", "")]).is_some());
        let debug = format!("{:?}", run_by("npx", &["time"], &file).unwrap());
        assert!(debug.contains("time") && !debug.contains("s3cret"), "{debug}");
    }

    #[test]
    fn a_global_installation_is_found_behind_a_link_to_npx() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let npm = home.join("node/lib/node_modules/npm/bin");
        std::fs::create_dir_all(&npm).unwrap();
        std::fs::create_dir_all(home.join("bin")).unwrap();
        std::fs::write(npm.join("npx-cli.js"), "").unwrap();
        let npx = home.join("bin/npx");
        std::os::unix::fs::symlink(npm.join("npx-cli.js"), &npx).unwrap();
        let prefixes = run_by(npx.to_str().unwrap(), &["server"], &[]).unwrap().usual_prefixes();
        for prefix in [home.clone(), home.join("node")] {
            assert!(prefixes.contains(&prefix), "{prefix:?}: {prefixes:?}");
        }
    }

    #[test]
    fn a_rotated_token_keeps_the_pin_and_another_registry_does_not() {
        let key = |args: &[&str], env: &[(&str, &str)]| run(args, env).key().to_owned();
        let one = key(&["-y", "server"], &[("TOKEN", "old")]);
        assert_eq!(one, key(&["-y", "server"], &[("TOKEN", "new")]));
        assert_ne!(one, key(&["-y", "server@1"], &[("TOKEN", "old")]));
        assert_ne!(one, key(&["-y", "server"], &[("NPM_CONFIG_REGISTRY", "https://host")]));
    }

    #[test]
    fn npm_names_one_version_or_all_that_fit() {
        assert_eq!(newest_of("\"1.2.3\"\n").as_deref(), Some("1.2.3"));
        assert_eq!(newest_of("[\"1.0.0\", \"1.1.0\"]").as_deref(), Some("1.1.0"));
        assert_eq!((newest_of(""), newest_of("{}")), (None, None));
    }

    #[test]
    fn settings_of_npm_come_from_the_environment_first() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".npmrc");
        std::fs::write(&file, "cache=~/of-file\n").unwrap();
        let setting =
            |env: &[(&str, &str)]| run(&["server"], env).npm_setting("cache", std::slice::from_ref(&file));
        assert_eq!(setting(&[("NPM_CONFIG_CACHE", "/of/variable")]).as_deref(), Some("/of/variable"));
        assert_eq!(setting(&[]).as_deref(), Some("~/of-file"));
        assert_eq!(in_home("~/of-file", Path::new("/me")), Path::new("/me/of-file"));
    }
}

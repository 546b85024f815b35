//! A package becomes a command: the program that starts it, its pinned name, its arguments.

use std::collections::BTreeMap;

use super::fill::Filler;
use super::runner::{self, Runner};
use super::text::{Part, Text};
use super::{Draft, InstallMethod, PlanError, Target, refused};
use crate::entry::Package;
use crate::identifiers::{
    ImageReference, is_npm_name, is_npm_version, is_pypi_name, is_pypi_version, is_sha256,
};
use crate::inputs::Argument;

/// Packages that run code which the entry names in its arguments: interpreters, runners of packages, and
/// bridges that start a command.
const RUNNERS: [&str; 49] = [
    "@modelcontextprotocol/inspector",
    "@yarnpkg/cli-dist",
    "bun",
    "bunx",
    "chokidar-cli",
    "concurrently",
    "corepack",
    "cpython",
    "cross-env",
    "deno",
    "dotenv-cli",
    "env-cmd",
    "execa-cli",
    "forever",
    "graalpy",
    "hatch",
    "honcho",
    "ipython",
    "mcp-proxy",
    "mcpo",
    "node",
    "nodemon",
    "nox",
    "npm",
    "npx",
    "onchange",
    "pdm",
    "pip",
    "pipx",
    "pm2",
    "pnpm",
    "poetry",
    "pyodide",
    "pypy",
    "python",
    "shelljs",
    "shx",
    "start-server-and-test",
    "supergateway",
    "tox",
    "ts-node",
    "tsx",
    "uv",
    "uvx",
    "watchfiles",
    "xonsh",
    "yarn",
    "zsh",
    "zx",
];

/// A grammar of names or versions.
type Grammar = fn(&str) -> bool;

/// A package of which the content is fixed.
struct PinnedPackage {
    /// Its name as the program that starts it takes it.
    word: String,
    /// Facts about the pin.
    notes: Vec<String>,
}

pub(super) fn draft(
    package: &Package,
    way: InstallMethod,
    mut filler: Filler<'_>,
) -> Result<Draft, PlanError> {
    let at = &package.path;
    if package.transport != "stdio" {
        let reason = format!(
            "the package serves {} itself; start it, and add its address by `vmcp add NAME URL`",
            package.transport
        );
        return Err(refused(&format!("{at}.transport"), &reason));
    }
    let pinned = pin(package, way)?;
    let runner = Runner::new(package, way)?;
    let mut env = BTreeMap::new();
    let mut passed = Vec::new();
    for (index, variable) in package.environment.iter().enumerate() {
        let path = format!("{at}.environmentVariables[{index}]");
        runner::check_variable(&variable.name, &path)?;
        if let Some(value) = filler.text(&variable.name, &variable.input)? {
            passed.push(variable.name.clone());
            env.insert(variable.name.clone(), value);
        }
    }
    let mut command = runner.begin();
    command.extend(runner.arguments(&package.runtime_arguments, at, &mut filler, &mut env)?);
    if way == InstallMethod::Oci {
        // Docker takes the values from its own environment, where no list of processes shows them.
        command.extend(passed.into_iter().flat_map(|name| [Text::fixed("-e"), Text::fixed(name)]));
    }
    let image_at = (way == InstallMethod::Oci).then_some(command.len());
    command.push(Text::fixed(pinned.word.clone()));
    for (index, argument) in package.package_arguments.iter().enumerate() {
        let path = format!("{at}.packageArguments[{index}]");
        command.extend(words(argument, index, &path, &mut filler)?);
    }
    Ok(Draft {
        way,
        origin: format!("{} {}", way.name(), pinned.word),
        target: Target::Program { command, env },
        questions: filler.questions,
        missing: filler.missing,
        notes: pinned.notes,
        image_at,
    })
}

/// Returns the words of an argument of the server; none if it has no value.
fn words(
    argument: &Argument,
    index: usize,
    path: &str,
    filler: &mut Filler<'_>,
) -> Result<Vec<Text>, PlanError> {
    let Some(flag) = &argument.flag else {
        let label = argument.hint.clone().unwrap_or_else(|| format!("argument{}", index + 1));
        let Some(text) = filler.text(&label, &argument.input)? else { return Ok(Vec::new()) };
        let begins_with_value = matches!(text.0.first(), Some(Part::Value(_) | Part::Secret { .. }));
        if begins_with_value && text.plain().starts_with('-') {
            let reason = "the value begins with `-`, and the server would read it as an option".to_owned();
            return Err(PlanError::Value { label, reason });
        }
        return Ok(vec![text]);
    };
    let bare = flag.trim_start_matches('-');
    let is_word = !bare.is_empty() && bare.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !flag.starts_with('-') || !is_word {
        return Err(refused(&format!("{path}.name"), "not an option such as `--port`"));
    }
    let input = &argument.input;
    // A flag without anything to fill in is a switch.
    let is_switch = input.value.is_none()
        && input.default.is_none()
        && input.choices.is_empty()
        && input.description.is_none()
        && !input.is_required;
    if is_switch {
        return Ok(vec![Text::fixed(flag.clone())]);
    }
    let value = filler.text(bare, input)?;
    Ok(value.map(|value| vec![Text::fixed(flag.clone()), value]).unwrap_or_default())
}

fn pin(package: &Package, way: InstallMethod) -> Result<PinnedPackage, PlanError> {
    let Package { path, identifier, version, registry_base_url, file_sha256, .. } = package;
    let version = version.as_deref();
    let mut notes = Vec::new();
    if let Some(digest) = file_sha256 {
        if !is_sha256(digest) {
            return Err(refused(&format!("{path}.fileSha256"), "not 64 lower-case hexadecimal digits"));
        }
        notes.push(format!(
            "fileSha256 {digest} is shown, and not checked by the program that fetches the file"
        ));
    }
    let (is_name, is_version, home): (Grammar, Grammar, _) = match way {
        InstallMethod::Npm => (is_npm_name, is_npm_version, "https://registry.npmjs.org"),
        InstallMethod::Pypi => (is_pypi_name, is_pypi_version, "https://pypi.org"),
        InstallMethod::Oci | InstallMethod::Remote => return image(package, notes),
    };
    let registry = way.name();
    if !is_name(identifier) {
        let reason = format!("`{identifier}` is not the name of a package of {registry}");
        return Err(refused(&format!("{path}.identifier"), &reason));
    }
    // `uvx python@3.12 -c …` and `npx node …` run code of the entry itself.
    if is_runner(identifier) {
        let reason = format!("`{identifier}` runs any code that the arguments name, and is no server itself");
        return Err(refused(&format!("{path}.identifier"), &reason));
    }
    if let Some(url) = registry_base_url.as_deref().filter(|url| url.trim_end_matches('/') != home) {
        let reason = format!("`{url}` is not {home}, where this package would be fetched from");
        return Err(refused(&format!("{path}.registryBaseUrl"), &reason));
    }
    match version {
        Some(version) if is_version(version) => {
            Ok(PinnedPackage { word: format!("{identifier}@{version}"), notes })
        }
        Some(version) => Err(refused(
            &format!("{path}.version"),
            &format!("`{version}` is not an exact version of {registry}"),
        )),
        None => Err(refused(&format!("{path}.version"), "no version is given, so the package could change")),
    }
}

/// True for a package that runs code of its arguments, also by a version in its name: `python3.12`, `pypy3`.
fn is_runner(identifier: &str) -> bool {
    // Names at PyPI are equal without case, and with `-`, `_` and `.` alike.
    let name = identifier.to_ascii_lowercase().replace(['_', '.'], "-");
    let unversioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    RUNNERS.contains(&name.as_str()) || RUNNERS.contains(&unversioned) || unversioned == "pythonw"
}

/// True for an image of Docker's own library, such as `bash` or `docker.io/library/python`: it runs any
/// command that the arguments of an entry name.
fn is_of_library(repository: &str) -> bool {
    const HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];
    let of_hub = repository.split_once('/').filter(|(host, _)| HUB.contains(host));
    let name = of_hub.map_or(repository, |(_, name)| name);
    !name.contains('/') || name.starts_with("library/")
}

fn image(package: &Package, mut notes: Vec<String>) -> Result<PinnedPackage, PlanError> {
    let Package { path, identifier, version, registry_base_url, .. } = package;
    let at = format!("{path}.identifier");
    let parsed = ImageReference::parse(identifier);
    let Some(mut image) = parsed else {
        return Err(refused(&at, &format!("`{identifier}` is not the name of an image")));
    };
    // Before December 2025, host and tag were fields of their own.
    if let Some(url) = registry_base_url.as_deref().filter(|_| !image.has_host()) {
        let host = url.strip_prefix("https://").unwrap_or(url).trim_end_matches('/');
        image.repository = format!("{host}/{}", image.repository);
    }
    if image.tag.is_none() && image.digest.is_none() {
        match version.as_deref() {
            Some(digest) if digest.starts_with("sha256:") => image.digest = Some(digest.to_owned()),
            version => image.tag = version.map(str::to_owned),
        }
    }
    let word = image.words();
    if ImageReference::parse(&word).is_none() {
        return Err(refused(&at, &format!("`{word}` is not the name of an image")));
    }
    if is_of_library(&image.repository) {
        let reason = format!("`{word}` is of Docker's own library, whose images run any command of an entry");
        return Err(refused(&at, &reason));
    }
    if !image.is_pinned() {
        return Err(refused(&at, &format!("`{word}` has neither a digest nor a tag other than `latest`")));
    }
    if image.digest.is_none() {
        notes.push(format!("{word} is a tag, which its owner can move; a digest cannot be moved"));
    }
    Ok(PinnedPackage { word, notes })
}

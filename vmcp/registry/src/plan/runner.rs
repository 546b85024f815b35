//! [`Runner`]: the program that starts a package. It follows from the type of the registry; of its own
//! options, a few harmless ones are taken over, and every other one is refused.

use std::collections::BTreeMap;

use super::fill::Filler;
use super::text::{Part, Text};
use super::{InstallMethod, PlanError, refused};
use crate::entry::Package;
use crate::inputs::{Argument, Input};

/// Variables that steer the program which fetches the package, its interpreter, or the loader. With one of
/// them, another package or other code would run.
const STEERING: [&str; 57] = [
    "PATH",
    "HOME",
    "ENV",
    "BASH_ENV",
    "SHELL",
    "IFS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_EXTRA_CA_CERTS",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "PYTHONWARNINGS",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "SSL_CERT_DIR",
    "PERL5OPT",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "SHELLOPTS",
    "BASHOPTS",
    "ZDOTDIR",
    "PROMPT_COMMAND",
    "PS4",
    "NODE_COMPILE_CACHE",
    "NODE_REPL_EXTERNAL_MODULE",
    "NODE_V8_COVERAGE",
    "NODE_REDIRECT_WARNINGS",
    "ELECTRON_RUN_AS_NODE",
    "PYTHONBREAKPOINT",
    "PYTHONINSPECT",
    "PYTHONPYCACHEPREFIX",
    "PYTHONPLATLIBDIR",
    "PYTHONEXECUTABLE",
    "VIRTUAL_ENV",
    "PERL5LIB",
    "PERL5DB",
    "RUBYLIB",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "CLASSPATH",
    "GCONV_PATH",
    "LOCPATH",
    "NLSPATH",
    "GLIBC_TUNABLES",
    "HOSTALIASES",
    "LOCALDOMAIN",
    "RES_OPTIONS",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "OPENSSL_ENGINES",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "BROWSER",
    "EDITOR",
    "VISUAL",
    "PAGER",
];
/// Beginnings of such names.
const STEERING_PREFIXES: [&str; 16] = [
    "LD_",
    "DYLD_",
    "NPM_",
    "UV_",
    "PIP_",
    "DOCKER_",
    "CONTAINER_",
    "CONTAINERS_",
    "XDG_",
    "GIT_",
    "COREPACK_",
    "YARN_",
    "PNPM_",
    "BUN_",
    "DENO_",
    "BASH_FUNC_",
];
/// Names of variables by which requests are led elsewhere.
const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE"];

/// A program that starts packages.
#[derive(Debug)]
pub(super) struct Runner {
    way: InstallMethod,
    program: &'static str,
}

impl Runner {
    /// Chooses the program. A `runtimeHint` that names another one is refused.
    pub(super) fn new(package: &Package, way: InstallMethod) -> Result<Runner, PlanError> {
        let programs: &[&'static str] = match way {
            InstallMethod::Npm => &["npx"],
            InstallMethod::Pypi => &["uvx"],
            InstallMethod::Oci | InstallMethod::Remote => &["docker", "podman"],
        };
        let hint = package.runtime_hint.as_deref();
        let chosen = match hint {
            None => programs.first(),
            Some(hint) => programs.iter().find(|program| **program == hint),
        };
        chosen.map(|program| Runner { way, program }).ok_or_else(|| {
            let reason = format!(
                "`{}` does not start packages of {}; {} does",
                hint.unwrap_or_default(),
                way.name(),
                programs.join(" or ")
            );
            refused(&format!("{}.runtimeHint", package.path), &reason)
        })
    }

    /// Returns the first words of the command.
    pub(super) fn begin(&self) -> Vec<Text> {
        let words: &[&str] = match self.way {
            InstallMethod::Npm => &["-y"],
            InstallMethod::Pypi => &[],
            InstallMethod::Oci | InstallMethod::Remote => &["run", "-i", "--rm"],
        };
        std::iter::once(self.program).chain(words.iter().copied()).map(Text::fixed).collect()
    }

    /// Returns the words for `runtimeArguments`, and adds variables that they set to `env`.
    pub(super) fn arguments(
        &self,
        arguments: &[Argument],
        at: &str,
        filler: &mut Filler<'_>,
        env: &mut BTreeMap<String, Text>,
    ) -> Result<Vec<Text>, PlanError> {
        let mut words = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            let path = format!("{at}.runtimeArguments[{index}]");
            let fixed = argument.input.value.as_deref().unwrap_or_default();
            let flag = argument.flag.as_deref().unwrap_or(fixed);
            let has_value = argument.flag.is_some() && argument.input != Input::default();
            match (self.way, flag) {
                // Said already.
                (InstallMethod::Npm, "-y" | "--yes")
                | (InstallMethod::Oci, "-i" | "--interactive" | "--rm") => {}
                (InstallMethod::Oci, "run") if index == 0 => {}
                (InstallMethod::Oci, "--init") if !has_value => words.push(Text::fixed("--init")),
                (InstallMethod::Pypi, "-p" | "--python") if has_value && is_python_version(fixed) => {
                    words.extend([Text::fixed("--python"), Text::fixed(fixed)]);
                }
                (InstallMethod::Oci, "-e" | "--env") if has_value => {
                    words.extend(variable(argument, &path, filler, env)?);
                }
                (InstallMethod::Oci, "--mount") if has_value => words.extend(mount(argument, &path, filler)?),
                _ => {
                    let shown = if flag.is_empty() { "a value without a name" } else { flag };
                    return Err(refused(&path, &format!("`{shown}` is not passed on to {}", self.program)));
                }
            }
        }
        Ok(words)
    }
}

/// Refuses an illegal name, and a name that steers the program which starts the server.
pub(super) fn check_variable(name: &str, path: &str) -> Result<(), PlanError> {
    let upper = name.to_ascii_uppercase();
    let steers = STEERING.contains(&upper.as_str())
        || PROXIES.contains(&upper.as_str())
        || STEERING_PREFIXES.iter().any(|prefix| upper.starts_with(prefix));
    if !vmcp_config::is_variable_name(name) {
        return Err(refused(path, "not the name of a variable: letters, digits and `_`"));
    }
    if steers {
        let reason = format!("`{name}` could make another program run, or lead requests elsewhere");
        return Err(refused(path, &reason));
    }
    Ok(())
}

fn is_python_version(text: &str) -> bool {
    !text.is_empty()
        && text.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

/// `-e NAME=VALUE` becomes `-e NAME` with the value in the environment of the client of Docker.
fn variable(
    argument: &Argument,
    path: &str,
    filler: &mut Filler<'_>,
    env: &mut BTreeMap<String, Text>,
) -> Result<Vec<Text>, PlanError> {
    let Some((name, _)) = argument.input.value.as_deref().unwrap_or_default().split_once('=') else {
        return Err(refused(path, "not `NAME=VALUE`"));
    };
    check_variable(name, path)?;
    let Some(Text(mut parts)) = filler.text(name, &argument.input)? else { return Ok(Vec::new()) };
    if let Some(Part::Fixed(first)) = parts.first_mut() {
        *first = first.split_once('=').map_or_else(String::new, |(_, value)| value.to_owned());
    }
    env.insert(name.to_owned(), Text(parts));
    Ok(vec![Text::fixed("-e"), Text::fixed(name)])
}

/// Takes a bind mount over whose source the person names. A folder that the entry chooses, be it as a
/// default, is refused.
fn mount(argument: &Argument, path: &str, filler: &mut Filler<'_>) -> Result<Vec<Text>, PlanError> {
    const SHAPE: &str =
        "only `type=bind,src={NAME},dst=/path` is passed on, with a source that the person names";
    let template = argument.input.value.as_deref().unwrap_or_default();
    let mut source = None;
    for (index, field) in template.split(',').enumerate() {
        match field.split_once('=') {
            Some(("type", "bind")) if index == 0 => {}
            Some(("src" | "source", value)) if source.is_none() => {
                source = value.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
            }
            Some(("dst" | "target" | "destination", _)) => {}
            None if matches!(field, "readonly" | "ro") => {}
            _ => return Err(refused(path, SHAPE)),
        }
    }
    let is_asked =
        source.and_then(|name| argument.input.variables.get(name)).is_some_and(|of| of.value.is_none());
    let Some(source) = source.filter(|_| is_asked) else { return Err(refused(path, SHAPE)) };
    // A comma in a value of the entry would begin a further field.
    let has_comma = |of: &Input| of.value.as_deref().is_some_and(|value| value.contains(','));
    if argument.input.variables.values().any(has_comma) {
        return Err(refused(path, SHAPE));
    }
    let mut input = argument.input.clone();
    if let Some(variable) = input.variables.get_mut(source) {
        variable.default = None;
        variable.is_required |= argument.input.is_required;
    }
    let Some(text) = filler.text(source, &input)? else { return Ok(Vec::new()) };
    let value_of = |part: &Part| match part {
        Part::Value(value) | Part::Secret { value, .. } => Some(value.clone()),
        _ => None,
    };
    if text.0.iter().filter_map(value_of).any(|value| value.contains(',')) {
        return Err(PlanError::Value {
            label: source.to_owned(),
            reason: "the value has a comma".to_owned(),
        });
    }
    Ok(vec![Text::fixed("--mount"), text])
}

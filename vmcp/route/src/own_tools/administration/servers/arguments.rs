//! Arguments of the tools that change servers. Every text is taken literally: references to variables and
//! files of vmcp are refused, because a client could have any secret sent to a server of its own.

mod inline_code;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;
use vmcp_config::addresses::ReachableAddresses;
use vmcp_config::secret_signs::has_token_prefix;
use vmcp_config::{
    MAX_BACKEND_NAME, RESERVED_NAMES, Secret, is_reserved_header, is_token_char, is_variable_name,
    normalize_name,
};
use vmcp_engine::server_registrar::{NewServer, SecretReference, ServerPlace};

use self::inline_code::InlineCode;
use crate::caller::secret_arguments;
use crate::own_tools::arguments::own_arguments::OwnArguments;

/// Most arguments of a program, and most variables or headers.
const MAX_ENTRIES: usize = 64;
/// Longest argument of a program, and longest name of a variable or header, in characters.
const MAX_WORD_CHARS: usize = 1000;
/// Longest value of a variable or header, in characters.
const MAX_VALUE_CHARS: usize = 8192;
/// Longest address, in characters.
const MAX_URL_CHARS: usize = 2048;
/// Longest name and key of a secret, as in Kubernetes.
const MAX_SECRET_NAME_CHARS: usize = 253;
/// Longest word of a transport that is quoted in an error, in characters.
const MAX_TRANSPORT_CHARS: usize = 32;
/// Programs that run any command, shells and starters of other programs: a rule about them would be a rule
/// about nothing.
const SHELLS: [&str; 55] = [
    "ash",
    "bash",
    "busybox",
    "chroot",
    "chrt",
    "cmd",
    "csh",
    "dash",
    "doas",
    "elvish",
    "env",
    "fish",
    "flock",
    "hush",
    "ionice",
    "ksh",
    "lksh",
    "mksh",
    "nice",
    "nohup",
    "nsenter",
    "nu",
    "oksh",
    "osh",
    "parallel",
    "pkexec",
    "posh",
    "powershell",
    "proot",
    "pwsh",
    "rbash",
    "rksh",
    "run0",
    "runuser",
    "script",
    "setpriv",
    "setsid",
    "sh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "tcsh",
    "time",
    "timeout",
    "toybox",
    "unshare",
    "watch",
    "wsl",
    "xargs",
    "xonsh",
    "yash",
    "zsh",
];
/// Characters that a shell would read as syntax, in the name of a program.
const SHELL_CHARACTERS: &str = "|&;<>(){}[]$`\"'*?!~#";
/// Words that a shell would read as syntax, among the arguments.
const SHELL_WORDS: [&str; 9] = ["|", "||", "&", "&&", ";", "<", ">", ">>", "2>&1"];

/// Reads the server that is to be added.
pub(super) fn new_server(arguments: &OwnArguments<'_>) -> Result<NewServer, String> {
    let text = |name, limit| arguments.text(&[name], limit).map_err(|error| error.to_string());
    let transport =
        text("transport", MAX_TRANSPORT_CHARS)?.ok_or("transport is required: http, websocket or stdio")?;
    let (url, command) = (text("url", MAX_URL_CHARS)?, text("command", MAX_WORD_CHARS)?);
    let transport = transport.trim().to_ascii_lowercase();
    let (place, secret_refs) = match transport.as_str() {
        "http" | "streamable-http" | "streamable_http" => {
            let url = url.ok_or_else(|| format!("transport `{transport}` requires 'url'"))?;
            refuse_given(arguments, &transport, &["command", "args", "env"])?;
            remote(arguments, address(&url, ["http", "https"])?)?
        }
        "websocket" | "ws" => {
            let url = url.ok_or_else(|| format!("transport `{transport}` requires 'url'"))?;
            refuse_given(arguments, &transport, &["command", "args", "env"])?;
            remote(arguments, address(&url, ["ws", "wss"])?)?
        }
        "stdio" => {
            let command = command.ok_or("transport `stdio` requires 'command'")?;
            refuse_given(arguments, &transport, &["url", "headers"])?;
            program(arguments, &command)?
        }
        other => return Err(format!("transport `{other}` is not supported; use http, websocket or stdio")),
    };
    let enabled = arguments.read("enabled", "true or false").map_err(|error| error.to_string())?;
    let (name, enabled) = (new_name(&name(arguments)?)?, enabled.unwrap_or(true));
    let addresses = ReachableAddresses::Public;
    Ok(NewServer { name, place, enabled, addresses, image: None, registered: None, secret_refs })
}

/// Reads the name of a server.
pub(super) fn name(arguments: &OwnArguments<'_>) -> Result<String, String> {
    let names = ["name", "server_name", "server"];
    let name = arguments.required(&names, MAX_BACKEND_NAME).map_err(|error| error.to_string())?;
    Ok(name.trim().to_owned())
}

/// Returns the legal form of a new server's name.
pub(super) fn new_name(wanted: &str) -> Result<String, String> {
    let name = normalize_name(wanted).ok_or("name needs a letter or a digit")?;
    if RESERVED_NAMES.contains(&name.as_str()) {
        return Err(format!("name `{name}` is reserved; choose another one"));
    }
    Ok(name)
}

/// Refuses fields that the transport has no use for.
fn refuse_given(arguments: &OwnArguments<'_>, transport: &str, fields: &[&str]) -> Result<(), String> {
    match fields.iter().find(|field| arguments.has(field)) {
        Some(field) => Err(format!("transport `{transport}` takes no '{field}'")),
        None => Ok(()),
    }
}

/// Reads an address with one of two schemes.
fn address(text: &str, schemes: [&str; 2]) -> Result<Url, String> {
    let text = text.trim();
    literal("url", text)?;
    let url = Url::parse(text).ok().filter(|url| schemes.contains(&url.scheme()));
    let url = url.ok_or_else(|| {
        let [plain, secure] = schemes;
        format!("url must be an absolute {plain}:// or {secure}:// address")
    })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("url must not carry credentials; give them in 'headers'".to_owned());
    }
    if url.query_pairs().any(|(name, value)| secret_arguments::is_secret(&name, &value)) {
        return Err("url must not carry a secret in its query; give it in 'headers'".to_owned());
    }
    if has_secret_in_path(&url) {
        return Err("url must not carry a secret in its path; give it in 'headers', or add the server with \
                    `vmcp add`"
            .to_owned());
    }
    if url.fragment().is_some() {
        return Err("url must not have a #fragment".to_owned());
    }
    Ok(url)
}

/// Values, with an empty one for each name that refers to a secret.
type Values = BTreeMap<String, Secret>;
/// References to secrets in place of values, by the name of the value.
type References = BTreeMap<String, SecretReference>;

fn program(arguments: &OwnArguments<'_>, command: &str) -> Result<(ServerPlace, References), String> {
    let command = command.trim().to_owned();
    if command.contains(char::is_whitespace) {
        return Err("command must be the program alone; give its arguments in 'args'".to_owned());
    }
    if let Some(character) = command.chars().find(|c| SHELL_CHARACTERS.contains(*c)) {
        return Err(format!("command must have no shell syntax (`{character}`): vmcp runs no shell"));
    }
    let file = file_name(&command);
    let program = program_name(&file);
    if SHELLS.contains(&program) {
        return Err(format!("command must be the server itself, not the shell `{command}`"));
    }
    let args: Vec<String> = exactly(arguments, "args", "a list of strings")?;
    at_most("args", args.len())?;
    let files: Vec<String> = args.iter().map(|arg| file_name(without_version(arg))).collect();
    let mut code = InlineCode::default();
    code.read(&command, program);
    let mut before = "";
    for (index, (arg, file)) in args.iter().zip(&files).enumerate() {
        let field = format!("args[{index}]");
        short(&field, arg, MAX_WORD_CHARS)?;
        literal(&field, arg)?;
        if let Some(interpreter) = code.read(arg, program_name(file)) {
            return Err(format!(
                "{field} must not make `{interpreter}` run code of the command line; name a script or a package"
            ));
        }
        check_shell_syntax(&field, arg)?;
        if is_shell_option(program, arg) {
            return Err(format!("{field} must not be `-c` or `--call`: by it, `{program}` runs a shell"));
        }
        if secret_arguments::is_secret_argument(before, arg) {
            return Err(format!("{field} must not be a secret; give it in 'env'"));
        }
        before = arg;
    }
    literal("command", &command)?;
    let (env, references) = values_and_references(arguments, "env", is_variable_name)?;
    let words = std::iter::once(command).chain(args).collect();
    Ok((ServerPlace::Program { words, env }, references))
}

/// Returns the last part of a path, in lower case.
fn file_name(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase()
}

/// Returns a package or an image without its version: `node@22`, `node:22-alpine`.
fn without_version(word: &str) -> &str {
    let begin = word.rfind(['/', '\\']).map_or(0, |slash| slash + 1);
    let end = word.get(begin..).and_then(|name| name.find(['@', ':'])).map_or(word.len(), |at| begin + at);
    word.get(..end).unwrap_or(word)
}

/// Returns the name of a program without the ending of Windows and without a version: `bash-5.2.exe` is
/// `bash`.
fn program_name(file: &str) -> &str {
    let ends = [".exe", ".com", ".cmd", ".bat"];
    let stem = ends.iter().find_map(|end| file.strip_suffix(*end)).unwrap_or(file);
    let is_version = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-');
    let bare = stem.trim_end_matches(is_version);
    // `run0` has its digit in the name.
    if SHELLS.contains(&stem) || bare.is_empty() { stem } else { bare }
}

/// True for the option of npm's runner that hands its value to a shell, also among other letters (`-yc`) and
/// shortened (`--cal`).
fn is_shell_option(program: &str, arg: &str) -> bool {
    let name = arg.split_once('=').map_or(arg, |(name, _)| name);
    let is_short = name.starts_with('-') && !name.starts_with("--") && name.len() < 5 && name.contains('c');
    matches!(program, "npx" | "npm") && (is_short || matches!(name, "--c" | "--cal" | "--call"))
}

/// Refuses a word that a shell would read as syntax: its author expects a shell, and vmcp runs none.
pub(super) fn check_shell_syntax(field: &str, word: &str) -> Result<(), String> {
    let substitutes = ["$(", "`", "<(", ">("].iter().any(|begin| word.contains(*begin));
    if SHELL_WORDS.contains(&word) || substitutes || is_redirection(word) || names_shell_variable(word) {
        return Err(format!("{field} must have no shell syntax: vmcp runs no shell"));
    }
    Ok(())
}

/// True for `2>/dev/null`, `&>log`, `<in`. A comparison such as `>=3.10` is a value.
fn is_redirection(word: &str) -> bool {
    let rest = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '&');
    let target = rest.trim_start_matches(['<', '>']);
    target.len() < rest.len() && !target.starts_with(|c: char| c == '=' || c.is_ascii_digit())
}

/// True for a word with a variable as shells have it, such as `$HOME/notes`: the server would get the text.
fn names_shell_variable(word: &str) -> bool {
    word.split('$').skip(1).any(|rest| {
        let name = rest.chars().take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_');
        name.count() > 1 && !rest.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// True for a token in the path of a URL: a well-known one (`/s/sk-…/mcp`), or a named one (`/mcp;key=…`).
pub(super) fn has_secret_in_path(url: &Url) -> bool {
    let mut parts = url.path().split(['/', ';']);
    parts.any(|part| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        let named = part.split_once('=');
        (has_token_prefix(part) && digits > 1)
            || named.is_some_and(|(name, value)| secret_arguments::is_secret(name, value))
    })
}

fn remote(arguments: &OwnArguments<'_>, url: Url) -> Result<(ServerPlace, References), String> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(is_token_char);
    let (headers, references) = values_and_references(arguments, "headers", is_name)?;
    match headers.keys().find(|name| is_reserved_header(&name.to_ascii_lowercase())) {
        Some(name) => Err(format!("headers.{name} is set by vmcp itself; leave it out")),
        None => Ok((ServerPlace::Remote { url, headers }, references)),
    }
}

/// Reads an object of texts whose keys are names.
pub(super) fn values(
    arguments: &OwnArguments<'_>,
    field: &'static str,
    is_name: impl Fn(&str) -> bool,
) -> Result<Values, String> {
    let (values, references) = values_and_references(arguments, field, is_name)?;
    match references.keys().next() {
        Some(name) => Err(format!("{field}.{name} must be a string, no reference to a secret")),
        None => Ok(values),
    }
}

/// Reads an object whose keys are names, and whose values are texts or references to secrets.
fn values_and_references(
    arguments: &OwnArguments<'_>,
    field: &'static str,
    is_name: impl Fn(&str) -> bool,
) -> Result<(Values, References), String> {
    let given: BTreeMap<String, Value> = exactly(arguments, field, "an object of strings")?;
    at_most(field, given.len())?;
    let (mut values, mut references) = (BTreeMap::new(), BTreeMap::new());
    for (name, value) in given {
        short(field, &name, MAX_WORD_CHARS)?;
        if !is_name(&name) {
            return Err(format!("{field} has an unusable key: {name:?}"));
        }
        let path = format!("{field}.{name}");
        let text = match value {
            Value::String(text) => text,
            other => {
                references.insert(name.clone(), reference(field, &path, &other)?);
                String::new()
            }
        };
        short(&path, &text, MAX_VALUE_CHARS)?;
        literal(&path, &text)?;
        values.insert(name, Secret::from(text));
    }
    Ok((values, references))
}

/// Reads `{"secretRef": {"name": NAME, "key": KEY}}`. Rules decide which secrets a client may name.
fn reference(field: &str, path: &str, value: &Value) -> Result<SecretReference, String> {
    let Some(reference) = value.get("secretRef") else {
        return Err(format!(
            "{field} must be an object of strings: {path} is none, and no `{{\"secretRef\": {{\"name\": …}}}}`"
        ));
    };
    let is_name = |text: &&str| {
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        (1..=MAX_SECRET_NAME_CHARS).contains(&text.len()) && text.bytes().all(is_legal)
    };
    let part = |key: &str| reference.get(key).and_then(Value::as_str).filter(is_name).map(str::to_owned);
    let key = part("key");
    match part("name") {
        Some(name) if key.is_some() || reference.get("key").is_none() => Ok(SecretReference { name, key }),
        _ => Err(format!(
            "{path}.secretRef must have the `name` of a secret, and in a cluster a `key`: letters, digits, `-`, \
             `_` and `.`, at most {MAX_SECRET_NAME_CHARS}"
        )),
    }
}

/// Reads a field as it is written; an absent one is empty.
fn exactly<T: DeserializeOwned + Default>(
    arguments: &OwnArguments<'_>,
    field: &'static str,
    expected: &str,
) -> Result<T, String> {
    let value = arguments.exactly(field, expected).map_err(|error| error.to_string())?;
    Ok(value.unwrap_or_default())
}

fn at_most(field: &str, count: usize) -> Result<(), String> {
    if count > MAX_ENTRIES {
        return Err(format!("{field} has too many entries: {count}, the limit is {MAX_ENTRIES}"));
    }
    Ok(())
}

fn short(field: &str, text: &str, limit: usize) -> Result<(), String> {
    let characters = text.chars().count();
    if characters > limit {
        return Err(format!("{field} is too long: {characters} characters, the limit is {limit}"));
    }
    Ok(())
}

/// Refuses control characters, and references that the configuration file would resolve.
fn literal(field: &str, text: &str) -> Result<(), String> {
    if text.chars().any(char::is_control) {
        return Err(format!("{field} must not have control characters"));
    }
    if text.contains("${") {
        return Err(format!("{field} must not refer to variables or files of vmcp (`${{`); give the value"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;

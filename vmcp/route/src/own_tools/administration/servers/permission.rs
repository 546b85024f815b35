//! Permission to change a server: rules of `optimizer.admin.allow`, and the user's yes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use vmcp_config::secret_signs::is_secret_name;
use vmcp_config::{Backend, MASK, Secret, ServerSource, Transport};
use vmcp_engine::optim::names::OptimTool;
use vmcp_engine::server_registrar::{NewServer, ServerPlace};
use vmcp_json::text;
use vmcp_wire::methods;

use super::answer::refused;
use crate::call::{self, ask_client};
use crate::caller::{CallContext, secret_arguments};
use crate::own_tools::own_answer::Refusal;

/// Longest question to the user, in characters; a server that needs a longer one is refused.
const MAX_QUESTION_CHARS: usize = 16_000;

/// Facts that decide about a change.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "the columns of a truth table")]
struct Facts {
    /// There are rules about the servers that clients may manage.
    has_rules: bool,
    /// A rule names this server.
    is_named: bool,
    /// The user has agreed already.
    has_consent: bool,
    /// The client can ask its user.
    can_ask: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Permission {
    Given,
    /// The user has to agree.
    Asked,
    /// No rule names the server.
    NotNamed,
    /// Rules are absent, and the client cannot ask its user.
    NotAskable,
}

/// Decides about a change.
fn decide(facts: Facts) -> Permission {
    let Facts { has_rules, is_named, has_consent, can_ask } = facts;
    if has_rules && !is_named {
        Permission::NotNamed
    } else if has_consent {
        Permission::Given
    } else if can_ask {
        Permission::Asked
    } else if is_named {
        Permission::Given
    } else {
        Permission::NotAskable
    }
}

/// Obtains the permission to call `tool` about a server, which `lines` describe to the user.
pub(super) async fn obtain(
    context: CallContext<'_>,
    tool: OptimTool,
    server: &ServerSource<'_>,
    lines: Vec<String>,
) -> Result<(), Refusal> {
    let (caller, admin) = (context.caller, &context.snapshot.config.optimizer.admin);
    let facts = Facts {
        has_rules: !admin.allow.is_empty(),
        is_named: admin.names(server),
        has_consent: caller.confirmed || caller.consent.covers(tool.dotted()),
        can_ask: ask_client::can_ask(caller, methods::ELICIT),
    };
    match decide(facts) {
        Permission::Given => Ok(()),
        Permission::Asked => {
            let mut question = format!("{}{}?", call::CONFIRMATION_PREFIX, tool.dotted());
            for line in lines {
                // Writing to a string cannot fail.
                let _ = write!(question, "\n{}", call::shown_text(&line));
            }
            if question.chars().count() > MAX_QUESTION_CHARS {
                return Err(refused(format!(
                    "the server has more than {MAX_QUESTION_CHARS} characters of arguments and values, which \
                     cannot be shown to the user; use `vmcp add`, `remove`, `enable` or `disable` on the \
                     command line"
                )));
            }
            call::ask_user(context, tool.dotted(), &question).await.map_err(refused)
        }
        Permission::NotNamed => Err(refused(
            "no rule of `optimizer.admin.allow` names this server with these values; its administrator can \
             add a rule, or the server itself with `vmcp add`",
        )),
        Permission::NotAskable => Err(refused(
            "the user has to agree, and this client cannot ask (it declares no elicitation): use another \
             client, `vmcp add` on the command line, or a rule in `optimizer.admin.allow`",
        )),
    }
}

/// Describes a new server: every word, every address, and every value whose name does not say that it is a
/// secret.
pub(super) fn lines_of(server: &NewServer) -> Vec<String> {
    let mut lines = vec![format!("server: {}", server.name)];
    if let Some(registered) = &server.registered {
        lines.push(format!("from a registry, where anybody publishes: {}", registered.origin));
        lines.extend(registered.draft.notes.iter().map(|note| format!("note: {note}")));
    }
    let values = |field: &str, values: &BTreeMap<String, Secret>| {
        let shown = |(name, value): (&String, &Secret)| {
            if let Some(reference) = server.secret_refs.get(name) {
                let key = reference.key.as_deref().map(|key| format!(" (key {key})")).unwrap_or_default();
                return format!("{field}.{name}: the existing secret {}{key}", reference.name);
            }
            let value = if is_secret_name(name) { MASK.to_owned() } else { text::quoted(value.expose()) };
            format!("{field}.{name}: {value}")
        };
        values.iter().map(shown).collect::<Vec<_>>()
    };
    let place = match &server.place {
        ServerPlace::Program { words, env } => {
            let program = match &server.image {
                Some(image) => format!("a pod of its own runs this program, from the image {image}:"),
                None => "vmcp starts this program with the rights of its user:".to_owned(),
            };
            let words = words.iter().map(|word| text::quoted(word));
            std::iter::once(program).chain(words).chain(values("env", env)).collect::<Vec<_>>()
        }
        ServerPlace::Image { image, args, env } => {
            let program = format!("a pod of its own runs the program of this image: {image}");
            let words = args.iter().map(|word| text::quoted(word));
            std::iter::once(program).chain(words).chain(values("env", env)).collect()
        }
        ServerPlace::Remote { url, headers } => {
            let address = format!("vmcp connects to this address: {url}");
            std::iter::once(address).chain(values("headers", headers)).collect()
        }
    };
    lines.extend(place);
    lines
}

/// Describes a server that its registrar keeps: every word of its program, or its address, without secrets.
/// Of variables and headers, the registrar tells the names alone.
pub(super) fn lines_of_place(name: &str, place: &ServerPlace) -> Vec<String> {
    let mut lines = vec![format!("server: {name}")];
    let shown = vmcp_config::without_secrets;
    match place {
        ServerPlace::Program { words, env } => {
            lines.push("a pod of its own runs this program:".to_owned());
            lines.extend(shown_words(words.iter().map(String::as_str), shown));
            lines.extend(shown_names("with the variables", env.keys()));
        }
        ServerPlace::Image { image, args, env } => {
            lines.push(format!("a pod of its own runs the program of this image: {}", shown(image)));
            lines.extend(shown_words(args.iter().map(String::as_str), shown));
            lines.extend(shown_names("with the variables", env.keys()));
        }
        ServerPlace::Remote { url, headers } => {
            lines.push(format!("vmcp connects to this address: {}", shown(url.as_str())));
            lines.extend(shown_names("with the headers", headers.keys()));
        }
    }
    lines
}

/// Describes a configured server: every word of its program, or its address, without secrets. Of variables
/// and headers only the names are shown, because the values are its administrator's.
pub(super) fn lines_of_known(server: &Backend) -> Vec<String> {
    let mut lines = vec![format!("server: {}", server.name)];
    let shown = |text: &str| vmcp_config::without_secrets(&server.known_secrets.mask(text));
    match &server.transport {
        Transport::Stdio { command, args, env, cwd, .. } => {
            lines.push("vmcp starts this program with the rights of its user:".to_owned());
            lines.extend(shown_words(std::iter::once(command).chain(args).map(String::as_str), shown));
            lines.extend(cwd.as_ref().map(|cwd| format!("in the directory: {}", cwd.display())));
            lines.extend(shown_names("with the variables", env.keys()));
        }
        Transport::Http { url, headers }
        | Transport::Sse { url, headers }
        | Transport::WebSocket { url, headers } => {
            lines.push(format!("vmcp connects to this address: {}", shown(url.as_str())));
            lines.extend(shown_names("with the headers", headers.keys()));
        }
    }
    lines
}

/// Returns a line for each word of a command line; a word that is a secret, or follows the option of one, is
/// masked.
fn shown_words<'a>(words: impl Iterator<Item = &'a str>, shown: impl Fn(&str) -> String) -> Vec<String> {
    let mut before = "";
    let mut lines = Vec::new();
    for word in words {
        let is_secret = secret_arguments::is_secret_argument(before, word);
        lines.push(if is_secret { MASK.to_owned() } else { text::quoted(&shown(word)) });
        before = word;
    }
    lines
}

/// Returns a line with names; `None` without any.
fn shown_names<N: AsRef<str>>(field: &str, names: impl Iterator<Item = N>) -> Option<String> {
    let mut line = String::new();
    for name in names {
        line.push_str(if line.is_empty() { "" } else { ", " });
        line.push_str(name.as_ref());
    }
    (!line.is_empty()).then(|| format!("{field}: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_come_first_then_the_user_then_a_rule_alone() {
        let all = [false, true];
        for has_consent in all {
            for can_ask in all {
                let facts = |has_rules, is_named| Facts { has_rules, is_named, has_consent, can_ask };
                let asked = match (has_consent, can_ask) {
                    (true, _) => Some(Permission::Given),
                    (false, true) => Some(Permission::Asked),
                    (false, false) => None,
                };
                assert_eq!(decide(facts(true, false)), Permission::NotNamed);
                assert_eq!(decide(facts(true, true)), asked.unwrap_or(Permission::Given));
                assert_eq!(decide(facts(false, false)), asked.unwrap_or(Permission::NotAskable));
            }
        }
    }
}

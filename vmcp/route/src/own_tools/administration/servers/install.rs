//! The handler of install_server: an entry of the registry becomes a server, with its version pinned.
//!
//! The entry is hostile until shown otherwise: [`Draft`] checks names, versions, programs, options, variables
//! and addresses. Secrets never pass through a client: the written entry refers to variables, which the user
//! sets.

use std::collections::BTreeMap;
use std::sync::Arc;

use url::Url;
use vmcp_config::addresses::ReachableAddresses;
use vmcp_config::{Secret, ServerSource, sanitize};
use vmcp_engine::optim::names::OptimTool;
use vmcp_engine::server_registrar::{
    NewServer, RegisteredServer, ServerChange, ServerPlace, ServerRegistrar,
};
use vmcp_registry::entry::{EntryStatus, ServerEntry};
use vmcp_registry::plan::{Draft, InstallMethod, Part, PlanError, Question, Target, Text};
use vmcp_registry::report;

use super::answer::{Changed, Installed, NeededValue, refused};
use super::{
    addresses_of, arguments, check_room, effect, image_of, make, permission, registry, wanted_values,
};
use crate::caller::{CallContext, secret_arguments};
use crate::own_tools::arguments::own_arguments::OwnArguments;
use crate::own_tools::own_answer::Refusal;

/// Stands for a secret until the configuration has a variable in its place.
const PLACEHOLDER: &str = "set-by-the-user";
/// Longest word for a way.
const MAX_WAY_CHARS: usize = 16;
/// Longest name for a server, in characters.
const MAX_SERVER_CHARS: usize = 63;

/// Installs a server.
pub(super) async fn run(
    context: CallContext<'_>,
    registrar: &Arc<dyn ServerRegistrar>,
    arguments: &OwnArguments<'_>,
) -> Result<Changed, Refusal> {
    let wanted = registry::name(arguments)?;
    let way = way(arguments)?;
    let given = arguments::values(arguments, "values", |name| !name.is_empty()).map_err(refused)?;
    let mut answers: BTreeMap<String, String> =
        given.into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect();
    let local = arguments.text(&["server", "as"], MAX_SERVER_CHARS)?;
    let fetched = registry::content(context).await?;
    let entry = registry::entry(&fetched, &wanted).map_err(refused)?;
    let name = arguments::new_name(local.as_deref().unwrap_or_else(|| last_part(&entry.name)));
    let name = name.map_err(refused)?;
    check_room(context, &name)?;

    let first = draft(entry, way, &answers)?;
    let is_secret = |label: &str| first.questions.iter().any(|one| one.label == label && one.is_secret);
    if let Some(label) = answers.keys().find(|label| is_secret(label)) {
        return Err(refused(format!(
            "values.{label} is a secret, which must not pass through a model: leave it out; the answer says \
             how the user sets it"
        )));
    }
    let open: Vec<_> =
        first.questions.iter().filter(|one| !one.is_secret && first.missing.contains(&one.label)).collect();
    if !open.is_empty() {
        answers.extend(wanted_values::ask(context, &entry.name, &open).await?);
    }
    let is_open = |one: &&Question| one.is_secret && one.input.is_required && one.input.default.is_none();
    let secrets = first.questions.iter().filter(is_open);
    answers.extend(secrets.map(|one| (one.label.clone(), PLACEHOLDER.to_owned())));
    let mut draft = draft(entry, way, &answers)?;
    if let Some(label) = draft.missing.first() {
        return Err(refused(format!("the server needs a value for {label}: give it in 'values'")));
    }
    let place = place(&draft, registrar.runs_programs_in_pods())?;
    if entry.status == EntryStatus::Deprecated {
        draft.notes.push(format!("{} is deprecated", entry.name));
    }

    let origin = format!("{} {} by {}, from {}", entry.name, entry.version, draft.origin, fetched.source);
    let mut installed = Installed {
        registry_name: entry.name.clone(),
        version: entry.version.clone(),
        origin: draft.origin.clone(),
        runs: runs(&place, &draft),
        notes: draft.notes.clone(),
        needs: Vec::new(),
    };
    let questions = draft.questions.clone();
    let registered = RegisteredServer { draft, origin: sanitize::text(&origin) };
    let registered = Some(Box::new(registered));
    let image = image_of(context, registrar, &place);
    let addresses = ReachableAddresses::Public;
    let secret_refs = BTreeMap::new();
    let mut server = NewServer { name, place, enabled: true, addresses, image, registered, secret_refs };
    registrar.check(&server).map_err(refused)?;
    server.addresses = addresses_of(context, &server.place)?;
    let source = ServerSource::from(&server.place);
    let lines = permission::lines_of(&server);
    permission::obtain(context, OptimTool::InstallServer, &source, lines).await?;
    let name = server.name.clone();
    let made = make(context, registrar, "server.install", &name, ServerChange::Add(server)).await?;
    installed.needs = questions
        .into_iter()
        .filter_map(|question| {
            let variable = made.needed.get(&question.label)?.clone();
            let description = question.input.description;
            Some(NeededValue { input: question.label, variable, description })
        })
        .collect();
    let changed = if installed.needs.is_empty() {
        effect::added(context, name, true).await?
    } else {
        effect::waits_for_values(context, name, &installed.needs, &made.needed_in).await?
    };
    Ok(Changed { installed: Some(installed), ..changed })
}

fn way(arguments: &OwnArguments<'_>) -> Result<Option<InstallMethod>, Refusal> {
    let Some(word) = arguments.text(&["via"], MAX_WAY_CHARS)? else { return Ok(None) };
    let ways = [InstallMethod::Remote, InstallMethod::Npm, InstallMethod::Pypi, InstallMethod::Oci];
    let way = ways.into_iter().find(|way| way.name() == word.trim());
    way.map(Some).ok_or_else(|| refused("via must be remote, npm, pypi or oci"))
}

fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn draft(
    entry: &ServerEntry,
    way: Option<InstallMethod>,
    answers: &BTreeMap<String, String>,
) -> Result<Draft, Refusal> {
    Draft::new(entry, way, answers).map_err(|error| match error {
        PlanError::Value { label, .. } if answers.get(&label).is_some_and(|value| value == PLACEHOLDER) => {
            refused(format!(
                "the secret {label} has a form that cannot be left open: use `vmcp registry add {} --set {}=…`",
                entry.name,
                sanitize::shell_word(&label)
            ))
        }
        error => refused(error),
    })
}

/// Returns the command, the address, or the image with the arguments of its own program.
fn runs(place: &ServerPlace, draft: &Draft) -> String {
    match place {
        ServerPlace::Image { image, args, .. } => {
            let words: Vec<&str> = std::iter::once(image).chain(args).map(String::as_str).collect();
            words.join(" ")
        }
        ServerPlace::Program { .. } | ServerPlace::Remote { .. } => report::runs(draft),
    }
}

/// True for a word with a value that was given, and that neither the entry publishes as a default or a choice
/// nor the configuration replaces by a variable. Numbers and switches stay plain.
fn is_private(draft: &Draft, text: &Text) -> bool {
    let is_published = |value: &str| {
        let is_known = |question: &Question| {
            let input = &question.input;
            input.default.as_deref() == Some(value) || input.choices.iter().any(|choice| choice == value)
        };
        draft.questions.iter().any(is_known)
            || value.parse::<f64>().is_ok()
            || matches!(value, "true" | "false")
    };
    let is_secret = text.0.iter().any(|part| matches!(part, Part::Secret { .. }));
    !is_secret && text.0.iter().any(|part| matches!(part, Part::Value(value) if !is_published(value)))
}

/// Returns the program or the address, with the placeholder for each secret. A cluster (`in_pods`) runs the
/// image of a container itself, where Docker would.
fn place(draft: &Draft, in_pods: bool) -> Result<ServerPlace, Refusal> {
    let values = |texts: &BTreeMap<String, Text>| {
        texts.iter().map(|(name, text)| (name.clone(), Secret::from(text.plain()))).collect()
    };
    match &draft.target {
        Target::Program { command, env } => {
            let words: Vec<String> = command.iter().map(Text::plain).collect();
            let mut before = "";
            for (index, (text, word)) in command.iter().zip(&words).enumerate() {
                let field = format!("command[{index}]");
                arguments::check_shell_syntax(&field, word).map_err(refused)?;
                if is_private(draft, text) && secret_arguments::is_secret_argument(before, word) {
                    return Err(refused(format!(
                        "{field} must not be a secret: add the server with `vmcp registry add`"
                    )));
                }
                before = word;
            }
            match draft.image_at {
                Some(at) if in_pods => image(words, at, values(env)),
                _ => Ok(ServerPlace::Program { words, env: values(env) }),
            }
        }
        Target::Remote { url: text, headers, .. } => {
            let url = Url::parse(&text.plain()).map_err(|error| refused(format!("url: {error}")))?;
            if is_private(draft, text) && arguments::has_secret_in_path(&url) {
                return Err(refused("url must not hold a secret: add the server with `vmcp registry add`"));
            }
            Ok(ServerPlace::Remote { url, headers: values(headers) })
        }
    }
}

/// Returns the image at a place of Docker's command, with the arguments behind it. Of Docker's options, those
/// about variables are in `env`, and a pod has no use for the others; a folder of this machine is refused.
fn image(words: Vec<String>, at: usize, env: BTreeMap<String, Secret>) -> Result<ServerPlace, Refusal> {
    let mut words = words.into_iter();
    if words.by_ref().take(at).any(|option| option == "--mount") {
        return Err(refused(
            "the server wants a folder of its user (`--mount`), which a pod in a cluster does not have: choose \
             another way with 'via', or have an administrator apply an MCPServer with a volume",
        ));
    }
    match words.next() {
        Some(image) => Ok(ServerPlace::Image { image, args: words.collect(), env }),
        None => Err(refused("the entry names no image")),
    }
}

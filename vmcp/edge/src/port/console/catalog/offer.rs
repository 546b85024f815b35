//! The data of the page about a resource, a template of resources, or a prompt.

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Html;
use serde::Deserialize;
use serde_json::value::RawValue;
use vmcp_console::pages::server::offer::{OfferKind, OfferPage, offer};
use vmcp_console::pages::tool::ToolAccess;
use vmcp_engine::access::policy::{AccessRequest, Item};
use vmcp_engine::engine::Snapshot;
use vmcp_model::catalog::CatalogPrompt;

use super::{Unknown, unknown};
use crate::port::admin::diagnosis::explain_tool::{policy_in_words, principal};
use crate::port::console::access::{ConsoleDoor, Visitor};
use crate::port::console::answer::{indented, parsed};
use crate::port::console::other_pages::client_query::ClientQuery;

/// The query `?kind=WORD&key=TEXT`.
#[derive(Deserialize)]
pub(in crate::port::console) struct NamedOffer {
    #[serde(default)]
    kind: OfferKind,
    /// URI, template, or name of a prompt.
    #[serde(default)]
    key: String,
}

/// An offer of the catalog.
struct FoundOffer<'a> {
    server: &'a str,
    /// Definition as the server wrote it.
    written: &'a RawValue,
    /// Definition as clients get it.
    served: &'a RawValue,
    prompt: Option<&'a CatalogPrompt>,
}

/// Answers `GET /console/offer`.
pub(in crate::port::console) async fn show(
    State(door): State<ConsoleDoor>,
    Extension(visitor): Extension<Visitor>,
    Query(NamedOffer { kind, key }): Query<NamedOffer>,
    Query(client): Query<ClientQuery>,
) -> Result<Html<String>, Unknown> {
    let snapshot = door.engine().snapshot();
    let found = find(&snapshot, kind, &key).ok_or_else(|| unknown(kind.word(), &key))?;
    let (written, served) = (indented(found.written.get()), indented(found.served.get()));
    let data = OfferPage {
        kind,
        server: found.server.to_owned(),
        definition: parsed(found.written.get()).unwrap_or_default(),
        served: (served != written).then_some(served),
        written,
        access: rights(&door, &client, kind, &key, &found).await,
        key,
    };
    Ok(Html(offer(&door.frame(&visitor), &data)))
}

fn find<'a>(snapshot: &'a Snapshot, kind: OfferKind, key: &str) -> Option<FoundOffer<'a>> {
    let catalog = snapshot.unfiltered();
    match kind {
        OfferKind::Resource => {
            let found = catalog.resources.iter().find(|it| it.definition.uri == key)?;
            let raw = &*found.definition.raw;
            Some(FoundOffer { server: &found.backend, written: raw, served: raw, prompt: None })
        }
        OfferKind::Template => {
            let found = catalog.templates.iter().find(|it| it.definition.uri_template == key)?;
            let raw = &*found.definition.raw;
            Some(FoundOffer { server: &found.backend, written: raw, served: raw, prompt: None })
        }
        OfferKind::Prompt => {
            let found = catalog.prompts.iter().find(|it| it.name == key)?;
            let (written, served) = (&*found.definition.raw, &*found.raw);
            Some(FoundOffer { server: &found.backend, written, served, prompt: Some(found.as_ref()) })
        }
    }
}

/// Explains the rights of the client of a question; without a client, only the form is there.
async fn rights(
    door: &ConsoleDoor,
    client: &ClientQuery,
    kind: OfferKind,
    key: &str,
    found: &FoundOffer<'_>,
) -> ToolAccess {
    let snapshot = door.engine().snapshot();
    let config = snapshot.config.clone();
    if client.is_anonymous() && !snapshot.authentication.is_anonymous() {
        // No client comes without credentials here: the form asks for one first.
        return ToolAccess { question: client.question(&config, None), ..ToolAccess::default() };
    }
    let asked = client.request(&config, "").and_then(|request| principal(&request, &config));
    let principal = match asked {
        Ok(principal) => principal,
        Err(mistake) => {
            let question = client.question(&config, Some(mistake));
            return ToolAccess { question, ..ToolAccess::default() };
        }
    };
    door.engine().prepare(&snapshot, &principal).await;
    let view = snapshot.view(&principal);
    let item = found.prompt.map_or(Item::Resource(key), Item::Prompt);
    let request =
        AccessRequest { principal: &principal, action: "", backend: found.server, item, arguments: None };
    let explanation = snapshot.policy.explain(&request);
    let is_listed = match kind {
        OfferKind::Resource => view.resource(key).is_some(),
        OfferKind::Template => view.template(key).is_some(),
        OfferKind::Prompt => view.prompt(key).is_some(),
    };
    let listed = if is_listed { "lists of this client have it" } else { "lists of this client leave it out" };
    ToolAccess {
        question: client.question(&config, None),
        who: principal.identity.subject().to_owned(),
        is_allowed: is_listed && explanation.allowed,
        steps: vec![
            ("policy".to_owned(), explanation.allowed, policy_in_words(&explanation)),
            ("list".to_owned(), is_listed, listed.to_owned()),
        ],
    }
}

//! Lists all tools, prompts, resources and templates of a backend, page by page.

use std::collections::HashSet;

use serde_json::value::RawValue;
use vmcp_json::object::Object;
use vmcp_json::text;
use vmcp_model::discovered::{Discovered, Listing, MAX_PER_KIND, MAX_TOTAL_BYTES};
use vmcp_wire::codes;
use vmcp_wire::lists::{pages::List, pages::Page};
use vmcp_wire::owned::OwnedParams;

use crate::connection::Connection;
use crate::request::{Request, RpcOutcome};
use crate::transport::LinkError;

/// Pages read of one list. A server may put each entry on a page of its own, but not go on for ever.
const MAX_PAGES: usize = MAX_PER_KIND;

/// Result of a listing.
pub(crate) struct Listed {
    /// The definitions; `None` if the server refused to list its tools and has never listed them: tools that
    /// are unknown are not none.
    pub(crate) discovered: Option<Discovered>,
    /// The first refusal that may pass.
    pub(crate) refusal: Option<String>,
}

/// Lists every kind whose capability the server declares. A kind that the server answers with an error keeps
/// its previous definitions; a connection that fails, fails the listing.
pub(crate) async fn everything(
    connection: &Connection,
    previous: Option<&Discovered>,
) -> Result<Listed, LinkError> {
    let server = &connection.server;
    let mut listing = Listing {
        capabilities: server.capabilities.clone(),
        server_info: server.info.clone(),
        instructions: server.instructions.clone(),
        revision: Some(server.revision.as_str().to_owned()),
        ..Listing::default()
    };
    let mut bytes_left = MAX_TOTAL_BYTES;
    let (mut refusal, mut knows_tools) = (None, true);
    for list in List::ALL {
        let entries = match list {
            List::Tools => &mut listing.tools,
            List::Prompts => &mut listing.prompts,
            List::Resources => &mut listing.resources,
            List::ResourceTemplates => &mut listing.resource_templates,
        };
        if server.declares(list.capability()) {
            match pages(connection, list, &mut bytes_left).await? {
                Ok(pages) => *entries = pages,
                Err(refused) => {
                    *entries = previous.map(|previous| raw(previous, list)).unwrap_or_default();
                    knows_tools &= list != List::Tools || previous.is_some();
                    if refused.may_pass(list) {
                        refusal.get_or_insert(format!("{} was refused: {}", list.method(), refused.message));
                    }
                }
            }
        }
    }
    Ok(Listed { discovered: knows_tools.then(|| Discovered::read(listing)), refusal })
}

/// The error with which a server answered a list request.
struct ListRefusal {
    code: Option<i64>,
    message: String,
}

impl ListRefusal {
    fn read(error: &RawValue) -> Self {
        let error = Object::parse(error).unwrap_or_default();
        let message = error.get_str("message").unwrap_or_default().into_owned();
        Self { code: error.text("code").and_then(|code| code.parse().ok()), message }
    }

    /// False if asking again is useless: many servers declare a capability and do not know each of its lists.
    /// One that declares tools and cannot list them has a problem, whatever it calls it.
    fn may_pass(&self, list: List) -> bool {
        list == List::Tools || self.code != Some(codes::METHOD_NOT_FOUND)
    }
}

/// Reads all pages of one list, or the error with which the server refuses.
async fn pages(
    connection: &Connection,
    list: List,
    bytes_left: &mut usize,
) -> Result<Result<Vec<Box<RawValue>>, ListRefusal>, LinkError> {
    let method = list.method();
    let mut entries = Vec::new();
    let mut cursors = HashSet::new();
    let mut params = String::from("{}");
    for _ in 0..MAX_PAGES {
        let read = OwnedParams::from_text(params).map_err(|error| LinkError::Protocol(error.to_string()))?;
        let result = match connection.ask(&Request::new(method, &read)).await? {
            RpcOutcome::Result(result) => result,
            RpcOutcome::Error(error) => {
                tracing::debug!(method, error = error.get(), "the backend refuses to list");
                return Ok(Err(ListRefusal::read(&error)));
            }
            RpcOutcome::Arriving(_) => return Err(LinkError::not_collected()),
        };
        let page =
            Page::parse(list, &result).map_err(|error| LinkError::Protocol(format!("{method}: {error}")))?;
        // Cursors are kept to notice a repeated one, so they count as well.
        let cursor_bytes = page.next_cursor.as_ref().map_or(0, |cursor| cursor.len());
        let bytes = page.entries.iter().map(|entry| entry.get().len()).sum::<usize>() + cursor_bytes;
        entries.extend(page.entries.into_iter().map(ToOwned::to_owned));
        // The excess goes on to the model, which keeps the first entries and reports the rest as rejected.
        let enough = entries.len() > MAX_PER_KIND || bytes > *bytes_left;
        *bytes_left = bytes_left.saturating_sub(bytes);
        let Some(cursor) = page.next_cursor.filter(|_| !enough) else { return Ok(Ok(entries)) };
        params = format!(r#"{{"cursor":{}}}"#, text::quoted(&cursor));
        if !cursors.insert(cursor.into_owned()) {
            tracing::warn!(method, "the backend repeats a cursor, the pages so far are kept");
            return Ok(Ok(entries));
        }
    }
    tracing::warn!(method, limit = MAX_PAGES, "too many pages, the first ones are kept");
    Ok(Ok(entries))
}

fn raw(discovered: &Discovered, list: List) -> Vec<Box<RawValue>> {
    match list {
        List::Tools => discovered.tools.iter().map(|tool| tool.raw.clone()).collect(),
        List::Prompts => discovered.prompts.iter().map(|prompt| prompt.raw.clone()).collect(),
        List::Resources => discovered.resources.iter().map(|resource| resource.raw.clone()).collect(),
        List::ResourceTemplates => discovered.templates.iter().map(|template| template.raw.clone()).collect(),
    }
}

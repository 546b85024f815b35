//! Lists the tools, prompts, resources and templates of a backend. Each list stands for itself: a list that
//! fails, hangs or has no end costs itself alone, and is named as a [`ListFault`].

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::time::timeout;
use vmcp_json::object::Object;
use vmcp_model::definition::DefinitionKind;
use vmcp_model::discovered::list_fault::{ListExtent, ListFault};
use vmcp_model::discovered::{Discovered, Listing, MAX_PER_KIND, MAX_TOTAL_BYTES};
use vmcp_wire::lists::{pages::List, pages::Page};
use vmcp_wire::owned::OwnedParams;

use crate::connection::Connection;
use crate::policy::list_crashes::{ListCaution, ListCrashes};
use crate::request::{Request, RpcOutcome};
use crate::transport::LinkError;
use crate::upkeep::list_failure::ListFailure;

/// Pages read of one list; a list with more has no end, and the pages that came are served.
const MAX_PAGES: usize = 500;
/// Pages in a row without a new entry after which a list has no end. A server that filters may send a few.
const MAX_BARREN_PAGES: usize = 20;

/// The lists of a backend that are asked for together, as far as they have come.
pub(crate) struct ListingRound<'a> {
    connection: &'a Connection,
    /// Definitions of before: a list that cannot be read keeps them.
    previous: Option<&'a Discovered>,
    crashes: &'a ListCrashes,
    /// Time for all pages of one list.
    patience: Duration,
    /// Bytes that all lists together may still have.
    bytes_left: AtomicUsize,
    /// In the order of [`List::ALL`].
    lists: [Mutex<ReadList>; 4],
}

/// The pages of one list that have come.
#[derive(Default)]
struct ReadList {
    entries: Vec<Box<RawValue>>,
    /// Names and URIs of the entries.
    names: HashSet<String>,
    pages: usize,
    /// Pages in a row that brought no new entry.
    barren: usize,
    state: ListState,
}

#[derive(Default)]
enum ListState {
    /// No answer, or not all of them.
    #[default]
    Asked,
    Read,
    Failed(ListFailure),
}

impl<'a> ListingRound<'a> {
    pub(crate) fn new(
        connection: &'a Connection,
        previous: Option<&'a Discovered>,
        patience: Duration,
        crashes: &'a ListCrashes,
    ) -> Self {
        let bytes_left = AtomicUsize::new(MAX_TOTAL_BYTES);
        Self { connection, previous, crashes, patience, bytes_left, lists: Default::default() }
    }

    /// Reads the list of tools. A server that declares no list at all is asked, too: some declare nothing.
    /// Fails if the connection has ended.
    pub(crate) async fn tools(&self) -> Result<(), LinkError> {
        let server = &self.connection.server;
        if server.declares(List::Tools.capability()) {
            return self.read(List::Tools).await;
        }
        if List::ALL.iter().all(|list| !server.declares(list.capability())) {
            self.read(List::Tools).await?;
        }
        let mut list = self.list(List::Tools).lock();
        if !matches!(list.state, ListState::Read) {
            *list = ReadList { state: ListState::Read, ..ReadList::default() };
        }
        Ok(())
    }

    /// Reads the other lists side by side, and suspects of an earlier end of the server one by one. Fails if
    /// the connection has ended.
    pub(crate) async fn others(&self) -> Result<(), LinkError> {
        let mut suspects = Vec::new();
        let mut others = Vec::new();
        for list in List::ALL.into_iter().filter(|list| *list != List::Tools) {
            if !self.connection.server.declares(list.capability()) {
                self.list(list).lock().state = ListState::Read;
                continue;
            }
            match self.crashes.caution(list, Instant::now()) {
                ListCaution::None => others.push(list),
                ListCaution::Suspect => suspects.push(list),
                ListCaution::Deadly => self.list(list).lock().state = ListState::Failed(ListFailure::Deadly),
            }
        }
        let read = future::try_join_all(others.iter().map(|list| self.read(*list))).await;
        self.learn(&others, read.map(drop))?;
        for list in suspects {
            // Boxed: rare, and its state is not that of every listing.
            let read = Box::pin(self.read(list)).await;
            self.learn(&[list], read)?;
        }
        Ok(())
    }

    /// Records which of the `lists` the server was asked for when the connection ended.
    fn learn(&self, lists: &[List], read: Result<(), LinkError>) -> Result<(), LinkError> {
        for list in lists {
            let is_awaited = matches!(self.list(*list).lock().state, ListState::Asked);
            match &read {
                Ok(()) => self.crashes.outlived(*list),
                Err(_) if is_awaited => self.crashes.ended_over(*list, Instant::now()),
                Err(_) => {}
            }
        }
        read
    }

    /// Gives up the lists that have not come, which were asked for `after` ago.
    pub(crate) fn give_up(&self, after: Duration) {
        for list in &self.lists {
            let mut list = list.lock();
            if matches!(list.state, ListState::Asked) {
                list.state = ListState::Failed(ListFailure::Silent(Some(after)));
            }
        }
    }

    /// Returns the definitions as they are known by now. A list that has not come, or not whole, has those of
    /// before, else its pages that came. `None` if the tools are unknown and there is nothing else: tools
    /// that are unknown are not none.
    pub(crate) fn discovered(&self) -> Option<Discovered> {
        let server = &self.connection.server;
        let mut listing = Listing {
            capabilities: server.capabilities.clone(),
            server_info: server.info.clone(),
            instructions: server.instructions.clone(),
            revision: Some(server.revision.as_str().to_owned()),
            legacy_capabilities: self.previous.and_then(|previous| previous.legacy_capabilities.clone()),
            ..Listing::default()
        };
        for list in List::ALL {
            let (entries, fault) = self.entries(list);
            listing.faults.extend(fault);
            match list {
                List::Tools => listing.tools = entries,
                List::Prompts => listing.prompts = entries,
                List::Resources => listing.resources = entries,
                List::ResourceTemplates => listing.resource_templates = entries,
            }
        }
        let discovered = Discovered::read(listing);
        let Discovered { prompts, resources, templates, .. } = &discovered;
        let has_others = !(prompts.is_empty() && resources.is_empty() && templates.is_empty());
        (discovered.knows_tools() || has_others).then_some(discovered)
    }

    fn entries(&self, list: List) -> (Vec<Box<RawValue>>, Option<ListFault>) {
        let read = self.list(list).lock();
        let fault = |failure: &ListFailure, extent| {
            let reason = failure.reason(read.pages);
            (!failure.is_usual(list)).then(|| ListFault { kind: kind(list), reason, extent })
        };
        let failure = match (&read.state, self.previous) {
            (ListState::Read, _) => return (read.entries.clone(), None),
            (ListState::Asked, Some(previous)) => {
                return (raw(previous, list), previous.fault(kind(list)).cloned());
            }
            (ListState::Asked, None) => &ListFailure::Silent(None),
            (ListState::Failed(failure), _) => failure,
        };
        // Pages that came are of less use than a whole list of before, and of more use than a list that was
        // cut too.
        let before = self.previous.and_then(|previous| {
            let extent = previous.fault(kind(list)).map(|fault| fault.extent);
            let is_whole = extent.is_none_or(|extent| extent == ListExtent::Earlier);
            let is_known = is_whole || (extent == Some(ListExtent::Pages) && read.pages == 0);
            (is_known && !failure.is_endless()).then(|| (raw(previous, list), extent))
        });
        match before {
            Some((entries, Some(ListExtent::Pages))) => (entries, fault(failure, ListExtent::Pages)),
            Some((entries, _)) => (entries, fault(failure, ListExtent::Earlier)),
            None if read.pages > 0 => (read.entries.clone(), fault(failure, ListExtent::Pages)),
            None => (Vec::new(), fault(failure, ListExtent::Missing)),
        }
    }

    /// Returns what went wrong, for operators: with the list of tools, and with any list.
    pub(crate) fn failures(&self) -> (Option<String>, Option<String>) {
        let of = |list: List| match &self.list(list).lock().state {
            ListState::Failed(failure) if !failure.is_usual(list) => {
                Some(format!("{}: {}", list.method(), failure))
            }
            ListState::Failed(_) | ListState::Read | ListState::Asked => None,
        };
        let all: Vec<_> = List::ALL.into_iter().filter_map(of).collect();
        (of(List::Tools), (!all.is_empty()).then(|| all.join("; ")))
    }

    /// True if listing again soon is worth its cost.
    pub(crate) fn is_worth_repeating(&self) -> bool {
        List::ALL.into_iter().any(|list| match &self.list(list).lock().state {
            ListState::Failed(failure) => failure.may_pass(list),
            ListState::Read | ListState::Asked => false,
        })
    }

    fn list(&self, list: List) -> &Mutex<ReadList> {
        let [tools, prompts, resources, templates] = &self.lists;
        match list {
            List::Tools => tools,
            List::Prompts => prompts,
            List::Resources => resources,
            List::ResourceTemplates => templates,
        }
    }

    /// Reads all pages of one list. Fails if the connection has ended.
    async fn read(&self, list: List) -> Result<(), LinkError> {
        let read = timeout(self.patience, self.pages(list)).await;
        let state = match read.unwrap_or(Err(ListFailure::Silent(Some(self.patience)))) {
            Ok(()) => ListState::Read,
            Err(ListFailure::Link(error)) if self.connection.channel.link.ends_with(&error) => {
                return Err(error);
            }
            Err(failure) => {
                tracing::debug!(method = list.method(), %failure, "the list cannot be read");
                ListState::Failed(failure)
            }
        };
        self.list(list).lock().state = state;
        Ok(())
    }

    async fn pages(&self, list: List) -> Result<(), ListFailure> {
        let method = list.method();
        let mut cursors = HashSet::new();
        let mut params = String::from("{}");
        for _ in 0..MAX_PAGES {
            let read = OwnedParams::from_text(params).map_err(|error| LinkError::Protocol(error.to_string()));
            let outcome = self.connection.ask(&Request::new(method, &read?)).await?;
            let result = match outcome {
                RpcOutcome::Result(result) => result,
                RpcOutcome::Error(error) => return Err(ListFailure::refused(&error)),
                RpcOutcome::Arriving(_) => return Err(LinkError::not_collected().into()),
            };
            let page = Page::parse(list, &result)?;
            let cursor = match &page.next_cursor {
                Ok(cursor) => *cursor,
                // The entries of this page are good.
                Err(error) => {
                    self.add(list, &page.entries, 0);
                    return Err(error.clone().into());
                }
            };
            // Cursors are kept to notice a repeated one, so they count as well.
            let goes_on = self.add(list, &page.entries, cursor.map_or(0, str::len));
            let Some(cursor) = cursor.filter(|_| goes_on) else { return Ok(()) };
            if self.list(list).lock().barren >= MAX_BARREN_PAGES {
                return Err(ListFailure::Endless);
            }
            params = format!(r#"{{"cursor":{cursor}}}"#);
            if !cursors.insert(cursor.to_owned()) {
                tracing::warn!(method, "the backend repeats a cursor, the pages so far are kept");
                return Ok(());
            }
        }
        Err(ListFailure::Endless)
    }

    /// Adds a page, without the entries that an earlier page had. Returns false if there is no room for more:
    /// the excess goes on to the model, which keeps the first entries and reports the rest as rejected.
    fn add(&self, list: List, entries: &[&RawValue], cursor_bytes: usize) -> bool {
        let bytes = entries.iter().map(|entry| entry.get().len()).sum::<usize>() + cursor_bytes;
        let mut read = self.list(list).lock();
        let ReadList { entries: all, names, .. } = &mut *read;
        let (of_before, known) = (all.len(), names.len());
        for entry in entries {
            let is_known = name(list, entry).is_some_and(|name| !names.insert(name));
            let is_repeated = is_known && all.iter().take(of_before).any(|one| one.get() == entry.get());
            if !is_repeated {
                all.push((*entry).to_owned());
            }
        }
        let brings_new = names.len() > known || entries.iter().any(|entry| name(list, entry).is_none());
        read.pages += 1;
        read.barren = if brings_new { 0 } else { read.barren + 1 };
        let has_room = read.entries.len() <= MAX_PER_KIND;
        drop(read);
        let left = self.bytes_left.load(Ordering::Relaxed);
        self.bytes_left.store(left.saturating_sub(bytes), Ordering::Relaxed);
        has_room && bytes <= left
    }
}

/// The name or URI by which an entry is known.
fn name(list: List, entry: &RawValue) -> Option<String> {
    let key = match list {
        List::Tools | List::Prompts => "name",
        List::Resources => "uri",
        List::ResourceTemplates => "uriTemplate",
    };
    Some(Object::parse(entry).ok()?.get_str(key)?.into_owned())
}

fn kind(list: List) -> DefinitionKind {
    match list {
        List::Tools => DefinitionKind::Tool,
        List::Prompts => DefinitionKind::Prompt,
        List::Resources => DefinitionKind::Resource,
        List::ResourceTemplates => DefinitionKind::ResourceTemplate,
    }
}

fn raw(discovered: &Discovered, list: List) -> Vec<Box<RawValue>> {
    match list {
        List::Tools => discovered.tools.iter().map(|tool| tool.raw.clone()).collect(),
        List::Prompts => discovered.prompts.iter().map(|prompt| prompt.raw.clone()).collect(),
        List::Resources => discovered.resources.iter().map(|resource| resource.raw.clone()).collect(),
        List::ResourceTemplates => discovered.templates.iter().map(|template| template.raw.clone()).collect(),
    }
}

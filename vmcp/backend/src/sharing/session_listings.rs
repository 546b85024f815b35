//! Definitions of client sessions: what a server lists on a client's own connection, where that differs from
//! what it lists on the main one. A server may add tools in one session only.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::value::RawValue;
use vmcp_model::definition_diff::is_same_json;
use vmcp_model::discovered::Discovered;
use vmcp_wire::methods;

use crate::policy::session_listing_count::SessionListingCount;
use crate::request::{Principal, SessionId};

/// Different listings of one backend that are kept; a session with one more has the backend's own.
const MAX_LISTINGS: usize = 256;
/// Different listings of one principal's sessions.
const MAX_LISTINGS_PER_PRINCIPAL: usize = 32;
/// Bytes of definitions in one listing; a session with a larger one has the backend's own.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The definitions that one client session sees.
#[derive(Clone, Debug)]
pub struct SessionListing {
    /// The definitions; sessions that see the same share them.
    pub discovered: Arc<Discovered>,
    /// Hash of the definitions: equal for equal ones, within this process.
    pub fingerprint: u64,
}

/// Listings that differ from the backend's own, by client session.
#[derive(Debug, Default)]
pub(crate) struct SessionListings {
    table: Mutex<HashMap<SessionId, Entry>>,
    /// Entries of the table, for requests of the many sessions without one.
    count: AtomicUsize,
    /// Entries of the tables of all backends.
    total: SessionListingCount,
    hasher: RandomState,
}

#[derive(Debug)]
struct Entry {
    listing: SessionListing,
    principal: Principal,
    /// Lists that differ from the backend's own.
    differ: ChangedLists,
}

/// Lists that differ between two listings: tools, resources (or templates), prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangedLists([bool; 3]);

impl ChangedLists {
    pub(crate) fn between(one: &Discovered, other: &Discovered) -> Self {
        let [tools, resources, templates, prompts] = texts(one);
        let [other_tools, other_resources, other_templates, other_prompts] = texts(other);
        Self([
            !is_same(&tools, &other_tools),
            !is_same(&resources, &other_resources) || !is_same(&templates, &other_templates),
            !is_same(&prompts, &other_prompts),
        ])
    }

    pub(crate) fn any(self) -> bool {
        self.0.contains(&true)
    }

    /// Returns the notifications that announce these changes.
    pub(crate) fn methods(self) -> impl Iterator<Item = &'static str> {
        let methods = [methods::TOOLS_CHANGED, methods::RESOURCES_CHANGED, methods::PROMPTS_CHANGED];
        self.0.into_iter().zip(methods).filter_map(|(changed, method)| changed.then_some(method))
    }
}

/// Refusal of a listing beyond a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ListingRefused {
    #[error("it has more than {MAX_BYTES} bytes of definitions")]
    Large,
    #[error("the client has {MAX_LISTINGS_PER_PRINCIPAL} sessions with different definitions")]
    ManyOfPrincipal,
    #[error("{MAX_LISTINGS} sessions have different definitions")]
    Many,
}

impl SessionListings {
    /// Makes an empty table, whose entries count in `total` too.
    pub(crate) fn new(total: SessionListingCount) -> Self {
        let (table, count, hasher) = Default::default();
        Self { table, count, total, hasher }
    }

    /// Returns the listing of a session, if it differs from the backend's own.
    pub(crate) fn get(&self, session: SessionId) -> Option<SessionListing> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.table.lock().get(&session).map(|entry| entry.listing.clone())
    }

    /// Returns all sessions with a listing.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        self.table.lock().keys().copied().collect()
    }

    /// Keeps what a session's server listed, unless it is the backend's own listing, `shared`. Returns the
    /// lists that changed for the session. A refused listing leaves the table as it was. Calls for one
    /// session are made one after the other.
    pub(crate) fn put(
        &self,
        session: SessionId,
        principal: Principal,
        own: Discovered,
        shared: &Discovered,
    ) -> Result<ChangedLists, ListingRefused> {
        // Megabytes are compared and hashed before the table is locked.
        let differ = ChangedLists::between(&own, shared);
        let changed = match self.get(session) {
            Some(before) => ChangedLists::between(&own, &before.discovered),
            None => differ,
        };
        if !differ.any() {
            self.remove(session);
            return Ok(changed);
        }
        if !changed.any()
            && let Some(entry) = self.table.lock().get_mut(&session)
        {
            entry.differ = differ;
            return Ok(changed);
        }
        let all = texts(&own);
        if all.iter().flatten().map(|text| text.len()).sum::<usize>() > MAX_BYTES {
            return Err(ListingRefused::Large);
        }
        let fingerprint = self.hasher.hash_one(&all);
        let listing = SessionListing { discovered: Arc::new(own), fingerprint };
        let mut table = self.table.lock();
        let listing = admit(&table, session, principal, listing)?;
        let replaced = table.insert(session, Entry { listing, principal, differ });
        self.count(&table);
        drop(table);
        drop(replaced);
        Ok(changed)
    }

    /// Removes the listing of a session; returns the lists that changed for it.
    pub(crate) fn remove(&self, session: SessionId) -> ChangedLists {
        if self.count.load(Ordering::Relaxed) == 0 {
            return ChangedLists::default();
        }
        let mut table = self.table.lock();
        let removed = table.remove(&session);
        self.count(&table);
        drop(table);
        removed.map(|removed| removed.differ).unwrap_or_default()
    }

    fn count(&self, table: &HashMap<SessionId, Entry>) {
        let before = self.count.swap(table.len(), Ordering::Relaxed);
        self.total.change(before, table.len());
    }
}

impl Drop for SessionListings {
    fn drop(&mut self) {
        self.total.change(self.count.load(Ordering::Relaxed), 0);
    }
}

/// Returns the listing that a session is to have: an equal one that is kept already, or this one, within the
/// limits.
fn admit(
    table: &HashMap<SessionId, Entry>,
    session: SessionId,
    principal: Principal,
    listing: SessionListing,
) -> Result<SessionListing, ListingRefused> {
    let others = || table.iter().filter(|(other, _)| **other != session).map(|(_, entry)| entry);
    if let Some(same) = others().find(|entry| entry.listing.fingerprint == listing.fingerprint) {
        return Ok(same.listing.clone());
    }
    let different = |entries: &mut dyn Iterator<Item = &Entry>| {
        entries.map(|entry| entry.listing.fingerprint).collect::<HashSet<_>>().len()
    };
    if different(&mut others().filter(|entry| entry.principal == principal)) >= MAX_LISTINGS_PER_PRINCIPAL {
        return Err(ListingRefused::ManyOfPrincipal);
    }
    if different(&mut others()) >= MAX_LISTINGS {
        return Err(ListingRefused::Many);
    }
    Ok(listing)
}

/// True if definitions differ in the order of their keys at most.
fn is_same(one: &[&str], other: &[&str]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same_json(one, other))
}

/// The definitions as they were sent: tools, resources, templates, prompts.
fn texts(discovered: &Discovered) -> [Vec<&str>; 4] {
    fn text(raw: &RawValue) -> &str {
        raw.get()
    }
    [
        discovered.tools.iter().map(|tool| text(&tool.raw)).collect(),
        discovered.resources.iter().map(|resource| text(&resource.raw)).collect(),
        discovered.templates.iter().map(|template| text(&template.raw)).collect(),
        discovered.prompts.iter().map(|prompt| text(&prompt.raw)).collect(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use vmcp_model::discovered::Listing;

    fn offering(tools: &[&str]) -> Discovered {
        let tool = |name: &&str| RawValue::from_string(format!(r#"{{"name":"{name}"}}"#)).unwrap();
        Discovered::read(Listing { tools: tools.iter().map(tool).collect(), ..Listing::default() })
    }

    fn announced(changed: ChangedLists) -> Vec<&'static str> {
        changed.methods().collect()
    }

    #[test]
    fn a_listing_is_kept_while_it_differs_from_the_backends_own() {
        let listings = SessionListings::default();
        let (shared, principal) = (offering(&["a"]), Principal::default());
        let put = |session: u8, tools: &[&str]| {
            listings.put([session; 16], principal, offering(tools), &shared).map(announced).unwrap()
        };
        assert_eq!(put(1, &["a"]), [] as [&str; 0], "equal listings change nothing");
        assert!(listings.get([1; 16]).is_none());
        assert_eq!(put(1, &["a", "extra"]), [methods::TOOLS_CHANGED]);
        assert_eq!(put(1, &["a", "extra"]), [] as [&str; 0]);
        assert_eq!(listings.get([1; 16]).unwrap().discovered.tools.len(), 2);
        assert!(listings.get([2; 16]).is_none());
        put(2, &["a", "extra"]);
        let [one, other] = [[1; 16], [2; 16]].map(|session| listings.get(session).unwrap());
        assert!(Arc::ptr_eq(&one.discovered, &other.discovered), "equal listings are one");
        assert_eq!(announced(listings.remove([2; 16])), [methods::TOOLS_CHANGED]);
        assert_eq!(put(1, &["a"]), [methods::TOOLS_CHANGED]);
        assert!(listings.sessions().is_empty() && !listings.remove([1; 16]).any());
    }

    #[test]
    fn keys_in_another_order_are_no_change() {
        let listings = SessionListings::default();
        let of = |tools: &[&str]| {
            let tools = tools.iter().map(|tool| RawValue::from_string((*tool).to_owned()).unwrap()).collect();
            Discovered::read(Listing { tools, ..Listing::default() })
        };
        let (shared, principal) = (of(&[r#"{"name":"a","title":"A"}"#]), Principal::default());
        let put = |tools: &[&str]| announced(listings.put([1; 16], principal, of(tools), &shared).unwrap());
        assert_eq!(put(&[r#"{"title":"A","name":"a"}"#]), [] as [&str; 0]);
        assert!(listings.get([1; 16]).is_none());
        assert_eq!(
            put(&[r#"{"name":"a","title":"A"}"#, r#"{"name":"b","title":"B"}"#]),
            [methods::TOOLS_CHANGED]
        );
        let fingerprint = listings.get([1; 16]).unwrap().fingerprint;
        assert_eq!(put(&[r#"{"title":"A","name":"a"}"#, r#"{"title":"B","name":"b"}"#]), [] as [&str; 0]);
        assert_eq!(listings.get([1; 16]).unwrap().fingerprint, fingerprint);
    }

    #[test]
    fn backends_count_together_the_sessions_with_a_listing() {
        let total = SessionListingCount::default();
        let [one, other] = [(); 2].map(|()| SessionListings::new(total.clone()));
        let (shared, principal) = (offering(&["a"]), Principal::default());
        for (listings, session) in [(&one, 1), (&one, 1), (&one, 2), (&other, 1)] {
            listings.put([session; 16], principal, offering(&["a", "extra"]), &shared).unwrap();
        }
        one.remove([1; 16]);
        one.put([2; 16], principal, offering(&["a"]), &shared).unwrap();
        assert!(!total.is_zero(), "the other backend has one");
        drop(other);
        assert!(total.is_zero(), "a backend that is gone has none");
    }

    #[test]
    fn a_principal_has_no_more_than_its_share_of_different_listings() {
        let (listings, shared) = (SessionListings::default(), offering(&[]));
        let put = |number: usize, principal, tool: &str| {
            let session = (number as u128).to_be_bytes();
            listings.put(session, principal, offering(&[tool]), &shared)
        };
        let greedy = Principal::Identity([1; 32]);
        for number in 0..MAX_LISTINGS_PER_PRINCIPAL {
            put(number, greedy, &format!("t{number}")).unwrap();
        }
        assert_eq!(put(100, greedy, "more"), Err(ListingRefused::ManyOfPrincipal));
        assert!(put(0, greedy, "t0 changed").is_ok(), "in place of the session's listing before");
        put(0, greedy, "t0").unwrap();
        assert!(put(101, greedy, "t0").is_ok(), "a listing that is kept already");
        assert!(put(102, Principal::Identity([2; 32]), "more").is_ok());
        let text = "x".repeat(200 * 1024);
        let tool = |n| RawValue::from_string(format!(r#"{{"name":"t{n}","description":"{text}"}}"#)).unwrap();
        let large = Listing { tools: (0..24).map(tool).collect(), ..Listing::default() };
        let put = listings.put([0; 16], greedy, Discovered::read(large), &shared);
        assert_eq!(put, Err(ListingRefused::Large));
    }
}

//! URIs that backends named in their results to a client: links to resources that are on no list, or that
//! another backend lists under the same URI, too. They lead back to the backend that named them.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use vmcp_backend::SessionId;
use vmcp_json::object::Object;

use crate::access::identity::PrincipalKey;

/// Links of one owner; beyond it the oldest is forgotten.
const MAX_PER_OWNER: usize = 200;
/// Owners with links; beyond it the oldest owner is forgotten.
const MAX_OWNERS: usize = 2_000;
/// Owners of one principal, which may open many sessions; beyond it the oldest of them is forgotten.
const MAX_OWNERS_PER_PRINCIPAL: usize = 500;
/// Bytes of all URIs, and of those of one principal; beyond them likewise.
const MAX_BYTES: usize = 32 << 20;
const MAX_BYTES_PER_PRINCIPAL: usize = 8 << 20;
/// Bytes of a URI; longer ones are not kept.
const MAX_URI_BYTES: usize = 1024;

/// The client that a backend named a URI to. Nothing but their principal tells clients without a session
/// apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkOwner {
    /// The principal, whose share the links take.
    pub principal: PrincipalKey,
    /// The session; `None`: clients without one.
    pub session: Option<SessionId>,
}

/// The links of this process.
#[derive(Debug, Default)]
pub struct LinkedUris(Mutex<LinkTable>);

type Links = VecDeque<(Box<str>, Arc<str>)>;

#[derive(Debug, Default)]
struct LinkTable {
    links: HashMap<LinkOwner, Links>,
    order: VecDeque<LinkOwner>,
    shares: HashMap<PrincipalKey, Share>,
    bytes: usize,
}

/// Links of one principal.
#[derive(Debug, Default)]
struct Share {
    owners: usize,
    bytes: usize,
}

impl LinkTable {
    fn learn(&mut self, owner: LinkOwner, uri: &str, backend: &Arc<str>) {
        let share = self.shares.entry(owner.principal).or_default();
        let own = self.links.entry(owner).or_insert_with(|| {
            self.order.push_back(owner);
            share.owners += 1;
            Links::new()
        });
        let known = own.iter().position(|(known, _)| **known == *uri);
        let surplus = known.or_else(|| (own.len() >= MAX_PER_OWNER).then_some(0));
        let freed = surplus.and_then(|at| own.remove(at)).map_or(0, |(uri, _)| uri.len());
        own.push_back((uri.into(), Arc::clone(backend)));
        share.bytes = share.bytes + uri.len() - freed;
        self.bytes = self.bytes + uri.len() - freed;
        // The links of one owner are within every bound. The other owners make room: a client reads the
        // newest link next, also in the oldest session.
        let is_other = |other: &LinkOwner| *other != owner;
        let is_of_principal = |other: &LinkOwner| other.principal == owner.principal && is_other(other);
        while self.has_full_share(owner.principal) && self.forget(is_of_principal) {}
        while (self.order.len() > MAX_OWNERS || self.bytes > MAX_BYTES) && self.forget(is_other) {}
    }

    fn has_full_share(&self, principal: PrincipalKey) -> bool {
        self.shares.get(&principal).is_some_and(|share| {
            share.owners > MAX_OWNERS_PER_PRINCIPAL || share.bytes > MAX_BYTES_PER_PRINCIPAL
        })
    }

    /// Forgets the oldest of some owners; false without one.
    fn forget(&mut self, is_meant: impl Fn(&LinkOwner) -> bool) -> bool {
        let oldest = self.order.iter().position(is_meant).and_then(|at| self.order.remove(at));
        let Some(oldest) = oldest else { return false };
        let links = self.links.remove(&oldest).unwrap_or_default();
        let bytes: usize = links.iter().map(|(uri, _)| uri.len()).sum();
        self.bytes -= bytes;
        if let Some(share) = self.shares.get_mut(&oldest.principal) {
            share.owners -= 1;
            share.bytes -= bytes;
            if share.owners == 0 {
                self.shares.remove(&oldest.principal);
            }
        }
        true
    }
}

impl LinkedUris {
    /// Records that `backend` named the URI. A URI that two backends name belongs to the later one.
    pub fn learn(&self, owner: LinkOwner, uri: &str, backend: &Arc<str>) {
        if uri.len() > MAX_URI_BYTES {
            return;
        }
        self.0.lock().learn(owner, uri, backend);
    }

    /// Returns the backend that named the URI to the owner.
    pub fn get(&self, owner: LinkOwner, uri: &str) -> Option<Arc<str>> {
        let table = self.0.lock();
        let mut own = table.links.get(&owner)?.iter();
        own.find(|(known, _)| **known == *uri).map(|(_, backend)| Arc::clone(backend))
    }
}

/// Returns the URIs of the resource links in a tool's result or a prompt, as far as they are kept.
pub fn linked(result: &RawValue) -> Vec<String> {
    let Ok(result) = Object::parse(result) else { return Vec::new() };
    let list = |key| result.get(key).and_then(|list| serde_json::from_str::<Vec<&RawValue>>(list.get()).ok());
    let blocks = list("content").unwrap_or_default();
    let messages = list("messages").unwrap_or_default();
    let of_messages = messages.into_iter().filter_map(|message| Object::parse(message).ok()?.get("content"));
    let links = blocks.into_iter().chain(of_messages).filter_map(|block| {
        let block = Object::parse(block).ok()?;
        (block.get_str("type")? == "resource_link").then(|| block.get_str("uri"))?.map(Cow::into_owned)
    });
    links.filter(|uri: &String| uri.len() <= MAX_URI_BYTES).take(MAX_PER_OWNER).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_belong_to_the_client_they_were_given_to() {
        let uris = LinkedUris::default();
        let owner = |n: u8| LinkOwner { principal: PrincipalKey::Only, session: Some([n; 16]) };
        let (one, other) = (Arc::from("one"), Arc::from("other"));
        uris.learn(owner(1), "r:1", &one);
        assert_eq!((uris.get(owner(1), "r:1"), uris.get(owner(2), "r:1")), (Some(one.clone()), None));
        uris.learn(owner(1), "r:1", &other);
        assert_eq!(uris.get(owner(1), "r:1"), Some(other));
        for n in 0..MAX_PER_OWNER {
            uris.learn(owner(1), &n.to_string(), &one);
        }
        assert_eq!((uris.get(owner(1), "r:1"), uris.get(owner(1), "0")), (None, Some(one.clone())));
        for n in 0..MAX_OWNERS {
            uris.learn(person(n), "r", &one);
        }
        assert_eq!(uris.get(owner(1), "0"), None);
        let table = uris.0.lock();
        let counts = (table.links.len(), table.order.len(), table.shares.len(), table.bytes);
        assert_eq!(counts, (MAX_OWNERS, MAX_OWNERS, MAX_OWNERS, MAX_OWNERS));
    }

    /// Returns the owner of links without a session that has a number.
    fn person(number: usize) -> LinkOwner {
        let mut digest = [9; 32];
        digest[..8].copy_from_slice(&number.to_le_bytes());
        LinkOwner { principal: PrincipalKey::Identity(digest), session: None }
    }

    /// Returns the owner of links in a session of one person.
    fn session(number: usize) -> LinkOwner {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        LinkOwner { session: Some(id), ..person(2) }
    }

    /// Returns one of the longest URIs that are kept.
    fn long(number: usize) -> String {
        format!("{number:x<MAX_URI_BYTES$}")
    }

    #[test]
    fn the_oldest_session_keeps_a_link_that_fills_the_share_of_its_principal() {
        let (uris, backend) = (LinkedUris::default(), Arc::from("one"));
        uris.learn(session(0), &long(0), &backend);
        for n in 1..MAX_BYTES_PER_PRINCIPAL / MAX_URI_BYTES {
            uris.learn(session(1 + n / MAX_PER_OWNER), &long(n), &backend);
        }
        assert!(uris.get(session(1), &long(1)).is_some());
        uris.learn(session(0), &long(1), &backend);
        let kept = [0, 1].map(|n| uris.get(session(0), &long(n)).is_some());
        assert_eq!((kept, uris.get(session(1), &long(1))), ([true, true], None));
    }

    #[test]
    fn many_sessions_of_one_principal_cost_no_other_its_links() {
        let (uris, backend) = (LinkedUris::default(), Arc::from("one"));
        uris.learn(person(1), "r:1", &backend);
        for n in 0..=MAX_OWNERS {
            uris.learn(session(n), "r:1", &backend);
        }
        assert!(uris.get(person(1), "r:1").is_some());
        assert_eq!(uris.0.lock().links.len(), MAX_OWNERS_PER_PRINCIPAL + 1);
        for n in 0..60 {
            for link in 0..MAX_PER_OWNER {
                uris.learn(session(n), &long(link), &backend);
            }
        }
        let table = uris.0.lock();
        assert!(table.shares[&person(2).principal].bytes <= MAX_BYTES_PER_PRINCIPAL);
        let all: usize = table.links.values().flatten().map(|(uri, _)| uri.len()).sum();
        assert_eq!(all, table.bytes);
        assert!(table.links.contains_key(&person(1)));
    }

    #[test]
    fn links_are_found_in_results_and_prompts() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let link = r#"{"type":"resource_link","uri":"r:1","name":"x"}"#;
        let result = format!(r#"{{"content":[{{"type":"text","text":"resource_link"}},{link},7]}}"#);
        assert_eq!(linked(&raw(&result)), ["r:1"]);
        let prompt = format!(r#"{{"messages":[{{"role":"user","content":{link}}}]}}"#);
        assert_eq!(linked(&raw(&prompt)), ["r:1"]);
        assert!(linked(&raw(r#"{"content":{"type":"resource_link"}}"#)).is_empty());
    }
}

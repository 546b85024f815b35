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
/// Bytes of a URI; longer ones are not kept.
const MAX_URI_BYTES: usize = 1024;

/// The client that a backend named a URI to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkOwner {
    /// A session.
    Session(SessionId),
    /// Clients without a session, which nothing but their principal tells apart.
    Principal(PrincipalKey),
}

/// The links of this process.
#[derive(Debug, Default)]
pub struct LinkedUris(Mutex<LinkTable>);

type Links = VecDeque<(Box<str>, Arc<str>)>;

#[derive(Debug, Default)]
struct LinkTable {
    links: HashMap<LinkOwner, Links>,
    order: VecDeque<LinkOwner>,
}

impl LinkedUris {
    /// Records that `backend` named the URI. A URI that two backends name belongs to the later one.
    pub fn learn(&self, owner: LinkOwner, uri: &str, backend: &Arc<str>) {
        if uri.len() > MAX_URI_BYTES {
            return;
        }
        let mut table = self.0.lock();
        let LinkTable { links, order } = &mut *table;
        let own = links.entry(owner).or_insert_with(|| {
            order.push_back(owner);
            Links::new()
        });
        own.retain(|(known, _)| **known != *uri);
        if own.len() >= MAX_PER_OWNER {
            own.pop_front();
        }
        own.push_back((uri.into(), Arc::clone(backend)));
        if order.len() > MAX_OWNERS
            && let Some(first) = order.pop_front()
        {
            links.remove(&first);
        }
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
        let owner = |n: u8| LinkOwner::Session([n; 16]);
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
            let mut session = [9; 16];
            session[..8].copy_from_slice(&n.to_le_bytes());
            uris.learn(LinkOwner::Session(session), "r", &one);
        }
        assert_eq!(uris.get(owner(1), "0"), None);
        let table = uris.0.lock();
        assert_eq!((table.links.len(), table.order.len()), (MAX_OWNERS, MAX_OWNERS));
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

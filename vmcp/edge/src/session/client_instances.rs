//! [`ClientInstances`]: tells clients apart that have no session, one name and one address: two windows of
//! one application, or all users behind a proxy.
//!
//! A client numbers its requests and uses no id twice. A request with an id that was used before is therefore
//! of another client, and one with the next id goes on where its client left off. A request that could be of
//! two clients begins as a client of its own: it shares nothing with either, and later requests go on there.

use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;
use vmcp_backend::ClientInstance;

use vmcp_engine::access::identity::PrincipalKey;

/// Principals whose clients are remembered; one more forgets the least recently used.
const MAX_PRINCIPALS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);
/// Names of one principal's clients that are remembered.
const MAX_NAMES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);
/// Clients of one name that are remembered; one more ends the least recently used.
const MAX_INSTANCES: usize = 8;
/// Ids by which a request may be behind the latest that it was sent before: parallel requests overtake each
/// other on the way.
const MAX_BEHIND: u64 = 63;
/// Time within which it must come then.
const MAX_DELAY: Duration = Duration::from_secs(2);
/// Highest id with which a client may begin; the latest id again, above it, is a request that was sent again.
const MAX_FIRST: u64 = 8;
/// Length in bytes from which the text before a number is unique to a client, such as part of a UUID.
const MIN_UNIQUE_PREFIX: usize = 8;

/// The clients without a session that this process has served.
#[derive(Debug)]
pub(crate) struct ClientInstances {
    table: Mutex<Table>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Table {
    principals: LruCache<PrincipalKey, LruCache<u64, Vec<Instance>>>,
    /// Number of the last client.
    last: u64,
}

/// One running copy of a client's program.
#[derive(Debug)]
struct Instance {
    number: u64,
    first: u64,
    latest: u64,
    /// Ids that were used: bit n is that of `latest - n`.
    used: u64,
    last_request: Instant,
}

/// Place of a request among the known clients.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) instance: ClientInstance,
    /// Number of the client that was forgotten for it.
    pub(crate) ended: Option<u64>,
}

impl Default for ClientInstances {
    fn default() -> Self {
        let table = Table { principals: LruCache::new(MAX_PRINCIPALS), last: 0 };
        Self { table: Mutex::new(table), hasher: RandomState::new() }
    }
}

impl ClientInstances {
    /// Finds the client of a request with this `id`, as JSON, whose client introduced itself as `info`.
    pub(crate) fn place(
        &self,
        principal: PrincipalKey,
        info: Option<&str>,
        id: &str,
        now: Instant,
    ) -> Placed {
        let unplaced = |instance| Placed { instance, ended: None };
        // A person's clients count as one where nothing tells them apart; strangers at one address do not.
        let unknown = match principal {
            PrincipalKey::Only => return unplaced(ClientInstance::Only),
            PrincipalKey::Identity(_) => ClientInstance::Only,
            PrincipalKey::Address(_) => ClientInstance::Unknown,
        };
        let Some((prefix, number)) = parse(id) else { return unplaced(unknown) };
        let name = self.hasher.hash_one((info, prefix));
        let mut table = self.table.lock();
        let Table { principals, last } = &mut *table;
        let names = principals.get_or_insert_mut(principal, || LruCache::new(MAX_NAMES));
        let is_new = !names.contains(&name);
        let instances = names.get_or_insert_mut(name, Vec::new);
        let found = find(instances, number, now);
        match found {
            Found::Instance(at) => {
                let instance = instances.get_mut(at).map(|instance| instance.record(number, now));
                unplaced(instance.map_or(unknown, ClientInstance::Number))
            }
            Found::None => {
                *last += 1;
                let ended = (instances.len() >= MAX_INSTANCES).then(|| end_oldest(instances)).flatten();
                instances.push(Instance::begin(*last, number, now));
                // A prefix that comes once belongs to ids that are random.
                let is_random = is_new && prefix.len() >= MIN_UNIQUE_PREFIX;
                let instance = if is_random { unknown } else { ClientInstance::Number(*last) };
                Placed { instance, ended }
            }
        }
    }
}

enum Found {
    /// None that is certain.
    None,
    Instance(usize),
}

/// Finds the client that has not used this id: the one whose next id it is, if there are several.
fn find(instances: &[Instance], id: u64, now: Instant) -> Found {
    let with = |wanted: &dyn Fn(&Instance) -> bool| -> Vec<usize> {
        instances.iter().enumerate().filter(|(_, instance)| wanted(instance)).map(|(at, _)| at).collect()
    };
    let is_next = |instance: &Instance| instance.latest + 1 == id;
    let may_send = |instance: &Instance| instance.may_send(id, now);
    let is_repeated = |instance: &Instance| id > MAX_FIRST && instance.latest == id;
    for wanted in [&is_next as &dyn Fn(&Instance) -> bool, &may_send, &is_repeated] {
        match with(wanted).as_slice() {
            [] => {}
            [one] => return Found::Instance(*one),
            _ => return Found::None,
        }
    }
    Found::None
}

/// Forgets the client that has sent nothing for longest; returns its number.
fn end_oldest(instances: &mut Vec<Instance>) -> Option<u64> {
    let at = instances.iter().enumerate().min_by_key(|(_, instance)| instance.last_request)?.0;
    Some(instances.swap_remove(at).number)
}

impl Instance {
    fn begin(number: u64, id: u64, now: Instant) -> Self {
        Self { number, first: id, latest: id, used: 1, last_request: now }
    }

    /// True if the client has not used the id, and may use it now.
    fn may_send(&self, id: u64, now: Instant) -> bool {
        if id > self.latest {
            return true;
        }
        let behind = self.latest - id;
        let is_free = behind <= MAX_BEHIND && self.used >> behind & 1 == 0;
        is_free && id > self.first && now.saturating_duration_since(self.last_request) <= MAX_DELAY
    }

    /// Records a request; returns the client's number.
    fn record(&mut self, id: u64, now: Instant) -> u64 {
        if id > self.latest {
            let ahead = u32::try_from(id - self.latest).unwrap_or(u32::MAX);
            self.used = self.used.checked_shl(ahead).unwrap_or(0) | 1;
            self.latest = id;
        } else if self.latest - id <= MAX_BEHIND {
            self.used |= 1 << (self.latest - id);
        }
        self.last_request = now;
        self.number
    }
}

/// Splits an id into the text before its number and the number; `None` if it does not end in one.
fn parse(id: &str) -> Option<(&str, u64)> {
    let text = id.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(id);
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (prefix, number) = text.split_at_checked(text.len() - digits)?;
    let is_number = prefix.is_empty() || id.starts_with('"');
    number.parse().ok().filter(|number| is_number && *number < u64::MAX).map(|number| (prefix, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: PrincipalKey = PrincipalKey::Address(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

    /// Places requests of clients with one name; returns the number of each client, 0 for unknown ones.
    fn numbers(ids: &[&str]) -> Vec<u64> {
        let (instances, now) = (ClientInstances::default(), Instant::now());
        let place = |id: &&str| match instances.place(HERE, Some("{}"), id, now).instance {
            ClientInstance::Number(number) => number,
            ClientInstance::Unknown => 0,
            ClientInstance::Only => panic!("an address may be of several"),
        };
        ids.iter().map(place).collect()
    }

    #[test]
    fn one_client_stays_itself_whatever_it_leaves_out_or_sends_side_by_side() {
        assert_eq!(numbers(&["0", "1", "2", "7", "5", "6", "4", "90"]), [1; 8]);
        assert_eq!(numbers(&["41", "42"]), [1, 1], "vmcp was restarted meanwhile");
        assert_eq!(numbers(&["1", "9", "9", "10"]), [1; 4], "a request that was sent again");
        assert_eq!(numbers(&[r#""r-1""#, r#""r-2""#]), [1, 1]);
    }

    #[test]
    fn an_id_that_was_used_is_of_another_client() {
        assert_eq!(numbers(&["1", "2", "3", "1", "4", "2", "5", "3"]), [1, 1, 1, 2, 1, 2, 1, 2]);
        assert_eq!(numbers(&["1", "1", "1"]), [1, 2, 3], "scripts that always send the same id");
    }

    #[test]
    fn a_request_that_could_be_of_two_is_of_neither() {
        assert_eq!(numbers(&["1", "1", "2", "2"]), [1, 2, 3, 4]);
        assert_eq!(numbers(&["5", "2", "3", "9"]), [1, 2, 2, 3]);
        // Two windows that began alike, and are used one after the other from then on.
        assert_eq!(
            numbers(&["1", "2", "1", "2", "3", "4", "5", "3", "6", "4"]),
            [1, 1, 2, 2, 3, 3, 3, 4, 3, 4]
        );
    }

    #[test]
    fn ids_that_are_random_tell_nothing() {
        let ids = [r#""550e8400-e29b-41d4-a716-446655440000""#, r#""f47ac10b-58cc-4372-a567-0e02b2c3d479""#];
        assert_eq!(numbers(&ids), [0, 0]);
        assert_eq!(numbers(&[r#""abc""#, "1.5", "-1"]), [0, 0, 0]);
        assert_eq!(numbers(&[r#""9f3c2d1a-0""#, r#""9f3c2d1a-1""#, r#""9f3c2d1a-2""#]), [0, 1, 1]);
        let person = PrincipalKey::Identity([1; 32]);
        let placed = ClientInstances::default().place(person, None, ids[0], Instant::now());
        assert_eq!(placed.instance, ClientInstance::Only, "all of them are one person's");
    }

    #[test]
    fn names_and_principals_are_apart_and_few_clients_of_a_name_are_kept() {
        let (instances, now) = (ClientInstances::default(), Instant::now());
        let place = |principal, name: &str| instances.place(principal, Some(name), "1", now);
        let numbered = |number| Placed { instance: ClientInstance::Number(number), ended: None };
        assert_eq!(place(HERE, "a"), numbered(1));
        assert_eq!(place(HERE, "b"), numbered(2));
        assert_eq!(place(PrincipalKey::Identity([1; 32]), "a"), numbered(3));
        assert_eq!(place(PrincipalKey::Only, "a").instance, ClientInstance::Only);
        for number in 4..4 + MAX_INSTANCES as u64 - 1 {
            assert_eq!(place(HERE, "a"), numbered(number));
        }
        assert_eq!(place(HERE, "a").ended, Some(1));
    }
}

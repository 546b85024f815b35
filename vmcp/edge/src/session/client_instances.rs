//! [`ClientInstances`]: tells clients apart that have no session, one name and one address: two windows of
//! one application, or all users behind a proxy.
//!
//! A client numbers its requests and uses each id once: a request with a used id is of another client. A
//! request on a client's TCP connection is of this client, unless a proxy is between; on a new
//! connection it must have the client's next id. A request that two clients could have sent begins as a
//! client of its own: it shares nothing with either, and later requests go on there.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use foldhash::fast::RandomState as QuickState;
use lru::LruCache;
use parking_lot::Mutex;
use vmcp_backend::ClientInstance;

use crate::session::connection_id::ConnectionId;
use vmcp_engine::access::identity::PrincipalKey;

/// Principals whose clients are remembered; one more forgets the least recently used.
const MAX_PRINCIPALS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);
/// Names of one principal's clients that are remembered.
const MAX_NAMES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);
/// Clients of one principal that are remembered; one more forgets the names that were not used for longest,
/// and ends the least recently used client of the only name.
const MAX_INSTANCES: usize = 512;
/// Clients of one name with a single request that are remembered; one more ends the oldest of them. A program
/// whose ids are random numbers is a new client at each request, and each may hold a session of a backend.
const MAX_NEWCOMERS: usize = 8;
/// Idle time after which a client is forgotten. Backends have ended its sessions by then, and the ids of
/// programs that run briefly would be the next ones of many.
const MAX_IDLE: Duration = Duration::from_mins(30);
/// Connections of one client that are remembered; one more forgets the oldest.
const MAX_CONNECTIONS: usize = 8;
/// Ids by which a request may be behind the latest that it was sent before: parallel requests overtake each
/// other on the way.
const MAX_BEHIND: u64 = 63;
/// Ids by which a request may be ahead of the latest, for the same reason.
const MAX_AHEAD: u64 = 32;
/// Time within which it must come then.
const MAX_DELAY: Duration = Duration::from_secs(2);
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
    principals: LruCache<PrincipalKey, LruCache<u64, Namesakes>>,
    /// Number of the last client.
    last: u64,
}

/// Clients of one name and principal.
#[derive(Debug, Default)]
struct Namesakes {
    /// By number, ascending.
    instances: Vec<Instance>,
    /// Number of the client that holds each connection. vmcp numbers connections itself: a quick hash will
    /// do.
    by_connection: HashMap<ConnectionId, u64, QuickState>,
    /// No client is idle before this moment; `None` if it is unknown.
    none_idle_before: Option<Instant>,
    /// Two clients have used one connection: a proxy or a pool is between, and connections tell nothing.
    share_connections: bool,
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
    connections: Vec<ConnectionId>,
}

/// Origin of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    pub(crate) principal: PrincipalKey,
    /// The client's `clientInfo`, as JSON.
    pub(crate) info: Option<&'a str>,
    /// The request's id, as JSON.
    pub(crate) id: &'a str,
    /// The client's connection; `None` for a request that a proxy or another replica forwarded.
    pub(crate) connection: Option<ConnectionId>,
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
        let table = Table { principals: LruCache::sparse(MAX_PRINCIPALS), last: 0 };
        Self { table: Mutex::new(table), hasher: RandomState::new() }
    }
}

impl ClientInstances {
    /// Finds the client of a request.
    pub(crate) fn place(&self, origin: Origin<'_>, now: Instant) -> Placed {
        let unplaced = |instance| Placed { instance, ended: None };
        // A person's clients count as one where nothing tells them apart; strangers at one address do not.
        let unknown = match origin.principal {
            PrincipalKey::Only => return unplaced(ClientInstance::Only),
            PrincipalKey::Identity(_) => ClientInstance::Only,
            // Ids of all users behind a proxy are too many to tell them apart.
            PrincipalKey::Address(_) if origin.connection.is_none() => {
                return unplaced(ClientInstance::Unknown);
            }
            PrincipalKey::Address(_) => ClientInstance::Unknown,
        };
        let Some((prefix, number)) = parse(origin.id) else { return unplaced(unknown) };
        let name = self.hasher.hash_one((origin.info, prefix));
        let mut table = self.table.lock();
        let Table { principals, last } = &mut *table;
        let names = principals.get_or_insert_mut(origin.principal, || LruCache::sparse(MAX_NAMES));
        let is_new = !names.contains(&name);
        let namesakes = names.get_or_insert_mut(name, Namesakes::default);
        namesakes.forget_idle(now);
        if let Some(at) = namesakes.find(number, origin.connection, now)
            && let Some(found) = namesakes.record(at, number, origin.connection, now)
        {
            return unplaced(ClientInstance::Number(found));
        }
        *last += 1;
        let ended = namesakes.make_room();
        namesakes.begin(*last, number, origin.connection, now);
        while names.len() > 1
            && names.iter().map(|(_, of_name)| of_name.instances.len()).sum::<usize>() > MAX_INSTANCES
        {
            names.pop_lru();
        }
        // A prefix that comes once belongs to ids that are random.
        let is_random = is_new && prefix.len() >= MIN_UNIQUE_PREFIX;
        let instance = if is_random { unknown } else { ClientInstance::Number(*last) };
        Placed { instance, ended }
    }
}

impl Namesakes {
    /// Forgets clients that are idle. Looks at them only once one of them may be.
    fn forget_idle(&mut self, now: Instant) {
        if self.none_idle_before.is_some_and(|moment| now < moment) {
            return;
        }
        let is_idle = |instance: &Instance| now.saturating_duration_since(instance.last_request) > MAX_IDLE;
        self.instances.retain(|instance| !is_idle(instance));
        let instances = &self.instances;
        self.by_connection.retain(|_, number| position(instances, *number).is_some());
        let oldest = self.instances.iter().map(|instance| instance.last_request).min();
        self.none_idle_before = oldest.and_then(|oldest| oldest.checked_add(MAX_IDLE));
    }

    /// Finds the client of a request with this id: by its connection, else the only client with this next id,
    /// else the only client that may have sent it beside others. Returns its place.
    fn find(&mut self, id: u64, on: Option<ConnectionId>, now: Instant) -> Option<usize> {
        let number = on.and_then(|on| self.by_connection.get(&on));
        let of_connection = number.and_then(|number| position(&self.instances, *number));
        if let Some(at) = of_connection.filter(|_| !self.share_connections) {
            self.share_connections = self.instances.get(at)?.has_used(id);
            if !self.share_connections {
                return Some(at);
            }
        }
        let is_next = |instance: &Instance| instance.latest + 1 == id;
        let is_beside = |instance: &Instance| instance.may_send_beside(id, now);
        for wanted in [&is_next as &dyn Fn(&Instance) -> bool, &is_beside] {
            let mut found = self.instances.iter().enumerate().filter(|(_, instance)| wanted(instance));
            if let Some((at, _)) = found.next() {
                return found.next().is_none().then_some(at);
            }
        }
        None
    }

    /// Records a request of the client at a place; returns the client's number.
    fn record(&mut self, at: usize, id: u64, on: Option<ConnectionId>, now: Instant) -> Option<u64> {
        let instance = self.instances.get_mut(at)?;
        let number = instance.number;
        let left = instance.record(id, on, now);
        self.hold(on, number);
        self.release(left, number);
        Some(number)
    }

    /// Adds a client by its first request.
    fn begin(&mut self, number: u64, id: u64, on: Option<ConnectionId>, now: Instant) {
        self.instances.push(Instance::begin(number, id, on, now));
        self.hold(on, number);
    }

    /// Notes that a client holds a connection. The first one stays: where there are two, no look-up counts.
    fn hold(&mut self, on: Option<ConnectionId>, number: u64) {
        if let Some(on) = on {
            self.by_connection.entry(on).or_insert(number);
        }
    }

    /// Forgets that a client holds these connections.
    fn release(&mut self, left: impl IntoIterator<Item = ConnectionId>, number: u64) {
        for on in left {
            if self.by_connection.get(&on) == Some(&number) {
                self.by_connection.remove(&on);
            }
        }
    }

    /// Forgets a client if one more would be too many; returns its number.
    fn make_room(&mut self) -> Option<u64> {
        let is_newcomer = |instance: &Instance| instance.latest == instance.first;
        let newcomers = self.instances.iter().filter(|instance| is_newcomer(instance)).count();
        let only_newcomers = newcomers >= MAX_NEWCOMERS;
        if self.instances.len() < MAX_INSTANCES && !only_newcomers {
            return None;
        }
        let may_end = |instance: &Instance| !only_newcomers || is_newcomer(instance);
        let instances = self.instances.iter().enumerate();
        let (at, _) = instances
            .filter(|(_, instance)| may_end(instance))
            .min_by_key(|(_, instance)| instance.last_request)?;
        let Instance { number, connections, .. } = self.instances.remove(at);
        self.release(connections, number);
        Some(number)
    }
}

/// Returns the place of the client with this number.
fn position(instances: &[Instance], number: u64) -> Option<usize> {
    instances.binary_search_by_key(&number, |instance| instance.number).ok()
}

impl Instance {
    fn begin(number: u64, id: u64, on: Option<ConnectionId>, now: Instant) -> Self {
        let connections = on.into_iter().collect();
        Self { number, first: id, latest: id, used: 1, last_request: now, connections }
    }

    /// True if the client has used the id, or left it out long ago.
    fn has_used(&self, id: u64) -> bool {
        let Some(behind) = self.latest.checked_sub(id) else { return false };
        behind > MAX_BEHIND || self.used >> behind & 1 == 1
    }

    /// True if the client may send the id now, beside other requests.
    fn may_send_beside(&self, id: u64, now: Instant) -> bool {
        let is_near = id > self.first && id <= self.latest.saturating_add(MAX_AHEAD);
        is_near && !self.has_used(id) && now.saturating_duration_since(self.last_request) <= MAX_DELAY
    }

    /// Records a request; returns the connection that is forgotten for its own.
    fn record(&mut self, id: u64, on: Option<ConnectionId>, now: Instant) -> Option<ConnectionId> {
        if id > self.latest {
            let ahead = u32::try_from(id - self.latest).unwrap_or(u32::MAX);
            self.used = self.used.checked_shl(ahead).unwrap_or(0) | 1;
            self.latest = id;
        } else if self.latest - id <= MAX_BEHIND {
            self.used |= 1 << (self.latest - id);
        }
        self.last_request = now;
        let on = on.filter(|on| !self.connections.contains(on))?;
        let left = (self.connections.len() >= MAX_CONNECTIONS).then(|| self.connections.remove(0));
        self.connections.push(on);
        left
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

    fn place(instances: &ClientInstances, principal: PrincipalKey, id: &str, on: Option<u64>) -> Placed {
        let connection = on.map(ConnectionId);
        instances.place(Origin { principal, info: Some("{}"), id, connection }, Instant::now())
    }

    /// Places requests of clients with one name, each with its connection; returns the number of each client,
    /// 0 for unknown ones.
    fn numbers_on(requests: &[(u64, &str)]) -> Vec<u64> {
        let instances = ClientInstances::default();
        let number = |(on, id): &(u64, &str)| match place(&instances, HERE, id, Some(*on)).instance {
            ClientInstance::Number(number) => number,
            ClientInstance::Unknown => 0,
            ClientInstance::Only => panic!("an address may be of several"),
        };
        requests.iter().map(number).collect()
    }

    /// Places requests, each on a connection of its own.
    fn numbers(ids: &[&str]) -> Vec<u64> {
        numbers_on(&(100..).zip(ids.iter().copied()).collect::<Vec<_>>())
    }

    #[test]
    fn one_client_stays_itself_whatever_it_leaves_out_or_sends_side_by_side() {
        assert_eq!(numbers(&["0", "1", "2", "7", "5", "6", "4", "8"]), [1; 8]);
        assert_eq!(numbers(&["41", "42"]), [1, 1], "vmcp was restarted meanwhile");
        assert_eq!(numbers(&[r#""r-1""#, r#""r-2""#]), [1, 1]);
        assert_eq!(numbers_on(&[(1, "1"), (1, "900"), (1, "1766000000000"), (2, "1766000000001")]), [1; 4]);
    }

    #[test]
    fn an_id_that_was_used_or_is_far_ahead_is_of_another_client() {
        assert_eq!(numbers(&["1", "2", "3", "1", "4", "2", "5", "3"]), [1, 1, 1, 2, 1, 2, 1, 2]);
        assert_eq!(numbers(&["1", "1", "1"]), [1, 2, 3], "scripts that always send the same id");
        assert_eq!(numbers(&["1766000000000", "1766000000700"]), [1, 2], "times of day");
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
    fn hundreds_of_windows_in_lockstep_stay_themselves_and_leave_nothing_behind() {
        let instances = ClientInstances::default();
        let client = |id: u64, on: u64| place(&instances, HERE, &id.to_string(), Some(on)).instance;
        for window in 1..=300 {
            assert_eq!([1, 2].map(|id| client(id, window)), [ClientInstance::Number(window); 2]);
        }
        for id in 3..=9 {
            assert!((1..=300).all(|window| client(id, window) == ClientInstance::Number(window)), "{id}");
        }
        // One of them goes on over further connections, each with the next id.
        assert_eq!(client(1_000, 1), ClientInstance::Number(1));
        for id in 1_001..1_001 + 2 * MAX_CONNECTIONS as u64 {
            assert_eq!(client(id, id), ClientInstance::Number(1), "{id}");
        }
        let mut table = instances.table.lock();
        let (_, names) = table.principals.iter_mut().next().unwrap();
        let (_, namesakes) = names.iter_mut().next().unwrap();
        let held: usize = namesakes.instances.iter().map(|instance| instance.connections.len()).sum();
        assert_eq!((namesakes.by_connection.len(), held), (299 + MAX_CONNECTIONS, 299 + MAX_CONNECTIONS));
        assert!(namesakes.instances.is_sorted_by_key(|instance| instance.number));
        namesakes.forget_idle(Instant::now() + 2 * MAX_IDLE);
        assert!(namesakes.instances.is_empty() && namesakes.by_connection.is_empty());
    }

    #[test]
    fn clients_in_lockstep_are_told_apart_by_their_connections() {
        let lockstep =
            [(1, "0"), (2, "0"), (1, "1"), (2, "1"), (2, "2"), (1, "2"), (3, "3"), (2, "3"), (3, "4")];
        assert_eq!(
            numbers_on(&lockstep),
            [1, 2, 1, 2, 2, 1, 3, 2, 3],
            "the first reconnects, and is unknown"
        );
        assert_eq!(numbers_on(&[(1, "1"), (2, "1"), (1, "9"), (2, "10")]), [1, 2, 1, 2]);
    }

    #[test]
    fn connections_that_clients_share_tell_nothing() {
        // A proxy: the second client's first request shows it, and lockstep is unknown from then on.
        assert_eq!(numbers_on(&[(1, "0"), (1, "0"), (1, "1"), (1, "1"), (1, "2")]), [1, 2, 3, 4, 5]);
        let instances = ClientInstances::default();
        let forwarded = place(&instances, HERE, "1", None).instance;
        assert_eq!(forwarded, ClientInstance::Unknown, "any user of a proxy");
        let person = PrincipalKey::Identity([1; 32]);
        assert_eq!(place(&instances, person, "1", None).instance, ClientInstance::Number(1));
    }

    #[test]
    fn ids_that_are_random_tell_nothing() {
        let ids = [r#""550e8400-e29b-41d4-a716-446655440000""#, r#""f47ac10b-58cc-4372-a567-0e02b2c3d479""#];
        assert_eq!(numbers(&ids), [0, 0]);
        assert_eq!(numbers(&[r#""abc""#, "1.5", "-1"]), [0, 0, 0]);
        assert_eq!(numbers(&[r#""9f3c2d1a-0""#, r#""9f3c2d1a-1""#, r#""9f3c2d1a-2""#]), [0, 1, 1]);
        let person = PrincipalKey::Identity([1; 32]);
        let placed = place(&ClientInstances::default(), person, ids[0], Some(1));
        assert_eq!(placed.instance, ClientInstance::Only, "all of them are one person's");
    }

    #[test]
    fn names_and_principals_are_apart_and_few_clients_of_a_name_are_kept() {
        let (instances, now) = (ClientInstances::default(), Instant::now());
        let place = |principal, name: &str, on| {
            let connection = Some(ConnectionId(on));
            instances.place(Origin { principal, info: Some(name), id: "1", connection }, now)
        };
        let numbered = |number| Placed { instance: ClientInstance::Number(number), ended: None };
        assert_eq!(place(HERE, "a", 1), numbered(1));
        assert_eq!(place(HERE, "b", 2), numbered(2));
        assert_eq!(place(PrincipalKey::Identity([1; 32]), "a", 3), numbered(3));
        assert_eq!(place(PrincipalKey::Only, "a", 4).instance, ClientInstance::Only);
        for number in 4..4 + MAX_NEWCOMERS as u64 - 1 {
            assert_eq!(place(HERE, "a", number + 1), numbered(number));
        }
        assert_eq!(place(HERE, "a", 99).ended, Some(1), "the oldest of those with one request");
    }

    #[test]
    fn a_hundred_clients_of_one_name_stay_themselves() {
        let instances = ClientInstances::default();
        let request = |client: u64, nth: u64| {
            let id = (client * 1_000_000 + nth).to_string();
            place(&instances, HERE, &id, Some(client))
        };
        let numbers: Vec<_> =
            (0..100).map(|client| (request(client, 0), request(client, 1).instance).1).collect();
        for nth in 2..5 {
            for (client, number) in (0..100).zip(&numbers) {
                assert_eq!(request(client, nth), Placed { instance: *number, ended: None });
            }
        }
    }

    #[test]
    fn a_program_that_ran_long_ago_does_not_split_the_next_run() {
        let instances = ClientInstances::default();
        let (begun, principal) = (Instant::now(), PrincipalKey::Identity([1; 32]));
        let request = |id: &str, now| {
            instances.place(Origin { principal, info: Some("{}"), id, connection: None }, now).instance
        };
        let first = ["0", "1", "2"].map(|id| request(id, begun));
        assert_eq!(first, [ClientInstance::Number(1); 3]);
        // Two programs could send the id 3 now, unless the first one is forgotten.
        let later = begun + MAX_IDLE + Duration::from_secs(1);
        assert_eq!(["0", "1", "2", "3"].map(|id| request(id, later)), [ClientInstance::Number(2); 4]);
    }

    #[test]
    fn clients_of_one_principal_are_bounded_over_all_names() {
        let (instances, now) = (ClientInstances::default(), Instant::now());
        for (name, client) in (0..4).flat_map(|name| (0..200).map(move |client| (name, client))) {
            for nth in 0..2 {
                let (info, id) = (format!("{name}"), (client * 1_000_000 + nth).to_string());
                let connection = Some(ConnectionId(name * 1_000 + client));
                instances.place(Origin { principal: HERE, info: Some(&info), id: &id, connection }, now);
            }
        }
        let mut table = instances.table.lock();
        let names = table.principals.get(&HERE).unwrap();
        let remembered: usize = names.iter().map(|(_, of_name)| of_name.instances.len()).sum();
        assert_eq!(remembered, 400, "the two names that were used last");
    }
}

//! [`PendingLogins`]: people between their first sign-in and the token of the client, for minutes. They are
//! kept in this process and nowhere else: tokens of providers never travel in URLs, and a code is of use
//! once.
//!
//! States and codes name the process, so that another replica hands the request on to it.

use std::num::NonZeroUsize;
use std::time::Instant;

use lru::LruCache;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::auth_server::client::authorization_request::AuthorizationRequest;
use crate::auth_server::random::random;
use crate::auth_server::sign_in::person::Person;
use crate::auth_server::upstream_provider::ProviderTokens;

/// Most logins that wait; a further one takes the place of the oldest, whose person signs in again. Only who
/// has signed in at a provider takes one.
const MAX_LOGINS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// Most of them of one person; a further one takes the place of the person's oldest.
const MAX_LOGINS_OF_PERSON: usize = 16;

/// Identifier of a login: random, and sealed wherever it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(in crate::auth_server) struct LoginId([u8; 16]);

/// A person who has signed in at one provider or more.
#[derive(Debug)]
pub(in crate::auth_server) struct Login {
    pub(in crate::auth_server) request: AuthorizationRequest,
    pub(in crate::auth_server) person: Person,
    pub(in crate::auth_server) tokens: Vec<ProviderTokens>,
    /// Time of the first sign-in, in seconds since 1970.
    pub(in crate::auth_server) signed_in_at: u64,
    /// The moment after which nothing comes of it.
    pub(in crate::auth_server) until: Instant,
}

/// The logins of this process.
pub(in crate::auth_server) struct PendingLogins(Mutex<LruCache<LoginId, Login>>);

impl Default for PendingLogins {
    fn default() -> Self {
        Self(Mutex::new(LruCache::sparse(MAX_LOGINS)))
    }
}

impl LoginId {
    /// Returns the bytes, which name the family of the tokens too.
    pub(in crate::auth_server) fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl PendingLogins {
    /// Keeps a login; returns its identifier.
    pub(in crate::auth_server) fn keep(&self, login: Login) -> LoginId {
        let id = LoginId(random());
        let (mut logins, now) = (self.0.lock(), Instant::now());
        while logins.peek_lru().is_some_and(|(_, oldest)| oldest.until <= now) {
            logins.pop_lru();
        }
        let subject = &login.person.subject;
        let of_person = logins.iter().filter(|(_, other)| other.person.subject == *subject);
        // From the newest on.
        let oldest = of_person.map(|(id, _)| *id).nth(MAX_LOGINS_OF_PERSON - 1);
        if let Some(oldest) = oldest {
            logins.pop(&oldest);
        }
        logins.put(id, login);
        id
    }

    /// Returns a login once.
    pub(in crate::auth_server) fn take(&self, id: LoginId) -> Option<Login> {
        self.0.lock().pop(&id).filter(|login| login.until > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Map;

    use super::*;

    fn login(subject: &str) -> Login {
        let request = AuthorizationRequest {
            client: String::new(),
            client_name: String::new(),
            redirect_uri: String::new(),
            state: None,
            challenge: String::new(),
            scope: String::new(),
        };
        let person = Person { subject: subject.to_owned(), claims: Map::new() };
        let until = Instant::now() + Duration::from_mins(1);
        Login { request, person, tokens: Vec::new(), signed_in_at: 0, until }
    }

    #[test]
    fn one_person_takes_the_places_of_no_other() {
        let logins = PendingLogins::default();
        let alice = logins.keep(login("alice"));
        let own: Vec<_> = (0..=MAX_LOGINS.get()).map(|_| logins.keep(login("mallory"))).collect();
        assert_eq!(logins.0.lock().len(), 1 + MAX_LOGINS_OF_PERSON);
        assert!(logins.take(alice).is_some());
        let (newest, older) = (own[own.len() - 1], own[own.len() - 1 - MAX_LOGINS_OF_PERSON]);
        assert!(logins.take(newest).is_some() && logins.take(older).is_none());
    }
}

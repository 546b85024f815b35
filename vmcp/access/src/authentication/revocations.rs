//! [`Revocations`]: credentials that are refused before they expire, by subject or by token id.
//!
//! An order of an operator holds from its moment on: earlier tokens and sessions end, and a new sign-in is
//! let in. The order is kept for [`MAX_LIFE`], so that a token with a long life is not accepted again. A key
//! or a certificate has no moment of issue, so it stays refused for the time that the operator chose, or
//! until the order is lifted. Replicas merge their lists: of two orders about the same, the later wins.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::identity::Identity;

/// Most orders that are kept; a further one is refused.
const MAX_ORDERS: usize = 10_000;
/// Time that an order is kept, 90 days: tokens that live longer are accepted again afterwards.
const MAX_LIFE: Duration = Duration::from_hours(90 * 24);

/// Issuer in orders about sessions of the web console, which no identity has.
const CONSOLE: &str = "vmcp console";
/// Most orders about sessions of the web console; the oldest of them makes room. People who sign out give
/// them: they leave the list to the orders of operators.
const MAX_CONSOLE_ORDERS: usize = 100;

/// Time by which the clock of an issuer may be ahead.
const MAX_AHEAD: Duration = Duration::from_mins(5);

/// Credentials that an order is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RevokedCredentials {
    /// The issuer, or `apiKeys`; `None`: each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The claim `jti` of one token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_id: Option<String>,
}

/// An order of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// The credentials.
    #[serde(flatten)]
    pub of: RevokedCredentials,
    /// The moment of the order, in milliseconds since 1970: credentials from before it are refused.
    pub at: u64,
    /// The end of the order, in milliseconds since 1970.
    pub until: u64,
    /// The end for credentials that have no moment of issue; `None`: as `until`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_until: Option<u64>,
    /// True if the order lifts an earlier one.
    #[serde(default)]
    pub is_lifted: bool,
}

/// An order that cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RevocationError {
    /// Neither a subject nor a token is named.
    #[error("name a subject or a token: subject=NAME, jti=ID")]
    Nobody,
    /// The list is full.
    #[error("{MAX_ORDERS} orders are in force; lift some, or remove keys and users at their source")]
    Full,
}

/// The orders in force.
#[derive(Debug, Default)]
pub struct Revocations {
    orders: ArcSwap<Vec<Revocation>>,
    version: AtomicU64,
    /// Held while the list changes.
    change: Mutex<()>,
}

impl Revocations {
    /// Gives an order, which refuses keys and certificates for `life`.
    pub fn order(
        &self,
        of: RevokedCredentials,
        life: Duration,
        is_lifted: bool,
    ) -> Result<Revocation, RevocationError> {
        if of.subject.is_none() && of.token_id.is_none() {
            return Err(RevocationError::Nobody);
        }
        // Later than an order about the same credentials, also within a millisecond.
        let orders = self.orders.load();
        let earlier = orders.iter().filter(|order| order.of == of).map(|order| order.at + 1).max();
        let at = now().max(earlier.unwrap_or_default());
        let millis = |time: Duration| at.saturating_add(time.as_millis() as u64);
        let (until, keys_until) = (millis(MAX_LIFE), Some(millis(life)).filter(|_| life < MAX_LIFE));
        let order = Revocation { of, at, until, keys_until, is_lifted };
        let before = orders.len();
        self.merge(std::slice::from_ref(&order));
        let is_taken = self.orders.load().contains(&order);
        if is_taken || before < MAX_ORDERS { Ok(order) } else { Err(RevocationError::Full) }
    }

    /// Ends a session of the web console, by a name that only its cookie gives; `end` is the time at which
    /// the session ends by itself, in seconds since 1970.
    pub fn end_console_session(&self, name: &str, end: u64) {
        let of = of_console(name);
        let until = end.saturating_mul(1000);
        self.merge(&[Revocation { of, at: now(), until, keys_until: None, is_lifted: false }]);
    }

    /// Returns true if a session of the web console was ended.
    pub fn has_ended_console_session(&self, name: &str) -> bool {
        let orders = self.orders.load();
        let now = now();
        let is_of = |order: &Revocation| {
            is_of_console(order) && order.of.token_id.as_deref() == Some(name) && !order.is_lifted
        };
        orders.iter().any(|order| order.until > now && is_of(order))
    }

    /// Takes over orders of another process, or of a file; returns true if something changed.
    pub fn merge(&self, orders: &[Revocation]) -> bool {
        let _change = self.change.lock();
        let (mut all, now) = ((**self.orders.load()).clone(), now());
        let before = all.clone();
        all.retain(|order| order.until > now);
        for order in orders.iter().filter(|order| order.until > now) {
            let has_room = all.len() < MAX_ORDERS;
            let makes_room = is_of_console(order)
                && all.iter().filter(|known| is_of_console(known)).count() >= MAX_CONSOLE_ORDERS;
            match all.iter_mut().find(|known| known.of == order.of) {
                Some(known) if known.at < order.at => *known = order.clone(),
                None if makes_room => {
                    let of_console = all.iter_mut().filter(|known| is_of_console(known));
                    let oldest = of_console.min_by_key(|known| known.at);
                    if let Some(oldest) = oldest.filter(|oldest| oldest.at < order.at) {
                        *oldest = order.clone();
                    }
                }
                None if has_room => all.push(order.clone()),
                // A lifted order refuses nothing: it only keeps an older copy of its order from coming back.
                None if !order.is_lifted => {
                    let lifted = all.iter_mut().filter(|known| known.is_lifted);
                    if let Some(lifted) = lifted.min_by_key(|known| known.at) {
                        *lifted = order.clone();
                    }
                }
                Some(_) | None => {}
            }
        }
        if all == before {
            return false;
        }
        self.orders.store(Arc::new(all));
        self.version.fetch_add(1, Ordering::Release);
        true
    }

    /// Returns the orders in force, lifted ones too.
    pub fn all(&self) -> Arc<Vec<Revocation>> {
        self.orders.load_full()
    }

    /// Returns the number of the present list; it grows with each change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns true if the credential that proved an identity is refused.
    pub fn refuses(&self, identity: &Identity) -> bool {
        let issued = |identity: &Identity| {
            let issued = identity.as_known()?.claims().get("iat")?;
            // Whole seconds: a token of the second of the order may be from before it.
            let issued = (issued.as_f64().unwrap_or_default().max(0.0) as u64).saturating_mul(1000);
            // Every order would be earlier than a time to come, at which no token was issued. Such a time,
            // or an unreadable one, counts as the earliest.
            let is_past = issued <= now().saturating_add(MAX_AHEAD.as_millis() as u64);
            Some(if is_past { issued } else { 0 })
        };
        self.concerns(identity, |order| match issued(identity) {
            Some(issued) => issued <= order.at,
            None => order.keys_until.is_none_or(|end| end > now()),
        })
    }

    /// Returns true if a session of an identity is refused that began at this time, in milliseconds.
    pub fn refuses_session(&self, identity: &Identity, began: u64) -> bool {
        self.concerns(identity, |order| order.of.subject.is_some() && began <= order.at)
    }

    fn concerns(&self, identity: &Identity, holds: impl Fn(&Revocation) -> bool) -> bool {
        let orders = self.orders.load();
        if orders.is_empty() {
            return false;
        }
        let Some(known) = identity.as_known() else { return false };
        let now = now();
        // A `jti` is a text (RFC 7519, 4.1.7); some issuers write a number.
        let token_id =
            known.claims().get("jti").map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
        let is_of = |of: &RevokedCredentials| {
            of.issuer.as_deref().is_none_or(|issuer| issuer == known.issuer())
                && of.subject.as_deref().is_none_or(|subject| subject == known.subject())
                && of.token_id.as_ref().is_none_or(|id| token_id.as_ref() == Some(id))
        };
        orders.iter().any(|order| {
            let by_token = order.of.token_id.is_some();
            order.until > now && !order.is_lifted && is_of(&order.of) && (by_token || holds(order))
        })
    }
}

/// Returns the credentials of a session of the web console.
fn of_console(name: &str) -> RevokedCredentials {
    RevokedCredentials { issuer: Some(CONSOLE.to_owned()), subject: None, token_id: Some(name.to_owned()) }
}

fn is_of_console(order: &Revocation) -> bool {
    order.of.issuer.as_deref() == Some(CONSOLE)
}

/// Returns milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn identity(issuer: &str, subject: &str, claims: &Value) -> Identity {
        Identity::known(issuer, subject, claims.as_object().unwrap().clone(), None)
    }

    fn subject(name: &str) -> RevokedCredentials {
        RevokedCredentials { subject: Some(name.into()), ..RevokedCredentials::default() }
    }

    #[test]
    fn tokens_from_before_the_order_end_and_a_new_sign_in_is_let_in() {
        let revocations = Revocations::default();
        let (old, new) = (json!({"iat": now() / 1000 - 60}), json!({"iat": now() / 1000 + 60}));
        let alice = identity("https://idp", "alice", &old);
        assert!(!revocations.refuses(&alice));
        revocations.order(subject("alice"), DAY, false).unwrap();
        assert!(revocations.refuses(&alice));
        assert!(!revocations.refuses(&identity("https://idp", "alice", &new)));
        let to_come = json!({"iat": now() / 1000 + 24 * 60 * 60});
        assert!(
            revocations.refuses(&identity("https://idp", "alice", &to_come)),
            "no sign-in is of tomorrow"
        );
        assert!(!revocations.refuses(&identity("https://idp", "bob", &old)));
        assert!(!revocations.refuses(&Identity::Anonymous));
        // A key has no moment of issue.
        assert!(revocations.refuses(&identity("apiKeys", "alice", &json!({}))));
        assert!(revocations.refuses_session(&alice, now() - 1000));
        assert!(!revocations.refuses_session(&alice, now() + 1000));
        revocations.order(subject("alice"), DAY, true).unwrap();
        assert!(!revocations.refuses(&alice), "lifted");
    }

    #[test]
    fn a_withdrawn_token_stays_refused_and_keys_are_let_in_after_the_asked_time() {
        let revocations = Revocations::default();
        let token = identity("https://vmcp", "alice", &json!({"iat": now() / 1000 - 60, "jti": "t1"}));
        let key = identity("apiKeys", "alice", &json!({}));
        let order = revocations.order(subject("alice"), Duration::ZERO, false).unwrap();
        assert_eq!(order.until - order.at, MAX_LIFE.as_millis() as u64, "longer than tokens live");
        assert!(revocations.refuses(&token) && !revocations.refuses(&key));
        for iat in [json!(now() / 1000 + 86_400), json!("now"), json!(null), json!(-1), json!(1e300)] {
            let token = identity("https://vmcp", "alice", &json!({ "iat": iat }));
            assert!(revocations.refuses(&token), "issued at {iat}");
        }
        let longer = revocations.order(subject("alice"), 8 * DAY, false).unwrap();
        assert_eq!(longer.keys_until, Some(longer.at + 8 * DAY.as_millis() as u64));
        assert!(revocations.refuses(&token) && revocations.refuses(&key));
        assert_eq!(revocations.order(subject("alice"), MAX_LIFE, false).unwrap().keys_until, None);
        revocations.order(subject("alice"), DAY, true).unwrap();
        assert!(!revocations.refuses(&token), "lifted");
        let of_token = RevokedCredentials { token_id: Some("t1".into()), ..RevokedCredentials::default() };
        revocations.order(of_token, Duration::ZERO, false).unwrap();
        assert!(revocations.refuses(&token), "a token by its id, too");
    }

    #[test]
    fn sessions_of_the_console_end_and_leave_the_list_to_operators() {
        let revocations = Revocations::default();
        let end = now() / 1000 + 60;
        revocations.end_console_session("first", end);
        assert!(revocations.has_ended_console_session("first"));
        assert!(!revocations.has_ended_console_session("second"));
        let other = Revocations::default();
        assert!(other.merge(&revocations.all()), "another replica");
        assert!(other.has_ended_console_session("first"));
        revocations.end_console_session("over", now() / 1000 - 1);
        assert_eq!(revocations.all().len(), 1, "a session that is over needs no order");
        let order = |name: String, at: u64| {
            let of =
                RevokedCredentials { issuer: Some(CONSOLE.to_owned()), subject: None, token_id: Some(name) };
            Revocation { of, at, until: end * 1000, keys_until: None, is_lifted: false }
        };
        let newer: Vec<_> =
            (1..=MAX_CONSOLE_ORDERS as u64).map(|at| order(format!("{at}"), now() + at)).collect();
        revocations.merge(&newer);
        assert_eq!(revocations.all().len(), MAX_CONSOLE_ORDERS);
        assert!(
            !revocations.has_ended_console_session("first") && revocations.has_ended_console_session("1")
        );
        assert!(!revocations.merge(&[order("older".to_owned(), 1)]), "the newest stay");
        revocations.order(subject("alice"), DAY, false).unwrap();
        assert_eq!(revocations.all().len(), MAX_CONSOLE_ORDERS + 1);
    }

    #[test]
    fn an_order_is_about_one_issuer_or_one_token_where_it_says_so() {
        let revocations = Revocations::default();
        let of_partner = RevokedCredentials { issuer: Some("https://partner".into()), ..subject("alice") };
        revocations.order(of_partner, DAY, false).unwrap();
        assert!(!revocations.refuses(&identity("https://idp", "alice", &json!({}))));
        assert!(revocations.refuses(&identity("https://partner", "alice", &json!({}))));
        let token = RevokedCredentials { token_id: Some("t1".into()), ..RevokedCredentials::default() };
        revocations.order(token, DAY, false).unwrap();
        let of_token =
            |id: &str| identity("https://idp", "carol", &json!({"jti": id, "iat": now() / 1000 + 60}));
        assert!(revocations.refuses(&of_token("t1")) && !revocations.refuses(&of_token("t2")));
        let number = RevokedCredentials { token_id: Some("7".into()), ..RevokedCredentials::default() };
        revocations.order(number, DAY, false).unwrap();
        let of_number = |id: u64| identity("https://idp", "carol", &json!({"jti": id}));
        assert!(revocations.refuses(&of_number(7)) && !revocations.refuses(&of_number(8)));
        let nobody = revocations.order(RevokedCredentials::default(), DAY, false);
        assert_eq!(nobody, Err(RevocationError::Nobody));
    }

    #[test]
    fn a_full_list_takes_a_new_order_in_the_place_of_a_lifted_one() {
        let until = now() + 60_000;
        let orders = (1..=MAX_ORDERS as u64).map(|at| {
            let of = subject(&format!("user {at}"));
            Revocation { of, at, until, keys_until: None, is_lifted: at == 2 || at == 5 }
        });
        let revocations = Revocations::default();
        revocations.orders.store(Arc::new(orders.collect()));
        for name in ["alice", "bob"] {
            revocations.order(subject(name), DAY, false).unwrap();
            assert!(revocations.refuses(&identity("https://idp", name, &json!({}))), "{name}");
        }
        assert_eq!(revocations.order(subject("carol"), DAY, false), Err(RevocationError::Full));
        assert!(revocations.refuses(&identity("https://idp", "user 1", &json!({}))), "orders in force stay");
        revocations.order(subject("user 1"), DAY, true).unwrap();
        revocations.order(subject("carol"), DAY, false).unwrap();
        assert_eq!(revocations.all().len(), MAX_ORDERS);
    }

    #[test]
    fn the_later_order_wins_whichever_way_lists_are_merged_and_ended_orders_go() {
        let until = now() + 60_000;
        let order =
            |at, is_lifted| Revocation { of: subject("alice"), at, until, keys_until: None, is_lifted };
        let (first, second) = (order(1, false), order(2, true));
        for orders in [[first.clone(), second.clone()], [second.clone(), first.clone()]] {
            let revocations = Revocations::default();
            assert!(revocations.merge(&orders[..1]));
            revocations.merge(&orders[1..]);
            assert_eq!(**revocations.all(), *std::slice::from_ref(&second));
            let version = revocations.version();
            assert!(!revocations.merge(&orders) && revocations.version() == version);
        }
        let ended = Revocation { until: 1, ..first };
        assert!(!Revocations::default().merge(&[ended]));
    }
}

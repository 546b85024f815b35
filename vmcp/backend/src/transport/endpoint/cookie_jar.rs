//! [`CookieJar`]: cookies of one session at one origin (RFC 6265). Load balancers keep a session at its
//! replica by a cookie, such as AWSALB. A jar is never shared by sessions, and its cookies never leave for
//! another origin.

use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use cookie_store::{Cookie, CookieStore};
use http::HeaderMap;
use http::header::{COOKIE, HeaderValue, SET_COOKIE};
use parking_lot::Mutex;
use url::Url;

/// Cookies of one session; further ones are ignored.
const MAX_COOKIES: usize = 32;
/// Bytes of one `Set-Cookie`, attributes included; a longer one is ignored.
const MAX_COOKIE_BYTES: usize = 4 * 1024;
/// Bytes of all names and values, which travel with each request; a cookie beyond is ignored.
const MAX_BYTES: usize = 8 * 1024;

/// The cookies of one session.
#[derive(Default)]
pub(super) struct CookieJar {
    store: Mutex<CookieStore>,
    /// A cookie was kept.
    used: AtomicBool,
    /// No cookies are kept: several clients use the connection, and the server cannot tell them apart.
    refuses: AtomicBool,
}

impl CookieJar {
    /// Keeps the cookies that a response from `url` sets.
    pub(super) fn keep(&self, headers: &HeaderMap, url: &Url) {
        if !headers.contains_key(SET_COOKIE) || self.refuses.load(Ordering::Relaxed) {
            return;
        }
        let mut store = self.store.lock();
        for value in headers.get_all(SET_COOKIE).iter().filter(|value| value.len() <= MAX_COOKIE_BYTES) {
            let cookie = value.to_str().ok().and_then(|text| Cookie::parse(text, url).ok());
            let Some(cookie) = cookie.filter(|cookie| has_room(&mut store, cookie)) else {
                tracing::debug!("ignored a cookie of the backend");
                continue;
            };
            if store.insert(cookie.into_owned(), url).is_ok() {
                self.used.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Adds the cookies for `url` to the headers of a request. A configured cookie of the same name counts.
    pub(super) fn add_to(&self, headers: &mut HeaderMap, url: &Url) {
        if !self.used.load(Ordering::Relaxed) {
            return;
        }
        let configured = headers.get(COOKIE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_configured = |name: &str| {
            configured.split(';').any(|pair| pair.split('=').next().is_some_and(|known| known.trim() == name))
        };
        let store = self.store.lock();
        let kept = store.get_request_values(url).filter(|(name, _)| !is_configured(name));
        let kept = kept.map(|(name, value)| format!("{name}={value}"));
        let all: Vec<_> =
            (!configured.is_empty()).then(|| configured.to_owned()).into_iter().chain(kept).collect();
        if let Ok(mut value) = HeaderValue::try_from(all.join("; "))
            && !value.is_empty()
        {
            value.set_sensitive(true);
            headers.insert(COOKIE, value);
        }
    }

    /// Keeps no cookies from now on, and forgets those of before.
    pub(super) fn refuse(&self) {
        self.refuses.store(true, Ordering::Relaxed);
        *self.store.lock() = CookieStore::default();
        self.used.store(false, Ordering::Relaxed);
    }
}

/// True if a cookie may be kept beside the others, in place of one with its name.
fn has_room(store: &mut CookieStore, cookie: &Cookie<'_>) -> bool {
    if store.iter_any().count() >= MAX_COOKIES {
        // Expired cookies stay in the store until then.
        let kept = store.iter_unexpired().cloned().map(Ok::<_, Infallible>);
        let Ok(kept) = CookieStore::from_cookies(kept, false);
        *store = kept;
    }
    let others = || store.iter_unexpired().filter(|other| other.name() != cookie.name());
    let size = |cookie: &Cookie<'_>| cookie.name().len() + cookie.value().len();
    others().count() < MAX_COOKIES && others().map(size).sum::<usize>() + size(cookie) <= MAX_BYTES
}

impl fmt::Debug for CookieJar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CookieJar").field("used", &self.used).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn jar(from: &Url, cookies: &[&str]) -> CookieJar {
        let jar = CookieJar::default();
        let set = cookies.iter().map(|cookie| (SET_COOKIE, cookie.parse().unwrap()));
        let mut headers = HeaderMap::new();
        headers.extend(set);
        jar.keep(&headers, from);
        jar
    }

    fn sent(jar: &CookieJar, to: &Url, configured: Option<&str>) -> Vec<String> {
        let mut headers = HeaderMap::new();
        configured.map(|cookie| headers.insert(COOKIE, cookie.parse().unwrap()));
        jar.add_to(&mut headers, to);
        let header = headers.get(COOKIE).map_or("", |value| value.to_str().unwrap());
        let mut all: Vec<_> = header.split("; ").filter(|pair| !pair.is_empty()).map(str::to_owned).collect();
        all.sort();
        all
    }

    #[test]
    fn a_cookie_goes_back_to_its_origin_within_its_limits() {
        let here = url("https://a.example/mcp");
        let jar = jar(
            &here,
            &[
                "AWSALB=r1; Path=/; Expires=Fri, 01 Jan 2100 00:00:00 GMT",
                "AWSALBCORS=r1; Path=/; SameSite=None; Secure",
                "elsewhere=1; Path=/other",
                "foreign=1; Domain=b.example",
                "gone=1; Max-Age=0",
                "no cookie",
            ],
        );
        assert_eq!(sent(&jar, &here, None), ["AWSALB=r1", "AWSALBCORS=r1"]);
        assert_eq!(
            sent(&jar, &url("https://a.example/mcp"), Some("AWSALB=own; x=1")),
            ["AWSALB=own", "AWSALBCORS=r1", "x=1"]
        );
        for other in ["https://b.example/mcp", "https://sub.a.example/mcp"] {
            assert!(sent(&jar, &url(other), None).is_empty(), "{other}");
        }
        assert_eq!(sent(&jar, &url("http://a.example/mcp"), None), ["AWSALB=r1"], "a secure one needs TLS");
    }

    #[test]
    fn a_newer_value_replaces_the_one_before() {
        let here = url("http://a.example/mcp");
        let jar = jar(&here, &["AWSALB=r1; Path=/", "AWSALB=r2; Path=/", "left=1", "left=; Max-Age=0"]);
        assert_eq!(sent(&jar, &here, None), ["AWSALB=r2"]);
    }

    #[test]
    fn a_jar_is_bounded() {
        let here = url("http://a.example/mcp");
        let many: Vec<_> = (0..1000).map(|n| format!("c{n}=1")).collect();
        let many = jar(&here, &many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(sent(&many, &here, None).len(), MAX_COOKIES);
        let long = format!("long={}", "x".repeat(MAX_COOKIE_BYTES));
        let half = "x".repeat(MAX_BYTES / 2 - 100);
        let large = jar(&here, &[&long, &format!("a={half}"), &format!("b={half}"), &format!("c={half}")]);
        assert_eq!(sent(&large, &here, None).len(), 2);
        large.refuse();
        assert!(sent(&large, &here, None).is_empty());
    }

    #[tokio::test]
    async fn expired_cookies_make_room() {
        let here = url("http://a.example/mcp");
        let short: Vec<_> = (0..MAX_COOKIES).map(|n| format!("c{n}=1; Max-Age=1")).collect();
        let jar = jar(&here, &short.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(sent(&jar, &here, None).len(), MAX_COOKIES);
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        let headers = HeaderMap::from_iter([(SET_COOKIE, "fresh=1".parse().unwrap())]);
        jar.keep(&headers, &here);
        assert_eq!(sent(&jar, &here, None), ["fresh=1"]);
        assert_eq!(jar.store.lock().iter_any().count(), 1);
    }
}

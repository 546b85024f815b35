//! [`Proxies`]: the proxy of each outgoing request.

use std::fmt;
use std::sync::{Arc, LazyLock};

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use url::Url;

use crate::direct::Direct;

/// Schemes of proxies; another one cannot be used.
const SCHEMES: [&str; 4] = ["http", "https", "socks5", "socks5h"];

/// The proxy of each outgoing request. Credentials in a proxy's URL are sent to the proxy, and never shown.
#[derive(Clone)]
pub struct Proxies(Arc<Settings>);

#[derive(Default)]
struct Settings {
    http: Option<Proxy>,
    https: Option<Proxy>,
    direct: Direct,
    /// Variables whose value cannot be read as the URL of a proxy.
    unusable: Vec<&'static str>,
}

/// One proxy.
#[derive(Clone)]
struct Proxy {
    /// Its URL, with credentials.
    url: Url,
    intercept: Intercept,
}

impl Proxy {
    /// Reads the value of a variable; `None` if it cannot be read as the URL of a proxy. The default scheme
    /// is HTTP.
    fn parse(value: &str) -> Option<Self> {
        let value = value.trim();
        let url =
            if value.contains("://") { Url::parse(value) } else { Url::parse(&format!("http://{value}")) };
        let mut url = url.ok().filter(|url| url.has_host() && SCHEMES.contains(&url.scheme()))?;
        url.set_path("");
        url.set_query(None);
        url.set_fragment(None);
        // A proxy resolves names itself, as it knows more of them.
        if url.scheme() == "socks5" {
            url.set_scheme("socks5h").ok()?;
        }
        if url.scheme() == "socks5h" && url.port().is_none() {
            url.set_port(Some(1080)).ok()?;
        }
        let intercept =
            Matcher::builder().all(url.as_str()).build().intercept(&Uri::from_static("http://x/"))?;
        Some(Self { url, intercept })
    }

    /// The URL without credentials, for people.
    fn shown(&self) -> String {
        self.intercept.uri().to_string().trim_end_matches('/').to_owned()
    }
}

impl Proxies {
    /// Names of the variables that are read, in capitals; each is also read in lower case.
    pub const VARIABLES: [&'static str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

    /// Reads the environment of this process, once.
    pub fn of_environment() -> Self {
        static OF_ENVIRONMENT: LazyLock<Proxies> =
            LazyLock::new(|| Proxies::new(&|name| std::env::var(name).ok()));
        OF_ENVIRONMENT.clone()
    }

    /// No proxies.
    pub fn none() -> Self {
        Self(Arc::default())
    }

    /// Reads variables. The name in capitals wins over that in lower case; an empty value counts as unset.
    ///
    /// # Examples
    ///
    /// ```
    /// let proxies = vmcp_egress::Proxies::new(&|name| match name {
    ///     "HTTPS_PROXY" => Some("http://me:secret@proxy.corp:3128".to_owned()),
    ///     "NO_PROXY" => Some("corp,10.0.0.0/8".to_owned()),
    ///     _ => None,
    /// });
    /// let proxy = |url: &str| proxies.proxy_for(&url.parse().unwrap());
    /// assert_eq!(proxy("https://mcp.example.com/mcp").as_deref(), Some("http://proxy.corp:3128"));
    /// assert_eq!(proxy("https://git.corp/mcp"), None);
    /// assert_eq!(proxy("https://mcp.tools.svc/mcp"), None);
    /// ```
    pub fn new(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let given = |name: &str| {
            let find = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
            find(name).or_else(|| find(&name.to_ascii_lowercase()))
        };
        let mut unusable = Vec::new();
        let mut proxy = |name: &'static str| {
            let value = given(name)?;
            let proxy = Proxy::parse(&value);
            if proxy.is_none() {
                unusable.push(name);
            }
            proxy
        };
        let all = proxy("ALL_PROXY");
        let (http, https) = (proxy("HTTP_PROXY").or_else(|| all.clone()), proxy("HTTPS_PROXY").or(all));
        let in_pod = variable("KUBERNETES_SERVICE_HOST").is_some();
        let direct = Direct::new(&given("NO_PROXY").unwrap_or_default(), in_pod);
        Self(Arc::new(Settings { http, https, direct, unusable }))
    }

    /// Returns the variables whose value cannot be read as the URL of a proxy; they are ignored.
    pub fn unusable(&self) -> &[&'static str] {
        &self.0.unusable
    }

    /// Returns the configured proxies, without credentials, each with the scheme of its requests.
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        let Settings { http, https, .. } = &*self.0;
        let all = [("http", http), ("https", https)];
        all.into_iter().filter_map(|(scheme, proxy)| Some((scheme, proxy.as_ref()?.shown()))).collect()
    }

    /// Returns the proxy of requests to a URI, without credentials; `None` if they go there directly.
    ///
    /// Never through a proxy: `localhost` and loopback addresses, link-local ones, names of the cluster
    /// (`….svc`, `….cluster.local`; in a pod, names without a dot), and hosts of `NO_PROXY`.
    pub fn proxy_for(&self, uri: &Uri) -> Option<String> {
        self.proxy(uri).map(Proxy::shown)
    }

    /// As [`Proxies::proxy_for`], for a URL.
    pub fn proxy_for_url(&self, url: &Url) -> Option<String> {
        self.proxy_for(&url.as_str().parse().ok()?)
    }

    /// Returns the value of `Proxy-Authorization` for a request to a URI. Only requests over plain HTTP carry
    /// it; in front of a tunnel, [`ProxyConnector`](crate::ProxyConnector) sends it.
    pub fn authorization_for(&self, uri: &Uri) -> Option<HeaderValue> {
        if uri.scheme_str() != Some("http") {
            return None;
        }
        self.proxy(uri)?.intercept.basic_auth().cloned()
    }

    /// Returns the hosts of all proxies.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        [&self.0.http, &self.0.https].into_iter().flatten().filter_map(|proxy| proxy.url.host_str())
    }

    /// Returns the proxies for a client of reqwest, which otherwise would take loopback addresses to a proxy.
    #[cfg(feature = "reqwest")]
    pub fn for_reqwest(&self) -> reqwest::Proxy {
        let proxies = self.clone();
        reqwest::Proxy::custom(move |url| {
            let uri = url.as_str().parse().ok()?;
            proxies.proxy(&uri).map(|proxy| proxy.url.clone())
        })
    }

    pub(crate) fn intercept(&self, uri: &Uri) -> Option<&Intercept> {
        self.proxy(uri).map(|proxy| &proxy.intercept)
    }

    fn proxy(&self, uri: &Uri) -> Option<&Proxy> {
        let Settings { http, https, direct, .. } = &*self.0;
        let (proxy, port) = match uri.scheme_str()? {
            "http" => (http.as_ref()?, 80),
            "https" => (https.as_ref()?, 443),
            _ => return None,
        };
        (!direct.contains(uri.host()?, uri.port_u16().unwrap_or(port))).then_some(proxy)
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Proxies").field(&self.shown()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        Proxies::new(&|name| {
            variables.iter().find(|(given, _)| *given == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn shown(variables: &[(&str, &str)], uri: &str) -> Option<String> {
        proxies(variables).proxy_for(&uri.parse().unwrap())
    }

    #[test]
    fn each_scheme_has_its_proxy_and_all_proxy_stands_in() {
        let both =
            [("HTTP_PROXY", "http://plain:1"), ("https_proxy", "tls:2"), ("ALL_PROXY", "http://all:3")];
        assert_eq!(shown(&both, "http://a.example/").as_deref(), Some("http://plain:1"));
        assert_eq!(shown(&both, "https://a.example/").as_deref(), Some("http://tls:2"));
        let all = [("all_proxy", "socks5://all"), ("HTTPS_PROXY", "")];
        assert_eq!(shown(&all, "https://a.example/").as_deref(), Some("socks5h://all:1080"));
        assert_eq!(shown(&[("HTTP_PROXY", "http://plain:1")], "https://a.example/"), None);
        assert_eq!(shown(&[], "https://a.example/"), None);
        let direct = [("ALL_PROXY", "http://all:3"), ("no_proxy", "example")];
        assert_eq!(shown(&direct, "https://a.example/"), None);
    }

    #[test]
    fn credentials_reach_the_proxy_and_nobody_who_reads() {
        for url in ["http://me:p%40ss@proxy:3128", "http://me:p@ss@proxy:3128/", "me:p@ss@proxy:3128"] {
            let proxies = proxies(&[("ALL_PROXY", url)]);
            let uri = "http://a.example/".parse().unwrap();
            assert_eq!(proxies.proxy_for(&uri).as_deref(), Some("http://proxy:3128"), "{url}");
            // `me:p@ss`
            assert_eq!(proxies.authorization_for(&uri).unwrap(), "Basic bWU6cEBzcw==", "{url}");
            assert!(!format!("{proxies:?}").contains("ss"), "{proxies:?}");
        }
        let proxies = proxies(&[("ALL_PROXY", "http://me:pass@proxy:3128")]);
        assert_eq!(proxies.authorization_for(&"https://a.example/".parse().unwrap()), None);
    }

    #[test]
    fn a_value_that_is_no_proxy_is_named_and_ignored() {
        for value in ["ftp://proxy", "socks4://proxy", "http://", "http://a b"] {
            let proxies = proxies(&[("HTTPS_PROXY", value), ("ALL_PROXY", "http://all:3")]);
            assert_eq!(proxies.unusable(), ["HTTPS_PROXY"], "{value}");
            let uri = "https://a.example/".parse().unwrap();
            assert_eq!(proxies.proxy_for(&uri).as_deref(), Some("http://all:3"), "{value}");
        }
    }
}

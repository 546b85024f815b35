//! Addresses behind a proxy that serves the console below a path of its own, and removes that path from
//! requests: it names the path in `X-Forwarded-Prefix`.
//!
//! Pages name their addresses from the root of the host. For a request with the header, the prefix comes
//! before the addresses of the page, of redirects and of cookies. A page of another site cannot make a
//! browser send the header, and no answer is cached: a client can change its own answers alone.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Header of the proxy.
const PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");
/// Most bytes of a prefix; a longer one counts as none.
const MAX_PREFIX_BYTES: usize = 200;
/// Most bytes of a page: 64 MiB, far above any.
const MAX_PAGE_BYTES: usize = 64 << 20;
/// Attributes with addresses of the console. Other attributes hold texts of people and servers.
const ADDRESSES: [&str; 4] = ["href", "src", "action", "data-live"];

/// Middleware that puts the proxy's prefix before the addresses of an answer.
pub(in crate::port) async fn put_before(request: Request, next: Next) -> Response {
    let prefix = prefix(request.headers()).map(str::to_owned);
    let response = next.run(request).await;
    match prefix {
        Some(prefix) => with_prefix(response, &prefix).await,
        None => response,
    }
}

/// Returns the prefix of a request: segments of letters, digits and `-_.~`, which need no escape in a page or
/// a header. Another one counts as none.
fn prefix(headers: &HeaderMap) -> Option<&str> {
    let prefix = headers.get(PREFIX)?.to_str().ok()?.trim().trim_end_matches('/');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    let is_segment = |segment: &str| {
        !segment.is_empty() && !matches!(segment, "." | "..") && segment.bytes().all(is_plain)
    };
    let is_path = prefix.strip_prefix('/')?.split('/').all(is_segment);
    (is_path && prefix.len() <= MAX_PREFIX_BYTES).then_some(prefix)
}

async fn with_prefix(response: Response, prefix: &str) -> Response {
    let (mut head, body) = response.into_parts();
    for (name, before) in [(header::LOCATION, ""), (header::REFRESH, "url="), (header::SET_COOKIE, "Path=")] {
        let values = head.headers.get_all(&name).iter().map(|value| moved(value, before, prefix));
        let values: Vec<_> = values.collect();
        head.headers.remove(&name);
        for value in values {
            head.headers.append(name.clone(), value);
        }
    }
    let kind = head.headers.get(header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html")) {
        return Response::from_parts(head, body);
    }
    let Ok(page) = to_bytes(body, MAX_PAGE_BYTES).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    head.headers.remove(header::CONTENT_LENGTH);
    // A text of a server holds no quotation mark: the templates escape it.
    let mut page = String::from_utf8_lossy(&page).into_owned();
    for name in ADDRESSES {
        page = page.replace(&format!(" {name}=\"/console/"), &format!(" {name}=\"{prefix}/console/"));
    }
    Response::from_parts(head, Body::from(page))
}

/// Returns a header whose address of the console, which follows on `before`, has the prefix. A header with
/// another address stays.
fn moved(value: &HeaderValue, before: &str, prefix: &str) -> HeaderValue {
    let own = format!("{before}/console");
    let text = value.to_str().unwrap_or_default();
    // Without a word before it, the address is the whole header.
    let place = if before.is_empty() { text.starts_with(&own).then_some(0) } else { text.find(&own) };
    let parts = place.and_then(|place| text.split_at_checked(place + before.len()));
    let moved = parts.and_then(|(start, end)| HeaderValue::try_from(format!("{start}{prefix}{end}")).ok());
    moved.unwrap_or_else(|| value.clone())
}

#[cfg(test)]
mod tests {
    use axum::response::Html;
    use tower::ServiceExt as _;
    use vmcp_engine::testing::{KEYWORDS, config, engine};

    use super::*;
    use crate::port::admin::Admin;
    use crate::port::admin::routes::router;

    #[test]
    fn a_prefix_is_a_plain_path() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(PREFIX, text.parse().unwrap());
            prefix(&headers).map(str::to_owned)
        };
        for (given, expected) in
            [("/ops", "/ops"), ("/ops/vmcp-1/", "/ops/vmcp-1"), (" /a.b~c_d ", "/a.b~c_d")]
        {
            assert_eq!(read(given).as_deref(), Some(expected), "{given}");
        }
        let long = format!("/{}", "x".repeat(MAX_PREFIX_BYTES));
        for given in [
            "",
            "/",
            "ops",
            "//evil.example",
            "/a//b",
            "/../a",
            "/a?b",
            "/\"><script>",
            "/a, /b",
            "/%2f",
            &long,
        ] {
            assert_eq!(read(given), None, "{given}");
        }
        assert_eq!(prefix(&HeaderMap::new()), None);
    }

    #[tokio::test]
    async fn pages_redirects_and_cookies_are_below_the_path_of_the_proxy() {
        const TOKEN: &str = "a token of enough characters";
        let engine = engine(KEYWORDS).await;
        engine.apply(config(&format!("server: {{ adminTokens: [{TOKEN}] }}\n{KEYWORDS}"))).await;
        let router = router(Admin::new(engine, None), ([127, 0, 0, 1], 9090).into());
        let send = async |method: &str, path: &str, body: &str| {
            let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost:9090");
            let request = request.header("authorization", format!("Bearer {TOKEN}")).header(PREFIX, "/ops");
            let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
            let request = request.header(header::ACCEPT, "text/html");
            router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap()
        };
        let page = send("GET", "/console/", "").await;
        let page = String::from_utf8(to_bytes(page.into_body(), 1 << 20).await.unwrap().to_vec()).unwrap();
        assert!(
            page.contains("href=\"/ops/console/tools\"") && page.contains("src=\"/ops/console/console.js\"")
        );
        assert!(!page.contains("\"/console/"), "{page}");
        for root in ["/console", "/"] {
            let to_root = send("GET", root, "").await;
            assert_eq!(to_root.headers()[header::LOCATION], "/ops/console/", "{root}");
        }
        let signed_in = send("POST", "/console/sign-in", &format!("token={}", TOKEN.replace(' ', "+"))).await;
        assert_eq!(signed_in.headers()[header::LOCATION], "/ops/console/");
        let cookie = signed_in.headers()[header::SET_COOKIE].to_str().unwrap();
        assert!(cookie.contains("; Path=/ops/console; "), "{cookie}");
        let style = send("GET", "/console/console.css", "").await;
        assert!(style.status().is_success(), "other answers stay");
    }

    #[tokio::test]
    async fn a_text_that_reads_like_an_address_stays() {
        let page = "<a href=\"/console/x\"></a><input value=\"/console/x\"><p> href=&quot;/console/x</p>";
        let response = with_prefix(Html(page).into_response(), "/ops").await;
        let moved = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        assert_eq!(moved, page.replace("href=\"/", "href=\"/ops/"));
    }

    #[test]
    fn an_address_of_the_provider_stays() {
        let location = HeaderValue::from_static("https://login.example.com/console?next=/console/");
        assert_eq!(moved(&location, "", "/ops"), location);
        let refresh = HeaderValue::from_static("0; url=/console/");
        assert_eq!(moved(&refresh, "url=", "/ops"), "0; url=/ops/console/");
    }
}

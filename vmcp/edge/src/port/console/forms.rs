//! Bodies of forms: read within a bound of bytes and of time.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

/// Time for a form to arrive; a slower one is refused with 408. A request under way stops the clock of its
/// connection, and the port has few connections.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the fields of a form of at most `limit` bytes, within [`RECEIVE_TIMEOUT`]. A browser sends the line
/// ends of names and values as CR LF: they become LF again.
pub(super) async fn read(body: Body, limit: usize) -> Result<Vec<(String, String)>, Response> {
    let read = timeout(RECEIVE_TIMEOUT, to_bytes(body, limit)).await.map_err(|_| {
        let words = format!("the form did not arrive within {} seconds\n", RECEIVE_TIMEOUT.as_secs());
        (StatusCode::REQUEST_TIMEOUT, words).into_response()
    })?;
    let bytes = read.map_err(|_| {
        let words = format!("the form could not be read, or has more than {limit} bytes\n");
        (StatusCode::PAYLOAD_TOO_LARGE, words).into_response()
    })?;
    let with_lf = |text: Cow<'_, str>| {
        if text.contains('\r') { text.replace("\r\n", "\n") } else { text.into_owned() }
    };
    let pairs = url::form_urlencoded::parse(&bytes);
    Ok(pairs.map(|(name, value)| (with_lf(name), with_lf(value))).collect())
}

/// Returns the value of a field; empty if it is absent.
pub(super) fn value<'a>(pairs: &'a [(String, String)], name: &str) -> &'a str {
    pairs.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_of_a_text_are_those_that_a_person_typed() {
        let pairs = read(Body::from("a%0D%0Ab=one%0D%0A%0D%0Atwo%0D&c=%0A"), 99).await.unwrap();
        let expected = [("a\nb", "one\n\ntwo\r"), ("c", "\n")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_form_that_is_too_long_or_never_arrives_is_refused() {
        let pairs = read(Body::from("a=b"), 3).await.unwrap();
        assert_eq!(value(&pairs, "a"), "b");
        let refused = read(Body::from("a=bc"), 3).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
        let silent = futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>();
        let refused = read(Body::from_stream(silent), 3).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::REQUEST_TIMEOUT);
    }
}

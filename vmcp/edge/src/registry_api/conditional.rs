//! Conditional requests: entity tags of answers, and times of `updated_since`.

use std::time::{Duration, SystemTime};

use http::header::{ETAG, IF_NONE_MATCH};
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use sha2::{Digest as _, Sha256};

use crate::transport::http::exchange::Response;
use crate::transport::http::respond;

/// Bytes of a digest that an entity tag shows.
const TAG_BYTES: usize = 16;

/// Answers with a body, or with 304 if the client has it: its `If-None-Match` names the tag.
pub(super) fn answer(head: &Parts, body: String) -> Response {
    let mut digest = hex::encode(Sha256::digest(&body));
    digest.truncate(2 * TAG_BYTES);
    let tag = format!("\"{digest}\"");
    let mut response = if is_known(head, &tag) {
        respond::empty(StatusCode::NOT_MODIFIED)
    } else {
        respond::json_text(StatusCode::OK, body)
    };
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// Returns true if the client has the answer with this tag (RFC 9110: a list of tags, weak ones too, or `*`).
fn is_known(head: &Parts, tag: &str) -> bool {
    let known = head.headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = known.flat_map(|tags| tags.split(',')).map(str::trim);
    known.any(|one| one == "*" || one.trim_start_matches("W/") == tag)
}

/// Reads a time of RFC 3339, with any offset. A `+` that a query leaves as it is reads as a space.
pub(super) fn read_time(text: &str) -> Option<SystemTime> {
    let text = text.trim().to_ascii_uppercase();
    let (base, offset) = match text.len().checked_sub(6).and_then(|at| text.split_at_checked(at)) {
        Some((base, offset)) if !text.ends_with('Z') => (base, Some(offset)),
        _ => (text.strip_suffix('Z')?, None),
    };
    let time = humantime::parse_rfc3339(&format!("{base}Z")).ok()?;
    let Some(offset) = offset else { return Some(time) };
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let (hours, minutes) = (hours.parse::<u64>().ok()?, minutes.parse::<u64>().ok()?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let distance = Duration::from_secs(60 * (60 * hours + minutes));
    match offset.chars().next()? {
        '+' | ' ' => time.checked_sub(distance),
        '-' => time.checked_add(distance),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_any_offset() {
        let noon = humantime::parse_rfc3339("2026-01-31T12:00:00Z").unwrap();
        for text in [
            "2026-01-31T12:00:00Z",
            "2026-01-31t12:00:00.000z",
            "2026-01-31T12:00:00+00:00",
            "2026-01-31T14:00:00+02:00",
            "2026-01-31T14:00:00 02:00",
            "2026-01-31T06:30:00-05:30",
        ] {
            assert_eq!(read_time(text), Some(noon), "{text}");
        }
        for text in ["", "Z", "x", "2026-01-31", "2026-01-31T12:00:00", "2026-01-31T12:00:00+99:00", "ééé"]
        {
            assert_eq!(read_time(text), None, "{text}");
        }
    }

    #[test]
    fn an_answer_that_the_client_has_is_not_sent_again() {
        let asked = |tags: &[&str]| {
            let mut request = http::Request::get("/v0.1/servers");
            for tag in tags {
                request = request.header(IF_NONE_MATCH, *tag);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            answer(&head, "{}".to_owned())
        };
        let first = asked(&[]);
        assert_eq!(first.status(), StatusCode::OK);
        let tag = first.headers()[ETAG].to_str().unwrap().to_owned();
        for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
            let again = asked(&[&known]);
            assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{known}");
            assert_eq!(again.headers()[ETAG], tag.as_str(), "{known}");
        }
        assert_eq!(asked(&["\"other\""]).status(), StatusCode::OK);
    }
}

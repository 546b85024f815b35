//! The parameters of `GET /sessions`.

use url::form_urlencoded;
use vmcp_engine::access::agent_sessions::{SessionQuery, SessionStatus};

/// Most characters of a parameter.
const MAX_CHARS: usize = 4096;

/// Reads a query string: `status`, `source`, `project_id`, `limit`. Others are ignored, an empty one counts
/// as absent.
pub(super) fn read_query(query: &str) -> Result<SessionQuery, String> {
    let mut read = SessionQuery::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let value = value.trim();
        if value.is_empty() {
            continue;
        }
        if value.chars().count() > MAX_CHARS {
            return Err(format!("{name} has more than {MAX_CHARS} characters"));
        }
        match &*name {
            "status" => {
                let known = "status must be active, paused, ended, handoff_ready or expired";
                read.status = Some(SessionStatus::from_name(value).ok_or(known)?);
            }
            "source" => read.source = Some(value.to_lowercase()),
            "project_id" => read.project_id = Some(value.to_owned()),
            "limit" => {
                let limit = value.parse().ok().filter(|limit| *limit > 0);
                read.limit = Some(limit.ok_or("limit must be a whole number above 0")?);
            }
            _ => {}
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_and_mistakes_named() {
        let read = read_query("status=paused&source=Codex&project_id=%2Fp&limit=5&other=1&source=").unwrap();
        let expected = SessionQuery {
            status: Some(SessionStatus::Paused),
            source: Some("codex".to_owned()),
            project_id: Some("/p".to_owned()),
            limit: Some(5),
        };
        assert_eq!(read, expected);
        for (query, field) in [("status=new", "status"), ("limit=0", "limit"), ("limit=x", "limit")] {
            assert!(read_query(query).unwrap_err().starts_with(field), "{query}");
        }
        assert!(read_query(&format!("source={}", "x".repeat(4097))).unwrap_err().contains("4096"));
    }
}

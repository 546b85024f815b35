//! The parameters of `GET /sessions`.

use vmcp_engine::access::agent_sessions::{SessionQuery, SessionStatus};

use crate::transport::query_parameters::{limit, query_parameters};

/// Most characters of a parameter.
const MAX_CHARS: usize = 4096;

/// Reads a query string: `status`, `source`, `project_id`, `limit`. Others are ignored, an empty one counts
/// as absent.
pub(super) fn read_query(query: &str) -> Result<SessionQuery, String> {
    let mut read = SessionQuery::default();
    for parameter in query_parameters(query, MAX_CHARS) {
        let (name, value) = parameter?;
        match &*name {
            "status" => {
                let known = "status must be active, paused, ended, handoff_ready or expired";
                read.status = Some(SessionStatus::from_name(&value).ok_or(known)?);
            }
            "source" => read.source = Some(value.to_lowercase()),
            "project_id" => read.project_id = Some(value),
            "limit" => read.limit = Some(limit(&value)?),
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

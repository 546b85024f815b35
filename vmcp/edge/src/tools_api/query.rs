//! [`ToolsQuery`]: the parameters of `GET /tools`.

use crate::transport::query_parameters::{limit, query_parameters};

/// Longest text of one parameter, in characters; a longer one is refused.
const MAX_CHARS: usize = 8192;
/// Most contexts of one request; further ones are refused.
const MAX_CONTEXTS: usize = 32;

/// The parameters, as they were given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ToolsQuery {
    /// Wanted contexts: a tool of any of them is meant.
    pub(super) contexts: Vec<String>,
    /// Wanted category, besides the contexts.
    pub(super) category: Option<String>,
    /// A message whose topics are the contexts, if none are given.
    pub(super) message: Option<String>,
    /// Name of a profile, to which the answer is narrowed.
    pub(super) user_id: Option<String>,
    /// Most tools.
    pub(super) limit: Option<usize>,
}

impl ToolsQuery {
    /// Reads a query string; unknown parameters are ignored, an empty one counts as absent.
    pub(super) fn read(query: &str) -> Result<ToolsQuery, String> {
        let mut read = ToolsQuery::default();
        for parameter in query_parameters(query, MAX_CHARS) {
            let (name, value) = parameter?;
            match &*name {
                "context" => read.add_contexts(&value),
                "category" => read.category = Some(value),
                "message" => read.message = Some(value),
                "userId" => read.user_id = Some(value),
                "limit" => read.limit = Some(limit(&value)?),
                _ => {}
            }
        }
        if read.contexts.len() > MAX_CONTEXTS {
            return Err(format!("context has more than {MAX_CONTEXTS} values"));
        }
        Ok(read)
    }

    fn add_contexts(&mut self, value: &str) {
        for context in value.split(',').map(str::trim).filter(|context| !context.is_empty()) {
            if !self.contexts.iter().any(|known| known.eq_ignore_ascii_case(context)) {
                self.contexts.push(context.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_a_set_and_mistakes_are_told() {
        let read = ToolsQuery::read("context=agile,%20notes,,Agile&limit=3&category=&other=1").unwrap();
        assert_eq!(read.contexts, ["agile", "notes"]);
        assert_eq!((read.limit, read.category), (Some(3), None));
        for mistake in ["limit=abc", "limit=0", "limit=-1"] {
            assert!(ToolsQuery::read(mistake).unwrap_err().contains("limit"), "{mistake}");
        }
        let many: Vec<_> = (0..40).map(|number| format!("c{number}")).collect();
        assert!(ToolsQuery::read(&format!("context={}", many.join(","))).is_err());
        assert!(ToolsQuery::read(&format!("message={}", "a".repeat(MAX_CHARS + 1))).is_err());
    }
}

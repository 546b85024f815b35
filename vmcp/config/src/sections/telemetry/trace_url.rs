//! [`TraceUrl`]: the address of a trace in the tracing system of an operator.

use crate::problems::Report;
use crate::values::http_url;

/// Text that the id of a trace replaces.
const PLACE: &str = "{traceId}";

/// A URL template with a place for the id of a trace. Its scheme is http or https: pages link to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceUrl(String);

impl TraceUrl {
    pub(super) fn validate(text: &str, report: &mut Report) -> Option<TraceUrl> {
        const PATH: &str = "telemetry.traceUrl";
        let example = text.replace(PLACE, "0af7651916cd43dd8448eb211c80319c");
        // The id stands behind the host: the template must be a URL also with another id.
        let url = http_url::validate(&example, PATH, report)?;
        if !text.contains(PLACE) || url.host_str().is_some_and(|host| host.contains("0af7651916cd")) {
            report.problem(
                PATH,
                "no place for the id of a trace behind the host",
                "write `{traceId}` there, such as `https://jaeger.example.com/trace/{traceId}`",
            );
            return None;
        }
        Some(TraceUrl(text.trim().to_owned()))
    }

    /// Returns the address of the trace with an id of 32 hex digits.
    pub fn of(&self, trace_id: &str) -> String {
        self.0.replace(PLACE, trace_id)
    }
}

#[cfg(test)]
mod tests {
    fn loaded(text: &str) -> Result<String, String> {
        let file = format!("telemetry: {{ traceUrl: \"{text}\" }}");
        let config = crate::load(&file, "f", &|_| None).map_err(|problems| problems.to_string())?.config;
        Ok(config.telemetry.trace_url.expect("a template").of("4bf9"))
    }

    #[test]
    fn the_id_of_a_trace_takes_its_place() {
        let explore = "https://g.example/explore?left=%7B%22query%22:%22{traceId}%22%7D&x={traceId}";
        assert_eq!(loaded(explore).unwrap(), explore.replace("{traceId}", "4bf9"));
        assert_eq!(
            loaded(" http://jaeger:16686/trace/{traceId} ").unwrap(),
            "http://jaeger:16686/trace/4bf9"
        );
    }

    #[test]
    fn another_scheme_and_a_missing_or_misplaced_id_are_mistakes() {
        for (text, expected) in [
            ("javascript:alert('{traceId}')", "telemetry.traceUrl"),
            ("https://jaeger.example.com/trace/", "write `{traceId}` there"),
            ("https://{traceId}.example.com/", "no place for the id of a trace behind the host"),
        ] {
            let mistake = loaded(text).unwrap_err();
            assert!(mistake.contains(expected), "{text}: {mistake}");
        }
    }
}

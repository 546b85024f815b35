//! Metrics in the text format 0.0.4, from OpenMetrics.

/// Writes metrics, given as OpenMetrics, in the text format 0.0.4.
///
/// Families of counters and infos take the names of their samples, `unknown` is `untyped`, a `stateset` is a
/// gauge; units, exemplars and the end mark are left out, for the format has none.
pub fn as_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // The help of a family stands before its type, which decides its name.
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ').map(|(_, help)| help);
        } else if let Some((family, kind)) =
            line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "stateset" => ("", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some(help) = help.take() {
                let help = help.replace("\\\"", "\"");
                text.extend(["# HELP ", family, suffix, " ", &help, "\n"]);
            }
            text.extend(["# TYPE ", family, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            text.extend([without_exemplar(line), "\n"]);
        }
    }
    text
}

/// Returns a sample without its exemplar, which begins with ` # ` behind the value.
fn without_exemplar(sample: &str) -> &str {
    let mut quoted = false;
    let mut escaped = false;
    for (at, character) in sample.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '#' if !quoted => return sample.get(..at).unwrap_or(sample).trim_end(),
            _ => {}
        }
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::as_text;

    #[test]
    fn families_are_named_as_their_samples_are() {
        let open_metrics = "\
# HELP calls Calls of \\\"tools\\\".
# TYPE calls counter
calls_total{name=\"a # \\\" b\"} 3 # {trace_id=\"4bf9\"} 1.0 1600000000.0
# HELP took_seconds Time.
# TYPE took_seconds histogram
# UNIT took_seconds seconds
took_seconds_bucket{le=\"+Inf\"} 1 # {trace_id=\"4bf9\"} 0.2
# TYPE up gauge
up 1
# TYPE odd unknown
odd 2
# EOF
";
        let text = "\
# HELP calls_total Calls of \"tools\".
# TYPE calls_total counter
calls_total{name=\"a # \\\" b\"} 3
# HELP took_seconds Time.
# TYPE took_seconds histogram
took_seconds_bucket{le=\"+Inf\"} 1
# TYPE up gauge
up 1
# TYPE odd untyped
odd 2
";
        assert_eq!(as_text(open_metrics), text);
    }
}

//! Turns an OpenMetrics exposition into the table of a reference page.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A metric family of an exposition.
#[derive(Debug, Default)]
struct MetricFamily {
    name: String,
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// Returns the names of the labels in a sample such as `calls_total{backend="a",outcome="ok"} 1`. `le`, the
/// bound of a histogram's bucket, is no label of its own.
fn labels(sample: &str) -> impl Iterator<Item = String> {
    let inside =
        sample.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(inside, _)| inside);
    let names = inside.split(',').filter_map(|pair| pair.split_once('='));
    names.map(|(name, _)| name.to_owned()).filter(|name| name != "le").collect::<Vec<_>>().into_iter()
}

/// Returns a Markdown table of the metrics in `exposition`: name, kind, labels, meaning. A family without a
/// sample gets no labels, so let each have one.
///
/// # Examples
///
/// ```
/// let exposition = "# HELP calls Calls.\n# TYPE calls counter\ncalls_total{backend=\"a\"} 1\n# EOF\n";
/// let table = vmcp_tidy::metrics_table(exposition);
/// assert!(table.ends_with("| `calls` | counter | `backend` | Calls |\n"));
/// ```
pub fn metrics_table(exposition: &str) -> String {
    let mut families: Vec<MetricFamily> = Vec::new();
    for line in exposition.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            let help = help.trim_end_matches('.').to_owned();
            families.push(MetricFamily { name: name.to_owned(), help, ..MetricFamily::default() });
        } else if let Some(family) = families.last_mut() {
            if let Some((_, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                kind.clone_into(&mut family.kind);
            } else if !line.starts_with('#') {
                family.labels.extend(labels(line));
            }
        }
    }
    let mut table = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
    for family in families {
        let labels: Vec<_> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {} |",
            family.name,
            family.kind,
            labels.join(", "),
            family.help
        );
    }
    table
}

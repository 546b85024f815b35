//! Reader of OpenMetrics text, as [`Metrics::encode`](crate::metrics::Metrics::encode) writes it. Metrics
//! have one registry, Prometheus's; an export reads its exposition, so a call counts once for both.

use std::borrow::Cow;

/// A family of samples.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MetricFamily<'a> {
    /// Name without `_total`.
    pub(super) name: &'a str,
    /// `counter`, `gauge` or `histogram`.
    pub(super) kind: &'a str,
    pub(super) help: &'a str,
    pub(super) samples: Vec<Sample<'a>>,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample<'a> {
    /// Name behind that of the family: `_total`, `_sum`, `_count`, `_bucket`, or nothing.
    pub(super) suffix: &'a str,
    pub(super) labels: Vec<(&'a str, Cow<'a, str>)>,
    pub(super) value: &'a str,
    pub(super) exemplar: Option<Exemplar<'a>>,
}

/// One observation of a bucket.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Exemplar<'a> {
    pub(super) labels: Vec<(&'a str, Cow<'a, str>)>,
    pub(super) value: f64,
    /// Seconds since 1970.
    pub(super) at: f64,
}

/// Reads an exposition. Families without samples are left out, and so is a line that cannot be read.
pub(super) fn families(text: &str) -> Vec<MetricFamily<'_>> {
    let mut families: Vec<MetricFamily<'_>> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            families.push(MetricFamily { name, kind: "", help, samples: Vec::new() });
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            if let Some(family) = families.last_mut().filter(|family| family.name == name) {
                family.kind = kind;
            }
        } else if !line.starts_with('#')
            && let Some(family) = families.last_mut()
        {
            let sample = line.strip_prefix(family.name).and_then(sample);
            family.samples.extend(sample);
        }
    }
    families.retain(|family| !family.samples.is_empty());
    families
}

/// Reads a line behind the name of its family.
fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' '])?;
    let (suffix, rest) = line.split_at_checked(end)?;
    let (labels, rest) = if rest.starts_with('{') { label_set(rest)? } else { (Vec::new(), rest) };
    let rest = rest.strip_prefix(' ')?;
    let (value, exemplar) = match rest.split_once(" # ") {
        Some((value, rest)) => (value, exemplar(rest)),
        None => (rest, None),
    };
    Some(Sample { suffix, labels, value, exemplar })
}

/// Reads `{…} value time`.
fn exemplar(text: &str) -> Option<Exemplar<'_>> {
    let (labels, rest) = label_set(text)?;
    let mut numbers = rest.split_ascii_whitespace().map(str::parse);
    let (value, at) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(Exemplar { labels, value, at })
}

/// Labels with their values.
type LabelSet<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// Reads `{name="value",…}` and returns the text behind it.
fn label_set(text: &str) -> Option<(LabelSet<'_>, &str)> {
    let mut labels = Vec::new();
    let mut rest = text.strip_prefix('{')?;
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        rest = rest.strip_prefix(',').unwrap_or(rest);
        let (name, quoted) = rest.split_once("=\"")?;
        let end = closing_quote(quoted)?;
        let (value, behind) = quoted.split_at_checked(end)?;
        labels.push((name, unescaped(value)));
        rest = behind.strip_prefix('"')?;
    }
}

/// Returns the place of the first quote that is not escaped.
fn closing_quote(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

fn unescaped(value: &str) -> Cow<'_, str> {
    if !value.contains('\\') {
        return Cow::Borrowed(value);
    }
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => plain.push('\n'),
                escaped => plain.extend(escaped),
            },
            other => plain.push(other),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{ChangeLabels, Metrics};

    #[test]
    fn an_exposition_is_read_as_it_was_written() {
        let metrics = Metrics::new();
        metrics.find_tool_requests.inc_by(7);
        let odd = "a \"quoted\" \\ name, {with} # all\n";
        let labels = ChangeLabels { backend: odd.to_owned(), change: "added", definition: "tool" };
        metrics.catalog_changes.get_or_create(&labels).inc();
        let text = metrics.encode();
        let families = families(&text);
        let find = |name: &str| families.iter().find(|family| family.name == name).unwrap();
        let requests = find("vmcp_optimizer_find_tool_requests");
        assert_eq!((requests.kind, requests.help), ("counter", "Calls of find_tool."));
        assert_eq!((requests.samples[0].suffix, requests.samples[0].value), ("_total", "7"));
        let change = &find("vmcp_catalog_changes").samples[0];
        assert_eq!(change.labels[0], ("backend", Cow::Borrowed(odd)));
        assert_eq!(change.labels[2], ("definition", Cow::Borrowed("tool")));
        assert!(families.iter().all(|family| family.name != "vmcp_webhook_questions"), "it has no sample");
        let written = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(families.iter().map(|family| family.samples.len()).sum::<usize>(), written);
    }
}

//! The text formats in which metrics are scraped, and the choice between them.
//!
//! The registry writes [OpenMetrics](https://prometheus.io/docs/specs/om/open_metrics_spec/). Tools that do
//! not ask for it (`promtool check metrics`, agents, a person with curl) read the older [text format
//! 0.0.4](https://prometheus.io/docs/instrumenting/exposition_formats/), in which a family of counters is
//! named as its samples are.

mod text;

pub use text::as_text;

/// A text format of Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// The text format 0.0.4.
    Text,
}

impl Format {
    /// Chooses the format by the `Accept` header of a request: OpenMetrics where it is named and the text
    /// format is not preferred.
    ///
    /// # Examples
    ///
    /// ```
    /// use vmcp_exposition::Format;
    ///
    /// let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4";
    /// assert_eq!(Format::of_accept(prometheus), Format::OpenMetrics);
    /// assert_eq!(Format::of_accept("*/*"), Format::Text);
    /// ```
    pub fn of_accept(accept: &str) -> Self {
        let (mut open_metrics, mut text) = (0.0, 0.0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let quality = parts.find_map(|part| part.strip_prefix("q="));
            let quality = quality.and_then(|quality| quality.parse::<f32>().ok()).unwrap_or(1.0);
            if kind.eq_ignore_ascii_case("application/openmetrics-text") {
                open_metrics = quality.max(open_metrics);
            } else if kind.eq_ignore_ascii_case("text/plain") {
                text = quality.max(text);
            }
        }
        if open_metrics > 0.0 && open_metrics >= text { Self::OpenMetrics } else { Self::Text }
    }

    /// Returns the value of the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Returns metrics that are written as OpenMetrics in this format.
    pub fn render(self, open_metrics: String) -> String {
        match self {
            Self::OpenMetrics => open_metrics,
            Self::Text => as_text(&open_metrics),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accept_header_chooses() {
        for (accept, format) in [
            ("", Format::Text),
            ("text/plain", Format::Text),
            ("Application/OpenMetrics-Text", Format::OpenMetrics),
            ("application/openmetrics-text;q=0", Format::Text),
            ("application/openmetrics-text; version=1.0.0; q=0.4, text/plain; q=0.5", Format::Text),
            ("text/plain;q=0.3, application/openmetrics-text;q=0.6, */*;q=0.1", Format::OpenMetrics),
        ] {
            assert_eq!(Format::of_accept(accept), format, "{accept}");
        }
    }
}

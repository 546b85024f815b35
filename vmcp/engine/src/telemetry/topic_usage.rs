//! [`TopicUsage`]: tokens of the answers of `GET /tools`, with and without contexts.

use std::time::SystemTime;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use vmcp_config::MetricsMode;

use super::metrics::Metrics;

/// Sums of this process since its start or the last reset.
#[derive(Default)]
pub struct TopicUsage(Mutex<Sums>);

struct Sums {
    baseline: Sum,
    filtered: Sum,
    since: SystemTime,
}

#[derive(Default)]
struct Sum {
    requests: u64,
    tokens: u64,
}

/// Size of one answer that has tools.
#[derive(Debug, Clone, Copy)]
pub struct AnswerSize {
    /// True if contexts or a language model chose the tools.
    pub filtered: bool,
    /// Tokens of its tools.
    pub tokens: u64,
    /// Tokens of the whole list in its place.
    pub all_tokens: u64,
}

impl Default for Sums {
    fn default() -> Self {
        Sums { baseline: Sum::default(), filtered: Sum::default(), since: SystemTime::now() }
    }
}

impl TopicUsage {
    /// Counts an answer. Under [`MetricsMode::Paired`] a filtered answer counts twice: with its own
    /// tokens, and in the baseline with those of the whole list, so that the two are comparable from the
    /// first request on.
    pub fn count(&self, answer: AnswerSize, mode: MetricsMode, metrics: &Metrics) {
        let mut sums = self.0.lock();
        if answer.filtered {
            sums.filtered.add(answer.tokens);
            metrics.tools_filtered_requests.inc();
            metrics.tools_filtered_tokens.inc_by(answer.tokens);
            if mode == MetricsMode::Observed {
                return;
            }
        }
        sums.baseline.add(answer.all_tokens);
        metrics.tools_baseline_requests.inc();
        metrics.tools_baseline_tokens.inc_by(answer.all_tokens);
    }

    /// Begins the sums again.
    pub fn reset(&self) {
        *self.0.lock() = Sums::default();
    }

    /// Returns the figures.
    pub fn report(&self) -> UsageReport {
        let sums = self.0.lock();
        let since = humantime::format_rfc3339_millis(sums.since).to_string();
        let figures = |sum: &Sum| Figures {
            requests: sum.requests,
            total_tokens: sum.tokens,
            avg_tokens_per_request: sum.mean().round() as u64,
            since: since.clone(),
        };
        UsageReport {
            baseline: figures(&sums.baseline),
            filtered: figures(&sums.filtered),
            reduction: reduction(sums.baseline.mean(), sums.filtered.mean()),
        }
    }
}

impl Sum {
    fn add(&mut self, tokens: u64) {
        self.requests += 1;
        self.tokens += tokens;
    }

    fn mean(&self) -> f64 {
        self.tokens as f64 / self.requests.max(1) as f64
    }
}

/// Returns the share of the baseline that filtering saves, in whole percent.
fn reduction(baseline: f64, filtered: f64) -> String {
    let known = baseline > 0.0 && filtered > 0.0;
    let percent = if known { ((baseline - filtered) / baseline * 100.0).round() } else { 0.0 };
    format!("{percent:.0}%")
}

/// The answer of `GET /tools/metrics`.
#[derive(Debug, Serialize, Deserialize)]
pub struct UsageReport {
    /// Whole lists.
    pub baseline: Figures,
    /// Answers that contexts chose.
    pub filtered: Figures,
    /// Share of the baseline that filtering saves, such as `40%`.
    pub reduction: String,
}

/// Figures of one kind of answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Number of answers.
    pub requests: u64,
    /// Their tokens.
    pub total_tokens: u64,
    /// Tokens of one answer on average.
    pub avg_tokens_per_request: u64,
    /// Begin of the count, RFC 3339.
    pub since: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reduction_is_that_of_the_means() {
        assert_eq!(reduction(500.0, 300.0), "40%");
        assert_eq!((reduction(0.0, 300.0), reduction(500.0, 0.0)), ("0%".to_owned(), "0%".to_owned()));
    }
}

//! Long work shows itself on standard error, when that is a terminal.

use std::borrow::Cow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const TICK: Duration = Duration::from_millis(100);

/// Something goes on, for an unknown time. Gone when cleared or dropped.
pub(in crate::cli) fn spinner(message: impl Into<Cow<'static, str>>) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_style(style("{spinner} {msg}")).with_message(message);
    spinner.enable_steady_tick(TICK);
    spinner
}

/// So many things are being done.
pub(in crate::cli) fn counter(length: usize, message: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(length as u64).with_style(style("{msg} {bar:30} {pos}/{len} {eta}"));
    bar.with_message(message)
}

/// So many bytes come.
pub(in crate::cli) fn bytes() -> ProgressBar {
    ProgressBar::new(0).with_style(style("{msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec}"))
}

fn style(template: &str) -> ProgressStyle {
    // The templates above are right; a wrong one would look different, and work.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

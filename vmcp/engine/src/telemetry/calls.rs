//! Records of calls: a [`CallRecorder`] collects a [`CallRecord`] while the call runs, [`CallObservers`] read
//! it when the call has ended. A new reader (reliability, limits, a file of audit lines) is one more
//! observer.

mod action;
mod audit;
mod call_metrics;
mod call_spans;
mod observer;
mod observers;
mod record;
mod recorder;
mod refusal;

pub use action::{Action, ActionArea};
pub use observer::{Begun, CallObserver};
pub use observers::CallObservers;
pub use record::{CallRecord, Origin, Outcome, RecordedArguments, WebhookEffect};
pub use recorder::CallRecorder;
pub use refusal::Refusal;

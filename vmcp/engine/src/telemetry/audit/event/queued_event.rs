//! [`QueuedEvent`]: an event on its way to its targets, and the share that it counts to.

use tokio::sync::oneshot;

use crate::access::identity::PrincipalKey;
use crate::telemetry::audit::otlp_logs::EventTrace;

/// The principal to whose share an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::telemetry::audit) enum ShareKey {
    /// The process itself, and operators with a token: no share limits them.
    Process,
    /// All clients together that did not prove an identity where one is needed.
    Strangers,
    /// One principal.
    Principal(PrincipalKey),
}

/// An event that is to be written; its packed facts travel beside it.
#[derive(Debug)]
pub(in crate::telemetry::audit) struct QueuedEvent {
    /// Type of the event.
    pub(in crate::telemetry::audit) kind: &'static str,
    /// Position among the events of this process, from 1; an event that is dropped leaves a gap.
    pub(in crate::telemetry::audit) number: u64,
    pub(in crate::telemetry::audit) trace: EventTrace,
    pub(in crate::telemetry::audit) share: ShareKey,
    /// True for a denial, which counts to a share of its own.
    pub(in crate::telemetry::audit) is_denial: bool,
    /// Told when the event is written, or cannot be.
    pub(in crate::telemetry::audit) written: Option<oneshot::Sender<bool>>,
}

//! Audit events: one JSON line for each call and each other action, on files, standard output, syslog, and as
//! OTLP log records. Calls wait for none of it, unless `audit.failClosed` asks for that: events go through a
//! bounded queue to a thread, which writes their JSON, and a full queue drops them, counted.
//!
//! | room | holds |
//! |---|---|
//! | `event`, `event_id`, `field` | an event as JSON; its id; texts of clients in it |
//! | `floods` | refusals that leave no event of their own |
//! | `queue`, `sink` | the queue; its thread and its targets |
//! | `chain`, `verify` | the place of a line among the others, and its verification |
//! | `file_series`, `shares`, `rotating_file` | files, and what one principal may fill of them |
//! | `otlp_logs`, `syslog` | log records for a collector; messages for a syslog server |

mod chain;
mod event;
mod event_id;
mod field;
mod file_series;
mod floods;
mod otlp_logs;
mod queue;
mod rotating_file;
mod shares;
mod sink;
mod syslog;
pub mod verify;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::oneshot;
use uuid::Uuid;
use vmcp_config::{AUDIT_EVENT_TYPES, Audit};

use self::event::queued_event::{QueuedEvent, ShareKey};
pub(in crate::telemetry) use self::field::clip;
use self::floods::{Flood, RefusalFloods};
use self::otlp_logs::{EventTrace, OtlpLogs};
use self::queue::AuditQueue;
pub use self::sink::ConsoleStream;
use self::sink::{AuditSinks, Targets};
use super::TelemetryError;
use super::calls::{Action, ActionArea, Begun, CallObserver, CallRecord, Outcome, Refusal};
use super::metrics::Metrics;
use crate::access::identity::{Identity, Principal};

/// Type of the event of a request that ended before it was read.
const HTTP_REQUEST: &str = "http_request";
/// Outcome of a call of an item that does not exist.
const UNKNOWN: &str = "unknown";
/// A moment by which every flood has ended.
const LATER: Duration = Duration::from_hours(1);

/// Most memory that a thread keeps for the facts of its next event, 16 KiB.
const MAX_SCRATCH_BYTES: usize = 16 << 10;

thread_local! {
    /// Memory for the facts of an event, which the queue copies: an event costs no allocation.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Writes audit events, by the configuration in force.
#[derive(Debug)]
pub struct AuditTrail {
    console: ConsoleStream,
    metrics: Arc<Metrics>,
    running: ArcSwapOption<Running>,
    /// Most bytes of arguments that an event takes; 0: none.
    argument_bytes: AtomicUsize,
    /// Types of events that are written: a bit for each of [`AUDIT_EVENT_TYPES`]. Calls read this and the
    /// facts below, and follow no pointer to settings.
    wanted: AtomicU32,
    /// True if a call is not made unless its begin is on record.
    fails_closed: AtomicBool,
    /// True while events go to a collector, with the trace and the span of their calls.
    sends_traces: AtomicBool,
    floods: Arc<RefusalFloods>,
    policy_version: Arc<ArcSwap<String>>,
    queue: Arc<AuditQueue>,
}

/// Settings in force and the thread that writes.
#[derive(Debug)]
struct Running {
    settings: Audit,
    sinks: Arc<AuditSinks>,
}

impl AuditTrail {
    /// Prepares the trail; nothing is written before [`Self::apply`]. `console` gets the events if no file is
    /// configured.
    pub fn new(console: ConsoleStream, metrics: Arc<Metrics>) -> AuditTrail {
        AuditTrail {
            console,
            metrics,
            running: ArcSwapOption::empty(),
            argument_bytes: AtomicUsize::new(0),
            wanted: AtomicU32::new(0),
            fails_closed: AtomicBool::new(false),
            sends_traces: AtomicBool::new(false),
            floods: Arc::default(),
            policy_version: Arc::default(),
            // The id names this process in its events.
            queue: Arc::new(AuditQueue::new(Uuid::new_v4())),
        }
    }

    /// Puts settings in force; `None` ends the trail, which blocks for at most a second, while the events
    /// before are written.
    pub fn apply(&self, settings: Option<&Audit>) {
        let before = self.running.load_full();
        if before.as_ref().map(|running| &running.settings) == settings {
            return;
        }
        let argument_bytes = settings.and_then(|settings| settings.argument_bytes).unwrap_or(0);
        self.argument_bytes.store(argument_bytes, Ordering::Relaxed);
        let sends_traces = settings.is_some_and(|settings| settings.otlp.is_some());
        self.sends_traces.store(sends_traces, Ordering::Relaxed);
        let Some(settings) = settings else {
            self.fails_closed.store(false, Ordering::Release);
            self.wanted.store(0, Ordering::Relaxed);
            drop(before);
            return self.running.store(None);
        };
        let failed = |error: &TelemetryError| tracing::error!(%error, "audit events are not exported");
        let logs = settings.otlp.as_ref().map(|target| OtlpLogs::start(target, &self.metrics));
        let logs = logs.and_then(|started| started.inspect_err(failed).ok());
        // Events that wait still go to the targets before.
        self.queue.open(Targets::new(settings, self.console, logs));
        let sinks = before.map_or_else(|| self.start(), |running| Arc::clone(&running.sinks));
        self.running.store(Some(Arc::new(Running { settings: settings.clone(), sinks })));
        // Calls begin to use the settings when the thread has its targets.
        let wanted = settings.event_types.iter().fold(0, |wanted, kind| wanted | type_bit(kind));
        self.wanted.store(wanted, Ordering::Relaxed);
        self.fails_closed.store(settings.fail_closed, Ordering::Release);
    }

    /// True while events are written.
    fn is_on(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }

    /// Names the version of the policies in force.
    pub fn set_policy_version(&self, version: &str) {
        self.policy_version.store(Arc::new(version.to_owned()));
    }

    fn start(&self) -> Arc<AuditSinks> {
        let (floods, version) = (Arc::clone(&self.floods), Arc::clone(&self.policy_version));
        let left_out = move |all: bool| {
            let now = Instant::now() + if all { LATER } else { Duration::ZERO };
            let ended = floods.ended(now).into_iter();
            let event = |(share, principal, left_out): (ShareKey, Principal, u64)| {
                let action = Action {
                    result: "refusals that left no event",
                    is_refused: true,
                    ..Action::of_client(ActionArea::Request, "flood", &principal)
                };
                let mut packed = Vec::new();
                event::of_action(version.load().as_str(), &action, left_out, &mut packed);
                (queued(HTTP_REQUEST, share, true), packed)
            };
            ended.map(event).collect()
        };
        let queue = Arc::clone(&self.queue);
        Arc::new(AuditSinks::start(queue, Box::new(left_out), &self.metrics))
    }

    /// Queues the event whose facts `pack` appends, if events of its type are wanted. `decided`: the version
    /// of the policies that decided, if some did.
    fn write(
        &self,
        kind: &'static str,
        decided: Option<&str>,
        fill: impl FnOnce(QueuedEvent) -> QueuedEvent,
        pack: impl FnOnce(&str, &mut Vec<u8>),
    ) {
        if self.wanted.load(Ordering::Relaxed) & type_bit(kind) == 0 {
            return;
        }
        let in_force;
        let policy_version = if let Some(version) = decided {
            version
        } else {
            in_force = self.policy_version.load();
            in_force.as_str()
        };
        let mut packed = SCRATCH.try_with(Cell::take).unwrap_or_default();
        pack(policy_version, &mut packed);
        if !self.queue.push(fill(queued(kind, ShareKey::Process, false)), &packed) {
            self.metrics.audit_events_dropped.inc();
        }
        if packed.capacity() <= MAX_SCRATCH_BYTES {
            packed.clear();
            // Fails in a thread that ends.
            let _ = SCRATCH.try_with(|scratch| scratch.set(packed));
        }
    }

    /// Returns the trace and the span of a call, where events go to a collector. Other targets leave them
    /// out.
    fn trace_of(&self, record: &CallRecord) -> EventTrace {
        if self.sends_traces.load(Ordering::Relaxed) {
            EventTrace::of(record.trace, &record.span)
        } else {
            EventTrace::default()
        }
    }

    /// Counts a refusal; returns the number of refusals before it without an event, or `None` if this refusal
    /// is left out too.
    fn admit_refusal(&self, share: ShareKey, principal: &Principal) -> Option<u64> {
        match self.floods.enter(share, principal, Instant::now()) {
            Flood::Told(left_out) => Some(left_out),
            Flood::LeftOut => {
                self.metrics.audit_events_dropped.inc();
                None
            }
        }
    }
}

/// Returns the bit of a type of events.
fn type_bit(kind: &str) -> u32 {
    AUDIT_EVENT_TYPES.iter().position(|known| *known == kind).map_or(0, |at| 1 << at)
}

/// An event without a trace.
fn queued(kind: &'static str, share: ShareKey, is_denial: bool) -> QueuedEvent {
    QueuedEvent { kind, number: 0, trace: EventTrace::default(), share, is_denial, written: None }
}

/// Returns the share of a principal; clients that were refused before they proved an identity have one
/// together.
fn share_of(principal: &Principal, is_stranger: bool) -> ShareKey {
    match principal.identity {
        Identity::Anonymous if is_stranger => ShareKey::Strangers,
        _ => ShareKey::Principal(principal.key()),
    }
}

/// Log lines about refusals, as many a second for each principal as leave events.
#[derive(Debug, Default)]
pub(in crate::telemetry) struct RefusalLines(RefusalFloods);

impl RefusalLines {
    /// Counts a line; returns the number of lines before it that were left out, or `None` if this line is
    /// left out too.
    pub(in crate::telemetry) fn admit(&self, principal: &Principal) -> Option<u64> {
        match self.0.enter(share_of(principal, false), principal, Instant::now()) {
            Flood::Told(left_out) => Some(left_out),
            Flood::LeftOut => None,
        }
    }
}

impl CallObserver for AuditTrail {
    fn observe(&self, record: &CallRecord) {
        if !self.is_on() {
            return;
        }
        let (share, is_denial) = (share_of(&record.principal, false), event::is_denial(record));
        let mut left_out = 0;
        if record.outcome == Outcome::Failed(UNKNOWN) {
            let Some(count) = self.admit_refusal(share, &record.principal) else { return };
            left_out = count;
        }
        let trace = self.trace_of(record);
        let fill = |event| QueuedEvent { trace, share, is_denial, ..event };
        let decided = record.policy_version.as_deref();
        self.write(event::kind_of(&record.method), decided, fill, |version, packed| {
            event::of_call(version, record, left_out, packed);
        });
    }

    fn begins(&self, record: &CallRecord) -> Option<Begun> {
        if !self.fails_closed.load(Ordering::Acquire) {
            return None;
        }
        let (written, told) = oneshot::channel();
        let fill = |event| QueuedEvent {
            trace: self.trace_of(record),
            share: share_of(&record.principal, false),
            written: Some(written),
            ..event
        };
        let decided = record.policy_version.as_deref();
        self.write(event::kind_of(&record.method), decided, fill, |version, packed| {
            event::of_begin(version, record, packed);
        });
        Some(told)
    }

    fn refused(&self, refusal: &Refusal<'_>) {
        let kind = refusal.method.map_or(HTTP_REQUEST, event::kind_of);
        if !self.is_on() {
            return;
        }
        let share = share_of(refusal.principal, refusal.method.is_none());
        let Some(left_out) = self.admit_refusal(share, refusal.principal) else { return };
        let fill = |event| QueuedEvent {
            trace: EventTrace::without_span(refusal.trace),
            share,
            is_denial: true,
            ..event
        };
        self.write(kind, None, fill, |version, packed| event::of_refusal(version, refusal, left_out, packed));
    }

    fn acted(&self, action: &Action<'_>) {
        if !self.is_on() {
            return;
        }
        let share = match action.area {
            ActionArea::Admin | ActionArea::Server if action.actor.is_some() => ShareKey::Process,
            ActionArea::Admin | ActionArea::Server | ActionArea::Authorization => ShareKey::Strangers,
            ActionArea::Request | ActionArea::Session => share_of(action.principal, false),
        };
        let mut left_out = 0;
        if action.is_refused && share != ShareKey::Process {
            let Some(count) = self.admit_refusal(share, action.principal) else { return };
            left_out = count;
        }
        let is_denial = action.is_refused;
        let fill = |event| QueuedEvent { share, is_denial, ..event };
        self.write(action.area.event_type(), None, fill, |version, packed| {
            event::of_action(version, action, left_out, packed);
        });
    }

    fn argument_bytes(&self) -> usize {
        self.argument_bytes.load(Ordering::Relaxed)
    }

    fn digests_arguments(&self) -> bool {
        self.is_on()
    }
}

//! [`AuditSinks`]: the thread that writes the lines of events, chains them and sends them to each target:
//! file, console, syslog, collector.
//!
//! A thread of its own and not `tracing_appender`, which forgets lines that cannot be written; here they are
//! counted.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use vmcp_config::Audit;

use super::chain::{ChainMember, HashChain, STREAM};
use super::event;
use super::event::queued_event::QueuedEvent;
use super::file_series::{FileSeries, LinePlace, MAX_PIECE_BYTES};
use super::otlp_logs::OtlpLogs;
use super::queue::AuditQueue;
use super::queue::batch::{Batch, Next};
use super::syslog::SyslogSender;
use crate::metrics::Metrics;

/// Interval at which the counts of refusals without an event are written.
const TICK: Duration = Duration::from_secs(1);
/// Time that a sink that ends has to write the events that wait.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// Least time between two log lines about events that were not written.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Stream for events without a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsoleStream {
    /// Standard output.
    Stdout,
    /// Standard error, where standard output belongs to a client.
    Stderr,
}

/// Returns the events about refusals that left none, each with its facts; `true`: also those whose flood
/// still goes on.
pub(super) type LeftOut = Box<dyn Fn(bool) -> Vec<(QueuedEvent, Vec<u8>)> + Send>;

/// Targets of lines.
#[derive(Default)]
pub(super) struct Targets {
    /// Name of the server in events.
    component: String,
    file: Option<FileSeries>,
    /// Path, size and number of the files, until they are opened.
    file_settings: Option<(PathBuf, u64, u32)>,
    pub(super) console: Option<Box<dyn Write + Send>>,
    pub(super) syslog: Option<SyslogSender>,
    pub(super) logs: Option<OtlpLogs>,
}

impl fmt::Debug for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Targets")
            .field("file", &self.file)
            .field("syslog", &self.syslog)
            .finish_non_exhaustive()
    }
}

impl Targets {
    /// Returns the targets of settings. The console is for servers without another target, or with
    /// `audit.stdout`.
    pub(super) fn new(settings: &Audit, console: ConsoleStream, logs: Option<OtlpLogs>) -> Targets {
        let file_settings = settings.log_file.as_ref();
        let file_settings =
            file_settings.map(|path| (path.clone(), settings.max_file_bytes, settings.max_files));
        let syslog = settings.syslog.clone().map(|target| SyslogSender::new(target, &settings.component));
        let has_none = file_settings.is_none() && syslog.is_none() && logs.is_none();
        let console: Option<Box<dyn Write + Send>> =
            (settings.stdout || has_none).then(|| -> Box<dyn Write + Send> {
                match console {
                    ConsoleStream::Stdout => Box::new(io::stdout()),
                    ConsoleStream::Stderr => Box::new(io::stderr()),
                }
            });
        let component = settings.component.clone();
        Targets { component, file: None, file_settings, console, syslog, logs }
    }

    /// Continues the file, whose last line is read.
    fn opened(mut self) -> Targets {
        let settings = self.file_settings.take();
        self.file = settings.map(|(path, max_bytes, max_files)| FileSeries::new(&path, max_bytes, max_files));
        self
    }

    /// Writes the line of an event to every target but the file.
    fn send_elsewhere(&mut self, event: &QueuedEvent, line: &[u8]) -> io::Result<()> {
        let on_console = match &mut self.console {
            Some(console) => console.write_all(line).and_then(|()| console.flush()),
            None => Ok(()),
        };
        let at_syslog = self.syslog.as_mut().map_or(Ok(()), |syslog| syslog.send(event, line));
        if let Some(logs) = &self.logs {
            logs.write(event.kind, line, event.trace);
        }
        on_console.and(at_syslog)
    }
}

/// The thread that takes the events of a queue. Dropped, it waits for at most [`FLUSH_TIMEOUT`] until waiting
/// events are written.
#[derive(Debug)]
pub(super) struct AuditSinks {
    queue: Arc<AuditQueue>,
    /// Disconnected when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

impl AuditSinks {
    /// Starts the thread, which writes the events of `queue` to the targets in it.
    pub(super) fn start(queue: Arc<AuditQueue>, left_out: LeftOut, metrics: &Arc<Metrics>) -> AuditSinks {
        let (running, ended) = sync_channel(0);
        let writer = AuditWriter {
            targets: Targets::default(),
            member: ChainMember::new(queue.process()),
            lines: Vec::new(),
            stream: HashChain::new(STREAM, None),
            added: Vec::new(),
            metrics: Arc::clone(metrics),
            logged: None,
        };
        let thread = std::thread::Builder::new().name("vmcp-audit".to_owned());
        let (events, turn) = (Arc::clone(&queue), queue.turn());
        let started = thread.spawn(move || {
            writer.run(&events, turn, &left_out);
            drop::<SyncSender<()>>(running);
        });
        if let Err(error) = started {
            tracing::error!(%error, "audit events are lost: their thread could not be started");
            queue.close();
        }
        AuditSinks { queue, ended: Mutex::new(ended) }
    }
}

impl Drop for AuditSinks {
    fn drop(&mut self) {
        self.queue.close();
        // Ends with an error either way: disconnected, or out of time.
        let _ = self.ended.get_mut().recv_timeout(FLUSH_TIMEOUT);
    }
}

/// The thread's side of the queue.
struct AuditWriter {
    targets: Targets,
    /// The end of each line.
    member: ChainMember,
    /// Lines that wait to be written to the first file.
    lines: Vec<u8>,
    /// The chain of lines without a file.
    stream: HashChain,
    /// Events that other targets get too, or a call waits for, and whose outcome is open.
    added: Vec<Added>,
    metrics: Arc<Metrics>,
    /// Time of the last log line about an event that was not written.
    logged: Option<Instant>,
}

/// An event that has its line.
struct Added {
    event: QueuedEvent,
    /// Its line, if another target than the file gets it.
    line: Vec<u8>,
    /// The file that does not have the line yet.
    place: Option<LinePlace>,
    /// False if the file could not take the line, or the event has no target.
    is_in_file: bool,
}

impl AuditWriter {
    fn run(mut self, queue: &AuditQueue, turn: u64, left_out: &LeftOut) {
        let mut ticked = Instant::now();
        let mut batch = Batch::default();
        loop {
            let taken = queue.take(turn, batch, TICK);
            if taken.is_ousted {
                return;
            }
            batch = taken.batch;
            self.write(&mut batch);
            if taken.is_last {
                break;
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                for (event, facts) in left_out(false) {
                    if !queue.push(event, &facts) {
                        self.metrics.audit_events_dropped.inc();
                    }
                }
            }
        }
        self.write(&mut queue.closing_batch(left_out(true)));
    }

    /// Writes a batch to the targets.
    fn write(&mut self, batch: &mut Batch) {
        let (items, mut facts) = batch.drain();
        for next in items {
            match next {
                Next::Event { event, length } => {
                    let (of_event, rest) = facts.split_at_checked(length).unwrap_or((facts, &[]));
                    facts = rest;
                    self.add(event, of_event);
                }
                // The file before is closed first: it may be the same one.
                Next::Targets(targets) => {
                    self.flush();
                    self.targets = Targets::default();
                    self.targets = targets.opened();
                }
            }
        }
        self.flush();
    }

    /// Writes the line of an event for the file, and keeps a copy for the other targets, which get it by
    /// [`Self::flush`].
    fn add(&mut self, event: QueuedEvent, facts: &[u8]) {
        let Targets { component, file, console, syslog, logs, .. } = &mut self.targets;
        let has_others = console.is_some() || syslog.is_some() || logs.is_some();
        let begin = self.lines.len();
        event::write_json(event.kind, component, facts, &mut self.lines);
        self.member.end_line(event.number, &mut self.lines);
        let line = self.lines.get_mut(begin..).unwrap_or_default();
        let (place, copy) = if let Some(file) = file {
            let place = file.add(&event, line);
            (Some(place), if has_others { line.to_vec() } else { Vec::new() })
        } else {
            (None, self.stream.link_copy(line))
        };
        if !matches!(place, Some(LinePlace::Main(_))) {
            self.lines.truncate(begin);
        }
        // An event that a thread before was too slow to take.
        let has_no_target = place.is_none() && !has_others;
        if has_no_target {
            self.metrics.audit_events_dropped.inc();
        }
        if has_others || event.written.is_some() {
            self.added.push(Added { event, line: copy, place, is_in_file: !has_no_target });
        }
        let is_full = self.targets.file.as_ref().is_some_and(FileSeries::is_full);
        if is_full || self.lines.len() >= MAX_PIECE_BYTES {
            self.flush_file();
        }
    }

    /// Writes the files, and counts the events that they do not take.
    fn flush_file(&mut self) {
        let Some(file) = &mut self.targets.file else { return };
        let flushed = file.flush(&self.lines);
        self.lines.clear();
        let [main, busy] = &flushed;
        for added in &mut self.added {
            added.is_in_file &= match added.place.take() {
                Some(LinePlace::Main(before)) => before < main.written,
                Some(LinePlace::Busy(before)) => before < busy.written,
                None => true,
            };
        }
        for flushed in flushed {
            self.metrics.audit_events_dropped.inc_by(flushed.lost as u64);
            if let Some(error) = flushed.fault {
                self.report(&error);
            }
        }
    }

    /// Writes the files, then the lines at the other targets, and tells the waiting calls. The file comes
    /// first: a slow console or syslog server delays no line of it. An event counts as written if each target
    /// that tells took it; a collector does not tell.
    fn flush(&mut self) {
        self.flush_file();
        let mut flushed = std::mem::take(&mut self.added);
        for Added { event, line, is_in_file, .. } in flushed.drain(..) {
            let elsewhere = self.targets.send_elsewhere(&event, &line);
            if let Err(error) = &elsewhere {
                // An event that the file lacks is counted already.
                self.metrics.audit_events_dropped.inc_by(is_in_file.into());
                self.report(error);
            }
            if let Some(waiting) = event.written {
                // The call may have been cancelled meanwhile.
                let _ = waiting.send(is_in_file && elsewhere.is_ok());
            }
        }
        // Empty, with its memory.
        self.added = flushed;
        // A large event may have made it large, also where no file is written.
        self.lines.shrink_to(2 * MAX_PIECE_BYTES);
    }

    fn report(&mut self, error: &io::Error) {
        if self.logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
            self.logged = Some(Instant::now());
            tracing::error!(%error, "audit events are lost: they cannot be written (audit.logFile, audit.syslog)");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use uuid::Uuid;

    use super::super::event::queued_event::ShareKey;
    use super::super::otlp_logs::EventTrace;
    use super::super::queue::MAX_WAITING_BYTES;
    use super::super::verify;
    use super::*;
    use crate::access::identity::Principal;
    use crate::telemetry::calls::Action;

    /// A target that takes nothing before `open` is dropped.
    struct Stalled(Receiver<()>);

    impl Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A full disk.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Notes for each line the number of lines that a file has by then.
    struct Comparing(PathBuf, Arc<Mutex<Vec<usize>>>);

    impl Write for Comparing {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1.lock().push(std::fs::read_to_string(&self.0).unwrap_or_default().lines().count());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the packed facts of an event.
    fn facts() -> Vec<u8> {
        let (process, mut packed) = (Principal::default(), Vec::new());
        event::of_action("", &Action::of_process("start", &process), 0, &mut packed);
        packed
    }

    fn event() -> QueuedEvent {
        let (kind, trace, share) = ("mcp_request", EventTrace::default(), ShareKey::Process);
        QueuedEvent { kind, number: 0, trace, share, is_denial: false, written: None }
    }

    /// Queues an event, or counts it as dropped.
    fn write(sinks: &AuditSinks, metrics: &Metrics, event: QueuedEvent, facts: &[u8]) {
        if !sinks.queue.push(event, facts) {
            metrics.audit_events_dropped.inc();
        }
    }

    fn writing_to(target: Box<dyn Write + Send>, metrics: &Arc<Metrics>) -> AuditSinks {
        let queue = Arc::new(AuditQueue::new(Uuid::nil()));
        queue.open(Targets { console: Some(target), ..Targets::default() });
        AuditSinks::start(queue, Box::new(|_| Vec::new()), metrics)
    }

    #[test]
    fn a_stalled_target_blocks_nobody_and_what_it_misses_is_counted() {
        let metrics = Arc::<Metrics>::default();
        let (open, opened) = sync_channel(0);
        let sinks = writing_to(Box::new(Stalled(opened)), &metrics);
        let started = Instant::now();
        let (many, facts) = (MAX_WAITING_BYTES / 100, facts());
        for _ in 0..many {
            write(&sinks, &metrics, event(), &facts);
        }
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        let dropped = metrics.audit_events_dropped.get() as usize;
        assert!(dropped > 0 && dropped < many, "{dropped} of {many}");
        drop::<SyncSender<()>>(open);
    }

    #[test]
    fn the_file_has_a_batch_before_the_console() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let noted = Arc::<Mutex<Vec<usize>>>::default();
        let console: Box<dyn Write + Send> = Box::new(Comparing(path.clone(), Arc::clone(&noted)));
        let file_settings = Some((path, 1 << 20, 2));
        let queue = Arc::new(AuditQueue::new(Uuid::nil()));
        queue.open(Targets { file_settings, console: Some(console), ..Targets::default() });
        for _ in 0..3 {
            assert!(queue.push(event(), &facts()));
        }
        let metrics = Arc::<Metrics>::default();
        drop(AuditSinks::start(queue, Box::new(|_| Vec::new()), &metrics));
        assert_eq!(*noted.lock(), [3, 3, 3]);
    }

    #[test]
    fn lines_of_a_busy_client_leave_no_gap_among_the_others() {
        let (folder, (written, told)) = (tempfile::tempdir().unwrap(), oneshot::channel());
        let path = folder.path().join("audit.jsonl");
        let queue = Arc::new(AuditQueue::new(Uuid::nil()));
        queue.open(Targets { file_settings: Some((path.clone(), 100_000, 1000)), ..Targets::default() });
        let share = |address: &str| ShareKey::Principal(Principal::at(address).key());
        let (facts, busy, other) = (facts(), share("10.0.0.1"), share("10.0.0.2"));
        for number in 0..2000 {
            let share = if number % 100 == 0 { other } else { busy };
            assert!(queue.push(QueuedEvent { share, ..event() }, &facts));
        }
        assert!(queue.push(QueuedEvent { written: Some(written), ..event() }, &facts));
        let _sinks = AuditSinks::start(queue, Box::new(|_| Vec::new()), &Arc::default());
        assert_eq!(told.blocking_recv(), Ok(true));
        let report = verify::verify(&[path]).unwrap();
        assert!(report.faults.is_empty(), "{report:?}");
        assert_eq!((report.events, report.missing, report.cut_beginnings), (2001, 0, 0));
        assert!(report.files.iter().any(|file| file.ends_with("audit.jsonl.busy")), "{report:?}");
    }

    #[test]
    fn events_have_the_component_of_the_settings_under_which_they_happened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let targets = |component: &str| {
            let file_settings = Some((path.clone(), 1 << 20, 2));
            Targets { component: component.to_owned(), file_settings, ..Targets::default() }
        };
        let queue = Arc::new(AuditQueue::new(Uuid::nil()));
        for component in ["one", "two"] {
            queue.open(targets(component));
            assert!(queue.push(event(), &facts()));
        }
        drop(AuditSinks::start(queue, Box::new(|_| Vec::new()), &Arc::default()));
        let text = std::fs::read_to_string(&path).unwrap();
        let components: Vec<_> =
            text.lines().map(|line| (line.contains("\"one\""), line.contains("\"two\""))).collect();
        assert_eq!(components, [(true, false), (false, true)]);
        assert!(verify::verify(&[path]).unwrap().faults.is_empty());
    }

    #[test]
    fn a_thread_that_is_slow_to_end_takes_no_event_of_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let metrics = Arc::<Metrics>::default();
        let (open, opened) = sync_channel(0);
        let slow = writing_to(Box::new(Stalled(opened)), &metrics);
        let queue = Arc::clone(&slow.queue);
        write(&slow, &metrics, event(), &facts());
        drop(slow);
        queue.open(Targets { file_settings: Some((path.clone(), 1 << 20, 2)), ..Targets::default() });
        let next = AuditSinks::start(queue, Box::new(|_| Vec::new()), &metrics);
        drop::<SyncSender<()>>(open);
        for _ in 0..50 {
            let (written, told) = oneshot::channel();
            write(&next, &metrics, QueuedEvent { written: Some(written), ..event() }, &facts());
            assert_eq!(told.blocking_recv(), Ok(true));
        }
        drop(next);
        assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 50);
    }

    #[test]
    fn events_that_a_full_disk_refuses_are_counted_and_told() {
        let metrics = Arc::<Metrics>::default();
        let sinks = writing_to(Box::new(Full), &metrics);
        let (written, told) = oneshot::channel();
        write(&sinks, &metrics, QueuedEvent { written: Some(written), ..event() }, &facts());
        write(&sinks, &metrics, event(), &facts());
        drop(sinks);
        assert_eq!(metrics.audit_events_dropped.get(), 2);
        assert_eq!(told.blocking_recv(), Ok(false));
    }
}

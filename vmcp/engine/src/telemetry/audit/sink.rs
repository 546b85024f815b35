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
mod tests;

//! [`AuditSink`]: a bounded queue of lines, and the thread that writes them.
//!
//! A thread of its own and not `tracing_appender`, which forgets lines that cannot be written; here they are
//! counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use vmcp_config::Audit;

use super::rotating_file::RotatingFile;
use crate::telemetry::metrics::Metrics;

/// Events that wait for the thread, about 8 MiB; further ones are dropped and counted.
const MAX_WAITING_EVENTS: usize = 16_384;
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

/// Takes events, and never blocks. Dropped, it waits for at most [`FLUSH_TIMEOUT`] until those that wait are
/// written.
#[derive(Debug)]
pub(super) struct AuditSink {
    /// `None` only while it is dropped.
    lines: Option<SyncSender<Vec<u8>>>,
    /// Disconnected when the thread has ended.
    ended: Mutex<Receiver<()>>,
    metrics: Arc<Metrics>,
}

impl AuditSink {
    /// Starts the thread.
    pub(super) fn start(settings: &Audit, console: ConsoleStream, metrics: &Arc<Metrics>) -> AuditSink {
        let target: Box<dyn Write + Send> = match (&settings.log_file, console) {
            (Some(path), _) => {
                Box::new(RotatingFile::new(path.clone(), settings.max_file_bytes, settings.max_files))
            }
            (None, ConsoleStream::Stdout) => Box::new(io::stdout()),
            (None, ConsoleStream::Stderr) => Box::new(io::stderr()),
        };
        AuditSink::writing_to(target, metrics)
    }

    fn writing_to(target: Box<dyn Write + Send>, metrics: &Arc<Metrics>) -> AuditSink {
        let (lines, queue) = sync_channel(MAX_WAITING_EVENTS);
        let (running, ended) = sync_channel(0);
        let writer = AuditWriter { target, metrics: Arc::clone(metrics), logged: None };
        let thread = std::thread::Builder::new().name("vmcp-audit".to_owned());
        let started = thread.spawn(move || {
            writer.run(&queue);
            drop::<SyncSender<()>>(running);
        });
        if let Err(error) = started {
            tracing::error!(%error, "audit events are lost: their thread could not be started");
        }
        AuditSink { lines: Some(lines), ended: Mutex::new(ended), metrics: Arc::clone(metrics) }
    }

    /// Queues a line; a full queue drops it.
    pub(super) fn write(&self, line: Vec<u8>) {
        if self.lines.as_ref().is_none_or(|lines| lines.try_send(line).is_err()) {
            self.metrics.audit_events_dropped.inc();
        }
    }
}

impl Drop for AuditSink {
    fn drop(&mut self) {
        self.lines = None;
        // Ends with an error either way: disconnected, or out of time.
        let _ = self.ended.get_mut().recv_timeout(FLUSH_TIMEOUT);
    }
}

/// The thread's side of the queue.
struct AuditWriter {
    target: Box<dyn Write + Send>,
    metrics: Arc<Metrics>,
    /// Time of the last log line about an event that was not written.
    logged: Option<Instant>,
}

impl AuditWriter {
    fn run(mut self, queue: &Receiver<Vec<u8>>) {
        while let Ok(line) = queue.recv() {
            let written = self.target.write_all(&line).and_then(|()| self.target.flush());
            if let Err(error) = written {
                self.metrics.audit_events_dropped.inc();
                self.report(&error);
            }
        }
    }

    fn report(&mut self, error: &io::Error) {
        if self.logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
            self.logged = Some(Instant::now());
            tracing::error!(%error, "audit events are lost: they cannot be written (audit.logFile)");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_stalled_target_blocks_nobody_and_what_it_misses_is_counted() {
        let metrics = Arc::<Metrics>::default();
        let (open, opened) = sync_channel(0);
        let sink = AuditSink::writing_to(Box::new(Stalled(opened)), &metrics);
        let started = Instant::now();
        for _ in 0..MAX_WAITING_EVENTS + 100 {
            sink.write(b"{}\n".to_vec());
        }
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        // One is with the thread.
        assert!((99..=100).contains(&metrics.audit_events_dropped.get()));
        drop::<SyncSender<()>>(open);
    }

    #[test]
    fn events_that_a_full_disk_refuses_are_counted() {
        let metrics = Arc::<Metrics>::default();
        let sink = AuditSink::writing_to(Box::new(Full), &metrics);
        sink.write(b"{}\n".to_vec());
        sink.write(b"{}\n".to_vec());
        drop(sink);
        assert_eq!(metrics.audit_events_dropped.get(), 2);
    }
}

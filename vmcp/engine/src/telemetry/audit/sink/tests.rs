//! The thread that writes events, by what arrives in files and elsewhere.

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

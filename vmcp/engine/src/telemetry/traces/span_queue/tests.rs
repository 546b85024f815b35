//! The queue with a collector of the test.

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest,
};

use super::super::open_span::Sampling;
use super::super::protobuf::ProtobufWriter;
use super::*;

/// Starts a queue whose requests are answered by `answer`, and told by their number of spans.
fn queue(answer: impl Fn() -> Result<Bytes, String> + Send + 'static) -> (SpanQueue, mpsc::Receiver<usize>) {
    queue_with(DELAY, answer)
}

fn queue_with(
    delay: Duration,
    answer: impl Fn() -> Result<Bytes, String> + Send + 'static,
) -> (SpanQueue, mpsc::Receiver<usize>) {
    let (tell, told) = mpsc::channel();
    let send = move |request: Bytes| {
        let request = ExportTraceServiceRequest::decode(request).unwrap();
        let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        // The test may have ended.
        let _ = tell.send(scopes.map(|scope| scope.spans.len()).sum());
        answer()
    };
    (SpanQueue::start_with(ResourceMessage::default(), delay, send).unwrap(), told)
}

fn push(queue: &SpanQueue, spans: usize, share: f64) {
    for _ in 0..spans {
        let memory = ProtobufWriter::default();
        let mut span = OpenSpan::begin(memory, "a span", None, Sampling::new(share));
        queue.push(&mut span, SystemTime::now());
    }
}

/// Pushes a span of more than this many bytes.
fn push_large(queue: &SpanQueue, bytes: usize) {
    let mut large = OpenSpan::begin(ProtobufWriter::default(), "", None, Sampling::new(1.0));
    large.rename(&[&"n".repeat(bytes)]);
    queue.push(&mut large, SystemTime::now());
}

#[test]
fn spans_beyond_the_bytes_of_the_queue_are_dropped_and_counted() {
    let (allow, allowed) = mpsc::channel::<()>();
    let allowed = Mutex::new(allowed);
    let (queue, told) = queue(move || {
        // The end of the test allows all of them.
        let _ = allowed.lock().recv();
        Ok(Bytes::new())
    });
    let in_batch = 8;
    let (fit, further) = (in_batch * (MAX_FULL_BYTES / BATCH_BYTES + 1), 5);
    let before = Signal::Traces.lost();
    for _ in 0..fit + further {
        push_large(&queue, BATCH_BYTES / in_batch);
    }
    // Other tests of the process may lose spans too.
    assert!(Signal::Traces.lost() - before >= further as u64);
    drop(allow);
    queue.flush(false).unwrap();
    let requests: Vec<_> = told.try_iter().collect();
    assert_eq!(requests, vec![in_batch; fit / in_batch]);
    push(&queue, 1, 1.0);
    queue.finish().unwrap();
    assert_eq!(told.try_iter().sum::<usize>(), 1, "exported spans make room");
}

#[test]
fn spans_of_all_batches_stay_within_the_bytes_of_the_queue() {
    let shared = Shared::new(10);
    // A span that fills a batch, with its key and its length.
    let span = vec![0; BATCH_BYTES - 4];
    let fill_all = || {
        for shard in &shared.shards {
            let mut open = shard.open.lock();
            if !open.spans.is_full() {
                open.spans.add(&span);
            }
        }
    };
    fill_all();
    while shared.hand_over(&mut shared.shard().open.lock().spans) {
        fill_all();
    }
    shared.take_open(true, false);
    fill_all();
    let open: usize = shared.shards.iter().map(|shard| shard.open.lock().spans.bytes()).sum();
    let bytes = shared.waiting.lock().bytes + open;
    assert!(bytes > MAX_WAITING_BYTES - 2 * BATCH_BYTES && bytes <= MAX_WAITING_BYTES, "{bytes}");
}

#[test]
fn spans_of_all_threads_are_exported() {
    let (queue, told) = queue_with(Duration::from_mins(10), || Ok(Bytes::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 * SHARDS {
            scope.spawn(|| push(&queue, 10, 1.0));
        }
    });
    queue.finish().unwrap();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [2 * SHARDS * 10], "one request");
}

#[test]
fn batches_are_put_together_up_to_the_bytes_of_a_request() {
    let shared = Shared::new(10);
    let mut waiting = shared.waiting.lock();
    let half = vec![0; BATCH_BYTES / 2 - 100];
    for (count, bytes) in [(1, half.len()), (1, 2 * half.len()), (2, 3 * half.len())] {
        let mut open = SpanBatch::within(Vec::new(), 10);
        open.add(&half);
        waiting.take(&mut open);
        assert_eq!((waiting.full.len(), open.count(), open.bytes()), (count, 0, 0));
        // Each span has its key and its length.
        assert!((bytes..bytes + 100).contains(&waiting.bytes), "{} of {bytes}", waiting.bytes);
    }
    let counts: Vec<_> = waiting.full.iter().map(SpanBatch::count).collect();
    assert_eq!(counts, [2, 1]);
}

#[test]
fn a_busy_thread_does_not_hold_up_the_spans_of_another_one() {
    let (queue, told) = queue_with(Duration::from_millis(20), || Ok(Bytes::new()));
    let is_told = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_told.load(Ordering::Relaxed) {
                push_large(&queue, BATCH_BYTES);
            }
        });
        push(&queue, 50, 1.0);
        let until = Instant::now() + Duration::from_secs(20);
        let mut requests =
            std::iter::from_fn(|| told.recv_timeout(until.saturating_duration_since(Instant::now())).ok());
        // The requests of the busy thread alone have one span.
        let is_exported = requests.any(|spans| spans > 1);
        is_told.store(true, Ordering::Relaxed);
        assert!(is_exported);
    });
}

#[test]
fn a_span_after_the_last_flush_is_counted_as_lost() {
    let (queue, told) = queue(|| Ok(Bytes::new()));
    queue.finish().unwrap();
    let before = Signal::Traces.lost();
    push(&queue, 2, 1.0);
    assert!(Signal::Traces.lost() - before >= 2);
    assert!(told.recv().is_err(), "the thread has ended");
}

#[test]
fn an_idle_queue_keeps_no_memory() {
    let shared = Shared::new(10);
    let add = || shared.shard().open.lock().spans.add(b"a span");
    let spares = || shared.waiting.lock().spares.len();
    shared.waiting.lock().spares = (0..3).map(|_| Vec::new()).collect();
    add();
    shared.take_open(true, false);
    assert_eq!((spares(), shared.waiting.lock().full.len()), (2, 1), "a batch was in use");
    shared.take_open(false, false);
    assert_eq!((spares(), shared.waiting.lock().full.len()), (2, 1), "a flush of nothing");
    shared.take_open(true, false);
    assert_eq!(spares(), 0);
    for _ in 0..2 * MAX_SPARES {
        shared.waiting.lock().release(0, Vec::with_capacity(1_000));
    }
    assert_eq!(spares(), MAX_SPARES);
}

#[test]
fn a_flush_exports_the_spans_that_wait_and_reports_a_failure() {
    let (queue, told) = queue(|| Err("it is down".to_owned()));
    push(&queue, 3, 1.0);
    let before = Signal::Traces.lost();
    assert_eq!(queue.flush(false), Err("it is down".to_owned()));
    assert!(Signal::Traces.lost() - before >= 3);
    assert_eq!(told.recv().unwrap(), 3);
    queue.finish().unwrap();
    assert!(told.recv().is_err(), "nothing is left, and the thread has ended");
}

#[test]
fn spans_that_are_not_sampled_are_not_exported() {
    let (queue, told) = queue(|| Ok(Bytes::new()));
    push(&queue, 1_000, 0.0);
    queue.finish().unwrap();
    assert!(told.recv().is_err());
}

#[test]
fn spans_that_the_collector_rejects_are_lost() {
    let (queue, _told) = queue(|| {
        let partial_success =
            ExportTracePartialSuccess { rejected_spans: 2, error_message: "too old".to_owned() };
        let answer = ExportTraceServiceResponse { partial_success: Some(partial_success) };
        Ok(answer.encode_to_vec().into())
    });
    push(&queue, 3, 1.0);
    let before = Signal::Traces.lost();
    let failed = queue.flush(false).unwrap_err();
    assert_eq!(failed, "the collector rejected 2 of 3 spans: too old");
    assert!(Signal::Traces.lost() - before >= 2);
}

#[test]
fn a_large_span_ends_its_batch() {
    let (queue, told) = queue_with(Duration::from_mins(10), || Ok(Bytes::new()));
    push_large(&queue, BATCH_BYTES);
    assert_eq!(told.recv_timeout(Duration::from_mins(1)), Ok(1), "it does not wait for others");
}

#[test]
fn the_memory_of_a_request_is_used_again_once_it_was_sent() {
    let mut memory = Vec::with_capacity(10_000);
    memory.extend_from_slice(b"a request");
    let place = memory.as_ptr();
    let request = Bytes::from(memory).slice(2..);
    let reader = request.clone();
    assert_eq!(memory_of(request).capacity(), 0, "the connection has it");
    let memory = memory_of(reader);
    assert_eq!((memory.as_ptr(), memory.len(), memory.capacity()), (place, 0, 10_000));
    assert_eq!(memory_of(vec![0_u8; MAX_REUSED_BYTES + 1].into()).capacity(), 0, "a huge span");
}

#[test]
fn a_queue_that_is_dropped_ends_its_thread() {
    let (queue, told) = queue(|| Ok(Bytes::new()));
    drop(queue);
    assert!(told.recv().is_err());
}

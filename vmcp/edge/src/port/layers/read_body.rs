//! [`ReadBody`]: reads the body of a POST within its size and its time, and within the byte budgets of its
//! principal and of the process.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::header::EXPECT;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time;
use vmcp_backend::{ByteBudget, ByteBudgetExhausted, HeldBytes};
use vmcp_wire::codes;

use crate::transport::http::exchange::{Admitted, Arrival, Received, Response, Service};
use crate::transport::http::refuse;
use crate::transport::http::request_permit::{ExtraBytes, QuotaExceeded, RequestPermit};
use vmcp_engine::telemetry::metrics::{Metrics, RefusalLabels};

/// A body of this many bytes or more that arrived in one piece is kept as it is. A smaller one is copied, so
/// that it does not hold the connection's whole read buffer.
const KEPT_PIECE: usize = 4 * 1024;
/// Bytes that a body counts beyond its own while it is incomplete: what its connection keeps meanwhile, the
/// read buffer of hyper above all, and a share of what refused connections leave behind. Measured with 10,000
/// bodies that stop half way.
const INCOMPLETE_BODY_COST: usize = 96 * 1024;
/// Bytes below which a piece counts as tiny.
const TINY_PIECE: usize = 64;
/// Tiny pieces of one body; more are refused. Each costs its reader about a microsecond, however small.
const MAX_TINY_PIECES: usize = 16 * 1024;
/// Tiny pieces that are read in a row; then other requests have their turn.
const TINY_TURN: usize = 64;
/// Bytes of a refused body that are read and dropped.
const MAX_DRAINED_BYTES: usize = 16 * 1024 * 1024;
/// Bytes that a dropped piece counts at least.
const MIN_DRAINED_PIECE: usize = 512;
/// Time limit of that.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Refused bodies that are read and dropped at a time: each keeps the buffers of its connection, which no
/// budget counts.
const MAX_DRAINS: usize = 128;

/// Places for refused bodies that are read and dropped.
static DRAINS: Semaphore = Semaphore::const_new(MAX_DRAINS);

/// A body that could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body is larger than {limit} bytes (optimizer.limits.bodyBytes)")]
    TooLarge { limit: usize },
    #[error(
        "the body comes in more than {MAX_TINY_PIECES} pieces of fewer than {TINY_PIECE} bytes; send larger \
         chunks"
    )]
    TooManyPieces,
    #[error("the body broke off")]
    Broken,
    #[error("the body did not arrive within {} seconds (server.receiveTimeout)", .0.as_secs())]
    TooSlow(Duration),
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    #[error(transparent)]
    Budget(#[from] ByteBudgetExhausted),
}

/// The layer that adds the body.
pub(crate) struct ReadBody<S> {
    budget: ByteBudget,
    metrics: Arc<Metrics>,
    inner: S,
}

impl<S> ReadBody<S> {
    /// Reads bodies into `budget` before `inner` serves the request.
    pub(crate) fn new(budget: ByteBudget, metrics: Arc<Metrics>, inner: S) -> Self {
        Self { budget, metrics, inner }
    }

    fn count(&self, problem: &BodyError) {
        match problem {
            BodyError::Quota(exceeded) => count_exceeded(&self.metrics, *exceeded),
            BodyError::Budget(_) => {
                let reason = RefusalLabels { reason: "buffered_bytes" };
                self.metrics.client_requests_refused.get_or_create(&reason).inc();
            }
            _ => {}
        }
    }
}

impl<S: Service<Received>> Service<Admitted> for ReadBody<S> {
    async fn call(&self, Admitted { arrival, principal, permit }: Admitted) -> Response {
        let (Some(permit), &Method::POST) = (permit, &arrival.head.method) else {
            let Arrival { head, snapshot, connection, port, .. } = arrival;
            return self
                .inner
                .call(Received { head, principal, body: Bytes::new(), port, connection, snapshot })
                .await;
        };
        if let Err(response) = refuse::media_types(&arrival.head.headers) {
            return refuse_unread(arrival, *response);
        }
        let config = &arrival.snapshot.config;
        let (limit, timeout) = (config.optimizer.limits.body_bytes, config.server.receive_timeout);
        let read = Collector { bytes: Vec::new(), held: self.budget.begin(), permit, limit };
        let mut arrival = arrival;
        match bounded(&mut arrival.body, read, timeout).await {
            Ok(body) => {
                let Arrival { head, snapshot, connection, port, .. } = arrival;
                self.inner.call(Received { head, principal, body, port, connection, snapshot }).await
            }
            Err(problem) => {
                self.count(&problem);
                let response = refusal(&problem);
                match problem {
                    BodyError::Broken | BodyError::TooSlow(_) => response,
                    _ => refuse_unread(arrival, response),
                }
            }
        }
    }
}

/// Reads a body that is not a message of MCP: of at most `limit` bytes, and within the same budgets.
pub(super) async fn read_within(
    body: &mut Incoming,
    budget: &ByteBudget,
    permit: RequestPermit,
    limit: usize,
    timeout: Duration,
) -> Result<Bytes, Response> {
    let read = Collector { bytes: Vec::new(), held: budget.begin(), permit, limit };
    bounded(body, read, timeout).await.map_err(|problem| refusal(&problem))
}

/// 413, 400 or 408: a body too large, broken off, or too slow. 429 or 503: no room for it.
fn refusal(problem: &BodyError) -> Response {
    let status = match problem {
        BodyError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::Broken | BodyError::TooManyPieces => StatusCode::BAD_REQUEST,
        BodyError::TooSlow(_) => StatusCode::REQUEST_TIMEOUT,
        BodyError::Quota(exceeded) => return refuse::quota(*exceeded),
        BodyError::Budget(exhausted) => {
            return refuse::later(StatusCode::SERVICE_UNAVAILABLE, &exhausted.to_string());
        }
    };
    refuse::error_response(status, None, codes::INVALID_REQUEST, &problem.to_string())
}

/// Counts a refusal at the limits of a principal.
pub(super) fn count_exceeded(metrics: &Metrics, exceeded: QuotaExceeded) {
    let reason = match exceeded {
        QuotaExceeded::Requests(_) => "client_requests",
        QuotaExceeded::Bytes(_) => "client_bytes",
    };
    metrics.client_requests_refused.get_or_create(&RefusalLabels { reason }).inc();
}

/// Refuses a request whose body is unread. The rest of the body is dropped as it comes, within
/// [`MAX_DRAINED_BYTES`] and [`DRAIN_TIMEOUT`]: closing the connection under a client that still sends would
/// lose the refusal. Beyond [`MAX_DRAINS`] the connection is closed.
pub(super) fn refuse_unread(arrival: Arrival, response: Response) -> Response {
    let Arrival { head, mut body, reading, .. } = arrival;
    // A client that waits for `100 Continue` sends no body unless it is read.
    let waits = head.headers.contains_key(EXPECT);
    if waits || body.is_end_stream() || body.size_hint().lower() > MAX_DRAINED_BYTES as u64 {
        return response;
    }
    let Ok(place) = DRAINS.try_acquire() else {
        reading.refuse_unread();
        return response;
    };
    tokio::spawn(async move {
        let drained = async {
            let mut dropped = 0;
            while let Some(Ok(frame)) = body.frame().await {
                dropped += frame.data_ref().map_or(0, Bytes::len).max(MIN_DRAINED_PIECE);
                if dropped > MAX_DRAINED_BYTES {
                    return;
                }
            }
        };
        // The body is refused whether or not it could be drained.
        let _ = time::timeout(DRAIN_TIMEOUT, drained).await;
        drop((place, reading));
    });
    response
}

/// Reads a body within its limits.
async fn bounded(body: &mut Incoming, read: Collector, timeout: Duration) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > read.limit as u64 {
        return Err(BodyError::TooLarge { limit: read.limit });
    }
    // Most bodies have arrived with their headers, in one piece: no timer.
    let mut reading = std::pin::pin!(read.whole(body));
    match futures::poll!(reading.as_mut()) {
        Poll::Ready(result) => result,
        Poll::Pending => time::timeout(timeout, reading).await.unwrap_or(Err(BodyError::TooSlow(timeout))),
    }
}

/// The part of a body that has arrived. Pieces are copied into one buffer: a piece of one byte would
/// otherwise cost a hundred.
struct Collector {
    bytes: Vec<u8>,
    held: HeldBytes,
    permit: RequestPermit,
    limit: usize,
}

impl Collector {
    /// Reads the whole body.
    async fn whole(mut self, body: &mut Incoming) -> Result<Bytes, BodyError> {
        let mut incomplete = None;
        let mut tiny = 0;
        loop {
            let frame = match futures::poll!(body.frame()) {
                Poll::Ready(frame) => frame,
                Poll::Pending => {
                    if incomplete.is_none() {
                        incomplete = Some(self.count_incomplete()?);
                    }
                    body.frame().await
                }
            };
            let Some(frame) = frame else { break };
            // Trailers carry nothing that MCP uses.
            let Ok(piece) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
            if self.bytes.len() + piece.len() > self.limit {
                return Err(BodyError::TooLarge { limit: self.limit });
            }
            if self.bytes.is_empty() && piece.len() >= KEPT_PIECE && body.is_end_stream() {
                self.count(piece.len())?;
                return Ok(self.attach(piece));
            }
            self.push(&piece, body.size_hint().exact())?;
            if piece.len() < TINY_PIECE {
                tiny += 1;
                if tiny > MAX_TINY_PIECES {
                    return Err(BodyError::TooManyPieces);
                }
                if tiny.is_multiple_of(TINY_TURN) {
                    yield_now().await;
                }
            }
        }
        let bytes = std::mem::take(&mut self.bytes).into();
        Ok(self.attach(bytes))
    }

    /// Appends a piece; `left` bytes are still to come, if that is known. The capacity is counted, for it is
    /// what the body costs. It doubles, so that a sender pays with bytes for what it holds.
    fn push(&mut self, piece: &[u8], left: Option<u64>) -> Result<(), BodyError> {
        let (length, capacity) = (self.bytes.len() + piece.len(), self.bytes.capacity());
        if length > capacity {
            let whole = left.and_then(|left| length.checked_add(usize::try_from(left).ok()?));
            let wanted = whole.unwrap_or(usize::MAX).min((2 * capacity).max(length));
            self.count(wanted - capacity)?;
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// Counts [`INCOMPLETE_BODY_COST`] until the result is dropped.
    fn count_incomplete(&self) -> Result<(ExtraBytes, HeldBytes), BodyError> {
        let mut held = self.held.budget().begin();
        held.try_add(INCOMPLETE_BODY_COST)?;
        Ok((self.permit.try_hold_extra(INCOMPLETE_BODY_COST)?, held))
    }

    fn count(&mut self, more: usize) -> Result<(), BodyError> {
        self.permit.try_hold(more)?;
        Ok(self.held.try_add(more)?)
    }

    /// Ties what is counted to the bytes, so that both end together, wherever the bytes go.
    fn attach(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(CountedBody { bytes, _held: self.held, _permit: self.permit })
    }
}

/// The owner of a body's bytes.
struct CountedBody {
    bytes: Bytes,
    _held: HeldBytes,
    _permit: RequestPermit,
}

impl AsRef<[u8]> for CountedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;
    use crate::transport::http::request_permit::{PrincipalQuota, PrincipalUsage};
    use vmcp_engine::access::identity::Principal;

    fn collector(budget: &ByteBudget) -> Collector {
        let quota = PrincipalQuota { requests: 10, bytes: 1 << 20 };
        let permit = PrincipalUsage::new(Gauge::default()).enter(Principal::default().key(), quota).unwrap();
        Collector { bytes: Vec::new(), held: budget.begin(), permit, limit: 1 << 20 }
    }

    #[test]
    fn a_body_in_pieces_of_one_byte_costs_at_most_twice_its_size() {
        let budget = ByteBudget::default();
        let mut read = collector(&budget);
        for _ in 0..100_000 {
            read.push(b"x", None).unwrap();
        }
        assert!(budget.held() < 200_001, "{}", budget.held());
        assert_eq!(budget.held(), read.bytes.capacity());
        let bytes = std::mem::take(&mut read.bytes).into();
        let body = read.attach(bytes);
        assert_eq!(body.len(), 100_000);
        drop(body);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn a_body_of_known_length_costs_its_length_and_no_more_than_the_budget() {
        let budget = ByteBudget::new(10_000);
        let mut read = collector(&budget);
        read.push(&[0; 6000], Some(3000)).unwrap();
        read.push(&[0; 3000], Some(0)).unwrap();
        assert_eq!(budget.held(), 9000);
        let refused = collector(&budget).push(&[0; 2000], Some(0));
        assert!(matches!(refused, Err(BodyError::Budget(_))), "{refused:?}");
    }
}

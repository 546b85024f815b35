//! [`IncrementalResult`]: translates a result for its client while it arrives.

use bytes::Bytes;
use vmcp_json::byte_rope::ByteRope;

use super::changes::ResultRules;
use super::{ResultPlan, ResultType, named};
use crate::message::rpc;
use crate::payload::{Key, ScanError, ScannedKeys, Scanner};

/// Bytes of an answer that are held back at most; more is an error that ends the answer.
///
/// Held back are a key until it is known, and a value that decides on a change: `resultType`, and metadata
/// that may become empty.
const MAX_HELD_BYTES: usize = 64 << 10;

/// The reason why an answer that has begun to arrive cannot be completed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArrivalError {
    /// The bytes are not an answer.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// A result that is not a complete answer: a question or a task.
    #[error("the answer turned out to be of type `{0}` after its beginning was relayed")]
    NotComplete(String),
    /// A key, or a value that must be held back, is too large.
    #[error(
        "the answer has a key or a value of more than {MAX_HELD_BYTES} bytes that cannot be relayed in parts"
    )]
    TooMuchHeld,
    /// The envelope has a `method` or an `error` beside its `result`.
    #[error("the answer is no JSON-RPC response: it has `{0}` beside `result`")]
    Envelope(&'static str),
}

/// A result on its way from a backend to a client, in pieces. Its output is that of [`super::forward()`]
/// within [`rpc::response_around`], however the answer is cut into pieces; at most 64 KiB are held back.
///
/// ```
/// use vmcp_json::byte_rope::ByteRope;
/// use vmcp_wire::era::Era;
/// use vmcp_wire::payload::Scanner;
/// use vmcp_wire::translate::{IncrementalResult, ResultPlan};
///
/// let mut scanner = Scanner::default();
/// let so_far = ByteRope::from(r#"{"jsonrpc":"2.0","id":5,"result":{"resultType":"complete","content":["#);
/// so_far.clone().into_bytes().chunks(9).try_for_each(|piece| scanner.push(piece))?;
/// assert!(scanner.has_begun_result("5", &so_far));
///
/// let plan = ResultPlan { from: Era::Modern, to: Era::Legacy, ..Default::default() };
/// let mut result = IncrementalResult::begin("tools/call", &plan, "\"client's\"", scanner, so_far)?;
/// assert_eq!(result.take().into_bytes(), r#"{"jsonrpc":"2.0","id":"client's","result":{"content":["#);
/// result.push(r#"1,2"#.into())?;
/// assert_eq!(result.take().into_bytes(), "1,2");
/// result.push(r#"]}}"#.into())?;
/// assert_eq!(result.finish()?.0.into_bytes(), "]}}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct IncrementalResult {
    method: String,
    plan: ResultPlan<'static>,
    server_info: Option<String>,
    scanner: Scanner,
    /// Bytes that were received and not yet decided on.
    held: ByteRope,
    /// Offset of the first held byte in the answer.
    held_from: usize,
    /// Bytes for the client.
    out: ByteRope,
}

impl IncrementalResult {
    /// Begins with what has arrived: `so_far`, which `scanner` has read and found to be the beginning of a
    /// result ([`Scanner::has_begun_result`]). `id` is the client's, as JSON.
    ///
    /// A `request_state` in the plan is ignored: only results that require input have one.
    pub fn begin(
        method: &str,
        plan: &ResultPlan<'_>,
        id: &str,
        scanner: Scanner,
        so_far: ByteRope,
    ) -> Result<Self, ArrivalError> {
        let ResultPlan { from, to, hints, .. } = *plan;
        let mut result = Self {
            method: method.to_owned(),
            plan: ResultPlan { from, to, hints, server_info: None, request_state: None },
            server_info: plan.server_info.map(ToOwned::to_owned),
            scanner,
            held: so_far,
            held_from: 0,
            out: ByteRope::from(rpc::response_head(id)),
        };
        let start = result.scanner.found().range(Key::Result).map_or(0, |range| range.start);
        result.skip_to(start);
        result.decide()?;
        Ok(result)
    }

    /// Reads the next piece. After an error the answer cannot be completed.
    pub fn push(&mut self, piece: Bytes) -> Result<(), ArrivalError> {
        self.scanner.push(&piece)?;
        self.held.push(piece);
        self.decide()
    }

    /// Returns the bytes that can be sent now.
    pub fn take(&mut self) -> ByteRope {
        std::mem::take(&mut self.out)
    }

    /// Ends the answer: returns the last bytes, and the keys that were found in it.
    pub fn finish(mut self) -> Result<(ByteRope, ScannedKeys), ArrivalError> {
        let found = self.scanner.finish()?;
        for key in [Key::Method, Key::Error] {
            if found.has(key) {
                return Err(ArrivalError::Envelope(key.name()));
            }
        }
        self.out.push("}");
        Ok((self.out, found))
    }

    /// Moves what needs no further decision to the output.
    fn decide(&mut self) -> Result<(), ArrivalError> {
        let found = self.scanner.found().clone();
        let plan = ResultPlan { server_info: self.server_info.as_deref(), ..self.plan };
        let rules = ResultRules::new(&self.method, &plan);
        let progress = self.scanner.progress();
        let is_read = |key| match &progress {
            None => true,
            Some(progress) => {
                key != Key::Result && progress.key != Some(key) && progress.meta_key != Some(key)
            }
        };
        if found.has(Key::ResultType) && is_read(Key::ResultType) {
            self.check_type(&rules, &found)?;
        }
        let changes = rules.changes(&found, is_read);
        let is_open_cut = |key: Key| key != Key::ResultType && !is_read(key) && rules.removes(&found, key);
        let (settled, is_cut) = match &progress {
            None => (found.range(Key::Result).map_or(0, |range| range.end), false),
            Some(progress) if rules.change_nothing() => (progress.offset, false),
            Some(progress) => {
                let mut settled = progress.between.unwrap_or(progress.offset);
                let mut is_cut = false;
                let in_meta = progress.key == Some(Key::Meta) && found.is_object(Key::Meta);
                let undecided_meta = in_meta && rules.may_empty_meta(&found);
                for key in [progress.key, progress.meta_key].into_iter().flatten() {
                    let waits = if key == Key::Meta && in_meta {
                        undecided_meta
                    } else {
                        key == Key::ResultType
                            || rules.removes(&found, key)
                            || rules.replaces(&found, key).is_some()
                    };
                    if let Some(place) = found.place(key).filter(|_| waits) {
                        settled = settled.min(place.separator);
                        is_cut |= !undecided_meta && is_open_cut(key);
                    }
                }
                (settled, is_cut)
            }
        };
        for change in changes {
            if change.range.end > settled && change.range.start >= settled {
                break;
            }
            if change.range.start >= self.held_from {
                self.emit_to(change.range.start);
                self.out.push(change.text);
            }
            self.skip_to(change.range.end);
        }
        self.emit_to(settled);
        if is_cut || progress.is_none() {
            // The bytes of an entry that is cut out, and of the envelope behind the result.
            self.skip_to(self.held_from + self.held.len());
        }
        if self.held.len() > MAX_HELD_BYTES { Err(ArrivalError::TooMuchHeld) } else { Ok(()) }
    }

    fn check_type(&self, rules: &ResultRules<'_>, found: &ScannedKeys) -> Result<(), ArrivalError> {
        let Some(range) = found.range(Key::ResultType) else { return Ok(()) };
        // Checked once: afterwards the bytes have been given away.
        if range.start < self.held_from {
            return Ok(());
        }
        let value = self.held.slice(range.start - self.held_from..range.end - self.held_from).into_bytes();
        let value = String::from_utf8_lossy(&value);
        let name = vmcp_json::text::unquoted(&value).unwrap_or_default();
        match named(name) {
            kind if rules.allow(&kind) => Ok(()),
            ResultType::InputRequired => Err(ArrivalError::NotComplete("input_required".to_owned())),
            ResultType::Task => Err(ArrivalError::NotComplete("task".to_owned())),
            ResultType::Other(name) => Err(ArrivalError::NotComplete(name.chars().take(64).collect())),
            ResultType::Complete => Ok(()),
        }
    }

    /// Moves the held bytes in front of offset `end` to the output.
    fn emit_to(&mut self, end: usize) {
        let front = self.held.split_to(end.saturating_sub(self.held_from));
        self.held_from += front.len();
        self.out.append(front);
    }

    /// Drops the held bytes in front of offset `end`.
    fn skip_to(&mut self, end: usize) {
        self.held_from += self.held.split_to(end.saturating_sub(self.held_from)).len();
    }
}

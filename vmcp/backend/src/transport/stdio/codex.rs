//! Puts the adapter of Codex between a program and its multiplexer.

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tracing::Instrument as _;
use vmcp_codex::{AdapterSettings, Lines, serve};

/// Bytes in each direction of the pipe to the adapter.
const PIPE_BYTES: usize = 64 * 1024;

/// Returns streams that speak MCP, in place of those of an app server of Codex. The adapter ends when either
/// side has ended.
pub(super) fn adapted(
    stdin: impl AsyncWrite + Unpin + Send + 'static,
    stdout: impl AsyncRead + Unpin + Send + 'static,
    settings: AdapterSettings,
    max_line: usize,
) -> (WriteHalf<DuplexStream>, ReadHalf<DuplexStream>) {
    let (ours, of_adapter) = duplex(PIPE_BYTES);
    let (reader, writer) = split(of_adapter);
    let codex = Lines { reader: stdout, writer: stdin };
    let served = serve(Lines { reader, writer }, codex, settings, max_line);
    tokio::spawn(served.in_current_span());
    let (reader, writer) = split(ours);
    (writer, reader)
}

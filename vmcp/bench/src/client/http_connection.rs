//! HTTP/1.1 by hand over one kept-alive connection: one write a request, few reads, no allocation once warm.

use std::io::ErrorKind;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail, ensure};
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Free bytes in the buffer before each read.
const READ_BUFFER_BYTES: usize = 16 << 10;

/// A connection that carries one request at a time.
pub(crate) struct HttpConnection {
    stream: TcpStream,
    input: Vec<u8>,
    /// Bytes of `input` that [`HttpConnection::line`] has handed out.
    taken: usize,
    /// A chunked body, joined.
    joined: Vec<u8>,
}

/// A response, borrowed from the buffer of its connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HttpResponse<'a> {
    pub(crate) status: u16,
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl<'a> HttpResponse<'a> {
    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&'a str> {
        header(self.head, name)
    }

    /// Returns the JSON document: the body, or the data of the last event of an event stream.
    pub(crate) fn document(&self) -> Result<&'a [u8]> {
        if !self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return Ok(self.body);
        }
        let start = memmem::rfind(self.body, b"data:").context("a stream without data")?;
        let data = self.body.get(start + 5..).unwrap_or_default();
        let line = memchr::memchr(b'\n', data).and_then(|end| data.get(..end)).unwrap_or(data);
        Ok(line.trim_ascii())
    }
}

impl HttpConnection {
    /// Connects, without Nagle's algorithm.
    pub(crate) async fn open(address: SocketAddr) -> Result<HttpConnection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(HttpConnection {
            stream,
            input: Vec::with_capacity(READ_BUFFER_BYTES),
            taken: 0,
            joined: Vec::new(),
        })
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> Result<HttpResponse<'_>> {
        let head = self.begin(request).await?;
        self.finish(head).await
    }

    /// Sends a request and reads until `bytes` of the response's body have arrived; returns the length of the
    /// head, for [`HttpConnection::finish`].
    pub(crate) async fn begin_body(&mut self, request: &[u8], bytes: usize) -> Result<usize> {
        let head = self.begin(request).await?;
        while self.input.len() < head + bytes {
            self.read().await?;
        }
        Ok(head)
    }

    /// Sends a part of a request. The server may have refused it before and closed the connection.
    pub(crate) async fn send_part(&mut self, part: &[u8]) {
        _ = self.stream.write_all(part).await;
    }

    /// Returns true if an answer has arrived, or the server has closed the connection.
    pub(crate) fn has_input(&self) -> bool {
        !matches!(self.stream.try_read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    /// Reads the rest of a response whose head has this length.
    pub(crate) async fn finish(&mut self, head: usize) -> Result<HttpResponse<'_>> {
        let text = self.input.get(..head).unwrap_or_default();
        let status = status(text)?;
        if header(text, "transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            self.joined.clear();
            let mut at = head;
            while let Some(next) = self.chunk(at).await? {
                at = next;
            }
            return Ok(HttpResponse {
                status,
                head: self.input.get(..head).unwrap_or_default(),
                body: &self.joined,
            });
        }
        let length: usize = match header(text, "content-length") {
            Some(length) => length.parse()?,
            None if status == 204 || status == 202 => 0,
            None => bail!("a response that says not how long it is"),
        };
        let whole = head + length;
        self.fill(whole).await?;
        ensure!(self.input.len() == whole, "more than one response");
        let (head, body) = self.input.split_at(head);
        Ok(HttpResponse { status, head, body })
    }

    /// Sends a request and reads up to the end of the response's head; returns its length.
    async fn begin(&mut self, request: &[u8]) -> Result<usize> {
        self.input.clear();
        self.stream.write_all(request).await?;
        loop {
            if let Some(end) = memmem::find(&self.input, b"\r\n\r\n") {
                return Ok(end + 4);
            }
            self.read().await?;
        }
    }

    /// Sends a request that a stream answers, and reads the head of the response.
    pub(crate) async fn listen(&mut self, request: &[u8]) -> Result<()> {
        let head = self.begin(request).await?;
        let status = status(&self.input)?;
        ensure!(status == 200, "a stream was refused with HTTP {status}");
        self.input.drain(..head);
        Ok(())
    }

    /// Returns the next line of a stream. Sizes of chunks are lines too.
    pub(crate) async fn line(&mut self) -> Result<&[u8]> {
        self.input.drain(..self.taken);
        self.taken = 0;
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.input) {
                self.taken = end + 1;
                return Ok(self.input.get(..end).unwrap_or_default());
            }
            self.read().await?;
        }
    }

    /// Appends the chunk at `at` to the body; returns the position of the next one, `None` after the last.
    async fn chunk(&mut self, at: usize) -> Result<Option<usize>> {
        let (start, size) = loop {
            let line = self.input.get(at..).unwrap_or_default();
            if let Some(end) = memmem::find(line, b"\r\n") {
                let text = std::str::from_utf8(line.get(..end).unwrap_or_default())?;
                let size = text.split(';').next().unwrap_or_default();
                break (at + end + 2, usize::from_str_radix(size.trim(), 16)?);
            }
            self.read().await?;
        };
        let end = start + size;
        self.fill(end + 2).await?;
        self.joined.extend_from_slice(self.input.get(start..end).unwrap_or_default());
        Ok((size > 0).then_some(end + 2))
    }

    /// Reads until the buffer holds `whole` bytes.
    async fn fill(&mut self, whole: usize) -> Result<()> {
        self.input.reserve((whole + 1).saturating_sub(self.input.len()));
        while self.input.len() < whole {
            self.read().await?;
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<()> {
        if self.input.capacity() == self.input.len() {
            self.input.reserve(READ_BUFFER_BYTES);
        }
        ensure!(self.stream.read_buf(&mut self.input).await? > 0, "the connection was closed");
        Ok(())
    }
}

fn status(head: &[u8]) -> Result<u16> {
    let digits = head.get(9..12).context("no status line")?;
    Ok(std::str::from_utf8(digits)?.parse()?)
}

fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    head.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
        let (key, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?;
        key.eq_ignore_ascii_case(name.as_bytes()).then(|| std::str::from_utf8(value.trim_ascii()).ok())?
    })
}

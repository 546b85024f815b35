//! [`RawConnection`]: a bare TCP connection, for requests that no HTTP client would send.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::WAIT_TIMEOUT;

/// A bare connection to a server.
pub struct RawConnection(TcpStream);

impl RawConnection {
    /// Connects to `address`, unless nothing listens there.
    pub async fn open(address: &str) -> Option<Self> {
        TcpStream::connect(address).await.ok().map(Self)
    }

    /// Sends `bytes`.
    pub async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("an open connection");
    }

    /// Sends `bytes`; the server may have closed the connection by then.
    pub async fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes).await;
    }

    /// Returns the next `length` bytes.
    pub async fn read(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let read = timeout(WAIT_TIMEOUT, self.0.read_exact(&mut bytes)).await.expect("an answer in time");
        read.expect("an open connection");
        bytes
    }

    /// Returns the status line and the headers of the next answer.
    pub async fn read_head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(self.read(1).await);
        }
        String::from_utf8_lossy(&head).into_owned()
    }

    /// Returns everything that the server sends until it closes the connection.
    pub async fn read_to_close(&mut self) -> String {
        let mut all = Vec::new();
        // A reset ends the connection too.
        let _ = timeout(WAIT_TIMEOUT, self.0.read_to_end(&mut all))
            .await
            .expect("the server closes the connection");
        String::from_utf8_lossy(&all).into_owned()
    }

    /// Returns the socket.
    pub fn into_stream(self) -> TcpStream {
        self.0
    }
}

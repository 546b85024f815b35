//! Something that answers `/admin/status` in place of a pod: without a node, no pod runs.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A listener at an address of its own in 127.0.0.0/8, at the admin port.
pub struct StandIn {
    address: String,
    report: Arc<Mutex<Value>>,
    serving: JoinHandle<()>,
}

impl StandIn {
    /// Answers whoever knows `token`.
    pub async fn start(token: &str) -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let third = std::process::id() % 200 + 1;
        let address = format!("127.77.{third}.{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let listener =
            TcpListener::bind((address.as_str(), 9090)).await.expect("an address of the loopback network");
        let report = Arc::new(Mutex::new(Value::Null));
        let (said, expected) =
            (report.clone(), format!("authorization: bearer {}", token.to_ascii_lowercase()));
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let text = said.lock().unwrap_or_else(PoisonError::into_inner).to_string();
                tokio::spawn(answer(stream, text, expected.clone()));
            }
        });
        Self { address, report, serving }
    }

    /// What it says from now on.
    pub fn say(&self, report: Value) {
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = report;
    }

    /// For `status.podIP`.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(mut stream: TcpStream, text: String, expected: String) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_buf(&mut request).await {
            Ok(1..) => {}
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).to_ascii_lowercase();
    let known = request.contains(&expected) && request.starts_with("get /admin/status ");
    let (status, text) = if known { ("200 OK", text.as_str()) } else { ("401 Unauthorized", "") };
    let length = text.len();
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    drop(stream.write_all(format!("{head}{text}").as_bytes()).await);
}

//! A forward proxy, as companies have between their network and the Internet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Passes requests on to the servers whose names it knows, by absolute request targets and by `CONNECT`.
pub struct ForwardProxy {
    /// Host and port of the proxy.
    pub address: String,
    heads: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl ForwardProxy {
    /// Starts a proxy that knows these names, each with the address of its server.
    pub async fn start(names: &[(&str, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        let names: HashMap<String, String> =
            names.iter().map(|(name, server)| ((*name).to_owned(), (*server).to_owned())).collect();
        let (names, heads) = (Arc::new(names), Arc::new(Mutex::new(Vec::new())));
        let log = Arc::clone(&heads);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass_on(client, Arc::clone(&names), Arc::clone(&log)));
            }
        });
        Self { address, heads, task }
    }

    /// Returns the heads of the first requests of all connections.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("the heads").clone()
    }
}

impl Drop for ForwardProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(mut client: TcpStream, names: Arc<HashMap<String, String>>, log: Arc<Mutex<Vec<String>>>) {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        if client.read_buf(&mut bytes).await.unwrap_or_default() == 0 {
            return;
        }
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    log.lock().expect("the heads").push(head.clone());
    let target = head.split(' ').nth(1).unwrap_or_default();
    let authority = target.trim_start_matches("http://").split('/').next().unwrap_or_default();
    let host = authority.split(':').next().unwrap_or_default();
    let Some(address) = names.get(host) else {
        let _ = client.write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n").await;
        return;
    };
    let Ok(mut server) = TcpStream::connect(address).await else { return };
    let first = if head.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await
    } else {
        server.write_all(&bytes).await
    };
    if first.is_ok() {
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}

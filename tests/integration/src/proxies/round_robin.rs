//! Round-robin balancer of TCP connections, as a Kubernetes Service is one: it knows no MCP.

use parking_lot::Mutex;
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// A running balancer. Connections outlive it.
pub struct RoundRobin {
    /// URL of the MCP endpoint that the servers share.
    pub url: String,
    rotation: Arc<Mutex<Rotation>>,
    cut: Arc<Notify>,
    accepting: AbortHandle,
}

#[derive(Default)]
struct Rotation {
    /// Addresses of servers that get new connections.
    servers: Vec<String>,
    next: usize,
}

impl RoundRobin {
    /// Starts a balancer in front of the servers at these URLs.
    pub async fn start(urls: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let servers = urls.iter().map(|url| address(url)).collect();
        let rotation = Arc::new(Mutex::new(Rotation { servers, next: 0 }));
        let (shared, cut) = (Arc::clone(&rotation), Arc::new(Notify::new()));
        let cutting = Arc::clone(&cut);
        let accept = async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (server, cut) = (next(&shared), Arc::clone(&cutting));
                tokio::spawn(async move {
                    // A server that refuses the connection is left to the client to see: its connection
                    // closes.
                    if let Ok(mut server) = TcpStream::connect(server).await {
                        let _ = (client.set_nodelay(true), server.set_nodelay(true));
                        tokio::select! {
                            _ = copy_bidirectional(&mut client, &mut server) => {}
                            () = cut.notified() => {}
                        }
                    }
                });
            }
        };
        Self { url, rotation, cut, accepting: tokio::spawn(accept).abort_handle() }
    }

    /// Gives a server no new connections, as a rollout does before it ends a pod; open ones go on.
    pub fn take_out(&self, url: &str) {
        self.lock().servers.retain(|server| *server != address(url));
    }

    /// Puts a server back into rotation.
    pub fn put_back(&self, url: &str) {
        self.lock().servers.push(address(url));
    }

    /// Breaks all open connections.
    pub fn cut(&self) {
        self.cut.notify_waiters();
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Rotation> {
        self.rotation.lock()
    }
}

impl Drop for RoundRobin {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn next(rotation: &Mutex<Rotation>) -> String {
    let mut rotation = rotation.lock();
    rotation.next += 1;
    rotation.servers[rotation.next % rotation.servers.len()].clone()
}

fn address(url: &str) -> String {
    url.trim_start_matches("http://").split('/').next().unwrap_or_default().to_owned()
}

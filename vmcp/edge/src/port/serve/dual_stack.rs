//! Binds ports: `[::]` serves both families of addresses.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// Connections that wait to be accepted, as the standard library and tokio have it.
const BACKLOG: i32 = 1024;

/// Binds an address. `[::]` is every address of both families, whatever the system's default is
/// (`net.ipv6.bindv6only`); where IPv6 is off, it is every IPv4 address.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    if !(address.is_ipv6() && address.ip().is_unspecified()) {
        return TcpListener::bind(address).await;
    }
    match both_families(address) {
        Err(error) if is_without_ipv6(&error) => {
            tracing::debug!(%error, "IPv6 is off here; serving IPv4 alone");
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

fn both_families(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_only_v6(false)?;
    // A restart must not wait for connections that linger.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// True for the errors of a kernel or a container without IPv6.
fn is_without_ipv6(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.kind() == io::ErrorKind::Unsupported
        || error.raw_os_error() == Some(AF_NOT_SUPPORTED)
}

/// `EAFNOSUPPORT`: the kernel lacks this family of addresses.
#[cfg(target_os = "linux")]
const AF_NOT_SUPPORTED: i32 = 97;
#[cfg(not(target_os = "linux"))]
const AF_NOT_SUPPORTED: i32 = 47;

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn the_unspecified_address_serves_both_families() {
        let listener = bind("[::]:0".parse().unwrap()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let (_, from) = listener.accept().await.unwrap();
        assert!(from.ip().to_canonical().is_loopback());
        if listener.local_addr().unwrap().is_ipv6() && TcpStream::connect(("::1", port)).await.is_ok() {
            listener.accept().await.unwrap();
        }
        assert!(bind("127.0.0.1:0".parse().unwrap()).await.unwrap().local_addr().unwrap().is_ipv4());
    }
}

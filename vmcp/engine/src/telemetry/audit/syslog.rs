//! [`SyslogSender`]: events as syslog messages (RFC 5424), over UDP (RFC 5426), TCP with octet counting (RFC
//! 6587) or a local socket.

use std::io::{self, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _, UdpSocket};
#[cfg(unix)]
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant, SystemTime};

use vmcp_config::SyslogTarget;

use super::event::queued_event::QueuedEvent;

/// Facility 13, "log audit".
const FACILITY: u8 = 13;
/// Severity of an event, and of a denial.
const NOTICE: u8 = 5;
const WARNING: u8 = 4;
/// Time for a connection, and for a message.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Most bytes of a message in one datagram: UDP has room for 65,507.
const MAX_DATAGRAM_BYTES: usize = 65_000;
/// Least time between two attempts to connect.
const RETRY: Duration = Duration::from_secs(5);

/// Sends messages; connects with the first one.
#[derive(Debug)]
pub(super) struct SyslogSender {
    target: SyslogTarget,
    component: String,
    host: String,
    connection: Option<Connection>,
    failed_at: Option<Instant>,
}

#[derive(Debug)]
enum Connection {
    Udp(UdpSocket),
    Tcp(TcpStream),
    #[cfg(unix)]
    Local(UnixDatagram),
}

impl SyslogSender {
    /// Prepares messages of `component` to `target`.
    pub(super) fn new(target: SyslogTarget, component: &str) -> SyslogSender {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let host = word(&host.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default(), 255);
        let component = word(component, 48);
        SyslogSender { target, component, host, connection: None, failed_at: None }
    }

    /// Sends the line of an event.
    pub(super) fn send(&mut self, event: &QueuedEvent, line: &[u8]) -> io::Result<()> {
        if self.connection.is_none() && self.failed_at.is_some_and(|failed| failed.elapsed() < RETRY) {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the syslog server is away"));
        }
        let time = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
        let message = message(event, line, &time, &self.host, &self.component);
        let is_stream = matches!(self.target, SyslogTarget::Tcp { .. });
        if !is_stream && message.len() > MAX_DATAGRAM_BYTES {
            // The fault of one event: the server is not away, and takes the events of other clients.
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the event is longer than a datagram"));
        }
        let sent = self.transmit(&message);
        if sent.is_err() {
            (self.connection, self.failed_at) = (None, Some(Instant::now()));
        }
        sent
    }

    fn transmit(&mut self, message: &[u8]) -> io::Result<()> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.target)?,
        };
        match self.connection.insert(connection) {
            Connection::Udp(socket) => socket.send(message).map(drop),
            Connection::Tcp(stream) => {
                // One write, so that a frame is not torn by an error between its parts.
                let mut frame = format!("{} ", message.len()).into_bytes();
                frame.extend_from_slice(message);
                stream.write_all(&frame)
            }
            #[cfg(unix)]
            Connection::Local(socket) => socket.send(message).map(drop),
        }
    }
}

/// Connects to the first address that answers.
fn connect(target: &SyslogTarget) -> io::Result<Connection> {
    let addresses = |host: &str, port: u16| (host, port).to_socket_addrs();
    let none = || io::Error::new(io::ErrorKind::NotFound, "the syslog server has no address");
    match target {
        SyslogTarget::Udp { host, port } => {
            let address = addresses(host, *port)?.next().ok_or_else(none)?;
            let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any)?;
            socket.connect(address)?;
            Ok(Connection::Udp(socket))
        }
        SyslogTarget::Tcp { host, port } => {
            let mut outcome = Err(none());
            for address in addresses(host, *port)? {
                outcome = TcpStream::connect_timeout(&address, TIMEOUT);
                if outcome.is_ok() {
                    break;
                }
            }
            let stream = outcome?;
            stream.set_write_timeout(Some(TIMEOUT))?;
            Ok(Connection::Tcp(stream))
        }
        #[cfg(unix)]
        SyslogTarget::Unix { path } => {
            let socket = UnixDatagram::unbound()?;
            socket.connect(path)?;
            socket.set_write_timeout(Some(TIMEOUT))?;
            Ok(Connection::Local(socket))
        }
        #[cfg(not(unix))]
        SyslogTarget::Unix { .. } => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Returns a message: header, no structured data, and the event as UTF-8.
fn message(event: &QueuedEvent, line: &[u8], time: &str, host: &str, component: &str) -> Vec<u8> {
    let priority = FACILITY * 8 + if event.is_denial { WARNING } else { NOTICE };
    let (process, kind) = (std::process::id(), event.kind);
    let mut message =
        format!("<{priority}>1 {time} {host} {component} {process} {kind} - \u{feff}").into_bytes();
    message.extend_from_slice(line.trim_ascii_end());
    message
}

/// Returns a field of a header: printable ASCII, `-` if nothing is left.
fn word(text: &str, most: usize) -> String {
    let word: String = text.chars().filter(char::is_ascii_graphic).take(most).collect();
    if word.is_empty() { "-".to_owned() } else { word }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::super::event::queued_event::ShareKey;
    use super::super::otlp_logs::EventTrace;
    use super::*;

    fn event(is_denial: bool) -> QueuedEvent {
        let (share, trace) = (ShareKey::Strangers, EventTrace::default());
        QueuedEvent { kind: "mcp_tool_call", number: 1, trace, share, is_denial, written: None }
    }

    #[test]
    fn a_message_has_the_fields_of_rfc_5424() {
        let text = message(&event(true), b"{\"a\":1}\n", "2026-11-26T14:05:01.123456Z", "pod-1", "vmcp");
        let expected = format!(
            "<108>1 2026-11-26T14:05:01.123456Z pod-1 vmcp {} mcp_tool_call - \u{feff}{{\"a\":1}}",
            std::process::id()
        );
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert_eq!(word("my pod\n<1>", 48), "mypod<1>");
        assert_eq!(word("\u{202e}", 48), "-");
    }

    #[test]
    fn an_event_that_is_too_long_for_a_datagram_costs_itself_only() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let mut udp = SyslogSender::new(SyslogTarget::Udp { host: "127.0.0.1".into(), port }, "vmcp");
        assert!(udp.send(&event(false), &vec![b'x'; 70_000]).is_err());
        udp.send(&event(false), b"{\"n\":1}\n").unwrap();
        let mut datagram = [0; 512];
        let length = server.recv(&mut datagram).unwrap();
        assert!(String::from_utf8_lossy(&datagram[..length]).ends_with("{\"n\":1}"));
    }

    #[test]
    fn messages_arrive_over_each_transport_and_a_missing_server_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut tcp = SyslogSender::new(SyslogTarget::Tcp { host: "127.0.0.1".into(), port }, "vmcp");
        tcp.send(&event(false), b"{\"n\":1}\n").unwrap();
        tcp.send(&event(false), b"{\"n\":2}\n").unwrap();
        drop(tcp);
        let mut received = String::new();
        listener.accept().unwrap().0.read_to_string(&mut received).unwrap();
        let (length, rest) = received.split_once(' ').unwrap();
        let first = rest.get(..length.parse().unwrap()).unwrap();
        assert!(first.starts_with("<109>1 ") && first.ends_with("{\"n\":1}"), "{received}");
        assert!(received.ends_with("{\"n\":2}"), "{received}");

        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let mut udp = SyslogSender::new(SyslogTarget::Udp { host: "127.0.0.1".into(), port }, "vmcp");
        udp.send(&event(false), b"{\"n\":3}\n").unwrap();
        let mut datagram = [0; 512];
        let length = server.recv(&mut datagram).unwrap();
        assert!(String::from_utf8_lossy(&datagram[..length]).ends_with("{\"n\":3}"));

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let server = UnixDatagram::bind(&path).unwrap();
        let mut local = SyslogSender::new(SyslogTarget::Unix { path: path.clone() }, "vmcp");
        local.send(&event(false), b"{\"n\":4}\n").unwrap();
        let length = server.recv(&mut datagram).unwrap();
        assert!(String::from_utf8_lossy(&datagram[..length]).ends_with("{\"n\":4}"));

        let mut gone = SyslogSender::new(SyslogTarget::Unix { path: folder.path().join("none") }, "vmcp");
        assert!(gone.send(&event(false), b"{}").is_err());
    }
}

//! TCP ports on which the processes of a group listen, read from `/proc`; none on systems without it.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// First port of the range from which the system takes ports by itself, if it does not say so.
const DEFAULT_EPHEMERAL: u16 = 32_768;
/// State of a listening socket in `/proc/PID/net/tcp`.
const LISTEN: &str = "0A";

/// Returns a port below the ephemeral range on which one of these processes listens: the program chose it,
/// and a second process of the program would too. Blocks.
pub(super) fn fixed_port(processes: &[u32]) -> Option<u16> {
    let ephemeral = ephemeral_begin();
    processes.iter().find_map(|process| {
        let folder = format!("/proc/{process}");
        let sockets = sockets(Path::new(&folder));
        if sockets.is_empty() {
            return None;
        }
        let tables = ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("{folder}/net/{table}")));
        tables.iter().flatten().find_map(|table| {
            let mut lines = table.lines().skip(1).filter_map(listening);
            lines.find(|(port, inode)| *port < ephemeral && sockets.contains(*inode)).map(|(port, _)| port)
        })
    })
}

/// Returns the inodes of the sockets that a process has open.
fn sockets(process: &Path) -> HashSet<String> {
    let Ok(files) = fs::read_dir(process.join("fd")) else { return HashSet::new() };
    let socket = |target: std::path::PathBuf| {
        let target = target.to_string_lossy();
        Some(target.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
    };
    files.flatten().filter_map(|file| fs::read_link(file.path()).ok().and_then(socket)).collect()
}

/// Returns port and inode of a listening socket in a line of `/proc/PID/net/tcp`.
fn listening(line: &str) -> Option<(u16, &str)> {
    let mut fields = line.split_ascii_whitespace();
    let (_, port) = fields.nth(1)?.rsplit_once(':')?;
    (fields.nth(1)? == LISTEN).then_some(())?;
    // After the state: queues, timer, retransmits, user, time-outs.
    let inode = fields.nth(5)?;
    Some((u16::from_str_radix(port, 16).ok()?, inode))
}

fn ephemeral_begin() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range.split_ascii_whitespace().next().and_then(|begin| begin.parse().ok()).unwrap_or(DEFAULT_EPHEMERAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_and_inode_of_a_listening_socket_are_read() {
        let listens = "   0: 0100007F:223D 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 81742 1 0000000000000000 100 0 0 10 0";
        assert_eq!(listening(listens), Some((8765, "81742")));
        assert_eq!(listening(&listens.replace(" 0A ", " 01 ")), None, "a connection");
        assert_eq!(listening("  sl  local_address rem_address"), None);
    }

    #[test]
    fn a_port_of_the_ephemeral_range_was_not_chosen() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(socket.local_addr().unwrap().port() >= ephemeral_begin());
        let own = sockets(Path::new("/proc/self"));
        let table = fs::read_to_string("/proc/self/net/tcp").unwrap();
        let port = socket.local_addr().unwrap().port();
        let found = table.lines().skip(1).filter_map(listening).find(|(found, _)| *found == port);
        assert!(own.contains(found.expect("its own socket").1));
    }
}

//! The network namespace that holds the cluster.

use tokio::process::Command;

use super::ADDRESS;
use crate::images::run;

/// Makes the namespace.
pub(super) async fn create(name: &str) {
    run("ip", Command::new("ip").args(["netns", "add", name])).await;
}

/// Gives the namespace that we are in an interface with the node's address. Both ends of the pair stay inside. A default
/// route has to exist, or else the node itself cannot reach the addresses of Services.
pub(super) async fn configure() {
    for command in [
        "link set lo up",
        "link add node type veth peer name far",
        "link set far up",
        "link set node up",
        &format!("address add {ADDRESS}/24 dev node"),
        "route add default dev node",
    ] {
        run("ip", Command::new("ip").args(command.split(' '))).await;
    }
    // The files under /proc are those of the caller's network.
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("forwarding of packets");
}

//! Network namespace that holds the cluster.

use tokio::process::Command;

use super::ADDRESS;
use crate::images::run;

/// Makes the namespace.
pub(super) async fn create(name: &str) {
    run("ip", Command::new("ip").args(["netns", "add", name])).await;
}

/// Gives the present network namespace an interface with the address of the node. Both ends of the veth pair
/// stay inside. Without a default route, the node could not reach addresses of Services.
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
    // Files below /proc/sys/net are those of the network of the caller.
    std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("forwarding of packets");
}

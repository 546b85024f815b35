//! Scenarios that need running pods, one module a theme. `make e2e` brings the cluster.

#[cfg(test)]
mod scenario {
    mod deputies;
    mod embeddings;
    mod node;
    mod node_faults;
    mod replicas;
    mod scripts_on_node;
    mod servers_of_agents;
    mod serving;
    mod tool_counts;
    mod workflows_on_node;

    use vmcp_integration::Client;
    use vmcp_kubernetes_tests::{Endpoint, Namespace};

    /// Waits until a VirtualMCPServer is ready.
    async fn ready(place: &Namespace, name: &str) {
        let object = format!("virtualmcpserver/{name}");
        let ready = async || (place.condition(&object, "Ready").await["status"] == "True").then_some(());
        place.eventually(&format!("{name} to be ready"), ready).await;
    }

    /// Returns a modern client of a VirtualMCPServer, and the endpoint that it uses.
    async fn client(place: &Namespace, name: &str) -> (Endpoint, Client) {
        let way = place.endpoint(&format!("vmcp-{name}"), 4483).await;
        let client = Client::modern(&format!("{}/mcp", way.url));
        (way, client)
    }
}

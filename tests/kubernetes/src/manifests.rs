//! Manifests that several scenarios apply.

/// An MCPServer `web` that speaks HTTP: the fixture server in the image of the tests.
pub const WEB: &str = "apiVersion: toolhive.stacklok.com/v1alpha1
kind: MCPServer
metadata: {name: web}
spec:
  image: localhost/vmcp-tests/servers:1
  transport: streamable-http
  command: [vmcp-fixture, --transport, http, --host, 0.0.0.0, --port, '8080', --name, web]
  mcpPort: 8080
";

//! The testbed: a backend, and the targets in front of it.

pub(crate) mod backend_counters;
pub(crate) mod instruction_count;
pub(crate) mod process_usage;
pub(crate) mod search_testbed;
pub(crate) mod sqlite_peer;
pub(crate) mod synthetic_servers;
pub(crate) mod target;
pub(crate) mod test_backends;
pub(crate) mod tool_server;
pub(crate) mod vmcp_process;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use url::Url;
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use self::backend_counters::BackendCounters;
use self::target::{AXUM_PROXY, BARE_PROXY, DIRECT, PER_CORE_PROXY, Target};
use self::vmcp_process::VmcpProcess;
use crate::client::http_connection::HttpConnection;
use crate::client::replay_client::{Endpoint, ReplayClient};
use crate::options::Options;
use crate::progress::progress;
use crate::report::Report;
use crate::roles::Role;
pub(crate) use crate::roles::role_process::ANY_LOCAL_PORT;
use crate::roles::role_process::RoleProcess;
use crate::roles::served_content::{RESULTS, SLOW_RESULT, ServedResult, TOOL_COUNT, TOOLS_PER_PAGE};

/// Time that a gateway has to list the backend's tools.
const GATEWAY_START_TIMEOUT: Duration = Duration::from_mins(2);

/// A backend, and the processes in front of it.
pub(crate) struct Testbed {
    pub(crate) backend: SocketAddr,
    pub(crate) counters: BackendCounters,
    pub(crate) targets: Vec<Target>,
    vmcp: Option<VmcpProcess>,
    /// Further processes of vmcp, which are killed with the testbed.
    further: Vec<VmcpProcess>,
    /// Backend and proxies; kept so that they are killed with the testbed.
    role_processes: Vec<RoleProcess>,
}

impl Testbed {
    /// A backend with no target.
    pub(crate) async fn new(listen: SocketAddr) -> Result<Testbed> {
        let backend = RoleProcess::start(Role::Backend, listen, None).await?;
        let address = backend.address;
        let counters = BackendCounters(HttpConnection::open(address).await?);
        Ok(Testbed {
            backend: address,
            counters,
            targets: Vec::new(),
            vmcp: None,
            further: Vec::new(),
            role_processes: vec![backend],
        })
    }

    /// Testbed for calls: a backend of both eras, and one of 2025-11-25 only that only vmcp fronts; both
    /// answer as JSON and as event streams.
    pub(crate) async fn for_calls(report: &mut Report, options: &Options) -> Result<Testbed> {
        let mut testbed = Testbed::new(options.backend_listen).await?;
        testbed.add_bare(&["/dual/mcp", "/dual-sse/mcp"], options).await?;
        if options.wants_target("vmcp") {
            let servers = ["dual", "legacy", "dual-sse", "legacy-sse"];
            let backends: Vec<Value> = servers.iter().map(|server| testbed.entry(server)).collect();
            testbed.start_vmcp(
                json!({"backends": backends, "optimizer": {"embeddings": {"provider": "none"}}}),
            )?;
            testbed.vmcp()?.complete_list(servers.len() * TOOL_COUNT).await?;
            progress(&format!("calls: vmcp is process {}", testbed.vmcp()?.pid()?));
            for server in servers {
                if server.starts_with("dual") {
                    testbed.add_vmcp("vmcp", Era::Modern, server)?;
                } else {
                    testbed.add_vmcp("vmcp, backend of 2025-11-25", Era::Legacy, server)?;
                }
            }
        }
        for (name, url) in options.gateway.iter().filter(|(name, _)| options.wants_target(name)) {
            let pid = options.gateway_pid.iter().find(|(of, _)| of == name).map(|(_, pid)| pid.parse());
            let pid = pid.transpose().context("--gateway-pid")?;
            if pid.is_none() {
                report.note(&format!(
                    "{name}: without --gateway-pid {name}=PID its CPU and memory are not measured"
                ));
            }
            progress(&format!("calls: waiting for {name} before http://{}/dual/mcp", testbed.backend));
            testbed.add_gateway(report, name, url, pid).await?;
        }
        Ok(testbed)
    }

    /// Testbed for lists: a backend with `tools` tools, which vmcp lists under their own names.
    pub(crate) async fn for_lists(tools: usize, options: &Options) -> Result<Testbed> {
        let mut testbed = Testbed::new(ANY_LOCAL_PORT).await?;
        let server = format!("tools-{tools}");
        testbed.add_bare(&[&format!("/{server}/mcp")], options).await?;
        testbed.start_vmcp(json!({
            "backends": [testbed.entry(&server)],
            "aggregation": {"conflictResolution": "passthrough"},
            "optimizer": {"enabled": false, "discovery": {"enabled": true}},
        }))?;
        testbed.vmcp()?.complete_list(tools.min(TOOLS_PER_PAGE)).await?;
        testbed.add_vmcp("vmcp", Era::Modern, "")?;
        Ok(testbed)
    }

    /// Testbed for the cost of settings: a backend, and two processes of vmcp before it. The settings of each
    /// are whole sections of its configuration.
    pub(crate) async fn for_settings([plain, other]: [(&str, Value); 2]) -> Result<Testbed> {
        let mut testbed = Testbed::new(ANY_LOCAL_PORT).await?;
        for (name, settings) in [plain, other] {
            testbed.further.extend(testbed.vmcp.take());
            let mut config = json!({
                "backends": [testbed.entry("dual")], "optimizer": {"embeddings": {"provider": "none"}},
            });
            if let (Value::Object(config), Value::Object(sections)) = (&mut config, settings) {
                config.extend(sections);
            }
            testbed.start_vmcp(config)?;
            testbed.vmcp()?.complete_list(TOOL_COUNT).await?;
            testbed.add_vmcp(name, Era::Modern, "dual")?;
        }
        Ok(testbed)
    }

    /// Adds the backend itself and the bare proxies as targets, for each path.
    async fn add_bare(&mut self, paths: &[&str], options: &Options) -> Result<()> {
        if options.wants_target("direct") {
            for path in paths {
                self.add(DIRECT, (self.backend, path), None, None, "");
            }
        }
        for (word, role, name) in [
            ("hyper", Role::Hyper, BARE_PROXY),
            ("per-core", Role::PerCore, PER_CORE_PROXY),
            ("axum", Role::Axum, AXUM_PROXY),
        ] {
            if options.wants_target(word) {
                let proxy = RoleProcess::start(role, ANY_LOCAL_PORT, Some(self.backend)).await?;
                let pid = proxy.pid()?;
                for path in paths {
                    self.add(name, (proxy.address, path), Some(pid), None, "");
                }
                self.role_processes.push(proxy);
            }
        }
        Ok(())
    }

    /// Starts vmcp with this configuration.
    pub(crate) fn start_vmcp(&mut self, config: Value) -> Result<()> {
        self.vmcp = Some(VmcpProcess::configured(config)?);
        Ok(())
    }

    /// Returns the vmcp that was started.
    pub(crate) fn vmcp(&self) -> Result<&VmcpProcess> {
        self.vmcp.as_ref().context("vmcp was not started")
    }

    /// Returns the entry for `backends` of one server of the backend.
    pub(crate) fn entry(&self, server: &str) -> Value {
        json!({"name": server, "url": format!("http://{}/{server}/mcp", self.backend)})
    }

    /// Adds vmcp as a target; calls go to the tools of this server.
    fn add_vmcp(&mut self, name: &str, upstream: Era, server: &str) -> Result<()> {
        let (clients, pid) = (self.vmcp()?.clients, self.vmcp()?.pid()?);
        self.add(name, (clients, "/mcp"), Some(pid), Some(upstream), server);
        Ok(())
    }

    fn add(
        &mut self,
        name: &str,
        (address, path): (SocketAddr, &str),
        pid: Option<u32>,
        upstream: Option<Era>,
        server: &str,
    ) {
        let prefix = if server.is_empty() { String::new() } else { format!("{server}_") };
        self.targets.push(Target {
            name: name.to_owned(),
            endpoint: Endpoint { address, path: path.to_owned() },
            pid,
            upstream,
            foreign: false,
            event_streams: [path, server].iter().any(|name| name.contains("-sse")),
            rank: self.targets.len(),
            tools: (RESULTS.iter().chain([&SLOW_RESULT]))
                .map(|result| format!("{prefix}{}", result.tool))
                .collect(),
            eras: vec![Era::Legacy, Era::Modern],
        });
    }

    /// Adds a gateway as a target, once it lists the backend's tools. Each era that it serves is found by
    /// asking.
    async fn add_gateway(
        &mut self,
        report: &mut Report,
        name: &str,
        url: &str,
        pid: Option<u32>,
    ) -> Result<()> {
        let url = Url::parse(url).context("--gateway")?;
        ensure!(url.scheme() == "http", "--gateway {name}: only http:// is measured");
        let addresses = url.socket_addrs(|| None)?;
        let address = *addresses.first().context("--gateway: no address")?;
        let endpoint = Endpoint { address, path: url.path().to_owned() };
        let started = Instant::now();
        let (mut eras, mut tools) = (Vec::new(), Vec::new());
        for era in [Era::Legacy, Era::Modern] {
            let found = loop {
                match names(&endpoint, era).await {
                    Err(_)
                        if eras.is_empty()
                            && era == Era::Legacy
                            && started.elapsed() < GATEWAY_START_TIMEOUT =>
                    {
                        tokio::time::sleep(Duration::from_millis(200)).await;
                    }
                    found => break found,
                }
            };
            match found {
                Ok(found) => {
                    eras.push(era);
                    tools = found;
                }
                Err(error) => {
                    report.note(&format!("{name} does not serve {} clients: {error:#}", era.as_str()));
                }
            }
        }
        ensure!(!eras.is_empty(), "{name} does not list the backend's tools");
        let rank = self.targets.len();
        let name = name.to_owned();
        self.targets.push(Target {
            name,
            endpoint,
            pid,
            upstream: None,
            foreign: true,
            event_streams: false,
            rank,
            tools,
            eras,
        });
        Ok(())
    }

    /// Stops vmcp; the other processes are killed when the testbed is dropped.
    pub(crate) async fn end(self) -> Result<()> {
        match self.vmcp {
            Some(vmcp) => vmcp.end().await,
            None => Ok(()),
        }
    }
}

/// Returns the names that a gateway gives the backend's tools; an error unless all of them are listed.
async fn names(endpoint: &Endpoint, era: Era) -> Result<Vec<String>> {
    let mut client = ReplayClient::connect(endpoint, era, 0).await?;
    let mut request = client.prepare(methods::TOOLS_LIST, "{}")?;
    let received = client.send(&mut request).await?;
    let answer: Value = serde_json::from_slice(received.document()?)?;
    let Some(listed) = answer.pointer("/result/tools").and_then(Value::as_array) else { bail!("{answer}") };
    let names: Vec<String> =
        listed.iter().filter_map(|tool| Some(tool.get("name")?.as_str()?.to_owned())).collect();
    for ServedResult { tool, .. } in RESULTS {
        ensure!(names.iter().any(|name| name.ends_with(tool)), "{tool} is not listed");
    }
    Ok(names)
}

//! The backend and everything that is put before it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use url::Url;
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use crate::options::Options;
use crate::process::Vmcp;
use crate::progress;
use crate::stand::Role;
use crate::stand::caller::{Caller, Endpoint, Exactness};
use crate::stand::connection::Connection;
use crate::stand::process::Played;
use crate::stand::served::RESULTS;
use crate::table::Report;
use crate::traffic::Counters;

/// How long another gateway may take to list the backend's tools.
const PATIENCE: Duration = Duration::from_mins(2);

/// The backend's path for clients of both eras.
const DUAL: &str = "/dual/mcp";

/// Something that clients ask.
pub(crate) struct Target {
    /// For the table.
    pub(crate) name: String,
    pub(crate) endpoint: Endpoint,
    /// The process whose cost is measured.
    pub(crate) pid: Option<u32>,
    /// How like the backend's its answers must be.
    pub(crate) exactness: Exactness,
    /// Order in the table.
    pub(crate) rank: usize,
    /// Names of the backend's tools there.
    tools: Vec<String>,
    eras: Vec<Era>,
}

impl Target {
    /// The name that a tool of the backend has here.
    pub(crate) fn tool(&self, tool: &str) -> String {
        self.tools.iter().find(|name| name.ends_with(tool)).map_or(tool, |name| name).to_owned()
    }

    /// Whether clients of this era are served.
    pub(crate) fn serves(&self, era: Era) -> bool {
        self.eras.contains(&era)
    }
}

/// All processes.
pub(crate) struct Bed {
    pub(crate) targets: Vec<Target>,
    pub(crate) counters: Counters,
    vmcp: Option<Vmcp>,
    /// The others, that they may live.
    played: Vec<Played>,
}

impl Bed {
    /// A backend of both eras and the same of 2025-11-25 only, direct, behind two bare proxies, behind vmcp, and behind
    /// the gateways that were named.
    pub(crate) async fn for_calls(report: &mut Report, options: &Options) -> Result<Bed> {
        let backend = Played::start(Role::Backend, options.backend_listen, None).await?;
        let counters = Counters(Connection::open(backend.address).await?);
        let mut bed = Bed { targets: Vec::new(), counters, vmcp: None, played: Vec::new() };
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        if options.wants_target("direct") {
            bed.add("direct", (backend.address, DUAL), None, "");
        }
        for (word, role, name) in
            [("hyper", Role::Hyper, "bare hyper proxy"), ("axum", Role::Axum, "bare axum + reqwest proxy")]
        {
            if options.wants_target(word) {
                let proxy = Played::start(role, any, Some(backend.address)).await?;
                bed.add(name, (proxy.address, DUAL), Some(proxy.pid()?), "");
                bed.played.push(proxy);
            }
        }
        if options.wants_target("vmcp") {
            let url = |server| format!("http://{}/{server}/mcp", backend.address);
            let backends =
                json!([{"name": "dual", "url": url("dual")}, {"name": "old", "url": url("legacy")}]);
            let vmcp = Vmcp::configured(
                json!({"backends": backends, "optimizer": {"embeddings": {"provider": "none"}}}),
            )?;
            vmcp.complete_list(2 * RESULTS.len()).await?;
            let pid = vmcp.pid()?;
            progress(&format!("calls: vmcp is process {pid}"));
            bed.add("vmcp", (vmcp.clients, "/mcp"), Some(pid), "dual_");
            bed.add("vmcp, backend of 2025-11-25", (vmcp.clients, "/mcp"), Some(pid), "old_");
            bed.vmcp = Some(vmcp);
        }
        for (name, url) in options.gateway.iter().filter(|(name, _)| options.wants_target(name)) {
            let pid = options.gateway_pid.iter().find(|(of, _)| of == name).map(|(_, pid)| pid.parse());
            let pid = pid.transpose().context("--gateway-pid")?;
            if pid.is_none() {
                report.remark(&format!(
                    "{name}: without --gateway-pid {name}=PID its CPU and memory are not measured"
                ));
            }
            progress(&format!("calls: waiting for {name} before http://{}{DUAL}", backend.address));
            bed.add_gateway(report, name, url, pid).await?;
        }
        bed.played.push(backend);
        Ok(bed)
    }

    fn add(&mut self, name: &str, (address, path): (SocketAddr, &str), pid: Option<u32>, prefix: &str) {
        // Everything that serves this path speaks the era of the client.
        let exactness = if path == DUAL { Exactness::Same } else { Exactness::Translated };
        self.targets.push(Target {
            name: name.to_owned(),
            endpoint: Endpoint { address, path: path.to_owned() },
            pid,
            exactness,
            rank: self.targets.len(),
            tools: RESULTS.iter().map(|(tool, ..)| format!("{prefix}{tool}")).collect(),
            eras: vec![Era::Legacy, Era::Modern],
        });
    }

    /// Asks a gateway for its names of the backend's tools, in each era.
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
                    Err(_) if eras.is_empty() && era == Era::Legacy && started.elapsed() < PATIENCE => {
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
                    report.remark(&format!("{name} does not serve {} clients: {error:#}", era.as_str()));
                }
            }
        }
        ensure!(!eras.is_empty(), "{name} does not list the backend's tools");
        let rank = self.targets.len();
        self.targets.push(Target {
            name: name.to_owned(),
            endpoint,
            pid,
            exactness: Exactness::Content,
            rank,
            tools,
            eras,
        });
        Ok(())
    }

    /// Ends vmcp; the others end with this value.
    pub(crate) async fn end(self) -> Result<()> {
        match self.vmcp {
            Some(vmcp) => vmcp.end().await,
            None => Ok(()),
        }
    }
}

/// Names of the backend's tools; an error unless all are there.
async fn names(endpoint: &Endpoint, era: Era) -> Result<Vec<String>> {
    let mut caller = Caller::connect(endpoint, era, 0).await?;
    let mut request = caller.prepare(methods::TOOLS_LIST, "{}")?;
    let received = caller.ask(&mut request).await?;
    let answer: Value = serde_json::from_slice(received.document()?)?;
    let Some(listed) = answer.pointer("/result/tools").and_then(Value::as_array) else { bail!("{answer}") };
    let names: Vec<String> =
        listed.iter().filter_map(|tool| Some(tool.get("name")?.as_str()?.to_owned())).collect();
    for (tool, ..) in RESULTS {
        ensure!(names.iter().any(|name| name.ends_with(tool)), "{tool} is not listed");
    }
    Ok(names)
}

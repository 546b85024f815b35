//! Stage `allocations`: blocks and bytes that a call allocates, and instructions that it executes, in vmcp
//! and in the bare proxies. Counts depend little on the machine, and not at all on how busy it is.

use anyhow::{Context as _, Result};
use serde_json::json;
use vmcp_wire::era::Era;
use vmcp_wire::methods;

use crate::client::replay_client::{Endpoint, PreparedRequest, ReplayClient};
use crate::counted::AllocationReader;
use crate::progress::progress;
use crate::report::{Report, Row, Section, Unit, format_value};
use crate::roles::Role;
use crate::roles::role_process::RoleProcess;
use crate::roles::served_content::TOOL_COUNT;
use crate::testbed::target::{BARE_PROXY, PER_CORE_PROXY};
use crate::testbed::vmcp_process::{VmcpProcess, free_address};
use crate::testbed::{ANY_LOCAL_PORT, Testbed, instruction_count};

/// Calls that come first and are not counted, so that buffers and pools have grown.
const WARM_UP_CALLS: usize = 100;
const CALLS: usize = 500;

/// A counting process, and the tool that is called through it.
struct CountedTarget {
    name: &'static str,
    endpoint: Endpoint,
    tool: &'static str,
    pid: u32,
    reader: AllocationReader,
}

/// Figures of one call.
struct CallCounts {
    allocations: f64,
    bytes: f64,
    instructions: Option<f64>,
}

/// Measures calls of 1 KB through each target, by clients of both eras, and adds the rows.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let testbed = Testbed::new(ANY_LOCAL_PORT).await?;
    let (mut targets, mut proxies) = (Vec::new(), Vec::new());
    for (name, role) in [(BARE_PROXY, Role::Hyper), (PER_CORE_PROXY, Role::PerCore)] {
        let counts = free_address()?;
        let proxy = RoleProcess::start_counted(role, testbed.backend, counts).await?;
        let endpoint = Endpoint { address: proxy.address, path: "/dual/mcp".to_owned() };
        let reader = AllocationReader::connect(counts)?;
        targets.push(CountedTarget { name, endpoint, tool: "result_1k", pid: proxy.pid()?, reader });
        proxies.push(proxy);
    }
    let counts = free_address()?;
    let config = json!({
        "backends": [testbed.entry("dual"), testbed.entry("legacy")],
        "optimizer": {"embeddings": {"provider": "none"}},
    });
    let vmcp = VmcpProcess::counted(config, counts)?;
    vmcp.complete_list(2 * TOOL_COUNT).await?;
    for (name, tool) in [("vmcp", "dual_result_1k"), ("vmcp, backend of 2025-11-25", "legacy_result_1k")] {
        let endpoint = Endpoint { address: vmcp.clients, path: "/mcp".to_owned() };
        let reader = AllocationReader::connect(counts)?;
        targets.push(CountedTarget { name, endpoint, tool, pid: vmcp.pid()?, reader });
    }
    let mut counters = true;
    for era in [Era::Legacy, Era::Modern] {
        let mut floors = Vec::new();
        for target in &mut targets {
            progress(&format!("allocations: {}, {} client", target.name, era.as_str()));
            let counts = target.count(era, counters).await.context(target.name)?;
            counters = counts.instructions.is_some();
            let floor = |name| floors.iter().find(|(floor, _)| *floor == name).map(|(_, count)| *count);
            add_rows(report, era, target.name, &counts, [BARE_PROXY, PER_CORE_PROXY].map(floor));
            floors.push((target.name, counts.allocations));
        }
    }
    if !counters {
        report.note("instructions of a call: no `perf`, or a machine without hardware counters");
    }
    vmcp.end().await
}

impl CountedTarget {
    /// Counts calls of one client; instructions too if the machine has `counters` for them.
    async fn count(&mut self, era: Era, counters: bool) -> Result<CallCounts> {
        let mut client = ReplayClient::connect(&self.endpoint, era, 0).await?;
        let params = format!(r#"{{"name":"{}","arguments":{{"query":"records of last week"}}}}"#, self.tool);
        let mut request = client.prepare(methods::TOOLS_CALL, &params)?;
        repeat(&mut client, &mut request, WARM_UP_CALLS).await?;
        let before = self.reader.read()?;
        repeat(&mut client, &mut request, CALLS).await?;
        let after = self.reader.read()?;
        let each = |before: u64, after: u64| (after - before) as f64 / CALLS as f64;
        let instructions = if counters {
            let calls = async || repeat(&mut client, &mut request, CALLS).await;
            instruction_count::count(self.pid, calls).await?
        } else {
            None
        };
        Ok(CallCounts {
            allocations: each(before.allocations, after.allocations),
            bytes: each(before.bytes, after.bytes),
            instructions: instructions.map(|count| count / CALLS as f64),
        })
    }
}

async fn repeat(client: &mut ReplayClient, request: &mut PreparedRequest, calls: usize) -> Result<()> {
    for _ in 0..calls {
        client.send(request).await?;
    }
    Ok(())
}

fn add_rows(report: &mut Report, era: Era, name: &str, counts: &CallCounts, floors: [Option<f64>; 2]) {
    let compare = |floor: f64| (format_value(floor, Unit::Count), counts.allocations / floor);
    let [pooled, per_core] = floors.map(|floor| floor.map(compare));
    report.add(
        Section::Allocations,
        Row {
            what: format!("allocations of a call, 1 KB, {}: {name}", era.as_str()),
            n: CALLS,
            p50: format_value(counts.allocations, Unit::Count),
            memory: Some(counts.bytes),
            yardstick: pooled.as_ref().map(|_| BARE_PROXY.to_owned()).unwrap_or_default(),
            compared: pooled,
            per_core,
            ..Row::default()
        },
    );
    if let Some(instructions) = counts.instructions {
        report.add(
            Section::Instructions,
            Row {
                what: format!("instructions of a call in user mode, 1 KB, {}: {name}", era.as_str()),
                n: CALLS,
                p50: format_value(instructions, Unit::Count),
                ..Row::default()
            },
        );
    }
}

//! `vmcp console --kubernetes`: the web console of a VirtualMCPServer, through the forwarded admin port of
//! one ready pod.

use std::time::Duration;

use url::Url;

use crate::cli::clients::login::has_display;
use crate::cli::connection;
use crate::cli::console::failure::{CommandFailure, Exit};
use crate::cli::console::{notes, output};
use crate::cli::kubernetes::cluster_server::ClusterServer;
use crate::cli::kubernetes::port_forward::PortForward;
use crate::cli::options::GlobalOptions;
use crate::cli::process::{StopSignals, block_on};

/// Admin port of a pod.
const ADMIN_PORT: u16 = 9090;
/// Time that the console has to answer through the API server.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Opens the console, and keeps the port forwarded until a signal, or until the pod is gone.
pub(super) fn run(
    server: &ClusterServer,
    no_open: bool,
    global: &GlobalOptions,
) -> Result<Exit, CommandFailure> {
    global.start_logs()?;
    let name = server.name();
    let resource = server.read()?;
    if resource.has_console_off() {
        return Err(CommandFailure::new(format!(
            "{name} serves no web console: its spec.console.access is `off`"
        ))
        .remedy("set it to `loopback`, to sign in with a token through this command"));
    }
    if resource.spec.suspend {
        return Err(CommandFailure::new(format!("{name} is suspended, so that no pod serves a console"))
            .exit(Exit::Unreachable)
            .remedy(format!("{} starts it", server.words_for("start"))));
    }
    let Some(pod) = server.ready_pod()? else {
        let why = resource.progress(resource.metadata.generation);
        return Err(CommandFailure::new(format!("no pod of {name} is ready: {why}"))
            .exit(Exit::Unreachable)
            .remedy(format!("{} shows its conditions", server.words_for("status"))));
    };
    block_on(async {
        let stopped = StopSignals::listen()?.wait();
        tokio::pin!(stopped);
        let mut forward = tokio::select! {
            forward = PortForward::open(server, &pod, ADMIN_PORT) => forward?,
            () = &mut stopped => return Ok(Exit::Done),
        };
        let url = Url::parse(&format!("http://127.0.0.1:{}", forward.port))?;
        let address = connection::console_at(url, TIMEOUT).await.map_err(|failure| {
            failure
                .remedy("an older vmcp serves none to a forwarded port: set spec.console.access to `tokens`")
        })?;
        output::result(&address)?;
        let secret = format!("{name}-vmcp-secrets");
        notes::note(&format!(
            "pod {pod}; sign in with a token of spec.console, or with `admin-token` of the Secret {secret}; Ctrl-C \
             ends the connection"
        ));
        if !no_open && has_display() && open::that_detached(&address).is_ok() {
            notes::note("a browser opens; if it does not, open this address");
        }
        tokio::select! {
            () = &mut stopped => Ok(Exit::Done),
            failure = forward.ended() => Err(failure),
        }
    })
}

//! The handlers of add_mcp_server, install_server, remove_mcp_server, enable_mcp_server, disable_mcp_server
//! and search_registry.
//!
//! A change takes these steps: its `arguments` are checked, its `permission` is decided, the user is asked,
//! the [`ServerRegistrar`] writes it, its `effect` is waited for. A policy was asked before, at the call
//! seam. `secrets` keeps values out of records.

mod answer;
mod arguments;
mod effect;
mod install;
mod permission;
mod registry;
mod wanted_values;

use std::net::IpAddr;
use std::sync::Arc;

use serde_json::value::RawValue;
use url::Host;
use vmcp_config::addresses::{AddressClass, ReachableAddresses};
use vmcp_config::{Backend, ServerSource, normalize_name};
use vmcp_engine::optim::names::OptimTool;
use vmcp_engine::server_registrar::{
    MadeChange, NewServer, RegistrarError, ServerChange, ServerPlace, ServerRegistrar,
};
use vmcp_engine::telemetry::calls::{Action, ActionArea, Origin};

use self::answer::{Changed, refused};
use crate::answer::Answer;
use crate::caller::CallContext;
use crate::own_tools::arguments::own_arguments::OwnArguments;
use crate::own_tools::own_answer::{self, Refusal};
use crate::own_tools::resolve;

/// Most servers of a configuration to which a client may add another.
const MAX_SERVERS: usize = 1_000;

/// Makes the change that `tool` stands for, and answers once it is in force.
pub(in crate::own_tools) async fn run(
    context: CallContext<'_>,
    tool: OptimTool,
    arguments: &RawValue,
) -> Answer {
    if tool == OptimTool::SearchRegistry {
        let work = async |arguments: &OwnArguments<'_>| {
            registrar(context)?;
            registry::search(context, arguments).await
        };
        return own_answer::answer_later(context, Origin::Own(tool), arguments, work).await;
    }
    let work = async |arguments: &OwnArguments<'_>| {
        let registrar = registrar(context)?;
        match tool {
            OptimTool::AddMcpServer => add(context, registrar, arguments).await,
            // Boxed: a rare call, with a large state.
            OptimTool::InstallServer => Box::pin(install::run(context, registrar, arguments)).await,
            OptimTool::RemoveMcpServer => remove(context, registrar, arguments).await,
            OptimTool::EnableMcpServer => switch(context, registrar, arguments, true).await,
            _ => switch(context, registrar, arguments, false).await,
        }
    };
    own_answer::answer_later(context, Origin::Own(tool), arguments, work).await
}

/// Returns the keeper of the servers, unless this process or this client has none.
fn registrar(context: CallContext<'_>) -> Result<&Arc<dyn ServerRegistrar>, Refusal> {
    let registrar = context.engine.registrar().ok_or_else(|| {
        refused(
            "this process does not change its servers: in Kubernetes, the resources MCPServer and \
             MCPServerEntry are their source (`kubectl apply`), and vmcp writes them only with \
             `serverAdmin.enabled` of the operator's chart; elsewhere, `vmcp add` writes the configuration \
             file",
        )
    })?;
    let principal = &context.caller.principal;
    let is_stranger = principal.identity.as_known().is_none()
        && context.snapshot.config.authz.is_none()
        && principal.address.is_some_and(|address| !address.to_canonical().is_loopback());
    if is_stranger {
        return Err(refused(
            "servers are changed by clients on this machine, or by clients with an identity: configure \
             `incomingAuth`, and a policy that permits the action `admin`",
        ));
    }
    Ok(registrar)
}

async fn add(
    context: CallContext<'_>,
    registrar: &Arc<dyn ServerRegistrar>,
    arguments: &OwnArguments<'_>,
) -> Result<Changed, Refusal> {
    let mut server = arguments::new_server(arguments).map_err(refused)?;
    check_room(context, &server.name)?;
    server.image = image_of(context, registrar, &server.place);
    registrar.check(&server).map_err(refused)?;
    server.addresses = addresses_of(context, &server.place)?;
    check_secrets(context, &server)?;
    let NewServer { name, place, enabled, .. } = &server;
    let lines = permission::lines_of(&server);
    permission::obtain(context, OptimTool::AddMcpServer, &ServerSource::from(place), lines).await?;
    let (name, enabled) = (name.clone(), *enabled);
    make(context, registrar, "server.add", &name, ServerChange::Add(server)).await?;
    effect::added(context, name, enabled).await
}

/// Returns the image in whose pod a program runs, from the first rule that names both; `None` where vmcp
/// starts programs itself.
fn image_of(
    context: CallContext<'_>,
    registrar: &Arc<dyn ServerRegistrar>,
    place: &ServerPlace,
) -> Option<String> {
    let admin = &context.snapshot.config.optimizer.admin;
    let image = registrar.runs_programs_in_pods().then(|| admin.image_of(&ServerSource::from(place)));
    image.flatten().map(str::to_owned)
}

/// Returns the addresses that the host of a new server may have, by the rules. Refuses a URL with another
/// address.
fn addresses_of(context: CallContext<'_>, place: &ServerPlace) -> Result<ReachableAddresses, Refusal> {
    let ServerPlace::Remote { url, headers: _ } = place else { return Ok(ReachableAddresses::Any) };
    let addresses = context.snapshot.config.optimizer.admin.addresses_of(url);
    let written = match url.host() {
        Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
        Some(Host::Domain(_)) | None => None,
    };
    match written.filter(|address| !addresses.admit(*address)) {
        Some(address) => Err(refused(format!(
            "url leads to {}, where clients add no server; its administrator can name the address in a rule of \
             `optimizer.admin.allow`, or add the server with `vmcp add`",
            AddressClass::of(address).words()
        ))),
        None => Ok(addresses),
    }
}

/// Refuses references to secrets that no rule lends to the server: a client could have any secret sent to a
/// server of its choice.
fn check_secrets(context: CallContext<'_>, server: &NewServer) -> Result<(), Refusal> {
    let wanted: Vec<&str> = server.secret_refs.values().map(|one| one.name.as_str()).collect();
    let admin = &context.snapshot.config.optimizer.admin;
    if wanted.is_empty() || admin.lends(&ServerSource::from(&server.place), &wanted) {
        return Ok(());
    }
    Err(refused(format!(
        "no rule of `optimizer.admin.allow` lends the secret {} to this server: give the value, which vmcp keeps \
         out of answers and resources, or ask the administrator to add the name to `secrets` of a rule, or to add \
         the server (`vmcp add`, or an MCPServerEntry with `headerForward.addHeadersFromSecret`)",
        wanted.join(", ")
    )))
}

/// Refuses a name that is taken, and a server too many.
fn check_room(context: CallContext<'_>, name: &str) -> Result<(), Refusal> {
    if context.snapshot.config.backends.iter().any(|backend| *backend.name == *name) {
        return Err(refused(RegistrarError::Taken(name.to_owned())));
    }
    if context.snapshot.config.backends.len() >= MAX_SERVERS {
        return Err(refused(format!("there are {MAX_SERVERS} servers already; remove one first")));
    }
    Ok(())
}

async fn remove(
    context: CallContext<'_>,
    registrar: &Arc<dyn ServerRegistrar>,
    arguments: &OwnArguments<'_>,
) -> Result<Changed, Refusal> {
    let server = named(context, registrar, arguments).await?;
    let name = server.name().to_owned();
    permit(context, registrar, OptimTool::RemoveMcpServer, server).await?;
    make(context, registrar, "server.remove", &name, ServerChange::Remove { name: name.clone() }).await?;
    effect::removed(context, name).await
}

async fn switch(
    context: CallContext<'_>,
    registrar: &Arc<dyn ServerRegistrar>,
    arguments: &OwnArguments<'_>,
    enabled: bool,
) -> Result<Changed, Refusal> {
    let server = named(context, registrar, arguments).await?;
    let name = server.name().to_owned();
    let (tool, action) = if enabled {
        (OptimTool::EnableMcpServer, "server.enable")
    } else {
        (OptimTool::DisableMcpServer, "server.disable")
    };
    permit(context, registrar, tool, server).await?;
    make(context, registrar, action, &name, ServerChange::SetEnabled { name: name.clone(), enabled }).await?;
    if enabled { effect::enabled(context, name).await } else { effect::disabled(context, name).await }
}

/// A server that a client names.
enum NamedServer<'a> {
    /// It is configured, switched on or off.
    Configured(&'a Backend),
    /// The registrar keeps it, and the configuration leaves it out: its resource has a mistake, or is on its
    /// way.
    Kept { name: String, place: ServerPlace },
}

impl NamedServer<'_> {
    fn name(&self) -> &str {
        match self {
            NamedServer::Configured(backend) => &backend.name,
            NamedServer::Kept { name, .. } => name,
        }
    }
}

/// Obtains the permission to change a server. The registrar may know a configured one better than the
/// configuration: behind the address of a pod, it knows the program.
async fn permit(
    context: CallContext<'_>,
    registrar: &Arc<dyn ServerRegistrar>,
    tool: OptimTool,
    server: NamedServer<'_>,
) -> Result<(), Refusal> {
    let (name, place, backend) = match server {
        NamedServer::Configured(backend) => {
            let place = registrar.place(&backend.name).await.map_err(refused)?;
            (backend.name.to_string(), place, Some(backend))
        }
        NamedServer::Kept { name, place } => (name, Some(place), None),
    };
    let (source, lines) = match (&place, backend) {
        (Some(place), _) => (ServerSource::from(place), permission::lines_of_place(&name, place)),
        (None, Some(backend)) => {
            (ServerSource::from(&backend.transport), permission::lines_of_known(backend))
        }
        (None, None) => return Err(refused(RegistrarError::Unknown(name))),
    };
    permission::obtain(context, tool, &source, lines).await
}

/// Returns the server that the arguments name, a switched off one too. The name that a client added a server
/// by means the normalized one.
async fn named<'a>(
    context: CallContext<'a>,
    registrar: &Arc<dyn ServerRegistrar>,
    arguments: &OwnArguments<'_>,
) -> Result<NamedServer<'a>, Refusal> {
    let wanted = arguments::name(arguments).map_err(refused)?;
    let normalized = normalize_name(&wanted);
    let all = &context.snapshot.config.backends;
    let visible = all.iter().filter(|backend| context.view.has_backend(&backend.name));
    if let Some(found) = visible.clone().find(|backend| normalized.as_deref() == Some(&*backend.name)) {
        return Ok(NamedServer::Configured(found));
    }
    if let Some(name) = normalized.filter(|name| may_be_kept(context, name)) {
        match registrar.place(&name).await {
            Ok(Some(place)) => return Ok(NamedServer::Kept { name, place }),
            // A server of others that is not configured is as unknown as none.
            Ok(None)
            | Err(RegistrarError::Foreign(_) | RegistrarError::Unknown(_) | RegistrarError::Taken(_)) => {}
            Err(error @ (RegistrarError::Invalid(_) | RegistrarError::Unwritable(_))) => {
                return Err(refused(error));
            }
        }
    }
    Err(resolve::unknown_server(&wanted, visible.map(|backend| &*backend.name)))
}

/// True if the registrar may be asked about a server that is not configured: the client may know of a server
/// of this name. A configured server that it may not know of stays unknown.
fn may_be_kept(context: CallContext<'_>, name: &str) -> bool {
    let is_configured = |backend: &Backend| *backend.name == *name;
    !context.snapshot.config.backends.iter().any(is_configured)
        && context.snapshot.policy.listed_rights(&context.caller.principal).could_know(name)
}

/// Has a change written, and puts it on record.
async fn make(
    context: CallContext<'_>,
    registrar: &Arc<dyn ServerRegistrar>,
    action: &str,
    name: &str,
    change: ServerChange,
) -> Result<MadeChange, Refusal> {
    let made = registrar.change(change).await;
    let result = made.as_ref().err().map(ToString::to_string);
    context.engine.call_observers().acted(&Action {
        target: Some(name),
        result: result.as_deref().unwrap_or("ok"),
        is_refused: made.is_err(),
        session: context.caller.session,
        ..Action::of_client(ActionArea::Server, action, &context.caller.principal)
    });
    made.map_err(refused)
}

#[cfg(test)]
mod tests;

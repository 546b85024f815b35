//! What all controllers share.
//!
//! A controller is five steps, each a function in a module of its own:
//!
//! ```text
//! dereference  reads what the resource refers to, from `Context::resources`, `Context::children` and `Context::secret`
//! validate     decides whether it makes sense, and gives a type of its own                                   (pure)
//! build        gives `Desired`: every `Child` that should exist                                              (pure)
//! apply        `Context::apply` writes what differs, deletes what is not wanted any more
//! status       `Conditions` and the rest; `Context::write_status` writes it when it changed
//! ```
//!
//! ```
//! # use std::sync::Arc;
//! # use kube::runtime::controller::Action;
//! # use vmcp_crds::{MCPServer, MCPServerStatus};
//! # use vmcp_operator::runtime::{ApplyError, Conditions, Context, Desired, Triggers, run_controller};
//! # fn build(_: &MCPServer) -> Desired { Desired::default() }
//! async fn run(context: Arc<Context>) {
//!     let triggers = Triggers::new(&context, &context.resources.mcp_servers)
//!         // The servers of a namespace are looked at again when one of its groups changes.
//!         .on(&context.resources.mcp_groups, |change, context| {
//!             let namespace = change.object.meta().namespace.clone().unwrap_or_default();
//!             let servers = context.resources.mcp_servers.list(&namespace).into_iter();
//!             servers.map(|server| (namespace.clone(), server.name_any())).collect::<Vec<_>>()
//!         });
//!     run_controller(triggers, reconcile).await;
//! }
//!
//! async fn reconcile(server: Arc<MCPServer>, context: Arc<Context>) -> Result<Action, ApplyError> {
//!     context.apply(server.as_ref(), build(&server)).await.entirely()?;
//!     let mut conditions = Conditions::new(&[], server.metadata.generation.unwrap_or_default());
//!     conditions.set("Ready", true, "PodsReady", "1 of 1 pods serve");
//!     let status = MCPServerStatus { conditions: conditions.finish(), ..MCPServerStatus::default() };
//!     context.write_status(server.as_ref(), &status).await?;                   // only when it changed
//!     context.tell_transitions(server.as_ref(), &[], &status.conditions).await; // events
//!     Ok(Action::await_change())
//! }
//! # use kube::{Resource as _, ResourceExt as _};
//! ```
//!
//! - **Errors** implement [`Failure`]: `category()` is the metric's label, the event's reason and the reason of the condition
//!   `Ready` (`Valid`, where there are no pods); `retry()` says whether to wait for an edit or to try again. [`run_controller`] counts them, backs off, and writes
//!   them into the status when they last. [`CallError`] and [`ApplyError`] implement it already.
//! - **Objects** come from watches. Read from the API server are only values of Secrets (once for each version), objects that are
//!   about to be created (once, so that nothing is adopted), Deployments that are about to change (whose number of pods it is), and
//!   malformed ones (where the mistake is).
//! - **Children** get namespace, owner reference and the labels `app.kubernetes.io/managed-by` and `…/instance` from
//!   [`Context::apply`]; pods must carry [`labels`] in their template, else nobody sees them. Changes of children reach the
//!   controller of their owner by themselves, changes of pods where it asks for them (`.on(&all.pods, …)`).
//! - **Writes** go through [`Context::call`], which counts them and refuses them when the lease is lost.

pub mod apply;
mod calls;
mod child;
mod children;
mod complaint;
mod conditions;
mod context;
mod controller;
mod election;
mod events;
mod failure;
mod generated;
mod guarded;
mod interruption;
mod kind;
mod leadership;
mod metrics;
pub mod pod_template;
mod scope;
mod secrets;
mod status;

pub use apply::{Applied, ApplyError, Desired};
pub use calls::{CallError, Verb};
pub use child::{Child, ChildKind, ChildType};
pub use children::{Children, INSTANCE, MANAGED_BY, OPERATOR, labels, metadata_of};
pub use conditions::{Conditions, is_true};
pub use context::{Context, Resources, Settings};
pub use controller::{Triggers, run_controller};
pub use election::Election;
pub use failure::{Failure, Retry, chain};
pub use generated::Generated;
pub use guarded::{Custom, Guarded, Watched, kind_of};
pub use kind::{Change, Kind};
pub use leadership::Leadership;
pub use metrics::Metrics;
pub use scope::Scope;
pub use secrets::SecretData;

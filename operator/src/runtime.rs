//! The runtime that all controllers share: watches, writes, reports, leader election and the controller loop.
//!
//! A reconcile is a pipeline of steps, each a function in a module of its own:
//!
//! ```text
//! dereference  reads the references of the resource: `Context::resources`, `children`, `secret`
//! validate     decides whether that makes sense, and returns a type of its own             (pure)
//! build        returns `Desired`: every `Child` that should exist                          (pure)
//! apply        `Context::apply` writes differences, deletes objects that are no longer desired
//! status       `Conditions` and the rest; `Context::write_status` writes it if it changed
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
//!         // A change of a group reconciles all servers of its namespace.
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
//!     conditions.set("Ready", true, "PodsReady", "1 of 1 pods are ready");
//!     let status = MCPServerStatus { conditions: conditions.finish(), ..MCPServerStatus::default() };
//!     context.write_status(server.as_ref(), &status).await?;                      // only if it changed
//!     context.publish_transitions(server.as_ref(), &[], &status.conditions).await; // events
//!     Ok(Action::await_change())
//! }
//! # use kube::{Resource as _, ResourceExt as _};
//! ```
//!
//! - **Errors** implement [`Failure`]: `category()` is the metric's label, the event's reason and the reason
//!   of the condition `Ready` (`Valid`, for kinds without pods); `retry()` says whether to wait for an edit
//!   or to try again. [`run_controller`] counts them, backs off, and writes them into the status if they
//!   last. [`CallError`] and [`ApplyError`] implement it already.
//! - **Objects** come from watches. The API server is asked for values of Secrets (once for each version),
//!   for objects that are about to be created (once, so that nothing is adopted), for Deployments that are
//!   about to change (for the owner of the number of pods), for malformed objects (for the place of the
//!   mistake), and for events of pods that do not start.
//! - **Children** get namespace, owner reference and the labels `app.kubernetes.io/managed-by` and
//!   `…/instance` from [`Context::apply`]. Pods must carry all labels of their workload in their template,
//!   else no watch sees them. A change of a child triggers its owner's controller by itself; a change of a
//!   pod only if the controller asks (`.on(&all.pods, …)`).
//! - **Writes** have a timeout, are counted, and are refused once the lease is lost.
//!
//! Rooms, from the ground up: `digest`, `failure`, `metrics`, `pod_schema` and `policy_checker`; `watch`
//! and `lead`; `context`, which holds them together; `cluster_issuer`; `author_rights`; `write`; `tell`;
//! `controller`.

mod author_rights;
mod cluster_issuer;
mod context;
mod controller;
mod digest;
mod failure;
mod lead;
mod metrics;
mod pod_schema;
mod policy_checker;
mod tell;
mod watch;
mod write;

pub(crate) use self::author_rights::unchecked;
pub use self::author_rights::{
    AUTHOR_RIGHTS, AuthorRight, Right, Trigger, author_rights_page, author_rights_policy,
};
pub(crate) use self::cluster_issuer::ClusterIssuerState;
pub use self::context::{BuildSettings, Context, RoleName};
pub(crate) use self::controller::Requeue;
pub use self::controller::{Triggers, run_controller};
pub(crate) use self::digest::{PartsDigest, hex_digest};
pub use self::failure::{Failure, Retry};
pub(crate) use self::lead::Election;
pub use self::lead::Leadership;
pub use self::metrics::Metrics;
pub use self::pod_schema::PodSchema;
pub(crate) use self::pod_schema::{Field, Shape};
pub use self::tell::{Conditions, is_true};
pub(crate) use self::tell::{lacks_a_guard, report, set_pending, set_valid, unfollowed};
pub use self::watch::{
    Change, ChildKind, ChildType, ChildrenStore, Clients, CustomResource, GrantFrom, GrantTo, Parsed,
    ReferenceGrant, ReferenceGrantSpec, ResourceStore, ResourceStores, Scope, WatchedResource, kind_of,
};
pub(crate) use self::watch::{
    INSTANCE_LABEL, OPERATOR_NAME, ObjectData, child_metadata, controller_of, workload_labels,
};
pub use self::write::{Applied, ApplyError, CallError, Child, Desired, Rights, Verb, rights};
pub(crate) use self::write::{GeneratedSecret, admission_remedy};

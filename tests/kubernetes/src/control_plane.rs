//! [`ControlPlane`]: etcd, the API server and the controller manager; enough for schemas, server-side apply,
//! garbage collection and status.

mod credentials;
mod processes;

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio::sync::{Mutex, OnceCell};
use tokio::time::{Instant, sleep};
use vmcp_integration::{free_port, skipped};

use crate::{CLUSTER_WAIT_TIMEOUT, Cluster, Programs};
use credentials::Credentials;

pub(crate) use processes::Processes;

/// The program of the controllers.
const CONTROLLERS: &str = "kube-controller-manager";

/// A running control plane, gone when dropped and when the process of the test ends in any way. It is a
/// [`Cluster`] without nodes.
pub struct ControlPlane {
    cluster: Cluster,
    has_controllers: bool,
    processes: Processes,
}

impl ControlPlane {
    /// Returns the control plane that all tests of a binary share; each test makes a namespace of its own.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await
    }

    /// Starts a control plane on free ports of 127.0.0.1. Needs no root.
    pub async fn start() -> Self {
        Self::start_with(found().await).await
    }

    /// Starts one without a controller manager, for tests that need neither pods nor garbage collection. It
    /// saves the start of the controllers, and of their watches of all kinds.
    pub async fn start_without_controllers() -> Self {
        Self::start_with(found().await.without(CONTROLLERS)).await
    }

    async fn start_with(programs: Programs) -> Self {
        // The janitor of its processes removes the folder.
        let folder =
            tempfile::Builder::new().prefix("vmcp-control-plane-").tempdir().expect("a folder").keep();

        let mut processes = Processes::ours(&folder);
        let plan = Plan {
            folder: &folder,
            address: "127.0.0.1",
            ports: [free_port(), free_port(), free_port()],
            // An endpoint in the loopback range is refused, so there is none; without controllers there are
            // no service accounts to admit pods with. Few clients need no fair shares, whose settings the
            // API server would write when it starts.
            flags: if programs.get(CONTROLLERS).is_some() {
                "--endpoint-reconciler-type none --enable-priority-and-fairness=false"
            } else {
                "--endpoint-reconciler-type none --enable-priority-and-fairness=false \
                 --disable-admission-plugins ServiceAccount"
            },
        };
        let cluster = plan.start(&programs, &mut processes).await;
        let has_controllers = programs.get(CONTROLLERS).is_some();
        Self { cluster, has_controllers, processes }
    }

    /// Restarts the controllers with another limit of requests a second. By Kubernetes' default of 20, the
    /// pods of 5,000 servers take half an hour.
    pub fn limit_controllers(&mut self, requests_a_second: u32) {
        let limit =
            format!("--kube-api-qps {requests_a_second} --kube-api-burst {}", requests_a_second * 3 / 2);
        if self.processes.has(CONTROLLERS) {
            self.processes.stop(CONTROLLERS);
            // Of a flag that is given twice, the last one counts.
            self.processes.add_flags(CONTROLLERS, &limit);
            self.processes.start_again(CONTROLLERS);
        }
    }

    /// Copies the data of etcd, which is stopped meanwhile.
    pub async fn back_up(&mut self) {
        self.processes.stop("etcd");
        let (data, backup) = (self.etcd_data(), self.etcd_data().with_extension("backup"));
        copy(&data, &backup);
        self.processes.start_again("etcd");
        ready(&self.cluster, &mut self.processes).await;
    }

    /// Puts the backup in the place of etcd's data, and restarts the API server and the controllers, as the
    /// documentation of Kubernetes wants it.
    pub async fn restore(&mut self) {
        self.processes.stop("etcd");
        let data = self.etcd_data();
        std::fs::remove_dir_all(&data).expect("the data of etcd");
        copy(&data.with_extension("backup"), &data);
        self.processes.start_again("etcd");
        for name in ["kube-apiserver", CONTROLLERS] {
            if self.processes.has(name) {
                self.processes.stop(name);
                self.processes.start_again(name);
            }
            ready(&self.cluster, &mut self.processes).await;
        }
    }

    fn etcd_data(&self) -> PathBuf {
        self.cluster.kubeconfig().with_file_name("etcd")
    }

    /// Returns true, and records that the current test is skipped or cut short, if no controller manager
    /// runs: `KUBEBUILDER_ASSETS` usually has none. Then nothing is garbage collected and a Deployment makes
    /// no pods.
    pub fn skips_without_controllers(&self) -> bool {
        if !self.has_controllers {
            skipped(
                "KUBEBUILDER_ASSETS has no kube-controller-manager, which makes pods and collects garbage",
            );
        }
        !self.has_controllers
    }
}

/// A control plane that tests share for as long as they overlap: the first one prepares it, and it ends with
/// the last. Tests of one module run next to each other.
pub struct PreparedControlPlane(Mutex<Weak<ControlPlane>>);

impl PreparedControlPlane {
    /// Returns a control plane that is not started yet, for a `static`.
    pub const fn new() -> Self {
        Self(Mutex::const_new(Weak::new()))
    }

    /// Returns the running control plane, or starts it by `prepare`.
    pub async fn get(&self, prepare: impl AsyncFnOnce() -> ControlPlane) -> Arc<ControlPlane> {
        let mut known = self.0.lock().await;
        if let Some(running) = known.upgrade() {
            return running;
        }
        let started = Arc::new(prepare().await);
        *known = Arc::downgrade(&started);
        started
    }
}

impl Default for PreparedControlPlane {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for ControlPlane {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

/// Settings of a control plane that is to be started.
pub(crate) struct Plan<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) address: &'a str,
    /// Ports of the API server, of etcd and of etcd for its peers.
    pub(crate) ports: [u16; 3],
    /// More flags of the API server.
    pub(crate) flags: &'a str,
}

impl Plan<'_> {
    /// Starts it and waits until it is ready.
    pub(crate) async fn start(self, programs: &Programs, processes: &mut Processes) -> Cluster {
        let Self { folder, address, ports: [port, etcd, peers], flags } = self;
        let credentials =
            Credentials::create(folder, &[address, "127.0.0.1", "10.96.0.1", "kubernetes.default.svc"]);
        let file = |name: &str| credentials.path(name).display().to_string();
        let (server, store) = (format!("https://{address}:{port}"), format!("http://{address}:{etcd}"));
        processes.start(
            "etcd",
            &programs.path("etcd"),
            &[
                &format!(
                    "--data-dir {} --listen-client-urls {store} --advertise-client-urls {store}",
                    file("etcd")
                ),
                &format!("--listen-peer-urls http://{address}:{peers} --unsafe-no-fsync --log-level warn"),
            ],
        );
        processes.start(
            "kube-apiserver",
            &programs.path("kube-apiserver"),
            &[
                &format!("--etcd-servers {store} --bind-address {address} --advertise-address {address}"),
                &format!("--secure-port {port} --service-cluster-ip-range 10.96.0.0/16"),
                &format!(
                    "--tls-cert-file {} --tls-private-key-file {}",
                    file("serving.crt"),
                    file("serving.key")
                ),
                &format!("--token-auth-file {} --authorization-mode Node,RBAC", file("tokens.csv")),
                &format!("--service-account-key-file {}", file("accounts.pub")),
                &format!("--service-account-signing-key-file {}", file("accounts.key")),
                "--service-account-issuer https://kubernetes.default.svc --allow-privileged",
                "--kubelet-preferred-address-types InternalIP",
                flags,
            ],
        );
        let [admin, _] = ["admin", "node"].map(|user| credentials.kubeconfig(user, &server));
        let cluster = Cluster::at(admin.clone(), programs.clone());
        ready(&cluster, processes).await;
        // Only now: a controller manager gives the API server ten seconds, which a busy machine may exceed,
        // and ends.
        if let Some(program) = programs.get(CONTROLLERS) {
            processes.start(
                CONTROLLERS,
                &program,
                &[
                    &format!("--kubeconfig {} --leader-elect=false --secure-port 0", admin.display()),
                    &format!("--service-account-private-key-file {}", file("accounts.key")),
                    &format!("--root-ca-file {} --use-service-account-credentials", file("ca.crt")),
                ],
            );
        }
        cluster
    }
}

async fn found() -> Programs {
    tokio::task::spawn_blocking(Programs::find).await.expect("looking for programs")
}

fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.expect("cp").success(), "{} is copied", from.display());
}

async fn ready(cluster: &Cluster, processes: &mut Processes) {
    let deadline = Instant::now() + CLUSTER_WAIT_TIMEOUT;
    loop {
        processes.assert_running();
        let Err(refused) = asked(&cluster.client().await).await else { return };
        assert!(
            Instant::now() < deadline,
            "waited {CLUSTER_WAIT_TIMEOUT:?} in vain for the API server: {refused}"
        );
        sleep(Duration::from_millis(100)).await;
    }
}

async fn asked(client: &Client) -> Result<(), kube::Error> {
    let ready = Request::get("/readyz").body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request_text(ready).await?;
    // The API server creates this namespace itself, a moment after it says that it is ready.
    Api::<Namespace>::all(client.clone()).get("default").await.map(drop)
}

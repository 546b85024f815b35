//! [`JobLauncher`]: creates the Job of a script, waits for its pod and connects to it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::future::BoxFuture;
use kube::{Client, Config};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout};
use vmcp_error_chain::error_chain;
use vmcp_script::ScriptLimits;
use vmcp_script::jobs::{JobSettings, ScriptJobs};
use vmcp_script::pool::Interpreter;
use vmcp_script::protocol::{Failure, FromWorker};

use crate::cluster::ClusterJobs;
use crate::job;
use crate::pod_interpreter::{PodInterpreter, RunningJob, max_frame};
use crate::pod_state::{self, PodState};
use crate::server_pod::ServerPod;

/// Pause between two looks at a pod that starts.
const LOOK: Duration = Duration::from_millis(250);
/// Time from the first failed pull of an image until the launch gives up. The kubelet's first pause is 10 s,
/// so it pulls a second time before.
const BACK_OFF: Duration = Duration::from_secs(20);
/// Looks without a pod after which the events of the Job are read.
const LOOKS_WITHOUT_POD: usize = 8;
/// Time of one attempt to connect. The container runs, so packets that get no answer are dropped.
const CONNECT: Duration = Duration::from_secs(3);
/// Time that a connected pod has for its first frame.
const READY: Duration = Duration::from_secs(10);

/// Runs scripts as Jobs beside the pod of this process.
pub struct JobLauncher {
    pod: ServerPod,
    client: OnceCell<Client>,
}

impl fmt::Debug for JobLauncher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobLauncher").field("pod", &self.pod).finish_non_exhaustive()
    }
}

impl JobLauncher {
    /// Makes a launcher for the pod of this process, which calls the API server with the pod's own token when
    /// the first script comes; `None` outside of a pod whose scripts may run as Jobs.
    pub fn from_environment() -> Option<JobLauncher> {
        let pod = ServerPod::from_variables(|name| std::env::var(name).ok())?;
        Some(JobLauncher { pod, client: OnceCell::new() })
    }

    /// Makes a launcher with a client of its own.
    pub fn new(pod: ServerPod, client: Client) -> JobLauncher {
        JobLauncher { pod, client: OnceCell::new_with(Some(client)) }
    }

    async fn cluster(&self) -> Result<ClusterJobs, Failure> {
        let client = self.client.get_or_try_init(async || {
            let mut config = Config::incluster().map_err(|error| error_chain(&error))?;
            // The API server is beside the pod, whatever proxy leads out of the cluster.
            config.proxy_url = None;
            Client::try_from(config).map_err(|error| error_chain(&error))
        });
        let client = client.await.map_err(|error: String| {
            let error = format!("the API server cannot be called from this pod: {error}");
            Failure::new("StartError", error)
        })?;
        Ok(ClusterJobs::new(client.clone(), &self.pod.namespace))
    }

    async fn start(
        &self,
        settings: &JobSettings,
        limits: &ScriptLimits,
    ) -> Result<Box<dyn Interpreter>, Failure> {
        let end = Instant::now() + settings.start_timeout;
        let cluster = self.cluster().await?;
        let name = job::job_name(&self.pod.server, random::<6>()?);
        let token = hex::encode(random::<32>()?);
        let most = max_frame(limits);
        let job = job::job(&self.pod, settings, &name, &token, most);
        // Before the call: a creation whose answer is lost may have made it.
        let running = RunningJob::new(cluster.clone(), name.clone());
        let created = cluster.create(&job).await;
        let uid = created.map_err(|error| pod_state::not_started(&error.to_string(), settings))?;
        let pod = StartingPod { cluster: &cluster, job: &name, uid: &uid, settings, end };
        let address = SocketAddr::new(pod.address().await?, self.pod.script_port);
        let stream = pod.connect(address, &token).await?;
        let (settings, limits) = (settings.clone(), limits.clone());
        let mut interpreter = PodInterpreter { stream, running, uid, settings, limits, most };
        match timeout(READY, interpreter.read()).await {
            Ok(Ok(FromWorker::Ready(_))) => Ok(Box::new(interpreter)),
            Ok(Ok(_)) => Err(pod_state::worker_error("it sent an unexpected frame")),
            Ok(Err(_)) => Err(Box::new(interpreter).explain().await),
            Err(_) => Err(pod_state::worker_error("it took the token and said nothing")),
        }
    }
}

impl ScriptJobs for JobLauncher {
    fn launch<'a>(
        &'a self,
        settings: &'a JobSettings,
        limits: &'a ScriptLimits,
    ) -> BoxFuture<'a, Result<Box<dyn Interpreter>, Failure>> {
        Box::pin(self.start(settings, limits))
    }
}

/// The pod of a Job, from the Job's creation until the pod takes the token.
struct StartingPod<'a> {
    cluster: &'a ClusterJobs,
    /// Name of the Job.
    job: &'a str,
    /// UID of the Job.
    uid: &'a str,
    settings: &'a JobSettings,
    /// End of the start timeout.
    end: Instant,
}

impl StartingPod<'_> {
    /// Waits until the pod runs, and returns its address.
    async fn address(&self) -> Result<IpAddr, Failure> {
        let StartingPod { cluster, job, uid, settings, end } = *self;
        let mut cause = None;
        let mut without_pod = 0;
        let mut backs_off_since: Option<Instant> = None;
        while Instant::now() < end {
            match cluster.pod(job, uid).await {
                Ok(Some(pod)) => match pod_state::state(&pod, settings) {
                    PodState::Runs(address) => return Ok(address),
                    PodState::Failed(failure) => return Err(failure),
                    PodState::Starts(why) => cause = why.or(cause),
                    PodState::BacksOff(why) => {
                        if backs_off_since.get_or_insert_with(Instant::now).elapsed() >= BACK_OFF {
                            return Err(pod_state::not_started(&why, settings));
                        }
                        cause = Some(why);
                    }
                },
                Ok(None) => {
                    without_pod += 1;
                    if without_pod % LOOKS_WITHOUT_POD == 0
                        && let Some(refusal) = cluster.refusal(job).await
                    {
                        return Err(pod_state::not_started(&refusal, settings));
                    }
                }
                Err(error) => cause = Some(error.to_string()),
            }
            sleep(LOOK).await;
        }
        let seconds = settings.start_timeout.as_secs_f64();
        let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
        Err(pod_state::not_started(&format!("no pod ran within {seconds} seconds{cause}"), settings))
    }

    /// Connects to the interpreter of the pod, which may not listen yet, and sends the token.
    async fn connect(&self, address: SocketAddr, token: &str) -> Result<TcpStream, Failure> {
        let job = self.job;
        loop {
            let error = match timeout(CONNECT, TcpStream::connect(address)).await {
                Ok(Ok(mut stream)) => match stream.write_all(token.as_bytes()).await {
                    Ok(()) => {
                        let _ = stream.set_nodelay(true);
                        return Ok(stream);
                    }
                    Err(error) => error.to_string(),
                },
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no answer; a NetworkPolicy may drop the packets".to_owned(),
            };
            match self.cluster.pod(job, self.uid).await {
                Ok(Some(pod)) => {
                    if let Some(failure) = pod_state::end(&pod, self.settings) {
                        return Err(failure);
                    }
                }
                Ok(None) => return Err(pod_state::removed()),
                Err(_) => {}
            }
            if Instant::now() >= self.end {
                // The address is for the administrator alone: the client learns nothing of the network.
                tracing::warn!(job, %address, error, "the pod of a script runs and cannot be reached");
                let error = format!("its pod runs and cannot be reached: {error}");
                return Err(pod_state::not_started(&error, self.settings));
            }
            sleep(LOOK).await;
        }
    }
}

/// Returns random bytes of the operating system.
fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| Failure::new("StartError", error.to_string()))?;
    Ok(bytes)
}

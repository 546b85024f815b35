//! [`SessionWebhooks`]: tells services of hooks of coding agents. Each service has a bounded queue and a task
//! of its own, which sends one notice after another and tries again with exponential backoff: no hook waits,
//! and no service waits for another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use vmcp_access::policy::decision_point::notices::NoticeReceiver;
use vmcp_access::rate_limit::LogLimit;
use vmcp_config::SessionWebhook;
use vmcp_hooks::news::HookNews;

use crate::metrics::{Metrics, NoticeLabels};
use crate::random::random_uuid;

/// Notices that wait for one service; further ones are dropped and counted.
const MAX_WAITING: usize = 1024;
/// Attempts for one notice.
const MAX_ATTEMPTS: u32 = 5;
/// Pause before the second attempt; each further one is twice as long, up to a fifth more at random.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Age from which a notice is tried no more: a service that was down for long gets the latest ones soon.
const MAX_AGE: Duration = Duration::from_mins(10);
/// Least time between two log lines about notices of one service that were not taken.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// The services that are told of hooks.
pub(crate) struct SessionWebhooks {
    metrics: Arc<Metrics>,
    first_pause: Duration,
    lanes: Mutex<Vec<Lane>>,
}

/// A service, and the queue of its task. The task ends with the lane; notices that still wait are dropped.
struct Lane {
    settings: Arc<SessionWebhook>,
    queue: mpsc::Sender<Notice>,
    _stop: DropGuard,
}

/// A notice that waits.
struct Notice {
    body: Vec<u8>,
    made: Instant,
}

/// A notice as it is written.
#[derive(Serialize)]
struct Written<'a> {
    version: &'static str,
    /// Tells this notice from others, also when it comes twice.
    uid: String,
    /// RFC 3339, in UTC.
    timestamp: String,
    event: &'static str,
    session: &'a HookNews,
}

impl SessionWebhooks {
    pub(crate) fn new(metrics: &Arc<Metrics>) -> SessionWebhooks {
        SessionWebhooks { metrics: Arc::clone(metrics), first_pause: FIRST_PAUSE, lanes: Mutex::default() }
    }

    /// Queues a notice for each of the configured services that is told of hooks of this type. Never waits.
    /// Needs a tokio runtime.
    pub(crate) fn tell(&self, configured: &[Arc<SessionWebhook>], news: &HookNews) {
        let event = news.hook_type.normalized();
        let mut lanes = self.lanes.lock();
        lanes.retain(|lane| configured.contains(&lane.settings));
        for settings in configured.iter().filter(|settings| settings.means(event)) {
            let known = lanes.iter().position(|lane| lane.settings == *settings);
            let lane = known.and_then(|at| lanes.get(at)).map(|lane| lane.queue.clone());
            let queue = lane.unwrap_or_else(|| {
                let lane = self.start(settings);
                let queue = lane.queue.clone();
                lanes.push(lane);
                queue
            });
            // Strings always serialize.
            let Ok(body) = serde_json::to_vec(&written(news)) else { continue };
            if queue.try_send(Notice { body, made: Instant::now() }).is_err() {
                count(&self.metrics, settings, "dropped");
            }
        }
    }

    /// Stops the tasks of services that are configured no more.
    pub(crate) fn retain(&self, configured: &[Arc<SessionWebhook>]) {
        self.lanes.lock().retain(|lane| configured.contains(&lane.settings));
    }

    fn start(&self, settings: &Arc<SessionWebhook>) -> Lane {
        let (queue, waiting) = mpsc::channel(MAX_WAITING);
        let receiver = NoticeReceiver::new(Arc::clone(settings));
        let stop = CancellationToken::new();
        let sending = send_all(receiver, waiting, Arc::clone(&self.metrics), self.first_pause, stop.clone());
        tokio::spawn(sending);
        Lane { settings: Arc::clone(settings), queue, _stop: stop.drop_guard() }
    }
}

fn written(news: &HookNews) -> Written<'_> {
    Written {
        version: "v0.1.0",
        uid: random_uuid(),
        timestamp: humantime::format_rfc3339_millis(std::time::SystemTime::now()).to_string(),
        event: news.hook_type.normalized(),
        session: news,
    }
}

/// Sends the notices of one service in their order, until `stop`. Counts the notices that are left then.
async fn send_all(
    receiver: NoticeReceiver,
    mut waiting: mpsc::Receiver<Notice>,
    metrics: Arc<Metrics>,
    first_pause: Duration,
    stop: CancellationToken,
) {
    let log = LogLimit::new(LOG_INTERVAL);
    let settings = Arc::clone(receiver.settings());
    while let Some(Some(notice)) = stop.run_until_cancelled(waiting.recv()).await {
        let sending = send(&receiver, &notice, first_pause);
        let Some(sent) = stop.run_until_cancelled(sending).await else {
            count(&metrics, &settings, "dropped");
            break;
        };
        count(&metrics, &settings, if sent.is_ok() { "sent" } else { "failed" });
        if let Err(reason) = sent
            && let Some(left_out) = log.admit((), Instant::now())
        {
            tracing::warn!(webhook = &*settings.name, %reason, left_out, "a session notice was not taken");
        }
    }
    waiting.close();
    while waiting.try_recv().is_ok() {
        count(&metrics, &settings, "dropped");
    }
}

/// Sends one notice, again after passing failures; an error is the reason of the last one.
async fn send(receiver: &NoticeReceiver, notice: &Notice, first_pause: Duration) -> Result<(), String> {
    let (mut attempt, mut pause) = (1, first_pause);
    loop {
        if notice.made.elapsed() > MAX_AGE {
            return Err("it waited for more than ten minutes".to_owned());
        }
        let Err(failure) = receiver.send(notice.body.clone()).await else { return Ok(()) };
        if attempt >= MAX_ATTEMPTS || !failure.is_passing() {
            return Err(failure.to_string());
        }
        sleep(pause.mul_f64(1.0 + fastrand::f64() / 5.0)).await;
        (attempt, pause) = (attempt + 1, pause * 2);
    }
}

fn count(metrics: &Metrics, settings: &SessionWebhook, outcome: &'static str) {
    let labels = NoticeLabels { webhook: settings.name.to_string(), outcome };
    metrics.session_notices.get_or_create(&labels).inc();
}

#[cfg(test)]
mod tests;

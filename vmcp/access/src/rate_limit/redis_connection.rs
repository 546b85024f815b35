//! Connections to the Redis server of `sessionStorage`.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, ConnectionAddr, IntoConnectionInfo as _, RedisConnectionInfo, RedisError};
use vmcp_config::RedisStore;

/// Time for an answer of Redis, connecting included.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Lua that sets `now`, the milliseconds of Redis' clock, for the beginning of a script.
pub const CLOCK: &str = r"
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
";
/// Time after a failure in which Redis is not asked, so that callers do not wait for [`ANSWER_TIMEOUT`] each;
/// then one asks.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The time in which Redis is away.
#[derive(Debug, Default)]
pub struct Outage(Mutex<Option<Instant>>);

impl Outage {
    /// True while the last answer of Redis failed to come.
    pub fn is_on(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Returns false while Redis is away; then true for one caller each [`RETRY_INTERVAL`].
    pub fn may_ask(&self) -> bool {
        let mut until = self.0.lock();
        let Some(end) = *until else { return true };
        let now = Instant::now();
        if now >= end {
            *until = Some(now + RETRY_INTERVAL);
        }
        now >= end
    }

    /// Records a failure; true if it is the first.
    pub fn begin(&self) -> bool {
        self.0.lock().replace(Instant::now() + RETRY_INTERVAL).is_none()
    }

    /// Records an answer; true if it is the first after a failure.
    pub fn end(&self) -> bool {
        self.0.lock().take().is_some()
    }
}

/// Makes a connection that is opened with its first command, and again after a failure.
pub fn connect(store: &RedisStore) -> Result<ConnectionManager, RedisError> {
    let RedisStore { host, port, tls, db, key_prefix: _, username, password } = store;
    let address = if *tls {
        ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host.clone(), *port)
    };
    let mut settings = RedisConnectionInfo::default().set_db(i64::from(*db));
    if let Some(username) = username {
        settings = settings.set_username(username);
    }
    if let Some(password) = password {
        settings = settings.set_password(password.expose());
    }
    let client = Client::open(address.into_connection_info()?.set_redis_settings(settings))?;
    let config = ConnectionManagerConfig::new()
        .set_number_of_retries(1)
        .set_connection_timeout(Some(ANSWER_TIMEOUT))
        .set_response_timeout(Some(ANSWER_TIMEOUT));
    ConnectionManager::new_lazy_with_config(client, config)
}

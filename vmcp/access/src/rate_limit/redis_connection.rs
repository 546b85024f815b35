//! Connections to the Redis server of `sessionStorage`.

use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, ConnectionAddr, IntoConnectionInfo as _, RedisConnectionInfo, RedisError};
use vmcp_config::RedisStore;

/// Time for an answer of Redis, connecting included.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

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

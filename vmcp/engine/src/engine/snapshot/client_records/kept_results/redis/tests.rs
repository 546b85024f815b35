//! Results whose transfer Redis leaves without an answer.

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::super::{MAX_JOBS, owner};
use super::*;
use crate::access::identity::Principal;
use crate::testing::{KEYWORDS, engine};

/// A Redis that leaves one script without an answer.
struct FakeRedis {
    port: u16,
    /// SHA-1 of each script that was called.
    calls: mpsc::UnboundedReceiver<String>,
}

impl FakeRedis {
    async fn start(unanswered: &Script) -> FakeRedis {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, calls) = mpsc::unbounded_channel();
        let unanswered = unanswered.get_hash().to_owned();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve(connection, unanswered.clone(), seen.clone()));
            }
        });
        FakeRedis { port, calls }
    }

    /// Returns results over a connection of their own.
    fn results(&self) -> Arc<RedisResults> {
        let server = RedisStore {
            host: "127.0.0.1".to_owned(),
            port: self.port,
            tls: false,
            db: 0,
            key_prefix: String::new(),
            username: None,
            password: None,
        };
        Arc::new(RedisResults::new(server).unwrap())
    }

    /// Waits for a call of a script.
    async fn called(&mut self, script: &Script) {
        let called =
            async { while self.calls.recv().await.expect("the server runs") != script.get_hash() {} };
        timeout(Duration::from_secs(30), called).await.expect("the script is called");
    }
}

async fn serve(connection: TcpStream, unanswered: String, seen: mpsc::UnboundedSender<String>) {
    let reserve = scripts::reserve();
    let mut connection = BufReader::new(connection);
    while let Some(command) = read_command(&mut connection).await {
        let answer = match command.as_slice() {
            [name, hash, ..] if name == "EVALSHA" => {
                let _ = seen.send(hash.clone());
                if *hash == unanswered {
                    ""
                } else if hash == reserve.get_hash() {
                    "*2\r\n:0\r\n:1\r\n"
                } else {
                    ":1\r\n"
                }
            }
            _ => "+OK\r\n",
        };
        if connection.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read_command(connection: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut command = Vec::new();
    for _ in 0..read_number(connection).await? {
        let length = read_number(connection).await?;
        let mut word = vec![0; length + 2];
        connection.read_exact(&mut word).await.ok()?;
        word.truncate(length);
        command.push(String::from_utf8_lossy(&word).into_owned());
    }
    Some(command)
}

/// Reads a line such as `*3` or `$5`.
async fn read_number(connection: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    connection.read_line(&mut line).await.ok()?;
    line.trim_end().get(1..)?.parse().ok()
}

#[tokio::test]
async fn parts_of_a_result_that_is_not_written_to_its_end_are_removed() {
    let (write, remove) = (scripts::write(), scripts::remove());
    let mut server = FakeRedis::start(&write).await;
    let (bounds, life) = (Bounds { per_owner: 1 << 20, total: 1 << 20 }, Duration::from_mins(1));
    let name = SealedName { owner: [1; 32], key: [2; 32] };
    let sealed = SealedResult { name, bytes: vec![0; 10] };
    let results = server.results();
    tokio::select! {
        written = results.write(&sealed, bounds, life) => panic!("written: {written:?}"),
        () = server.called(&write) => {}
    }
    server.called(&remove).await;

    let results = server.results();
    let written = results.write(&sealed, bounds, life).await;
    assert!(matches!(written, Err(SharedStoreError::Away(_))), "{written:?}");
    server.called(&write).await;
    server.called(&remove).await;
    assert!(!results.outage.may_ask(), "the next result does not wait for Redis");
}

#[tokio::test]
async fn an_owner_that_waits_for_redis_leaves_the_jobs_to_others() {
    let touch = scripts::touch();
    let mut server = FakeRedis::start(&touch).await;
    let shared = format!(
        "server: {{ sessionKeys: ['a key of this test, long enough'] }}\n\
         sessionStorage: {{ provider: redis, address: '127.0.0.1:{}' }}\n",
        server.port
    );
    let engine = engine(&format!("{KEYWORDS}{shared}")).await;
    let (snapshot, results, owner) = (engine.snapshot(), engine.results(), owner(&Principal::at("10.0.0.1")));
    let reference = format!("res_{}", "A".repeat(22));
    let permits = async {
        server.called(&touch).await;
        (results.jobs.available_permits(), results.turn(&owner).available_permits())
    };
    tokio::select! {
        read = results.work_on(&snapshot, &owner, &reference, |_| ()) => panic!("read: {read:?}"),
        permits = permits => assert_eq!(permits, (MAX_JOBS, 0), "the job is free, the turn is not"),
    }
}

//! A real Prometheus and its `promtool`: those of this machine, or of Debian's package.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::{Process, eventually, found_by, free_port, http_client};

/// The programs of Prometheus.
#[derive(Debug)]
pub struct PrometheusPrograms(PathBuf);

impl PrometheusPrograms {
    /// Finds them, or says why they are missing.
    pub async fn find() -> Result<Self, String> {
        found_by("prometheus.sh").await.map(|path| Self(path.into()))
    }

    /// Returns what `promtool check metrics` complains about.
    pub async fn complaints(&self, metrics: &str) -> String {
        let mut promtool = Command::new(self.0.join("promtool"));
        promtool.args(["check", "metrics"]).stdin(Stdio::piped());
        let mut promtool = promtool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("promtool");
        let mut stdin = promtool.stdin.take().expect("a pipe");
        stdin.write_all(metrics.as_bytes()).await.expect("promtool reads");
        drop(stdin);
        let said = promtool.wait_with_output().await.expect("promtool ends");
        String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned()
    }
}

/// A running Prometheus.
pub struct Prometheus {
    url: String,
    _process: Process,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes `target`, an address with or without `http://`, four times a second.
    pub fn start(programs: &PrometheusPrograms, target: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let target = target.trim_start_matches("http://");
        let config = json!({
            "global": {"scrape_interval": "250ms", "scrape_timeout": "250ms"},
            "scrape_configs": [{"job_name": "gateway", "static_configs": [{"targets": [target]}]}],
        });
        let file = folder.path().join("prometheus.json");
        std::fs::write(&file, config.to_string()).expect("a file");
        let address = format!("127.0.0.1:{}", free_port());
        let mut command = Command::new(programs.0.join("prometheus"));
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"));
        let process = Process::start("prometheus", &mut command);
        Self { url: format!("http://{address}/api/v1/query"), _process: process, _folder: folder }
    }

    /// Returns the series that a query yields; `None` while Prometheus does not answer.
    pub async fn query(&self, query: &str) -> Option<Vec<Value>> {
        let mut url = url::form_urlencoded::Serializer::new(format!("{}?", self.url));
        let url = url.append_pair("query", query).finish();
        let answer = http_client().get(url).send().await.ok()?;
        let mut answer: Value = answer.json().await.ok()?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        serde_json::from_value(answer["data"]["result"].take()).ok()
    }

    /// Waits until it has scraped `more` times from now on.
    pub async fn scrapes(&self, more: u64) {
        let scrapes = async || -> Option<u64> {
            let series = self.query("sum(count_over_time(up[1h]))").await?;
            series.first()?["value"][1].as_str()?.parse().ok()
        };
        let before = eventually("a scrape", scrapes).await;
        eventually("further scrapes", async || (scrapes().await? >= before + more).then_some(())).await;
    }
}

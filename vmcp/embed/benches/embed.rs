//! Costs of the local model: `cargo bench -p vmcp-embed --features testing`. The model is pulled if it is not
//! there.
#![expect(clippy::print_stdout, reason = "a benchmark's result is what it prints")]
#![expect(
    clippy::indexing_slicing,
    reason = "indices are reduced to the length; a panic would only end the benchmark"
)]

use std::error::Error;
use std::time::{Duration, Instant};

use vmcp_embed::local::LocalModel;
use vmcp_embed::{Embedder, LocalEmbedder, LocalSettings, testing};

/// 500 texts of about 60 tokens, as in the measurements that the runtime was chosen by.
fn tool_texts() -> Vec<String> {
    let subjects = ["repository", "calendar event", "customer invoice", "weather forecast", "database table"];
    let verbs = ["Create", "Search", "Update", "Delete", "List"];
    let text = |n: usize| {
        let (verb, subject) = (verbs[n % 5], subjects[n / 5 % 5]);
        format!(
            "server{n} {verb} {subject}: {verb} a {subject} by its identifier {n}, with optional filters for owner, \
             date range and status. Returns the matching entries with their metadata, sorted by time of the last \
             change, and a cursor for the next page when more than the given limit of entries were found in total."
        )
    };
    (0..500).map(text).collect()
}

async fn queries(embedder: &LocalEmbedder, count: usize) -> Result<Vec<Duration>, Box<dyn Error>> {
    let mut times = Vec::new();
    for n in 0..count {
        let query = format!(
            "find the open pull requests of my colleague number {n} and tell me who should review them"
        );
        let start = Instant::now();
        embedder.embed_queries(&[query]).await?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times)
}

fn show(what: &str, times: &[Duration]) {
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    println!("{what:<42} p50 {:6.1} ms   p95 {:6.1} ms   ({} runs)", at(50), at(95), times.len());
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let embedder =
        LocalEmbedder::new(LocalSettings::new(LocalModel::default_model(), testing::local_model().await?));
    let texts = tool_texts();

    let start = Instant::now();
    embedder.embed(&["first".to_owned()]).await?;
    println!("{:<42} {:10.0} ms", "load, verify and first vector", start.elapsed().as_secs_f64() * 1e3);

    show("query of 20 tokens", &queries(&embedder, 200).await?);

    let start = Instant::now();
    embedder.embed(&texts).await?;
    let bulk = texts.len() as f64 / start.elapsed().as_secs_f64();
    println!("{:<42} {bulk:10.0} texts/s", "500 tool texts, one call");

    let start = Instant::now();
    for text in texts.iter().take(100) {
        embedder.embed(std::slice::from_ref(text)).await?;
    }
    let single = 100.0 / start.elapsed().as_secs_f64();
    println!(
        "{:<42} {single:10.0} texts/s   (one call is {:.2} times as fast)",
        "100 of them, one by one",
        bulk / single
    );

    let embedder = std::sync::Arc::new(embedder);
    let work = tokio::spawn({
        let embedder = std::sync::Arc::clone(&embedder);
        async move {
            loop {
                embedder.embed(&texts).await.map(drop)?;
            }
            #[expect(unreachable_code, reason = "names the type of the loop's error")]
            Ok::<(), vmcp_embed::EmbedError>(())
        }
    });
    show("query beside bulk work", &queries(&embedder, 50).await?);
    work.abort();

    // Linux only; other systems lack the file, and print nothing.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for line in status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM")) {
        println!("{line}");
    }
    Ok(())
}

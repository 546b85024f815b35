//! [`TaskId`]: the content of the id under which a client knows a task. The id is a sealed token that names
//! the backend, the tool and the backend's own id, and opens for its owner only: any process with the key
//! can serve it.

use crate::sealed::{KeyRing, Nonce, OpenError};

/// The most bytes that a backend's own id may have; a task with a longer one is refused. The id travels in
/// the header `Mcp-Name`.
pub const MAX_BACKEND_ID: usize = 2 * 1024;

const CONTEXT: &[u8] = b"task id\0";
const VERSION: u8 = 1;

/// A task of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskId {
    /// The backend's name.
    pub backend: String,
    /// The tool whose call became the task, in the backend's spelling.
    pub tool: String,
    /// The backend's own id.
    pub id: String,
}

/// The reason why a task gets no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its task has an id of {length} bytes; the limit is {MAX_BACKEND_ID}")]
pub struct TaskIdTooLong {
    /// The bytes of the backend's own id.
    pub length: usize,
}

impl TaskId {
    /// Seals the id for its `owner`, the digest of an identity. `nonce` must be fresh and random; `expires`
    /// is in seconds since the Unix epoch.
    pub fn seal(
        &self,
        ring: &KeyRing,
        nonce: &Nonce,
        owner: &[u8; 32],
        expires: u64,
    ) -> Result<String, TaskIdTooLong> {
        if self.id.len() > MAX_BACKEND_ID {
            return Err(TaskIdTooLong { length: self.id.len() });
        }
        let mut out = vec![VERSION];
        for part in [&self.backend, &self.tool] {
            out.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(self.id.as_bytes());
        Ok(ring.seal(nonce, &out, &associated(owner), expires))
    }

    /// Opens the id that an identity presents. The id of another owner opens like a forged one.
    pub fn open(ring: &KeyRing, text: &str, owner: &[u8; 32], now: u64) -> Result<TaskId, OpenError> {
        let opened = ring.open(text, &associated(owner), now)?;
        decode(&opened.content).ok_or(OpenError::Malformed)
    }
}

/// Binds an id to its purpose and to its owner.
fn associated(owner: &[u8; 32]) -> Vec<u8> {
    [CONTEXT, owner].concat()
}

fn decode(content: &[u8]) -> Option<TaskId> {
    let ([version], rest) = content.split_first_chunk()?;
    let (backend, rest) = part(rest)?;
    let (tool, id) = part(rest)?;
    let id = String::from_utf8(id.to_vec()).ok()?;
    (*version == VERSION).then_some(TaskId { backend, tool, id })
}

fn part(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    Some((String::from_utf8(part.to_vec()).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_id_opens_for_its_owner_alone() {
        let ring = KeyRing::from_secrets([b"a secret of enough bytes"]).unwrap();
        let other = KeyRing::from_secrets([b"another secret, as long"]).unwrap();
        let task = TaskId { backend: "größe".into(), tool: "work".into(), id: "a\"\0b".into() };
        let id = task.seal(&ring, &[7; 24], &[1; 32], 100).unwrap();
        assert!(id.bytes().all(|byte| byte.is_ascii_graphic()) && id.len() < 160, "{id}");
        assert_eq!(TaskId::open(&ring, &id, &[1; 32], 99), Ok(task.clone()));
        assert_eq!(TaskId::open(&ring, &id, &[2; 32], 99), Err(OpenError::Forged), "another identity");
        assert_eq!(TaskId::open(&other, &id, &[1; 32], 99), Err(OpenError::Forged), "another key");
        assert_eq!(TaskId::open(&ring, &id, &[1; 32], 100), Err(OpenError::Expired { at: 100 }));
        assert_eq!(TaskId::open(&ring, "one-0", &[1; 32], 0), Err(OpenError::Malformed), "a backend's own");
        let of_state = ring.seal(&[7; 24], b"\x01", b"request state", 100);
        assert_eq!(TaskId::open(&ring, &of_state, &[1; 32], 0), Err(OpenError::Forged));

        let long = TaskId { id: "x".repeat(MAX_BACKEND_ID + 1), ..task.clone() };
        assert_eq!(
            long.seal(&ring, &[7; 24], &[1; 32], 100),
            Err(TaskIdTooLong { length: MAX_BACKEND_ID + 1 })
        );
        let longest = TaskId { id: "x".repeat(MAX_BACKEND_ID), ..task };
        let id = longest.seal(&ring, &[7; 24], &[1; 32], 100).unwrap();
        assert!(TaskId::open(&ring, &id, &[1; 32], 99).is_ok() && id.len() < 4096, "fits a header");
    }
}

//! [`PolicyChecker`]: checks the policies of resources by `vmcp check-policies`, a process of its own.
//!
//! Authors of resources in any namespace write policies. A text that overwhelms the parser ends one child
//! process, bounded in time and output, and not the operator of the whole cluster. The child is the `vmcp`
//! beside the operator in its image.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use vmcp_config::{Authz, Finding, Problem};
use vmcp_crds::lower::PolicyCheck;

/// Time that one check may take; a check takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of findings that are read; more fail the check.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;
/// Policies whose findings are cached; one more empties the cache.
const MAX_CACHED: usize = 4096;

/// Digest of policies.
type PolicyDigest = [u8; 32];

/// Reason why policies were not checked. Fails closed: such policies are not mounted.
#[derive(Debug, thiserror::Error)]
enum Unchecked {
    #[error("{program} cannot be started: {source}; use an image of the operator that holds it", program = .program.display())]
    NotStarted { program: PathBuf, source: std::io::Error },
    #[error("`vmcp check-policies` gave no findings ({0}); simplify the policies")]
    Ended(String),
    #[error("`vmcp check-policies` took longer than {} s; simplify the policies", TIMEOUT.as_secs())]
    TimedOut,
}

/// Checks policies, one set at a time, and caches the findings by the text.
#[derive(Debug)]
pub(crate) struct PolicyChecker {
    program: PathBuf,
    one_at_a_time: Semaphore,
    cached: Mutex<HashMap<PolicyDigest, Vec<Finding>>>,
}

impl Default for PolicyChecker {
    fn default() -> Self {
        let own = std::env::current_exe().unwrap_or_default();
        Self::new(own.with_file_name("vmcp"))
    }
}

impl PolicyChecker {
    fn new(program: PathBuf) -> Self {
        Self { program, one_at_a_time: Semaphore::new(1), cached: Mutex::default() }
    }

    /// Returns the result of a pure computation that asks for findings about policies. It is repeated after
    /// each check of policies that it asked about for the first time.
    pub(crate) async fn settle<T>(&self, compute: impl Fn(PolicyCheck<'_>) -> T) -> T {
        let mut failed: HashMap<PolicyDigest, Vec<Finding>> = HashMap::new();
        loop {
            let (result, unknown) = {
                let unknown = RefCell::new(None);
                let check = |authz: &Authz| {
                    let digest = digest(authz);
                    let known = self.cached.lock().get(&digest).or_else(|| failed.get(&digest)).cloned();
                    known.unwrap_or_else(|| {
                        *unknown.borrow_mut() = Some((digest, authz.clone()));
                        Vec::new()
                    })
                };
                let result = compute(PolicyCheck(&check));
                (result, unknown.into_inner())
            };
            let Some((digest, authz)) = unknown else { return result };
            match self.findings(&authz).await {
                Ok(findings) => {
                    let mut cached = self.cached.lock();
                    if cached.len() >= MAX_CACHED {
                        cached.clear();
                    }
                    cached.insert(digest, findings);
                }
                Err(error) => {
                    tracing::warn!(%error, "policies could not be checked");
                    let (message, remedy) = split(&error.to_string());
                    let message = format!("could not be checked: {message}");
                    let problem = Problem::new("incomingAuth.authz.policies", message, remedy);
                    failed.insert(digest, vec![Finding::Mistake(problem)]);
                }
            }
        }
    }

    /// Runs one check.
    async fn findings(&self, authz: &Authz) -> Result<Vec<Finding>, Unchecked> {
        let _permit = self.one_at_a_time.acquire().await;
        let input = serde_json::to_vec(authz).unwrap_or_default();
        let child = start(&self.program)
            .map_err(|source| Unchecked::NotStarted { program: self.program.clone(), source })?;
        let answered = tokio::time::timeout(TIMEOUT, exchange(child, &input)).await;
        answered.map_err(|_| Unchecked::TimedOut)?
    }
}

fn start(program: &Path) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    // The child needs no variable of the operator; dropping the child kills it.
    command.arg("check-policies").env_clear().kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}

/// Writes the policies, and reads the findings. Both at once: neither pipe may fill up.
async fn exchange(mut child: Child, input: &[u8]) -> Result<Vec<Finding>, Unchecked> {
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let write = async move {
        if let Some(mut stdin) = stdin {
            // A child that ended early is seen by its status.
            let _ = stdin.write_all(input).await;
        }
    };
    let read = async move {
        let mut output = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(MAX_OUTPUT_BYTES).read_to_end(&mut output).await?;
        }
        std::io::Result::Ok(output)
    };
    let ((), output) = tokio::join!(write, read);
    let ended = |error: &dyn std::fmt::Display| Unchecked::Ended(error.to_string());
    let output = output.map_err(|error| ended(&error))?;
    let status = child.wait().await.map_err(|error| ended(&error))?;
    if !status.success() {
        return Err(ended(&status));
    }
    serde_json::from_slice(&output).map_err(|error| ended(&error))
}

/// Divides an error into message and remedy.
fn split(error: &str) -> (String, String) {
    let (message, remedy) = error.rsplit_once("; ").unwrap_or((error, "see the log of the operator"));
    (message.to_owned(), remedy.to_owned())
}

/// Returns the digest of everything that the findings depend on.
fn digest(authz: &Authz) -> PolicyDigest {
    let parts = (&authz.policies, &authz.entities_json, &authz.group_entity_type);
    Sha256::digest(serde_json::to_vec(&parts).unwrap_or_default()).into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn authz() -> Authz {
        let text =
            "incomingAuth: { authz: { policies: ['permit(principal, action, resource);'] } }".to_owned();
        let config = vmcp_config::load(&text, "vmcp.yaml", &|_| None).unwrap().config;
        config.authz.unwrap().as_ref().clone()
    }

    /// Returns a program that is this script.
    fn script(folder: &tempfile::TempDir, text: &str) -> PathBuf {
        let path = folder.path().join("vmcp");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    async fn findings(checker: &PolicyChecker) -> Vec<Finding> {
        let authz = authz();
        checker.settle(|check| (check.0)(&authz)).await
    }

    #[tokio::test]
    async fn a_check_runs_once_for_equal_policies() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        let finding = r#"[{"warning":{"path":"p","message":"m","remedy":"r","line":null}}]"#;
        let text = format!("/bin/cat > /dev/null; echo x >> {}; echo '{finding}'", count.display());
        let checker = PolicyChecker::new(script(&folder, &text));
        let expected = vec![Finding::Warning(Problem::new("p", "m", "r"))];
        assert_eq!(findings(&checker).await, expected);
        assert_eq!(findings(&checker).await, expected);
        assert_eq!(std::fs::read_to_string(count).unwrap(), "x\n");
    }

    #[tokio::test]
    async fn policies_that_were_not_checked_are_a_mistake_and_checked_again_later() {
        let folder = tempfile::tempdir().unwrap();
        let checker = PolicyChecker::new(folder.path().join("vmcp"));
        let message = |findings: Vec<Finding>| match findings.as_slice() {
            [Finding::Mistake(problem)] => problem.to_string(),
            other => panic!("{other:?}"),
        };
        let missing = message(findings(&checker).await);
        assert!(missing.contains("cannot be started") && missing.contains("image"), "{missing}");
        script(&folder, "kill -6 $$");
        let killed = message(findings(&checker).await);
        assert!(killed.contains("could not be checked") && killed.contains("signal: 6"), "{killed}");
        script(&folder, "echo '[]'");
        assert_eq!(findings(&checker).await, []);
    }
}

//! [`RunningCall`]: the part of a request that outlives one round, and is parked while its client is asked.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use vmcp_access::identity::scopes;
use vmcp_backend::{EventReceiver, event_queue};

use super::encoded_response::EncodedResponse;
use super::input_requests::InputRequests;
use vmcp_engine::access::identity::Principal;
use vmcp_engine::access::policy::Policy;
use vmcp_engine::engine::Snapshot;

/// The work of a request: a future that ends with the response.
pub(super) type Work = Pin<Box<dyn Future<Output = EncodedResponse> + Send>>;

/// The remaining work of a request, the events of its backend, and in the end its response.
pub(super) struct RunningCall {
    /// The work; `None` once `answer` is set.
    pub(super) work: Option<Work>,
    /// The response; set when the work is done, taken when it is sent.
    pub(super) answer: Option<EncodedResponse>,
    /// Messages of the backend before its answer.
    pub(super) events: EventReceiver,
    /// Questions that the next answer to the modern client will carry.
    pub(super) input_requests: InputRequests,
    /// Cancels the call at the backend.
    pub(super) cancel: CancellationToken,
    /// The rights with which the call began; `None` for a response that needs no work.
    pub(super) rights: Option<CallRights>,
}

/// The client of a call, and the policy that allowed it.
pub(super) struct CallRights {
    principal: Principal,
    policy: Arc<dyn Policy>,
}

impl CallRights {
    /// Returns the rights of a client that calls under a snapshot.
    pub(super) fn new(principal: &Principal, snapshot: &Snapshot) -> CallRights {
        CallRights { principal: principal.clone(), policy: Arc::clone(&snapshot.policy) }
    }

    /// True if a client who continues the call may have other rights: other policies are in force, or a
    /// renewed credential has other claims that count, or fewer scopes where tools need some.
    fn are_outdated(&self, principal: &Principal, snapshot: &Snapshot) -> bool {
        let granted = scopes::granted(&principal.identity);
        let needs_scopes = !snapshot.authentication.config().tool_scopes.is_empty();
        let lacks = |scope: &&str| !granted.contains(scope);
        !Arc::ptr_eq(&self.policy, &snapshot.policy)
            || self.policy.key(&self.principal) != self.policy.key(principal)
            || (needs_scopes && scopes::granted(&self.principal.identity).iter().any(lacks))
    }
}

impl RunningCall {
    /// Wraps the work of a request.
    pub(super) fn new(work: Work, events: EventReceiver, cancel: CancellationToken) -> Self {
        let input_requests = InputRequests::default();
        Self { work: Some(work), answer: None, events, input_requests, cancel, rights: None }
    }

    /// Wraps a response that needs no work.
    pub(super) fn answered(answer: Option<EncodedResponse>) -> Self {
        let (events, cancel) = (event_queue(1).1, CancellationToken::new());
        Self { work: None, answer, events, input_requests: InputRequests::default(), cancel, rights: None }
    }

    /// True if a client who continues the call may have other rights than those with which it began.
    pub(super) fn is_outdated(&self, principal: &Principal, snapshot: &Snapshot) -> bool {
        self.rights.as_ref().is_some_and(|rights| rights.are_outdated(principal, snapshot))
    }

    /// Polls the work and stores its response. Never completes: a response waits for its client just as a
    /// question does.
    pub(super) async fn run(&mut self) {
        if let Some(work) = &mut self.work {
            // Collected: while its client is away, no reader takes the bytes of a response on the way.
            let response = work.await.collect().await;
            (self.work, self.answer) = (None, Some(response));
        }
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use vmcp_engine::access::identity::Identity;
    use vmcp_engine::testing::{KEYWORDS, engine};

    use super::*;

    fn client(claims: Value) -> Principal {
        let Value::Object(claims) = claims else { unreachable!() };
        Identity::known("https://idp.example", "alice", claims, None).into()
    }

    #[tokio::test]
    async fn a_call_is_continued_with_the_rights_with_which_it_began() {
        let settings = "incomingAuth: { type: oidc, oidc: { issuer: https://idp.example, audience: a }, \
             authz: { policies: ['permit(principal in THVGroup::\"admins\", action, resource);'] }, \
             toolScopes: [{ tools: ['*'], scopes: [work] }] }\n";
        let engine = engine(&format!("{KEYWORDS}{settings}")).await;
        let snapshot = engine.snapshot();
        let before = json!({"groups": ["admins"], "scope": "work", "exp": 1, "jti": "1"});
        let call = RunningCall {
            rights: Some(CallRights::new(&client(before), &snapshot)),
            ..RunningCall::answered(None)
        };
        let renewed = client(json!({"groups": ["admins"], "scope": "work", "exp": 2, "jti": "2"}));
        assert!(!call.is_outdated(&renewed, &snapshot));
        for other in [json!({"groups": ["staff"], "scope": "work"}), json!({"scope": "work"})] {
            assert!(call.is_outdated(&client(other.clone()), &snapshot), "{other}");
        }
        let fewer = client(json!({"groups": ["admins"], "scope": "read", "exp": 1, "jti": "1"}));
        assert!(call.is_outdated(&fewer, &snapshot), "a scope is missing");
        assert!(!RunningCall::answered(None).is_outdated(&fewer, &snapshot));
    }
}

//! Consent of the person at the command line to a call that `aggregation.confirm` holds back, and the MCP
//! client that hands it to a running server.

use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
};
use rmcp::service::{RequestContext, RoleClient};
use vmcp_edge::port::admin::operator_call::CONFIRMATION_PREFIX;

/// Consent of the person at the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Consent {
    /// None was asked for yet: a call that needs it is refused.
    Absent,
    /// The person has allowed the call.
    Given,
}

/// An MCP client that declares elicitation only with [`Consent::Given`]. It accepts one confirmation of vmcp
/// and declines every other question: the person was asked about the call alone.
pub(super) struct ConsentingClient {
    config: ClientConfig,
    /// True until the consent is spent.
    may_accept: AtomicBool,
}

impl ConsentingClient {
    /// A client that hands this consent on.
    pub(super) fn new(consent: Consent) -> ConsentingClient {
        let mut capabilities = ClientCapabilities::default();
        if consent == Consent::Given {
            let form = ElicitationCapability::new().with_form(FormElicitationCapability::default());
            capabilities.elicitation = Some(form);
        }
        let identity = Implementation::new("vmcp-cli", env!("CARGO_PKG_VERSION"));
        let may_accept = AtomicBool::new(consent == Consent::Given);
        ConsentingClient { config: ClientConfig::new(capabilities, identity), may_accept }
    }

    fn answer(&self, question: &ElicitRequestParams) -> ElicitationAction {
        let is_confirmation = match question {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                message.starts_with(CONFIRMATION_PREFIX) && requested_schema.properties.is_empty()
            }
            _ => false,
        };
        if is_confirmation && self.may_accept.swap(false, Ordering::Relaxed) {
            ElicitationAction::Accept
        } else {
            ElicitationAction::Decline
        }
    }
}

impl ClientHandler for ConsentingClient {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(self.answer(&request)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn question(message: &str, properties: &serde_json::Value) -> ElicitRequestParams {
        let schema = json!({"type": "object", "properties": properties});
        serde_json::from_value(json!({"mode": "form", "message": message, "requestedSchema": schema}))
            .unwrap()
    }

    #[test]
    fn one_confirmation_is_accepted_and_every_other_question_declined() {
        let confirmation =
            question("Allow the call of shop_delete (server shop) without arguments?", &json!({}));
        assert_eq!(ConsentingClient::new(Consent::Absent).answer(&confirmation), ElicitationAction::Decline);
        let client = ConsentingClient::new(Consent::Given);
        for other in [
            question("Delete everything?", &json!({})),
            question("Allow the call of x with", &json!({"password": {"type": "string"}})),
        ] {
            assert_eq!(client.answer(&other), ElicitationAction::Decline);
        }
        assert_eq!(client.answer(&confirmation), ElicitationAction::Accept);
        assert_eq!(client.answer(&confirmation), ElicitationAction::Decline, "a yes is for one call");
    }
}

//! Tells a lost session from a request that the server dislikes. Both may be answered with HTTP 404 or 400
//! and no word about the request: by the server, by a framework below it, by a proxy before it. A second,
//! harmless request on the same session decides; else one caller's bad request would end what others share.

use std::time::Duration;

use http::HeaderMap;
use tokio::time::timeout;
use vmcp_wire::era::Era;
use vmcp_wire::methods;
use vmcp_wire::owned::OwnedParams;

use crate::connection::{Connection, era};
use crate::request::{Request, RpcOutcome};
use crate::transport::{HttpRefusal, LinkError};

/// Time for the server to answer the probe; a silent server keeps its session.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

impl Connection {
    /// Turns a session in doubt into a lost one, or into the refusal of the request that it was.
    pub(super) async fn decide(&self, error: LinkError) -> Result<RpcOutcome, LinkError> {
        let LinkError::SessionInDoubt { status, error, said } = error else { return Err(error) };
        // Boxed: a rare probe, whose state every exchange would else carry.
        if Box::pin(self.has_lost_session()).await {
            return Err(LinkError::SessionLost);
        }
        let refusal = || Err(LinkError::Status(HttpRefusal::new(status, &HeaderMap::new(), said)));
        error.map_or_else(refusal, |error| Ok(RpcOutcome::Error(error.into())))
    }

    /// Pings on the session of a legacy server; asks a modern one for its revisions.
    async fn has_lost_session(&self) -> bool {
        match self.server.era() {
            Era::Legacy => {
                let nothing = OwnedParams::empty();
                let ping = Request::new(methods::PING, &nothing);
                let answer = self.channel.exchange(self.server.revision, &ping, None);
                matches!(timeout(PROBE_TIMEOUT, answer).await, Ok(Err(LinkError::SessionInDoubt { .. })))
            }
            Era::Modern => era::speaks_legacy_only(&self.channel, PROBE_TIMEOUT).await,
        }
    }
}

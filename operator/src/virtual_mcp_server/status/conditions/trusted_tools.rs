//! `ToolChangesApproved`: changed definitions of tools that wait for an approval, and the trust that new pods
//! get.

use kube::ResourceExt as _;

use super::Degradations;
use crate::runtime::Conditions;
use crate::virtual_mcp_server::names;
use crate::virtual_mcp_server::observe::trusted_tools::{approval, approval_annotation};
use crate::virtual_mcp_server::status::ObservedVirtualMCPServer;

/// Characters of a tool's name that a message quotes; a longer one is named by the status of the pods.
const MAX_NAME_CHARS: usize = 200;

/// Sets `ToolChangesApproved` where a backend is under `onToolChange: Quarantine`.
pub(super) fn trusted_tools(
    observed: &ObservedVirtualMCPServer<'_>,
    conditions: &mut Conditions,
    degradations: &mut Degradations,
) {
    const KIND: &str = "ToolChangesApproved";
    let Some(trust) = observed.trust else { return };
    let server = observed.server.name_any();
    let secret = names::secret(&server);
    let unread = observed.pods.iter().find_map(|pod| Some((pod.pod.name_any(), pod.trust_unread.as_ref()?)));
    let problem = if trust.is_unreadable {
        let message = format!(
            "the key `{}` of the Secret {secret} is no document of trusted tools, so that no new pod starts; \
             remove the key to trust again the definitions that are seen first",
            vmcp_crds::lower::TRUSTED_TOOLS
        );
        Some(("TrustUnreadable", message))
    } else if let Some((backend, tool, fingerprint)) = trust.pending.first() {
        let others = trust.pending.len() - 1;
        let more = if others == 0 { String::new() } else { format!(" ({others} more wait)") };
        let remedy = if tool.chars().count() > MAX_NAME_CHARS || tool.contains([',', '\'']) {
            "approve it by `vmcp tools approve` in a pod".to_owned()
        } else {
            let change = approval(&(backend.clone(), tool.clone(), fingerprint.clone()));
            format!(
                "compare it by `vmcp tools diff` in a pod, and approve it by `kubectl annotate --overwrite vmcp {server} \
                 '{}={change}'`",
                approval_annotation()
            )
        };
        let tool: String = tool.chars().take(MAX_NAME_CHARS).collect();
        let message = format!("the tool {tool} of {backend} has changed, and is hidden{more}; {remedy}");
        Some(("ApprovalPending", message))
    } else if let Some((backend, number)) = trust.omitted.first_key_value() {
        let message = format!(
            "{number} trusted tools of {backend} do not fit into its share of the Secret {secret}, which holds 1 MiB: a \
             new pod trusts the definitions of them that it sees first; divide the backends among several \
             VirtualMCPServers"
        );
        Some(("TrustTooLarge", message))
    } else if let Some((pod, fault)) = unread {
        let message = format!(
            "the trusted definitions of the pod {pod} cannot be read: {fault}; changes and approvals there are not \
             kept for new pods; `GET /admin/tools/trusted` of the pod shows them; the operator retries at each poll"
        );
        Some(("TrustUnread", message))
    } else {
        None
    };
    if let Some((reason, message)) = problem {
        conditions.set(KIND, false, reason, message.clone());
        degradations.push((reason, message));
    } else if observed.reports().next().is_none() {
        conditions.keep(KIND);
    } else {
        let mut message = format!("{} definitions are trusted, and no change waits", trust.tools);
        if let Some(approval) = trust.approvals.first() {
            message.push_str(&left_approval(approval, trust.approvals.len() - 1, &server));
        }
        conditions.set(KIND, true, "NothingPending", message);
    }
}

/// Returns the advice about approvals that are left in the annotation: the first of them, and `others`.
fn left_approval(approval: &str, others: usize, server: &str) -> String {
    let approval: String = approval.chars().take(MAX_NAME_CHARS).collect();
    let more = if others == 0 { String::new() } else { format!(" and {others} more") };
    let annotation = approval_annotation();
    format!(
        "; the annotation has {approval}{more}: remove the annotation (`kubectl annotate vmcp {server} {annotation}-`): it \
         approves this definition whenever it returns"
    )
}

//! Trusted definitions of tools: the server's Secret keeps them, so that they outlive pods and the operator.

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde_json::json;
use vmcp_config::rules::trusted_tools::{Fingerprint, TrustedTool, TrustedTools};
use vmcp_crds::VirtualMCPServer;
use vmcp_kubernetes_tests::{ControlPlane, Namespace, Operator};

use super::backends::apply;
use super::stand_in::{StandIn, admin_token};

/// Returns a definition that was trusted on first use.
fn first_seen(definition: &str) -> TrustedTool {
    TrustedTool { fingerprint: Fingerprint::of_hash(definition), approved_at: 0 }
}

/// Returns the document of a pod that saw this definition of the tool `t` of `docs` first. A changed
/// definition of `tool` waits there for an approval.
fn document(definition: &str, tool: &str, changed: &str) -> TrustedTools {
    let mut document = TrustedTools::default();
    let trusted = document.trusted.entry("docs".to_owned()).or_default();
    trusted.insert("t".to_owned(), first_seen(definition));
    let pending = document.pending.entry("docs".to_owned()).or_default();
    pending.insert(tool.to_owned(), Fingerprint::of_hash(changed));
    document
}

/// Waits until the resource says how to approve this definition, and returns the approval. By then the Secret
/// is written.
async fn await_pending(place: &Namespace, tool: &str, definition: &str) -> String {
    let approval = format!("docs/{tool}@{}", Fingerprint::of_hash(definition));
    place
        .eventually(&format!("{approval} to wait"), async || {
            let condition = place.condition("virtualmcpserver/x", "ToolChangesApproved").await;
            let says = condition["message"].as_str()?.contains(&approval);
            (says && condition["reason"] == "ApprovalPending").then_some(())
        })
        .await;
    approval
}

/// Returns the definition of `t` that new pods get.
async fn kept(place: &Namespace) -> Option<TrustedTool> {
    let text = place.get::<Secret>("x-vmcp-secrets").await?.data?.remove("trusted-tools")?;
    let document = TrustedTools::parse(std::str::from_utf8(&text.0).ok()?).ok()?;
    document.tool("docs", "t").cloned()
}

/// The optimizer is off, and the pods have no lasting disk.
#[tokio::test]
async fn trust_outlives_pods_and_the_operator_until_a_person_approves() {
    if ControlPlane::shared().await.skips_without_controllers() {
        return;
    }
    let place = ControlPlane::shared().await.namespace("trust").await;
    let variables = [("LEADER_ELECT", "false")];
    let operator = Operator::with(&place, "one", &variables).await;
    apply(&place, "MCPServerEntry", "docs", "{remoteUrl: 'https://docs.example.com/mcp'}").await;
    apply(&place, "VirtualMCPServer", "x", "{config: {aggregation: {onToolChange: Quarantine}}}").await;
    let (stand_in, _) = StandIn::of(&place, "x").await;
    stand_in.set_report(json!({ "backends": [{ "name": "docs", "state": "connected" }] }));
    stand_in.set_trusted(&document("good", "t", "changed"));
    let approval = await_pending(&place, "t", "changed").await;
    assert_eq!(kept(&place).await, Some(first_seen("good")));
    let secret = place.get::<Secret>("x-vmcp-secrets").await.expect("the Secret");
    assert_eq!(secret.owner_references()[0].kind, "VirtualMCPServer", "it goes with the resource");

    // A new pod has seen the changed definition first.
    stand_in.set_trusted(&document("changed", "u", "one"));
    await_pending(&place, "u", "one").await;
    assert_eq!(kept(&place).await, Some(first_seen("good")));

    // Deleted or edited by hand, it would let new pods trust what they see first.
    let uid = secret.uid();
    place.delete::<Secret>("x-vmcp-secrets").await;
    let made_again = async || place.get::<Secret>("x-vmcp-secrets").await.filter(|made| made.uid() != uid);
    place.eventually("another Secret", made_again).await;
    // Its token is another one.
    stand_in.set_token(&admin_token(&place, "x").await);
    assert_eq!(kept(&place).await, Some(first_seen("good")));
    place.edit::<Secret>("x-vmcp-secrets", json!({ "stringData": { "trusted-tools": "{}" } })).await;
    place
        .eventually("the definitions of before", async || {
            (kept(&place).await? == first_seen("good")).then_some(())
        })
        .await;

    drop(operator);
    let _operator = Operator::with(&place, "two", &variables).await;
    stand_in.set_trusted(&document("good", "t", "changed"));
    await_pending(&place, "t", "changed").await;
    assert_eq!(kept(&place).await, Some(first_seen("good")));
    let annotation = json!({ "toolhive.stacklok.com/approve-tools": approval });
    place.edit::<VirtualMCPServer>("x", json!({ "metadata": { "annotations": annotation } })).await;
    let is_approved = |kept: &TrustedTool| kept.fingerprint == Fingerprint::of_hash("changed");
    let approved = async || kept(&place).await.filter(is_approved);
    let approved = place.eventually("the approved definition", approved).await;
    assert!(approved.approved_at > 0, "{approved:?}");

    // A pod that has not read the approval yet.
    stand_in.set_trusted(&document("good", "u", "two"));
    await_pending(&place, "u", "two").await;
    assert_eq!(kept(&place).await, Some(approved));
    place.remove().await;
}

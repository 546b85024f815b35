//! The web console in a browser, below the path of a proxy, with a sign-in at a provider.

use serde_json::{Value, json};
use vmcp_integration::{Fixture, IdentityProvider, PathProxy, Vmcp, eventually};

use super::console_browser::{browse_at, chromium, registered_at};

#[tokio::test]
async fn below_a_path_of_a_proxy_a_person_signs_in_goes_on_and_works() {
    let Some(chromium) = chromium().await else { return };
    let jira = Fixture::http("jira", "jira").start().await;
    let provider = IdentityProvider::start().await;
    let mut vmcp = Vmcp::new().backend(&jira).start().await;
    vmcp.with_tool("jira_create_note").await;
    let proxy = PathProxy::start(&vmcp.admin, "/ops").await;
    let mut sign_in = registered_at(&provider, &proxy.url).await;
    sign_in["operators"] = json!(["carol"]);
    let redirect_uri = sign_in["redirectUri"].as_str().expect("a URI").to_owned();
    vmcp.reconfigure(json!({"server": {"console": "oidc", "consoleSignIn": sign_in}}));
    eventually("the provider to be in force", async || {
        let dump = vmcp.admin_json("admin/config_dump").await.to_string();
        dump.contains(&redirect_uri).then_some(())
    })
    .await;
    let root = format!("{}/console/", proxy.url);
    let input = json!({"provider": provider.issuer, "isBelow": true});
    let seen = browse_at(&root, "signInBelowPath", &chromium, &input).await;
    assert_eq!(seen["landed"], format!("{root}server?server=jira"), "the page that was asked for: {seen}");
    assert_eq!((&seen["heading"], &seen["rows"]), (&json!("Server jira"), &json!(200)), "{seen}");
    for (at, words) in [
        ("ordered", "The server is being listed again."),
        ("typed", "jira_create_note"),
        ("refused", "no page of the console has this address"),
        ("after", "Sign in to the console"),
        ("again", "Your session has ended"),
    ] {
        let text = seen[at].as_str().unwrap_or_default();
        assert!(text.contains(words), "{at}: no `{words}` in\n{text}");
    }
    assert_eq!(seen["elsewhere"], root, "an address of another host is not followed: {seen}");
    let cookies = seen["cookies"].as_array().expect("cookies");
    let paths: Vec<_> = cookies.iter().map(|cookie| &cookie["path"]).collect();
    assert_eq!(paths, [&Value::from("/ops/console")], "{seen}");
    assert_eq!(seen["script"], "", "no script reads the cookies: {seen}");
}

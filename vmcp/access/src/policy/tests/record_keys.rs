//! Keys of nested arguments that are paths or URIs.

use super::*;

#[test]
fn a_path_that_is_a_key_is_judged_in_its_normal_form() {
    let who = identity("a", json!({}));
    let policy = policy(&[
        "permit(principal, action, resource);",
        r#"forbid(principal, action, resource) when {
            context.arguments has files && context.arguments.files has "/etc/passwd" };"#,
    ]);
    let is_allowed =
        |arguments: &str| policy.decide(&policy.subject(&who), &tool("fs_write", Some(arguments))).allowed;
    for path in [
        "/etc/passwd",
        "/srv/../etc/passwd",
        "//etc/passwd",
        "/etc/%70asswd",
        "\\\\etc\\\\passwd",
        "/etc/..%2fpasswd",
    ] {
        let arguments = format!(r#"{{"files":{{"/srv/a":"x","{path}":"x"}}}}"#);
        assert!(!is_allowed(&arguments), "{path}");
    }
    // Of two keys of one file, a server takes the last.
    assert!(!is_allowed(r#"{"files":{"/srv/a":"x","/srv/./a":"y"}}"#));
    assert!(is_allowed(r#"{"files":{"/srv/a":"x","/srv/./b":"y","50%":"z"}}"#));
}

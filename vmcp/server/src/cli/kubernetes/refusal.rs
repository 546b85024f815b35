//! Complaints of `kubectl`, each with its remedy.

use std::io::{self, ErrorKind};

use crate::cli::console::failure::{CommandFailure, Exit};

/// Longest part of a complaint that is shown, in characters.
const MAX_CHARS: usize = 1000;

/// Complaints that a person can do something about, as words that are all in them (lower case), with the
/// remedy. The first that fits counts.
const REMEDIES: [(&[&str], &str); 18] = [
    (&["no matches for kind"], NO_RESOURCES),
    (&["doesn't have a resource type"], NO_RESOURCES),
    (&["forbidden"], NO_RIGHTS),
    (
        &["namespaces ", "not found"],
        "create it (`kubectl create namespace NAME`), or name another by --namespace",
    ),
    (
        &["conflict"],
        "another tool keeps it as it is, such as Argo CD or Flux: change it there, or choose another name",
    ),
    (&["unauthorized"], NOT_SIGNED_IN),
    (&["must be logged in"], NOT_SIGNED_IN),
    (&["current-context"], NO_CONTEXT),
    (&["no configuration has been provided"], NO_CONTEXT),
    (&["context ", "does not exist"], NO_CONTEXT),
    (&["context was not found"], NO_CONTEXT),
    // The address that `kubectl` takes without a configuration.
    (&["localhost:8080"], NO_CONTEXT),
    (&["could not find the requested resource"], NO_KUBERNETES),
    (&["unable to connect"], NO_ANSWER),
    (&["connection refused"], NO_ANSWER),
    (&["was refused"], NO_ANSWER),
    (&["no such host"], NO_ANSWER),
    (&["deadline exceeded"], NO_ANSWER),
];
const NO_RESOURCES: &str = "the cluster does not have vmcp's resources yet: `helm install vmcp charts/vmcp-operator \
    --namespace vmcp-system --create-namespace`";
const NO_RIGHTS: &str = "ask who administers the cluster for the role `edit` in that namespace; `kubectl auth can-i \
    create mcpservers` and `kubectl auth can-i create secrets` must say yes";
const NOT_SIGNED_IN: &str = "sign in to the cluster again; `kubectl auth whoami` shows as whom";
const NO_CONTEXT: &str =
    "choose a cluster: `kubectl config get-contexts` lists those you have, --context takes one";
const NO_KUBERNETES: &str = "the server that kubectl asks is no Kubernetes API server. Without a configuration it asks port \
    8080 of this machine, where vmcp may listen: `kubectl config get-contexts` lists the clusters you have, --context \
    takes one";
const NO_ANSWER: &str = "`kubectl cluster-info` shows whether the cluster answers";

/// Returns the failure of a `kubectl` that could not be started, such as on a machine without one.
pub(super) fn not_run(error: &io::Error) -> CommandFailure {
    match error.kind() {
        ErrorKind::NotFound => CommandFailure::new("there is no kubectl on the PATH")
            .remedy("install it: https://kubernetes.io/docs/tasks/tools/"),
        _ => CommandFailure::new(format!("kubectl: {error}")),
    }
}

/// Returns the failure for the words of `kubectl` on its standard error.
pub(super) fn explain(words: &str) -> CommandFailure {
    let shown: String = without_log(words).trim().chars().take(MAX_CHARS).collect();
    let shown = shown.strip_prefix("error: ").unwrap_or(&shown);
    let failure = CommandFailure::new(format!("kubectl: {shown}"));
    match remedy_for(words) {
        Some(NO_ANSWER) => failure.remedy(NO_ANSWER).exit(Exit::Unreachable),
        Some(NO_RIGHTS) => failure.remedy(missing_right(words).unwrap_or_else(|| NO_RIGHTS.to_owned())),
        Some(remedy) => failure.remedy(remedy),
        None => failure,
    }
}

/// Returns the words without lines of the log (klog: `E1127 17:54:44.426034 …`), unless that is all.
fn without_log(words: &str) -> String {
    let is_log = |line: &&str| {
        let level = line.strip_prefix(['E', 'W', 'I', 'F']).and_then(|rest| rest.get(..4));
        level.is_some_and(|date| date.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let said: Vec<_> = words.lines().filter(|line| !is_log(line)).collect();
    if said.is_empty() { words.to_owned() } else { said.join("\n") }
}

/// Returns the remedy for a missing right that the API server names: `User "eve" cannot patch resource
/// "virtualmcpservers" in API group "toolhive.stacklok.com" …`.
fn missing_right(words: &str) -> Option<String> {
    let (_, rest) = words.split_once("\" cannot ")?;
    let (verb, rest) = rest.split_once(" resource \"")?;
    let (resource, rest) = rest.split_once('"')?;
    let group = rest.split_once("API group \"").and_then(|(_, rest)| rest.split_once('"'));
    let group = group.map(|(group, _)| group).filter(|group| !group.is_empty());
    let (kind, part) = resource.split_once('/').map_or((resource, None), |(kind, part)| (kind, Some(part)));
    let kind = group.map_or_else(|| kind.to_owned(), |group| format!("{kind}.{group}"));
    let part = part.map(|part| format!(" --subresource={part}")).unwrap_or_default();
    Some(format!(
        "ask who administers the cluster for the right to {verb} {resource} in that namespace; `kubectl auth can-i \
         {verb} {kind}{part}` must say yes"
    ))
}

fn remedy_for(words: &str) -> Option<&'static str> {
    let words = words.to_ascii_lowercase();
    let fits = |(all, _): &&(&[&str], &str)| all.iter().all(|text| words.contains(text));
    REMEDIES.iter().find(fits).map(|(_, remedy)| *remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_log_do_not_hide_the_complaint() {
        let log =
            "E1127 17:54:44.426034   13825 memcache.go:265] \"Unhandled Error\" err=\"connection refused\"\n";
        let said = "The connection to the server localhost:8080 was refused";
        assert_eq!(explain(&format!("{log}{log}{said}")).message(), format!("kubectl: {said}"));
        assert!(explain(log).message().contains("memcache"), "all that there is");
    }

    #[test]
    fn complaints_of_kubectl_have_their_remedy() {
        for (words, remedy) in [
            (
                "error: resource mapping not found for name: \"a\" namespace: \"\" from \"STDIN\": no matches for kind \
                 \"MCPServer\" in version \"toolhive.stacklok.com/v1alpha1\"\nensure CRDs are installed first",
                NO_RESOURCES,
            ),
            ("error: the server doesn't have a resource type \"mcpservers\"", NO_RESOURCES),
            (
                "Error from server (Forbidden): secrets \"a-env\" is forbidden: User \"eve\" cannot patch resource",
                NO_RIGHTS,
            ),
            ("error: current-context is not set", NO_CONTEXT),
            ("error: context \"none\" does not exist", NO_CONTEXT),
            ("Error in configuration: context was not found for specified context: none", NO_CONTEXT),
            ("Error from server (NotFound): the server could not find the requested resource", NO_KUBERNETES),
            (
                "The connection to the server localhost:8080 was refused - did you specify the right host?",
                NO_CONTEXT,
            ),
            (
                "The connection to the server 10.0.0.1:6443 was refused - did you specify the right host?",
                NO_ANSWER,
            ),
            ("error: You must be logged in to the server (Unauthorized)", NOT_SIGNED_IN),
        ] {
            assert_eq!(remedy_for(words), Some(remedy), "{words}");
        }
        let missing = remedy_for("Error from server (NotFound): namespaces \"nowhere\" not found");
        assert!(missing.unwrap().contains("kubectl create namespace"));
        let kept = remedy_for(
            "error: Apply failed with 1 conflict: conflict with \"argocd-controller\": .spec.image",
        );
        assert!(kept.unwrap().contains("Argo CD"));
        // The words themselves are all there is to say.
        assert_eq!(
            remedy_for("The MCPServer \"optim\" is invalid: <nil>: the names optim and composite are"),
            None
        );
    }

    #[test]
    fn a_missing_right_is_named_with_its_verb_and_resource() {
        let patch = "Error from server (Forbidden): virtualmcpservers.toolhive.stacklok.com \"x\" is forbidden: User \
                     \"eve\" cannot patch resource \"virtualmcpservers\" in API group \"toolhive.stacklok.com\" in the \
                     namespace \"team\"";
        let remedy = explain(patch).remedy_text().unwrap().to_owned();
        assert!(remedy.contains("the right to patch virtualmcpservers in"), "{remedy}");
        assert!(remedy.contains("can-i patch virtualmcpservers.toolhive.stacklok.com`"), "{remedy}");
        let forward = "error: error upgrading connection: pods \"x-1\" is forbidden: User \"eve\" cannot create resource \
                       \"pods/portforward\" in API group \"\" in the namespace \"team\"";
        let remedy = explain(forward).remedy_text().unwrap().to_owned();
        assert!(remedy.contains("can-i create pods --subresource=portforward`"), "{remedy}");
    }

    #[test]
    fn a_long_complaint_is_cut() {
        assert!(explain(&"x".repeat(9000)).message().len() < 1100);
    }
}

//! Programs that clients of a VirtualMCPServer added, held to its rules.

use vmcp_config::{Admin, ServerSource};
use vmcp_crds::{MCPServer, Problem};

use crate::references::adder;

/// Returns true if a rule names the program together with its image.
pub(in crate::mcp_server) fn is_named(server: &MCPServer, rules: &Admin) -> bool {
    let spec = &server.spec;
    let of_secrets = spec.secrets.iter();
    let of_secrets =
        of_secrets.map(|variable| variable.target_env_name.as_ref().unwrap_or(&variable.secret.key));
    let env = spec.env.iter().map(|variable| &variable.name).chain(of_secrets).map(String::as_str).collect();
    let args = || spec.args.iter().map(String::as_str);
    if spec.command.is_empty() {
        // The image's own program.
        return rules.names(&ServerSource::Image { image: &spec.image, args: args().collect(), env });
    }
    let words = spec.command.iter().map(String::as_str).chain(args()).collect();
    rules.names_in_image(&ServerSource::Program { words, env }, &spec.image)
}

/// Refuses a program that no rule names together with its image. The pods of the VirtualMCPServer check the
/// rules before they add a program; pods in the hands of an attacker would add any image. A server that is
/// switched off has no pods, and is valid: a refusal would keep its pods running.
pub(super) fn check(server: &MCPServer, rules: &Admin, problems: &mut Vec<Problem>) {
    if server.spec.enabled == Some(false) || is_named(server, rules) {
        return;
    }
    let adder = adder(server).unwrap_or_default();
    let message = format!(
        "clients of the VirtualMCPServer {adder} added the server, and none of its rules names this image with this \
         command and these variables"
    );
    let remedy = "add a rule to its `spec.optimizer.admin.allow`, or switch off or delete the server";
    problems.push(Problem::new("spec.image", message, remedy));
}

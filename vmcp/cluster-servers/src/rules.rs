//! Servers that no resource of the cluster can describe. The laptop's checks of names, words, URLs and values
//! come before. Pure.

use vmcp_config::addresses;
use vmcp_engine::server_registrar::{NewServer, RegistrarError, ServerPlace};

use crate::manifests;
use crate::virtual_server::VirtualServer;

/// Longest name of a server in a pod, in characters: `mcp-NAME` names its Service, which has at most 63.
const MAX_PROGRAM_NAME: usize = 59;

/// Refuses a server that cannot be added.
pub(crate) fn check(server: &VirtualServer, new: &NewServer) -> Result<(), RegistrarError> {
    let refuse = |text: String| Err(RegistrarError::Invalid(text));
    if let Some(label) = manifests::secret_in_plain_text(new) {
        return refuse(format!(
            "the secret {label} is part of the URL or of the arguments of this server, and a resource shows both \
             to all its readers; choose another way with 'via', or a server that takes the secret as a header \
             or a variable"
        ));
    }
    let shared = format!("{}.shared.", server.name);
    for reference in new.secret_refs.values() {
        if !reference.name.starts_with(&shared) {
            return refuse(format!(
                "the secret {} cannot be named by clients: an administrator names a Secret `{shared}…` for that",
                reference.name
            ));
        }
        if reference.key.is_none() {
            return refuse(format!("the reference to the Secret {} needs its `key`", reference.name));
        }
    }
    let name = &new.name;
    if !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        let closest = name.replace(['_', '.'], "-");
        return refuse(format!("name `{name}` cannot be that of a resource; use `{closest}`"));
    }
    match &new.place {
        ServerPlace::Remote { url, .. } => {
            let inside = addresses::inside(url).or_else(|| addresses::may_lead_inside(url));
            if let Some(inside) = inside {
                return refuse(format!(
                    "url leads to {inside}; an administrator adds a server there, by an MCPServerEntry with \
                     `spec.allowPrivateEndpoint: true`"
                ));
            }
        }
        ServerPlace::Program { .. } => {
            if new.image.is_none() || !server.runs_programs {
                return refuse(
                    "a cluster runs a program in a pod of its own, from an image, and no rule of \
                     `spec.optimizer.admin.allow` has an `image` for this command and its variables; an \
                     administrator can add one to the VirtualMCPServer"
                        .to_owned(),
                );
            }
            check_program_name(name)?;
        }
        ServerPlace::Image { image, .. } => {
            if !server.runs_programs {
                return refuse(format!(
                    "no rule of `spec.optimizer.admin.allow` has an `image`, and a cluster runs the images of \
                     rules alone; an administrator can add `image: {image}` to the VirtualMCPServer"
                ));
            }
            check_program_name(name)?;
        }
    }
    Ok(())
}

fn check_program_name(name: &str) -> Result<(), RegistrarError> {
    if name.len() <= MAX_PROGRAM_NAME {
        return Ok(());
    }
    Err(RegistrarError::Invalid(format!(
        "name has {} characters, and a program takes a name of at most {MAX_PROGRAM_NAME}",
        name.len()
    )))
}

//! Texts in PEM: certificates and keys.

use crate::problems::Report;

/// Reports a text that has no PEM block of this kind.
pub(crate) fn check_pem(text: &str, kind: &str, path: &str, report: &mut Report) {
    if report.is_dropped(path) || (text.contains("-----BEGIN ") && text.contains(&format!("{kind}-----"))) {
        return;
    }
    let remedy = format!("write the path of a PEM file: `{}: ${{file:/path}}`", name_of(path));
    report.problem(path, format!("no {} in PEM", kind.to_ascii_lowercase()), remedy);
}

fn name_of(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, name)| name)
}

//! Variables of this shell for a program that starts outside of it: a service, or the entry of a client.

use vmcp_egress::Proxies;

/// Variables that the program gets beside those of proxies: a service has only a bare environment. Programs
/// of nvm, pyenv and uv are found by the `PATH` of this shell; others name certificate authorities. By its
/// folders, commands find the server, and the server finds its secrets.
const VARIABLES: [&str; 7] = [
    "PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// Returns the environment variables of a program that starts outside of this shell, with the values that
/// `variable` returns. Proxies count in capitals and in lower case: some servers read only one of the two. A
/// variable with a line break is left out, because a unit file ends it there.
pub(in crate::cli) fn variables(variable: &dyn Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let proxies =
        Proxies::VARIABLES.into_iter().flat_map(|name| [name.to_owned(), name.to_ascii_lowercase()]);
    let names = VARIABLES.into_iter().map(str::to_owned).chain(proxies);
    let given = names.filter_map(|name| Some((variable(&name)?, name)));
    let usable = given.filter(|(value, _)| !value.is_empty() && !value.contains(['\n', '\r']));
    usable.map(|(value, name)| (name, value)).collect()
}

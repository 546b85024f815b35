//! Headers of a request, as the door reads them: its cookies, and the scheme of the page that sent a form.

use axum::http::{HeaderMap, header};

/// Most cookies of one name that are tried. Another host of the same domain may set some, which open nothing.
const MAX_COOKIES: usize = 4;
/// Attribute that keeps a cookie off plain HTTP.
pub(super) const SECURE: &str = "; Secure";

/// Returns the attribute that keeps a cookie off plain HTTP, for a form that a browser sent from a page of
/// HTTPS. A token may be typed over plain HTTP, such as through `ssh -L`: its cookie goes without.
pub(super) fn secure_for(headers: &HeaderMap) -> &'static str {
    let origin = headers.get(header::ORIGIN);
    let is_https = origin.is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    if is_https { SECURE } else { "" }
}

/// Returns the first [`MAX_COOKIES`] cookies of a request with this name. A client may send several lines,
/// each with several cookies; one name may have several values, for another host of the same domain may set
/// it too.
pub(super) fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(known, _)| *known == name).map(|(_, value)| value).take(MAX_COOKIES)
}

//! Offers of a server beside its tools: resources, templates of resources, and prompts.

use maud::{Markup, html};

use super::offer::OfferKind;
use crate::frame::table;
use crate::links::link;
use crate::text;

/// Most entries of each kind that the page lists.
pub const MAX_OFFERS: usize = 200;
/// Most characters of a URI or name that leads to its own page: a list has hundreds of such addresses.
const MAX_LINKED: usize = 1_000;
/// Most characters of a description in the table.
const MAX_SUMMARY: usize = 160;

/// Resources, templates of resources and prompts of a server.
#[derive(Debug, Clone, Default)]
pub struct Offers {
    /// Resources, by URI.
    pub resources: Vec<Offer>,
    /// Templates, by their text.
    pub templates: Vec<Offer>,
    /// Prompts, by the name that clients use.
    pub prompts: Vec<Offer>,
}

/// A resource, a template or a prompt.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// URI, template, or name of a prompt.
    pub key: String,
    /// Its name at its server.
    pub name: String,
    /// Its description.
    pub description: String,
}

/// Shows each kind that the server offers; at most [`MAX_OFFERS`] of each are in `offers`.
pub(super) fn offers(offers: &Offers) -> Markup {
    let kinds = [
        (OfferKind::Resource, "Resources", "URI", &offers.resources),
        (OfferKind::Template, "Templates of resources", "Template", &offers.templates),
        (OfferKind::Prompt, "Prompts", "Prompt", &offers.prompts),
    ];
    html! {
        @for (kind, title, key, entries) in kinds {
            @if !entries.is_empty() {
                h2 { (title) }
                @if entries.len() >= MAX_OFFERS { p { "The first " (MAX_OFFERS) "." } }
                (table(title, &[key, "Name at its server", "Description"], &html! {
                    @for entry in entries {
                        tr {
                            th scope="row" { code { (name(kind, &entry.key)) } }
                            td { (text::line(&entry.name)) }
                            td.wide { bdi { (text::inert(&entry.description, MAX_SUMMARY)) } }
                        }
                    }
                }))
            }
        }
    }
}

/// Shows the URI or name of an entry, with a link to its page.
fn name(kind: OfferKind, key: &str) -> Markup {
    let shown = text::line(key);
    html! {
        @if key.chars().nth(MAX_LINKED).is_some() { (shown) }
        @else { a href=(link("offer", &[("kind", kind.word()), ("key", key)])) { (shown) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_are_there_are_shown_inert_and_a_uri_leads_to_its_page_alone() {
        let hostile = Offer {
            key: "javascript:alert(1)".to_owned(),
            name: "<img src=x>".to_owned(),
            description: "\u{202e}".repeat(1 << 20),
        };
        let shown = offers(&Offers { resources: vec![hostile], ..Offers::default() }).into_string();
        assert!(shown.contains("<h2>Resources</h2>") && !shown.contains("Prompts"), "{shown}");
        let page = "<a href=\"/console/offer?kind=resource&amp;key=javascript%3Aalert%281%29\">";
        assert!(shown.contains(&format!("{page}<bdi>javascript:alert(1)</bdi></a>")), "{shown}");
        let long = Offer { key: "u".repeat(1 << 20), ..Offer::default() };
        let long = offers(&Offers { prompts: vec![long], ..Offers::default() }).into_string();
        assert!(!long.contains("href") && long.len() < 2_000, "{}", long.len());
        assert!(
            !shown.contains("<img") && !shown.contains('\u{202e}') && shown.len() < 8_000,
            "{}",
            shown.len()
        );
    }
}

//! Bounds and an allow list of elements, before anything is drawn.

use resvg::usvg::roxmltree::{Document, Node, ParsingOptions};

use super::cost::{Costs, line};
use crate::svg_error::{MAX_BYTES, MAX_DEPTH, MAX_ELEMENTS, SvgError};

/// Most nodes that are read: elements, texts between them and comments.
const MAX_NODES: u32 = 60_000;
/// The namespace of SVG.
const SVG: &str = "http://www.w3.org/2000/svg";

/// Elements that are drawn, or lead to something that is drawn. Left out with an error are scripts,
/// animations, images, filters, foreign content and unknown ones.
const ALLOWED: [&str; 29] = [
    "a",
    "circle",
    "clipPath",
    "defs",
    "desc",
    "ellipse",
    "g",
    "line",
    "linearGradient",
    "marker",
    "mask",
    "metadata",
    "path",
    "pattern",
    "polygon",
    "polyline",
    "radialGradient",
    "rect",
    "solidColor",
    "stop",
    "style",
    "svg",
    "switch",
    "symbol",
    "text",
    "textPath",
    "title",
    "tspan",
    "use",
];

/// Reads an SVG that keeps all bounds.
pub(super) fn read(text: &str) -> Result<Document<'_>, SvgError> {
    if text.len() > MAX_BYTES {
        return Err(SvgError::Bytes { actual: text.len() });
    }
    // A document type could declare entities that grow.
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| SvgError::Unreadable(error.to_string()))?;
    check_elements(&document)?;
    Costs::of(&document).check()?;
    Ok(document)
}

fn check_elements(document: &Document<'_>) -> Result<(), SvgError> {
    let elements = || document.descendants().filter(Node::is_element);
    if elements().nth(MAX_ELEMENTS).is_some() {
        return Err(SvgError::Elements);
    }
    // A walk in the order of the text knows each depth without recursion.
    let mut depth = 0_usize;
    let mut next = Some(document.root_element());
    while let Some(node) = next {
        if depth > MAX_DEPTH {
            return Err(SvgError::Depth);
        }
        check_element(node)?;
        next = node.first_element_child().inspect(|_| depth += 1).or_else(|| {
            let mut at = node;
            loop {
                if let Some(sibling) = at.next_sibling_element() {
                    return Some(sibling);
                }
                depth = depth.checked_sub(1)?;
                at = at.parent_element()?;
            }
        });
    }
    Ok(())
}

fn check_element(node: Node<'_, '_>) -> Result<(), SvgError> {
    let name = node.tag_name();
    match name.namespace() {
        Some(SVG) if ALLOWED.contains(&name.name()) => {}
        Some(SVG) => return Err(SvgError::Element { line: line(node), name: name.name().to_owned() }),
        // Elements of editors are neither read nor drawn.
        _ => return Ok(()),
    }
    let refused = |name: &str| Err(SvgError::Attribute { line: line(node), name: name.to_owned() });
    for attribute in node.attributes() {
        let value = attribute.value();
        let is_out = match attribute.name() {
            "href" => name.name() != "a" && !value.trim().starts_with('#'),
            "filter" => value.trim() != "none",
            "style" => value.contains("filter") || refers_outside(value),
            _ => refers_outside(value),
        };
        if is_out {
            return refused(attribute.name());
        }
    }
    // References of a style sheet would escape the count of costs.
    if name.name() == "style" {
        let sheet = node.descendants().filter_map(|part| part.text());
        if sheet.into_iter().any(|sheet| ["url(", "filter", "@import"].iter().any(|it| sheet.contains(it))) {
            return refused("style");
        }
    }
    Ok(())
}

/// True if a value has a `url(…)` that is not one of `url(#id)`.
fn refers_outside(value: &str) -> bool {
    let inside = |rest: &str| rest.trim_start_matches([' ', '\t', '\n', '\r', '"', '\'']).starts_with('#');
    value.split("url(").skip(1).any(|rest| !inside(rest))
}

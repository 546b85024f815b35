//! Work of a document: each reference counts with all that it draws, so that a few elements that refer to
//! each other cannot stand for a billion ("billion laughs").

use std::collections::HashMap;

use resvg::usvg::roxmltree::{Document, Node, NodeId};

use crate::svg_error::{MAX_COST, MAX_DEPTH, SvgError};

/// Bytes of attributes that cost as much as an element.
const BYTES_PER_COST: u64 = 32;
/// Bytes of a path that have at least one vertex, on which a marker is drawn.
const BYTES_PER_VERTEX: u64 = 2;

/// Returns the line of a node, from 1.
pub(super) fn line(node: Node<'_, '_>) -> u32 {
    node.document().text_pos_at(node.range().start).row
}

/// Cost and height of a subtree.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    work: u64,
    height: usize,
}

impl Cost {
    /// Adds something that is drawn `times` below this one.
    fn add(&mut self, below: Cost, times: u64) {
        self.work = self.work.saturating_add(below.work.saturating_mul(times));
        self.height = self.height.max(below.height.saturating_add(1));
    }
}

/// Costs of the elements of a document.
pub(super) struct Costs<'a, 'input> {
    document: &'a Document<'input>,
    /// Elements by their id; a reference to an id that several have counts them all.
    ids: HashMap<&'a str, Vec<Node<'a, 'input>>>,
    /// `None` while the element is counted.
    known: HashMap<NodeId, Option<Cost>>,
    /// Costs of all elements of an id together, so that each reference is one look-up.
    known_ids: HashMap<&'a str, Cost>,
    markers: Vec<Node<'a, 'input>>,
}

impl<'a, 'input> Costs<'a, 'input> {
    /// Prepares the count.
    pub(super) fn of(document: &'a Document<'input>) -> Costs<'a, 'input> {
        let elements = || document.descendants().filter(Node::is_element);
        let mut ids: HashMap<&str, Vec<Node<'_, '_>>> = HashMap::new();
        for (id, node) in elements().filter_map(|node| Some((node.attribute("id")?, node))) {
            ids.entry(id).or_default().push(node);
        }
        let markers = elements().filter(|node| is_named(*node, "marker")).collect();
        Costs { document, ids, known: HashMap::new(), known_ids: HashMap::new(), markers }
    }

    /// Fails if the document costs too much.
    pub(super) fn check(mut self) -> Result<(), SvgError> {
        // Any path may inherit the markers, so each counts with the dearest.
        let mut marker = Cost::default();
        for node in std::mem::take(&mut self.markers) {
            let cost = self.cost(node, 0, Cost::default())?;
            marker = Cost { work: marker.work.max(cost.work), height: marker.height.max(cost.height) };
        }
        self.known.clear();
        self.known_ids.clear();
        let cost = self.cost(self.document.root_element(), 0, marker)?;
        if cost.work > MAX_COST { Err(SvgError::Cost) } else { Ok(()) }
    }

    /// Counts an element, once.
    fn cost(&mut self, node: Node<'a, 'input>, depth: usize, marker: Cost) -> Result<Cost, SvgError> {
        if depth > MAX_DEPTH {
            return Err(SvgError::Depth);
        }
        match self.known.get(&node.id()) {
            Some(Some(known)) if depth + known.height > MAX_DEPTH => return Err(SvgError::Depth),
            Some(Some(known)) => return Ok(*known),
            Some(None) => {
                let id = node.attribute("id").unwrap_or_default().to_owned();
                return Err(SvgError::Cycle { line: line(node), id });
            }
            None => {}
        }
        self.known.insert(node.id(), None);
        let bytes: usize = node.attributes().map(|attribute| attribute.value().len()).sum();
        let texts = node.children().filter(Node::is_text).filter_map(|text| text.text());
        let characters: usize = texts.map(str::len).sum();
        let mut cost = Cost { work: 1 + bytes as u64 / BYTES_PER_COST + characters as u64, height: 0 };
        for child in node.children().filter(Node::is_element) {
            cost.add(self.cost(child, depth + 1, marker)?, 1);
        }
        for id in self.references(node) {
            cost.add(self.cost_of_id(id, depth + 1, marker)?, 1);
        }
        if let Some(vertices) = node.attribute("d").or(node.attribute("points")) {
            cost.add(marker, vertices.len() as u64 / BYTES_PER_VERTEX);
        } else if is_named(node, "line") {
            cost.add(marker, 2);
        }
        self.known.insert(node.id(), Some(cost));
        Ok(cost)
    }

    /// Counts all elements of an id, once.
    fn cost_of_id(&mut self, id: &'a str, depth: usize, marker: Cost) -> Result<Cost, SvgError> {
        match self.known_ids.get(id) {
            Some(known) if depth + known.height > MAX_DEPTH => return Err(SvgError::Depth),
            Some(known) => return Ok(*known),
            None => {}
        }
        let mut all = Cost::default();
        for target in self.ids.get(id).cloned().unwrap_or_default() {
            let cost = self.cost(target, depth, marker)?;
            all.work = all.work.saturating_add(cost.work);
            all.height = all.height.max(cost.height);
        }
        self.known_ids.insert(id, all);
        Ok(all)
    }

    /// Returns the ids of elements that an element refers to, by `href` or `url(#id)`.
    fn references(&self, node: Node<'a, 'input>) -> Vec<&'a str> {
        let mut found = Vec::new();
        for attribute in node.attributes() {
            let value = attribute.value();
            if attribute.name() == "href" {
                found.extend(value.trim().strip_prefix('#').filter(|id| self.ids.contains_key(id)));
            }
            // The document keeps the bounds of references, so each is `url(#id)`, quoted or not.
            for rest in value.split("url(").skip(1) {
                let end = rest.find(')').unwrap_or(rest.len());
                let id = rest.get(..end).unwrap_or_default();
                let id = id.trim_matches([' ', '\t', '\n', '\r', '"', '\'']).strip_prefix('#');
                found.extend(id.filter(|id| self.ids.contains_key(id)));
            }
        }
        found
    }
}

/// True for an element of this name, in any namespace.
fn is_named(node: Node<'_, '_>, name: &str) -> bool {
    node.tag_name().name() == name
}

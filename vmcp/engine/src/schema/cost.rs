//! Bounds the work that a schema can cause, before anything is compiled or validated. Backends write schemas
//! and clients write instances; together they could keep a core busy for hours (`allOf` of two references to
//! an `allOf` of two references …) or recurse without end (`$ref: "#"`).

use std::collections::HashMap;

use serde_json::Value;
use vmcp_json::nesting;

/// Most subschemas that are looked at.
const MAX_SUBSCHEMAS: usize = 20_000;
/// Most subschema evaluations that one call may cost: about a tenth of a second of one core.
const MAX_EVALUATIONS: u64 = 2_000_000;
/// Most evaluations that are cheap: about 50 microseconds.
const CHEAP_EVALUATIONS: u64 = 1000;
/// Members of a keyword (names in `required`, values in `enum`) that are compared in the time of one
/// evaluation.
const MEMBERS_PER_EVALUATION: u64 = 16;
/// Most subschemas that may be under evaluation inside each other. The validator recurses; in a debug build,
/// 2,000 fit on the 2 MiB stack of a thread and 5,000 do not.
const MAX_HEIGHT: u32 = 1000;

/// Reasons that a schema has no bounded cost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CostError {
    /// It refers to something outside itself, or in a way that we do not follow.
    #[error("the reference `{0}` is not a JSON pointer into the schema")]
    Reference(String),
    /// A subschema applies itself to the same value again.
    #[error("a subschema refers to itself without descending into the value")]
    Endless,
    /// Too many subschemas.
    #[error("more than {MAX_SUBSCHEMAS} subschemas")]
    TooMany,
}

/// Upper bounds of the work for each node of an instance, by the instance's depth.
#[derive(Debug, Clone)]
pub(super) struct Cost {
    by_depth: Vec<Work>,
}

/// The work of evaluating one subschema, with all that it applies; or of a whole instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Work {
    evaluations: u64,
    height: u32,
}

impl Cost {
    /// Analyzes a schema for instances of at most `max_depth` levels.
    pub(super) fn measure(schema: &Value, max_depth: usize) -> Result<Cost, CostError> {
        let graph = Graph::from_schema(schema)?;
        let order = graph.order()?;
        let mut by_depth = Vec::new();
        let mut below = vec![Work::default(); graph.nodes.len()];
        for _ in 0..=max_depth {
            let works = graph.works(&order, &below);
            by_depth.push(works.first().copied().unwrap_or_default());
            // Without recursion the work settles after as many levels as the schema has.
            if works == below {
                break;
            }
            below = works;
        }
        Ok(Cost { by_depth })
    }

    /// Returns an upper bound of the work of checking an instance, without parsing it.
    pub(super) fn of_instance(&self, json: &[u8]) -> Work {
        self.work(nesting::depth(json), values(json))
    }

    /// Returns an upper bound of the bytes that errors about an instance copy: each of its values, and all
    /// that hold it, once for each evaluation.
    pub(super) fn copied_bytes(&self, json: &[u8]) -> u64 {
        let depth = nesting::depth(json);
        let each = self.by_depth.get(depth).or(self.by_depth.last()).copied().unwrap_or_default();
        each.evaluations.saturating_mul(json.len() as u64).saturating_mul(depth as u64 + 1)
    }

    /// Returns the least work that any instance causes.
    pub(super) fn least(&self) -> Work {
        self.work(0, 1)
    }

    fn work(&self, depth: usize, values: u64) -> Work {
        let each = self.by_depth.get(depth).or(self.by_depth.last()).copied().unwrap_or_default();
        Work { evaluations: each.evaluations.saturating_mul(values), ..each }
    }
}

impl Work {
    /// True if the work may be done at all.
    pub(super) fn is_affordable(self) -> bool {
        self.evaluations <= MAX_EVALUATIONS && self.height <= MAX_HEIGHT
    }

    /// Returns how often the work may be done, up to `most`: what [`Work::is_affordable`] allows, twice.
    pub(super) fn affordable_times(self, most: usize) -> usize {
        let times = 2 * MAX_EVALUATIONS / self.evaluations.max(1);
        usize::try_from(times).unwrap_or(most).clamp(2, most.max(2))
    }

    /// True if the work may be done on a thread that serves connections.
    pub(super) fn is_cheap(self) -> bool {
        self.evaluations <= CHEAP_EVALUATIONS && self.height <= MAX_HEIGHT
    }
}

/// Returns an upper bound of the values in a JSON text, keys of objects included: each but the first of its
/// container stands behind a comma. Punctuation in strings counts, too.
fn values(json: &[u8]) -> u64 {
    let begins = json.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
    2 * (begins as u64 + 1)
}

/// Subschemas that a subschema applies to the same value, and to the values inside it. Of the `one_of_below`
/// only one is applied to each inner value.
#[derive(Default)]
struct Node {
    /// Members of its own keywords, which are compared one by one.
    members: u64,
    in_place: Vec<usize>,
    below: Vec<usize>,
    one_of_below: Vec<usize>,
}

struct Graph {
    nodes: Vec<Node>,
}

impl Graph {
    fn from_schema(root: &Value) -> Result<Graph, CostError> {
        let mut numbers = HashMap::from([(std::ptr::from_ref(root), 0_usize)]);
        let mut queue = vec![root];
        let mut nodes = Vec::new();
        while let Some(schema) = queue.get(nodes.len()).copied() {
            let mut number = |subschema| {
                let next = numbers.len();
                *numbers.entry(std::ptr::from_ref(subschema)).or_insert_with(|| {
                    queue.push(subschema);
                    next
                })
            };
            nodes.push(node(root, schema, &mut number)?);
            if queue.len() > MAX_SUBSCHEMAS {
                return Err(CostError::TooMany);
            }
        }
        Ok(Graph { nodes })
    }

    /// The nodes, each after all that it applies in place; an error for a circle.
    fn order(&self) -> Result<Vec<usize>, CostError> {
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut waiting_for: Vec<usize> = self.nodes.iter().map(|node| node.in_place.len()).collect();
        for (number, node) in self.nodes.iter().enumerate() {
            for used in &node.in_place {
                users.get_mut(*used).into_iter().for_each(|users| users.push(number));
            }
        }
        let mut order: Vec<usize> =
            (0..self.nodes.len()).filter(|n| waiting_for.get(*n) == Some(&0)).collect();
        let mut done = 0;
        while let Some(number) = order.get(done).copied() {
            done += 1;
            for user in users.get(number).into_iter().flatten() {
                if let Some(left) = waiting_for.get_mut(*user) {
                    *left -= 1;
                    if *left == 0 {
                        order.push(*user);
                    }
                }
            }
        }
        if order.len() == self.nodes.len() { Ok(order) } else { Err(CostError::Endless) }
    }

    fn works(&self, order: &[usize], below: &[Work]) -> Vec<Work> {
        let mut works = vec![Work::default(); self.nodes.len()];
        for number in order {
            let Some(node) = self.nodes.get(*number) else { continue };
            let all = |works: &[Work], numbers: &[usize]| {
                numbers.iter().filter_map(|number| works.get(*number)).fold(Work::default(), |sum, work| {
                    Work {
                        evaluations: sum.evaluations.saturating_add(work.evaluations),
                        height: sum.height.max(work.height),
                    }
                })
            };
            let each = node.one_of_below.iter().filter_map(|number| below.get(*number));
            let one = each.fold(Work::default(), |most, work| Work {
                evaluations: most.evaluations.max(work.evaluations),
                height: most.height.max(work.height),
            });
            let parts = [all(&works, &node.in_place), all(below, &node.below), one];
            let own = Work { evaluations: 1 + node.members / MEMBERS_PER_EVALUATION, height: 0 };
            let work = parts.into_iter().fold(own, |sum, part| Work {
                evaluations: sum.evaluations.saturating_add(part.evaluations),
                height: sum.height.max(part.height),
            });
            let work = Work { height: work.height.saturating_add(1), ..work };
            works.get_mut(*number).into_iter().for_each(|slot| *slot = work);
        }
        works
    }
}

fn node<'a>(
    root: &'a Value,
    schema: &'a Value,
    number: &mut impl FnMut(&'a Value) -> usize,
) -> Result<Node, CostError> {
    let mut node = Node::default();
    let Value::Object(keywords) = schema else { return Ok(node) };
    if keywords.contains_key("$id") && !std::ptr::eq(root, schema) {
        return Err(CostError::Reference("$id inside the schema".into()));
    }
    for (keyword, value) in keywords {
        let length = value.as_array().map(Vec::len).or(value.as_object().map(serde_json::Map::len));
        if !matches!(keyword.as_str(), "default" | "examples" | "$defs" | "definitions") {
            node.members += length.unwrap_or_default() as u64;
        }
        match keyword.as_str() {
            "enum" | "const" | "default" | "examples" | "$defs" | "definitions" => {}
            "$ref" => {
                let target = target(root, value).ok_or_else(|| CostError::Reference(value.to_string()))?;
                node.in_place.push(number(target));
            }
            "$dynamicRef" | "$recursiveRef" => return Err(CostError::Reference(value.to_string())),
            "properties" | "prefixItems" => node.one_of_below.extend(members(value).map(&mut *number)),
            "patternProperties" => node.below.extend(members(value).map(&mut *number)),
            "items"
            | "additionalItems"
            | "unevaluatedItems"
            | "contains"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "propertyNames" => {
                node.below.push(number(value));
                // Before 2020-12, `items` may be an array of schemas, as `prefixItems` is now.
                if value.is_array() {
                    node.one_of_below.extend(members(value).map(&mut *number));
                }
            }
            "not" | "if" | "then" | "else" | "contentSchema" => node.in_place.push(number(value)),
            // `allOf`, `anyOf`, `oneOf`, `dependentSchemas`, `dependencies`, and whatever else holds schemas.
            _ => node.in_place.extend(members(value).map(&mut *number)),
        }
    }
    Ok(node)
}

/// The objects and booleans in an array or object: only these are schemas.
fn members(value: &Value) -> impl Iterator<Item = &Value> {
    let list = value.as_array().into_iter().flatten();
    let map = value.as_object().into_iter().flat_map(|map| map.values());
    list.chain(map).filter(|member| member.is_object())
}

fn target<'a>(root: &'a Value, reference: &Value) -> Option<&'a Value> {
    let fragment = reference.as_str()?.strip_prefix('#')?;
    // A percent sign could hide another pointer; hardly any schema has one.
    if fragment.contains('%') { None } else { root.pointer(fragment) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cost(schema: &Value, depth: usize) -> u64 {
        let by_depth = Cost::measure(schema, 64).unwrap().by_depth;
        by_depth.get(depth).or(by_depth.last()).unwrap().evaluations
    }

    /// `levels` definitions, each of which applies the next one twice, in the given way.
    fn doubling(levels: usize, both: impl Fn(Value) -> Value) -> Value {
        let next = |level: usize| both(json!({ "$ref": format!("#/$defs/{}", level + 1) }));
        let mut definitions: serde_json::Map<_, _> =
            (0..levels).map(|level| (level.to_string(), next(level))).collect();
        definitions.insert(levels.to_string(), json!({"type": "string"}));
        json!({"$ref": "#/$defs/0", "$defs": definitions})
    }

    #[test]
    fn ordinary_schemas_are_cheap() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "enum": ["$ref"], "default": {"$ref": "http://x"}},
            "b": {"type": "array", "items": {"$ref": "#/$defs/item"}}},
            "$defs": {"item": {"anyOf": [{"type": "string"}, {"type": "null"}]}}});
        assert!(cost(&schema, 64) < 20, "{}", cost(&schema, 64));
    }

    #[test]
    fn the_values_of_an_instance_are_never_underrated() {
        fn count(value: &Value) -> u64 {
            match value {
                Value::Array(all) => 1 + all.iter().map(count).sum::<u64>(),
                Value::Object(all) => 1 + all.values().map(|value| 1 + count(value)).sum::<u64>(),
                _ => 1,
            }
        }
        for instance in
            [json!(1), json!([]), json!([1, [2, 3], {}]), json!({"a": {"b": [1], "c": {}}, "d": 2})]
        {
            let text = instance.to_string();
            assert!(values(text.as_bytes()) >= count(&instance), "{text}");
        }
    }

    #[test]
    fn costly_work_is_done_less_often() {
        let work = |evaluations| Work { evaluations, height: 1 };
        assert_eq!(
            [1, 100_000, MAX_EVALUATIONS, u64::MAX].map(|cost| work(cost).affordable_times(48)),
            [48, 40, 2, 2]
        );
    }

    #[test]
    fn long_lists_in_a_schema_cost_at_each_value() {
        let list = json!({"items": {"enum": (0..1600).collect::<Vec<_>>()}});
        assert!((100..200).contains(&cost(&list, 2)), "{}", cost(&list, 2));
        let cost = Cost::measure(&list, 64).unwrap();
        assert!(cost.of_instance(b"[1]").is_cheap());
        let long = serde_json::to_vec(&vec![1; 15_000]).unwrap();
        assert!(!cost.of_instance(&long).is_affordable());
    }

    #[test]
    fn recursion_is_bounded_by_the_instance() {
        let tree = json!({"type": "object", "properties": {"next": {"$ref": "#"}, "leaf": {"type": "null"}}});
        assert!(cost(&tree, 64) < 1000);
        let bushy = json!({"properties": {"next": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
        assert!(cost(&bushy, 4) < 200);
        assert!(cost(&bushy, 64) > 1 << 40);
    }

    #[test]
    fn doubling_is_seen_without_being_done() {
        assert!(cost(&doubling(40, |next| json!({"allOf": [next.clone(), next]})), 0) > 1 << 40);
        // Two properties are two values: each costs little.
        assert!(cost(&doubling(40, |next| json!({"properties": {"a": next.clone(), "b": next}})), 64) < 1000);
    }

    #[test]
    fn endless_and_foreign_references_are_refused() {
        assert_eq!(Cost::measure(&json!({"$ref": "#"}), 64).unwrap_err(), CostError::Endless);
        let pair = json!({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#"}}}});
        assert_eq!(Cost::measure(&pair, 64).unwrap_err(), CostError::Endless);
        for foreign in ["http://127.0.0.1/s", "other.json", "#anchor", "#/$defs/absent", "file:///etc/passwd"]
        {
            let schema = json!({"properties": {"a": {"$ref": foreign}}});
            assert!(matches!(Cost::measure(&schema, 64), Err(CostError::Reference(_))), "{foreign}");
        }
        assert!(Cost::measure(&json!({"properties": {"a": {"$dynamicRef": "#x"}}}), 64).is_err());
    }

    #[test]
    fn a_chain_of_references_needs_no_stack_and_gets_none() {
        let chain = |levels| Cost::measure(&doubling(levels, |next| json!({"allOf": [next]})), 64).unwrap();
        assert!(chain(400).work(0, 500).is_affordable());
        assert!(!chain(6000).least().is_affordable());
        let tall =
            json!({"$ref": "#/$defs/0", "$defs": doubling(30, |next| json!({"allOf": [next]}))["$defs"]});
        let mut tall = tall;
        tall["$defs"]["30"] = json!({"properties": {"next": {"$ref": "#"}}});
        let cost = Cost::measure(&tall, 64).unwrap();
        let affords = |depth| cost.work(depth, 500).is_affordable();
        assert!(affords(5) && !affords(64), "height grows with the instance");
    }
}

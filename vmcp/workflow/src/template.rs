//! Templates of Go's `text/template`, as ToolHive's composite tools use them: [`gotmpl`] with the functions
//! `json`, `quote` and `fromJson`, and these differences.
//!
//! - A value that is missing is an error that names it, where Go prints `<no value>`. In `if`, `with`, `and`,
//!   `or`, `not`, `eq` and `ne` it is nothing, as in Go.
//! - A template that is one action has a value of its own type, not only a text: [`Template::value`].
//! - Whole numbers of JSON stay whole: Go reads them as `float64` and prints `1e+06`. So numbers are compared
//!   by their size, whole or not, where Go refuses an `int` beside a `float64`.
//! - Loops, recursion, texts and time are bounded.

mod blocks;
mod compare;
mod data;
mod endless;
mod functions;
mod go_fmt;
mod go_json;
mod guards;
mod references;
mod time_limit;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use gotmpl::parse::{ListNode, Node, Parser};
use serde_json::Value;

pub(crate) use data::Data;

/// Most bytes of a rendered text, and of a text that a function makes.
pub(crate) const MAX_TEXT: usize = 4 * 1024 * 1024;
/// Most turns of all `range` loops of one rendering.
const MAX_TURNS: u64 = 100_000;
/// Name of the tree that yields a text, and of the tree that yields JSON. No template can name them.
const TEXT: &str = "text!";
const JSON: &str = "json!";

/// A template, ready to be rendered.
#[derive(Clone)]
pub(crate) struct Template {
    source: String,
    form: Form,
    /// Steps that it refers to.
    pub(crate) steps: BTreeSet<String>,
    /// Steps whose output or content it refers to.
    pub(crate) outputs: BTreeSet<String>,
}

#[derive(Clone)]
enum Form {
    /// A text without an action.
    Constant,
    /// One action: it has a value of its own type.
    Action(Arc<gotmpl::Template>),
    /// A text with actions.
    Text(Arc<gotmpl::Template>),
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.source).finish()
    }
}

impl Template {
    /// Reads a template. The error says what is wrong with it.
    pub(crate) fn parse(source: &str) -> Result<Template, String> {
        let mut template = Template {
            source: source.to_owned(),
            form: Form::Constant,
            steps: BTreeSet::new(),
            outputs: BTreeSet::new(),
        };
        if !source.contains("{{") {
            return Ok(template);
        }
        let parser = Parser::with_name(None, source, "{{", "}}").map_err(|error| error.to_string())?;
        let (mut tree, mut defines) = parser.parse().map_err(|error| error.to_string())?;
        blocks::check(source)?;
        endless::check(&tree, &defines)?;
        let found = references::find(&tree, &defines)?;
        template.steps = found.steps;
        template.outputs = found.outputs;
        guards::guard(&mut tree, true);
        let mut program = functions::program().max_range_iters(MAX_TURNS);
        for define in &mut defines {
            guards::guard_repeated(&mut define.body);
            program = program.add_parse_tree(&define.name, define.body.clone());
        }
        let typed = typed(&tree);
        program = program.add_parse_tree(TEXT, tree);
        template.form = match typed {
            Some(typed) => Form::Action(Arc::new(program.add_parse_tree(JSON, typed))),
            None => Form::Text(Arc::new(program)),
        };
        Ok(template)
    }

    /// Renders the template as a text.
    pub(crate) fn text(&self, data: &Data) -> Result<String, String> {
        match &self.form {
            Form::Constant => Ok(self.source.clone()),
            Form::Action(program) | Form::Text(program) => render(program, TEXT, data),
        }
    }

    /// Returns the value of a template that is one action, with its type; of any other its text.
    pub(crate) fn value(&self, data: &Data) -> Result<Value, String> {
        match &self.form {
            Form::Action(program) => {
                let json = render(program, JSON, data)?;
                serde_json::from_str(&json).map_err(|error| error.to_string())
            }
            Form::Constant | Form::Text(_) => self.text(data).map(Value::String),
        }
    }

    /// Returns the text as written.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }
}

/// Returns the tree that yields the JSON of the only action; `None` if there is more than one action.
fn typed(tree: &ListNode) -> Option<ListNode> {
    let [Node::Action(action)] = tree.nodes.as_slice() else { return None };
    if !action.pipe.decl.is_empty() {
        return None;
    }
    let mut typed = tree.clone();
    guards::yield_json(&mut typed);
    Some(typed)
}

fn render(program: &gotmpl::Template, tree: &str, data: &Data) -> Result<String, String> {
    let mut text = BoundedText::default();
    match time_limit::limited(|| program.execute_template_fmt(&mut text, tree, data.value())) {
        Ok(()) => Ok(text.0),
        Err(_) if text.0.len() >= MAX_TEXT => Err(too_large()),
        Err(error) => Err(error.to_string()),
    }
}

fn too_large() -> String {
    format!("the text has more than {MAX_TEXT} bytes")
}

/// A text that refuses to grow beyond [`MAX_TEXT`].
#[derive(Default)]
struct BoundedText(String);

impl fmt::Write for BoundedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_TEXT.saturating_sub(self.0.len());
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        self.0.push_str(text.get(..text.floor_char_boundary(room)).unwrap_or_default());
        while self.0.len() < MAX_TEXT {
            self.0.push(' ');
        }
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests;

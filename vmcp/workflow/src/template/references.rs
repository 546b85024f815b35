//! References of a template: the steps whose results it reads, and the functions that it calls.

use std::collections::BTreeSet;

use gotmpl::parse::{DefineNode, Expr, ListNode, Node, PipeNode, SmolStr};

use super::functions;

/// References of a template.
#[derive(Default)]
pub(super) struct References {
    /// Steps that are named.
    pub(super) steps: BTreeSet<String>,
    /// Steps whose `output` or `content` is named.
    pub(super) outputs: BTreeSet<String>,
    unknown_functions: BTreeSet<String>,
    unknown_roots: BTreeSet<String>,
}

/// Keys of the data of a template.
const ROOTS: [&str; 5] = ["forEach", "params", "steps", "vars", "workflow"];

/// Finds the references. The error names an unknown function or root.
pub(super) fn find(tree: &ListNode, defines: &[DefineNode]) -> Result<References, String> {
    let mut found = References::default();
    found.list(tree, true);
    for define in defines {
        found.list(&define.body, false);
    }
    if let Some(name) = found.unknown_functions.first() {
        if ROOTS.contains(&name.as_str()) {
            return Err(format!("{name} needs a dot in front: write .{name}"));
        }
        let known = functions::KNOWN.join(", ");
        return Err(format!("function {name:?} is not defined; there are {known}"));
    }
    if let Some(root) = found.unknown_roots.first() {
        return Err(format!(
            ".{root} is not defined; templates have .params, .steps, .workflow and .forEach"
        ));
    }
    Ok(found)
}

impl References {
    /// Reads a list of nodes; `rooted` is true while `.` is the root of the data.
    fn list(&mut self, list: &ListNode, rooted: bool) {
        for node in &list.nodes {
            match node {
                Node::List(list) => self.list(list, rooted),
                Node::Action(action) => self.pipe(&action.pipe, rooted),
                Node::If(branch) => {
                    self.pipe(&branch.pipe, rooted);
                    self.list(&branch.body, rooted);
                    branch.else_body.iter().for_each(|body| self.list(body, rooted));
                }
                Node::Range(branch) | Node::With(branch) => {
                    self.pipe(&branch.pipe, rooted);
                    self.list(&branch.body, false);
                    branch.else_body.iter().for_each(|body| self.list(body, rooted));
                }
                Node::Template(call) => call.pipe.iter().for_each(|pipe| self.pipe(pipe, rooted)),
                Node::Define(define) => self.list(&define.body, false),
                Node::Text(_) | Node::Break(_) | Node::Continue(_) => {}
            }
        }
    }

    fn pipe(&mut self, pipe: &PipeNode, rooted: bool) {
        for command in &pipe.commands {
            if let [Expr::Identifier(_, function), place, rest @ ..] = command.args.as_slice()
                && function == "index"
            {
                self.indexed(place, rest, rooted);
            }
            for expr in &command.args {
                self.expr(expr, rooted);
            }
        }
    }

    fn expr(&mut self, expr: &Expr, rooted: bool) {
        match expr {
            Expr::Field(_, path) if rooted => self.path(path),
            Expr::Variable(_, name, path) if name == "$" => self.path(path),
            Expr::Identifier(_, name) => {
                if !functions::KNOWN.contains(&name.as_str()) {
                    self.unknown_functions.insert(name.to_string());
                }
            }
            Expr::Pipe(_, pipe) => self.pipe(pipe, rooted),
            Expr::Chain(_, inner, _) => self.expr(inner, rooted),
            Expr::Dot(_)
            | Expr::Field(..)
            | Expr::Variable(..)
            | Expr::String(..)
            | Expr::Number(..)
            | Expr::Bool(..)
            | Expr::Nil(_) => {}
        }
    }

    fn path(&mut self, path: &[SmolStr]) {
        let Some(root) = path.first() else { return };
        if !ROOTS.contains(&root.as_str()) {
            self.unknown_roots.insert(root.to_string());
        }
        if let [_, step, rest @ ..] = path
            && root == "steps"
        {
            self.step(step, rest.first().map(SmolStr::as_str));
        }
    }

    /// Reads `index .steps "my-step" "output"`, the only way to an id with a dash.
    fn indexed(&mut self, place: &Expr, keys: &[Expr], rooted: bool) {
        let is_steps = match place {
            Expr::Field(_, path) => rooted && path.len() == 1 && path.iter().any(|part| part == "steps"),
            Expr::Variable(_, name, path) => {
                name == "$" && path.len() == 1 && path.iter().any(|part| part == "steps")
            }
            _ => false,
        };
        if is_steps && let [Expr::String(_, step), rest @ ..] = keys {
            let part = rest.first().and_then(|key| match key {
                Expr::String(_, part) => Some(&**part),
                _ => None,
            });
            // Without a part, the whole of the step is read: a chain may follow.
            self.step(step, part.or(Some("output")));
        }
    }

    fn step(&mut self, step: &str, part: Option<&str>) {
        self.steps.insert(step.to_owned());
        if matches!(part, Some("output" | "content")) {
            self.outputs.insert(step.to_owned());
        }
    }
}

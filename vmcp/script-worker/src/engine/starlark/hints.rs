//! Names of Starlark that a script has not, each with the Python for it.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprContext, ModModule, Parameter, Stmt};
use ruff_text_size::{Ranged as _, TextSize};

use vmcp_script::protocol::Failure;

use super::super::tool_uses::line;

/// Names, and the Python for them.
const NAMES: [(&str, &str); 11] = [
    ("load", "a script has Python's modules: `import json`, `import math`, `import re`"),
    ("struct", "write a dict, {\"name\": value}, or a class"),
    ("json", "write `import json`, then json.dumps(value) and json.loads(text)"),
    ("math", "write `import math`"),
    ("time", "a script has no clock: pass the time in `data`, and write `import datetime` to calculate"),
    ("depset", "write a list or a set"),
    ("module", "write a dict, or a class"),
    ("provider", "write a class"),
    ("proto", "write a dict"),
    ("select", "write `if` and `else`"),
    ("dir", "the keys of a dict are list(value)"),
];

/// Methods of texts, and the Python for them.
const METHODS: [(&str, &str); 4] = [
    ("elems", "write list(text)"),
    ("codepoints", "write list(text)"),
    ("elem_ords", "write [ord(character) for character in text]"),
    ("codepoint_ords", "write [ord(character) for character in text]"),
];

/// Returns the failure of a script that uses such a name, and does not bind it.
pub(super) fn find(module: &ModModule, code: &str, functions: &[String]) -> Option<Failure> {
    let mut names = Names::default();
    names.visit_body(&module.body);
    let is_known =
        |name: &str| names.bound.contains(&name) || functions.iter().any(|function| function == name);
    let (name, hint, at) = names.used.iter().find(|(name, ..)| !is_known(name))?;
    let error = format!("`{name}` of Starlark is not there: {hint}");
    Some(Failure { line: Some(line(code, *at)), ..Failure::new("SyntaxError", error) })
}

#[derive(Default)]
struct Names<'a> {
    /// Name, hint and place.
    used: Vec<(&'a str, &'static str, TextSize)>,
    bound: Vec<&'a str>,
}

impl<'a> Visitor<'a> for Names<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(function) => self.bound.push(function.name.as_str()),
            Stmt::ClassDef(class) => self.bound.push(class.name.as_str()),
            Stmt::Import(import) => {
                self.bound
                    .extend(import.names.iter().map(|it| it.asname.as_ref().unwrap_or(&it.name).as_str()));
            }
            Stmt::ImportFrom(import) => {
                self.bound
                    .extend(import.names.iter().map(|it| it.asname.as_ref().unwrap_or(&it.name).as_str()));
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.bound.push(parameter.name.as_str());
        visitor::walk_parameter(self, parameter);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if name.ctx == ExprContext::Load => {
                let hint = NAMES.iter().find(|(known, _)| *known == name.id.as_str());
                self.used.extend(hint.map(|(name, hint)| (*name, *hint, expr.start())));
            }
            Expr::Name(name) => self.bound.push(name.id.as_str()),
            Expr::Call(call) => {
                if let Expr::Attribute(method) = &*call.func {
                    let hint = METHODS.iter().find(|(known, _)| *known == method.attr.as_str());
                    self.used.extend(hint.map(|(name, hint)| (*name, *hint, method.attr.start())));
                }
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::source::parse;
    use super::*;

    fn found(code: &str) -> Option<(u32, String)> {
        let failure = find(&parse(code).unwrap(), code, &["time".to_owned()])?;
        Some((failure.line.unwrap(), failure.error))
    }

    #[test]
    fn names_of_starlark_are_told_with_the_python_for_them() {
        for (code, expected) in [
            ("load(\"m.star\", \"f\")", "`load` of Starlark is not there: a script has Python's modules"),
            ("x = struct(a=1)", "write a dict"),
            ("json.encode(1)", "json.dumps(value)"),
            ("for c in \"abc\".elems():\n    pass", "write list(text)"),
        ] {
            let (line, error) = found(code).unwrap();
            assert!(line == 1 && error.contains(expected), "{code}: {error}");
        }
        assert_eq!(found("x = 1\ny = struct(a = x)").unwrap().0, 2);
    }

    #[test]
    fn names_that_the_script_binds_are_its_own() {
        for code in [
            "import json\njson.dumps(1)",
            "def struct(a):\n    return a\nstruct(1)",
            "load = 1\nload",
            "for json in []:\n    json",
            "lambda select: select",
            "time()",
            "x.load",
        ] {
            assert_eq!(found(code), None, "{code}");
        }
    }
}

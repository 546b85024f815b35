//! Tools that the text of a script names: `github.create_issue`, whichever way it is used then; and calls of
//! them whose arguments are constants by keyword. The server checks both before the first call.
//!
//! Left out are servers whose name the script binds itself, the body of a `try` (a script may probe for a
//! tool), and names that are only known while the script runs (`call_tool(server, tool)`).

use std::collections::BTreeSet;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprCall, ExprContext, ModModule, Number, Parameter, Stmt};
use ruff_text_size::{Ranged as _, TextSize};
use serde_json::{Map, Value};

use vmcp_script::protocol::{MAX_USES, ToolUse};

/// Returns the tools of `servers` that a script names, in the order of the text, and then its calls of them
/// with constants.
pub(super) fn find(module: &ModModule, source: &str, servers: &[String]) -> Vec<ToolUse> {
    let mut found = UsedNames { servers, named: Vec::new(), calls: Vec::new(), bound: BTreeSet::new() };
    found.visit_body(&module.body);
    let UsedNames { named, calls, bound, .. } = found;
    let mut uses: Vec<ToolUse> = Vec::new();
    for (server, tool, at) in named {
        let is_known = uses.iter().any(|known| known.server == server && known.tool == tool);
        if !is_known && !bound.contains(server) && uses.len() < MAX_USES {
            let (server, tool) = (server.to_owned(), tool.to_owned());
            uses.push(ToolUse { server, tool, line: line(source, at), arguments: None });
        }
    }
    for (server, tool, at, arguments) in calls {
        if !bound.contains(server) && uses.len() < MAX_USES {
            let (server, tool) = (server.to_owned(), tool.to_owned());
            uses.push(ToolUse { server, tool, line: line(source, at), arguments: Some(arguments) });
        }
    }
    uses
}

/// Returns the arguments of a call that has constants by keyword, and nothing else.
fn constants(call: &ExprCall) -> Option<Map<String, Value>> {
    if !call.arguments.args.is_empty() {
        return None;
    }
    let keywords = call.arguments.keywords.iter();
    keywords
        .map(|keyword| Some((keyword.arg.as_ref()?.as_str().to_owned(), constant(&keyword.value)?)))
        .collect()
}

/// Returns a value that is written out; `None` for anything that is computed.
fn constant(expr: &Expr) -> Option<Value> {
    match expr {
        Expr::StringLiteral(text) => Some(text.value.to_str().into()),
        Expr::BooleanLiteral(boolean) => Some(boolean.value.into()),
        Expr::NumberLiteral(number) => match &number.value {
            Number::Int(integer) => integer.as_i64().map(Value::from),
            Number::Float(real) => serde_json::Number::from_f64(*real).map(Value::Number),
            Number::Complex { .. } => None,
        },
        Expr::List(list) => list.elts.iter().map(constant).collect::<Option<Vec<_>>>().map(Value::Array),
        Expr::Dict(dict) => {
            let entries = dict.items.iter().map(|item| match item.key.as_ref()? {
                Expr::StringLiteral(key) => Some((key.value.to_str().to_owned(), constant(&item.value)?)),
                _ => None,
            });
            entries.collect::<Option<Map<_, _>>>().map(Value::Object)
        }
        _ => None,
    }
}

/// Returns the line of a place, from 1.
pub(super) fn line(source: &str, at: TextSize) -> u32 {
    let before = source.get(..at.to_usize()).unwrap_or_default();
    u32::try_from(before.matches('\n').count()).unwrap_or(u32::MAX).saturating_add(1)
}

/// Names of a script.
struct UsedNames<'a> {
    servers: &'a [String],
    /// Server, tool and place.
    named: Vec<(&'a str, &'a str, TextSize)>,
    /// Calls of such names, with their arguments.
    calls: Vec<(&'a str, &'a str, TextSize, Map<String, Value>)>,
    /// Names that the script binds.
    bound: BTreeSet<&'a str>,
}

impl<'a> Visitor<'a> for UsedNames<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(function) => _ = self.bound.insert(function.name.as_str()),
            Stmt::ClassDef(class) => _ = self.bound.insert(class.name.as_str()),
            Stmt::Import(import) => self.bind(&import.names),
            Stmt::ImportFrom(import) => self.bind(&import.names),
            Stmt::Try(guarded) if !guarded.handlers.is_empty() => {
                let (named, calls) = (self.named.len(), self.calls.len());
                self.visit_body(&guarded.body);
                self.named.truncate(named);
                self.calls.truncate(calls);
                for handler in &guarded.handlers {
                    self.visit_except_handler(handler);
                }
                self.visit_body(&guarded.orelse);
                self.visit_body(&guarded.finalbody);
                return;
            }
            _ => {}
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_except_handler(&mut self, handler: &'a ruff_python_ast::ExceptHandler) {
        let ruff_python_ast::ExceptHandler::ExceptHandler(clause) = handler;
        self.bound.extend(clause.name.as_ref().map(ruff_python_ast::Identifier::as_str));
        visitor::walk_except_handler(self, handler);
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.bound.insert(parameter.name.as_str());
        visitor::walk_parameter(self, parameter);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if name.ctx != ExprContext::Load => _ = self.bound.insert(name.id.as_str()),
            Expr::Attribute(_) => {
                if let Some((server, tool)) = self.tool(expr) {
                    self.named.push((server, tool, expr.start()));
                }
            }
            Expr::Call(call) => {
                if let (Some((server, tool)), Some(arguments)) = (self.tool(&call.func), constants(call)) {
                    self.calls.push((server, tool, call.func.start(), arguments));
                }
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

impl<'a> UsedNames<'a> {
    /// Returns the server and the tool that an expression names.
    fn tool(&self, expr: &'a Expr) -> Option<(&'a str, &'a str)> {
        let Expr::Attribute(attribute) = expr else { return None };
        let Expr::Name(server) = &*attribute.value else { return None };
        let (server, tool) = (server.id.as_str(), attribute.attr.as_str());
        // Every object has attributes that begin so.
        let is_tool = self.servers.iter().any(|known| known == server) && !tool.starts_with("__");
        is_tool.then_some((server, tool))
    }

    fn bind(&mut self, names: &'a [ruff_python_ast::Alias]) {
        let bound = names.iter().map(|alias| alias.asname.as_ref().unwrap_or(&alias.name).as_str());
        self.bound.extend(bound.map(|name| name.split('.').next().unwrap_or(name)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::parse;
    use super::*;

    fn found(code: &str) -> Vec<String> {
        let servers = ["github".to_owned(), "fs".to_owned()];
        let module = parse(code).unwrap();
        let uses = find(&module, code, &servers).into_iter().filter(|it| it.arguments.is_none());
        uses.map(|it| format!("{}.{}:{}", it.server, it.tool, it.line)).collect()
    }

    #[test]
    fn tools_are_found_wherever_they_are_named() {
        let code = "github.a(x=1)\nf = fs.b\nparallel([lambda: github.c(), (fs.d, {})])\n\
                    def g(n):\n    return [fs.e(n=i)['x'] for i in n]\ngithub.a()\nother.x()\nfs.f.g";
        assert_eq!(found(code), ["github.a:1", "fs.b:2", "github.c:3", "fs.d:3", "fs.e:5", "fs.f:8"]);
    }

    #[test]
    fn calls_with_constants_come_with_their_arguments() {
        let code = "fs.a(n=1, x=-1)\nfs.b(text='it' 's', n=2, r=1.5, yes=True, l=[1, 'a'], d={'k': [2]})\n\
                    fs.c()\nfs.d({'n': 1})\nfs.e(**x)\nfs.f(n=None)\nparallel([lambda: fs.g(n=1)])\n\
                    try:\n    fs.h(n=1)\nexcept ValueError:\n    fs.i(n=10**3, k=f'{1}')\nother.x(n=1)";
        let uses = find(&parse(code).unwrap(), code, &["fs".to_owned()]);
        let calls: Vec<_> =
            uses.into_iter().filter_map(|it| Some((it.tool, it.line, it.arguments?))).collect();
        let object = |json: Value| json.as_object().unwrap().clone();
        let b = serde_json::json!({
            "text": "its", "n": 2, "r": 1.5, "yes": true, "l": [1, "a"], "d": {"k": [2]},
        });
        assert_eq!(
            calls,
            [
                ("b".to_owned(), 2, object(b)),
                ("c".to_owned(), 3, Map::new()),
                ("g".to_owned(), 7, object(serde_json::json!({"n": 1}))),
            ]
        );
        assert!(find(&parse("fs = 1\nfs.a(n=1)").unwrap(), "", &["fs".to_owned()]).is_empty());
    }

    #[test]
    fn names_that_the_script_binds_or_probes_are_left_out() {
        for code in [
            "fs = []\nfs.append(1)",
            "def f(fs):\n    return fs.x",
            "import json as fs\nfs.dumps(1)",
            "for fs in []:\n    fs.x",
            "[fs.x for fs in []]",
            "with a() as fs:\n    fs.x",
            "try:\n    fs.x()\nexcept LookupError:\n    pass",
            "if (fs := 1):\n    fs.x",
            "fs.__class__",
        ] {
            assert_eq!(found(code), [""; 0], "{code}");
        }
        assert_eq!(found("try:\n    fs.x()\nfinally:\n    fs.y()"), ["fs.x:2", "fs.y:4"]);
    }
}

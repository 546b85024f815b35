//! Tools that the text of a script names: `github.create_issue`, whichever way it is used then. The server
//! checks them before the first call.
//!
//! Left out are servers whose name the script binds itself, the body of a `try` (a script may probe for a
//! tool), and names that are only known while the script runs (`call_tool(server, tool)`).

use std::collections::BTreeSet;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprContext, ModModule, Parameter, Stmt};
use ruff_text_size::{Ranged as _, TextSize};

use vmcp_script::protocol::{MAX_USES, ToolUse};

/// Returns the tools of `servers` that a script names, in the order of the text.
pub(super) fn find(module: &ModModule, source: &str, servers: &[String]) -> Vec<ToolUse> {
    let mut found = Found { servers, named: Vec::new(), bound: BTreeSet::new() };
    found.visit_body(&module.body);
    let Found { named, bound, .. } = found;
    let mut uses: Vec<ToolUse> = Vec::new();
    for (server, tool, at) in named {
        let is_known = uses.iter().any(|known| known.server == server && known.tool == tool);
        if !is_known && !bound.contains(server) && uses.len() < MAX_USES {
            let (server, tool) = (server.to_owned(), tool.to_owned());
            uses.push(ToolUse { server, tool, line: line(source, at) });
        }
    }
    uses
}

/// Returns the line of a place, from 1.
pub(super) fn line(source: &str, at: TextSize) -> u32 {
    let before = source.get(..at.to_usize()).unwrap_or_default();
    u32::try_from(before.matches('\n').count()).unwrap_or(u32::MAX).saturating_add(1)
}

/// Names of a script.
struct Found<'a> {
    servers: &'a [String],
    /// Server, tool and place.
    named: Vec<(&'a str, &'a str, TextSize)>,
    /// Names that the script binds.
    bound: BTreeSet<&'a str>,
}

impl<'a> Visitor<'a> for Found<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(function) => _ = self.bound.insert(function.name.as_str()),
            Stmt::ClassDef(class) => _ = self.bound.insert(class.name.as_str()),
            Stmt::Import(import) => self.bind(&import.names),
            Stmt::ImportFrom(import) => self.bind(&import.names),
            Stmt::Try(guarded) if !guarded.handlers.is_empty() => {
                let before = self.named.len();
                self.visit_body(&guarded.body);
                self.named.truncate(before);
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
            Expr::Attribute(attribute) => {
                if let Expr::Name(server) = &*attribute.value
                    && self.servers.iter().any(|known| known == server.id.as_str())
                    // Every object has these attributes.
                    && !attribute.attr.starts_with("__")
                {
                    self.named.push((server.id.as_str(), attribute.attr.as_str(), attribute.start()));
                }
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

impl<'a> Found<'a> {
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
        let uses = find(&module, code, &servers);
        uses.into_iter().map(|it| format!("{}.{}:{}", it.server, it.tool, it.line)).collect()
    }

    #[test]
    fn tools_are_found_wherever_they_are_named() {
        let code = "github.a(x=1)\nf = fs.b\nparallel([lambda: github.c(), (fs.d, {})])\n\
                    def g(n):\n    return [fs.e(n=i)['x'] for i in n]\ngithub.a()\nother.x()\nfs.f.g";
        assert_eq!(found(code), ["github.a:1", "fs.b:2", "github.c:3", "fs.d:3", "fs.e:5", "fs.f:8"]);
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

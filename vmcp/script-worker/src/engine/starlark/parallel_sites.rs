//! Calls of `parallel` whose functions do more than one call of a tool.
//!
//! `parallel` collects the calls of its functions, and makes them at the same time: a function must return
//! the result of one call as it is. A function that works with a result (`lambda: f(x)["y"]`) needs it at
//! once, so that such a `parallel` runs its functions one after the other.

use std::collections::HashSet;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ExprCall, ExprLambda, ModModule, Parameter, Stmt};
use ruff_text_size::TextRange;

use super::Edit;

/// Name of `parallel` without its meaning, in [`super::PRELUDE`].
const ONE_BY_ONE: &str = "__one_by_one";

/// Functions of Python that call no tool. Functions that take a function (`map`, `filter`) are left out.
const PURE_FUNCTIONS: [&str; 34] = [
    "abs",
    "all",
    "any",
    "bin",
    "bool",
    "bytes",
    "chr",
    "dict",
    "divmod",
    "enumerate",
    "float",
    "frozenset",
    "hash",
    "hex",
    "int",
    "isinstance",
    "len",
    "list",
    "max",
    "min",
    "oct",
    "ord",
    "pow",
    "range",
    "repr",
    "reversed",
    "round",
    "set",
    "sorted",
    "str",
    "sum",
    "tuple",
    "type",
    "zip",
];

/// Methods of texts, lists and dicts that call no tool.
const PURE_METHODS: [&str; 32] = [
    "capitalize",
    "copy",
    "count",
    "endswith",
    "find",
    "format",
    "get",
    "index",
    "isalnum",
    "isalpha",
    "isdigit",
    "islower",
    "isspace",
    "isupper",
    "items",
    "join",
    "keys",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "title",
    "upper",
    "values",
];

/// Returns the replacements of `parallel` where its functions run one after the other.
pub(super) fn edits(module: &ModModule, functions: &[String]) -> Vec<Edit> {
    let mut sites = Sites {
        functions,
        calls: Vec::new(),
        defined: Vec::new(),
        bound: bound_names(module),
        has_other: false,
    };
    for_each_definition(&module.body, &mut |name| sites.defined.push(name));
    sites.visit_body(&module.body);
    let has_other = sites.has_other;
    let one_by_one = sites.calls.into_iter().filter(|(_, known)| !known.unwrap_or(!has_other));
    one_by_one.map(|(range, _)| Edit { range, text: ONE_BY_ONE }).collect()
}

struct Sites<'a> {
    functions: &'a [String],
    /// Place of the name `parallel`; true if all functions of its list only call a tool, `None` if the list
    /// is made elsewhere.
    calls: Vec<(TextRange, Option<bool>)>,
    /// Names of the functions that the script defines.
    defined: Vec<&'a str>,
    /// Names of its functions, variables and parameters.
    bound: HashSet<&'a str>,
    /// True if some function of the script that `parallel` could get does more than call a tool.
    has_other: bool,
}

impl<'a> Visitor<'a> for Sites<'a> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Call(call) => {
                if let Expr::Name(name) = &*call.func
                    && name.id.as_str() == "parallel"
                {
                    let items = call.arguments.args.first();
                    self.calls.push((name.range, items.and_then(|items| self.judge(items))));
                }
                // The name of a function that is called here is not taken for a value.
                if !matches!(&*call.func, Expr::Name(_)) {
                    self.visit_expr(&call.func);
                }
                return self.visit_arguments(&call.arguments);
            }
            Expr::Lambda(lambda) if !self.only_calls(lambda) => self.has_other = true,
            Expr::Name(name) if self.defined.contains(&name.id.as_str()) => self.has_other = true,
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

impl Sites<'_> {
    /// Judges a list that is written in place.
    fn judge(&self, items: &Expr) -> Option<bool> {
        match items {
            Expr::List(list) => Some(list.elts.iter().all(|item| self.is_call(item))),
            Expr::ListComp(comprehension) => Some(self.is_call(&comprehension.elt)),
            _ => None,
        }
    }

    /// True for a function that only calls a tool.
    fn is_call(&self, item: &Expr) -> bool {
        match item {
            Expr::Lambda(lambda) => self.only_calls(lambda),
            Expr::Name(name) => self.is_function(name.id.as_str()),
            _ => false,
        }
    }

    fn only_calls(&self, lambda: &ExprLambda) -> bool {
        let Expr::Call(call) = &*lambda.body else { return false };
        let calls_tool = |call: &ExprCall| match &*call.func {
            Expr::Name(name) => name.id.as_str() == "call_tool" || self.is_function(name.id.as_str()),
            _ => false,
        };
        calls_tool(call) && !CallsInside::are_in(call, self)
    }

    fn is_function(&self, name: &str) -> bool {
        self.functions.iter().any(|function| function == name) && !self.bound.contains(name)
    }

    /// True for a call that calls no tool, neither itself nor by a function that it is given.
    fn is_pure(&self, call: &ExprCall) -> bool {
        let takes_function = call
            .arguments
            .keywords
            .iter()
            .any(|keyword| keyword.arg.as_ref().is_none_or(|name| name.as_str() == "key"));
        let is_known = match &*call.func {
            Expr::Name(name) => {
                let name = name.id.as_str();
                PURE_FUNCTIONS.contains(&name) && !self.bound.contains(name) && !self.is_function(name)
            }
            Expr::Attribute(method) => PURE_METHODS.contains(&method.attr.as_str()),
            _ => false,
        };
        is_known && !takes_function
    }
}

/// Looks for calls in the arguments of a call that may call a tool: all but those of [`Sites::is_pure`],
/// because any other name may stand for a function that calls one.
struct CallsInside<'a> {
    sites: &'a Sites<'a>,
    found: bool,
}

impl CallsInside<'_> {
    fn are_in(call: &ExprCall, sites: &Sites<'_>) -> bool {
        let mut inside = CallsInside { sites, found: false };
        inside.visit_arguments(&call.arguments);
        inside.found
    }
}

impl<'a> Visitor<'a> for CallsInside<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Call(call) = expr {
            self.found |= !self.sites.is_pure(call);
        }
        visitor::walk_expr(self, expr);
    }
}

/// Calls `found` with the name of each function that is defined.
fn for_each_definition<'a>(body: &'a [Stmt], found: &mut impl FnMut(&'a str)) {
    struct Definitions<'a, 'f>(&'f mut dyn FnMut(&'a str));
    impl<'a> Visitor<'a> for Definitions<'a, '_> {
        fn visit_stmt(&mut self, stmt: &'a Stmt) {
            if let Stmt::FunctionDef(function) = stmt {
                (self.0)(function.name.as_str());
            }
            visitor::walk_stmt(self, stmt);
        }
    }
    Definitions(found).visit_body(body);
}

/// Returns the names that the script gives a value.
fn bound_names(module: &ModModule) -> HashSet<&str> {
    struct BoundNames<'a>(HashSet<&'a str>);
    impl<'a> Visitor<'a> for BoundNames<'a> {
        fn visit_stmt(&mut self, stmt: &'a Stmt) {
            if let Stmt::FunctionDef(function) = stmt {
                self.0.insert(function.name.as_str());
            }
            visitor::walk_stmt(self, stmt);
        }

        fn visit_expr(&mut self, expr: &'a Expr) {
            if let Expr::Name(name) = expr
                && name.ctx.is_store()
            {
                self.0.insert(name.id.as_str());
            }
            visitor::walk_expr(self, expr);
        }

        fn visit_parameter(&mut self, parameter: &'a Parameter) {
            self.0.insert(parameter.name.as_str());
            visitor::walk_parameter(self, parameter);
        }
    }
    let mut names = BoundNames(HashSet::new());
    names.visit_body(&module.body);
    names.0
}

#[cfg(test)]
mod tests {
    use super::super::super::source::parse;
    use super::*;

    fn runs_one_by_one(code: &str) -> bool {
        !edits(&parse(code).unwrap(), &["echo".to_owned(), "status".to_owned()]).is_empty()
    }

    #[test]
    fn functions_that_only_call_a_tool_run_at_the_same_time() {
        for code in [
            "parallel([lambda: echo(value=1), lambda: call_tool(\"status\"), status])",
            "parallel([lambda d=d: echo(value=d[\"name\"].lower(), n=len(d)) for d in deps])",
            "fns = []\nfor d in deps:\n    fns.append(lambda d=d: echo(value=d))\nparallel(fns)",
            "def after(r):\n    return r[0]\nreturn after(parallel([lambda: status()]))",
        ] {
            assert!(!runs_one_by_one(code), "{code}");
        }
    }

    #[test]
    fn functions_that_work_with_a_result_run_one_after_the_other() {
        for code in [
            "parallel([lambda: echo(value=1)[\"echoed\"]])",
            "parallel([lambda: echo(value=status()[\"status\"])])",
            "def job():\n    return echo(value=1)[\"echoed\"]\nparallel([job])",
            "fns = [lambda: len(status())]\nparallel(fns)",
            "def job(n):\n    return status()\nparallel([lambda n=n: job(n) for n in [1, 2]])",
            "parallel([lambda: 1])",
            "get = lambda: status()\nparallel([lambda: echo(value=get())])",
            "get = lambda: status()\nfns = [lambda: echo(value=get())]\nparallel(fns)",
            "def run(f):\n    return parallel([lambda: echo(value=f())])\nreturn run(status)",
            "ops = {\"x\": status}\nparallel([lambda: echo(value=ops[\"x\"]())])",
            "parallel([lambda: echo(value=sorted([1], key=status))])",
            "parallel([lambda: echo(value=list(map(status, [1])))])",
            "len = lambda x: status()\nparallel([lambda: echo(value=len(1))])",
            "status = lambda: echo(value=1)[\"echoed\"]\nparallel([lambda: status()])",
        ] {
            assert!(runs_one_by_one(code), "{code}");
        }
    }
}

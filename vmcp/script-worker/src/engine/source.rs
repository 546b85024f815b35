//! The text of a script before the interpreter reads it: its syntax tree, imports of modules that the
//! interpreter lacks, and of `os`, which has nothing that a script may use.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Alias, Mod, ModModule, Stmt};
use ruff_python_parser::{Mode, ParseOptions, parse_unchecked};
use ruff_text_size::{Ranged as _, TextRange};

use super::statistics;

/// Deepest nesting that is read; the interpreter refuses a deeper one.
const MAX_DEPTH: u16 = 200;
/// Module of files, processes and the environment. The interpreter has a part of it.
const OS: &str = "os";

/// Returns the syntax tree; `None` for a text that the interpreter will refuse.
pub(super) fn parse(source: &str) -> Option<ModModule> {
    let parsed =
        parse_unchecked(source, ParseOptions::from(Mode::Module).with_max_recursion_depth(MAX_DEPTH));
    if !parsed.errors().is_empty() {
        return None;
    }
    match parsed.into_syntax() {
        Mod::Module(module) => Some(module),
        Mod::Expression(_) => None,
    }
}

/// Returns the script with each import of `statistics` as an assignment from the module of the prelude, and
/// of `os` as the error of a missing module, on the same lines; `None` for a script with neither.
pub(super) fn with_own_modules(module: &ModModule, source: &str) -> Option<String> {
    let mut imports = Imports::default();
    imports.visit_body(&module.body);
    if imports.0.is_empty() {
        return None;
    }
    let (mut text, mut end) = (String::with_capacity(source.len()), 0);
    for (range, replaced) in imports.0 {
        let (start, stop) = (range.start().to_usize(), range.end().to_usize());
        text.push_str(source.get(end..start)?);
        text.push_str(&replaced);
        // Later lines keep their numbers.
        let lines = source.get(start..stop)?.matches('\n').count();
        text.push_str(&"\\\n".repeat(lines));
        end = stop;
    }
    text.push_str(source.get(end..)?);
    Some(text)
}

/// Places of imports, and the text in their place.
#[derive(Default)]
struct Imports(Vec<(TextRange, String)>);

impl<'a> Visitor<'a> for Imports {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) if import.names.iter().any(|it| is_own(it) || is_os(it.name.as_str())) => {
                let statements: Vec<_> = import.names.iter().map(imported).collect();
                self.0.push((stmt.range(), statements.join("; ")));
            }
            Stmt::ImportFrom(import)
                if import.level == 0 && import.module.as_deref() == Some(statistics::NAME) =>
            {
                let statements: Vec<_> = import.names.iter().map(imported_from).collect();
                self.0.push((stmt.range(), statements.join("; ")));
            }
            Stmt::ImportFrom(import) if import.level == 0 && import.module.as_deref().is_some_and(is_os) => {
                self.0.push((stmt.range(), missing()));
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }
}

fn is_own(alias: &Alias) -> bool {
    alias.name.as_str() == statistics::NAME
}

/// True for `os` and its parts, such as `os.path`.
fn is_os(module: &str) -> bool {
    module.split('.').next() == Some(OS)
}

/// Returns the statement in place of an import of `os`.
fn missing() -> String {
    let text = format!(
        "No module named '{OS}': a script has neither files nor environment; pass data in CONTEXT, or call a \
         tool"
    );
    format!("raise ModuleNotFoundError({text:?})")
}

fn bound(alias: &Alias) -> &str {
    alias.asname.as_ref().unwrap_or(&alias.name).as_str()
}

fn imported(alias: &Alias) -> String {
    let (name, bound) = (alias.name.as_str(), bound(alias));
    match &alias.asname {
        _ if is_own(alias) => format!("{bound} = {}", statistics::MODULE),
        _ if is_os(name) => missing(),
        Some(_) => format!("import {name} as {bound}"),
        None => format!("import {name}"),
    }
}

fn imported_from(alias: &Alias) -> String {
    let (name, bound) = (alias.name.as_str(), bound(alias));
    if statistics::FUNCTIONS.contains(&name) {
        return format!("{bound} = {}.{name}", statistics::MODULE);
    }
    let known = statistics::FUNCTIONS.join(", ");
    let text = format!("cannot import name '{name}' from 'statistics'; it has {known}");
    format!("raise ImportError({text:?})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(code: &str) -> Option<String> {
        with_own_modules(&parse(code).unwrap(), code)
    }

    #[test]
    fn imports_of_statistics_become_assignments_on_the_same_lines() {
        for (code, expected) in [
            ("import statistics\nx", "statistics = __statistics__\nx"),
            ("import json, statistics as st; x", "import json; st = __statistics__; x"),
            (
                "def f():\n    from statistics import (mean,\n        stdev as s)\n    return s",
                "def f():\n    mean = __statistics__.mean; s = __statistics__.stdev\\\n\n    return s",
            ),
        ] {
            assert_eq!(rewritten(code).as_deref(), Some(expected));
        }
        assert_eq!(rewritten("import json\n'import statistics'"), None);
        assert_eq!(rewritten("import oslo\nfrom .os import x\nimport json as os"), None);
        let missing = missing();
        for (code, expected) in [
            ("import os", missing.clone()),
            ("import json, os.path as p; x", format!("import json; {missing}; x")),
            (
                "try:\n    from os import (environ,\n        getenv)\nexcept ImportError: pass",
                format!("try:\n    {missing}\\\n\nexcept ImportError: pass"),
            ),
        ] {
            assert_eq!(rewritten(code).as_ref(), Some(&expected), "{code}");
        }
        assert!(rewritten("from statistics import kde").unwrap().starts_with("raise ImportError("));
        assert!(parse("x +").is_none() && parse(&"(".repeat(100_000)).is_none());
    }
}

//! Scripts of ToolHive (`execute_tool_script`), which are Starlark, as Python.
//!
//! Starlark is a part of Python but for a few names and operators. The text of a script becomes the body of a
//! function, so that `return` works, and [`Edit`]s replace what differs:
//!
//! | in Starlark | here |
//! |---|---|
//! | top-level `return` | body of a function, one line further down |
//! | `fail(…)`, `type(x)`, `"…" % x` | functions of [`prelude`] |
//! | `parallel([…])` with functions that do more than one call | one after the other ([`parallel_sites`]) |
//! | `load`, `struct`, `json.encode`, … | an error that shows the Python for it ([`hints`]) |

mod hints;
mod indentation;
mod parallel_sites;
mod prelude;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ModModule, Operator};
use ruff_text_size::{Ranged as _, TextRange, TextSize};

use vmcp_script::protocol::Failure;

use super::source;
pub(super) use prelude::PRELUDE;

/// Lines that stand before those of the script.
pub(super) const LINES_BEFORE: u32 = 1;

/// A change of the text: `text` in place of `range`, which may be empty.
struct Edit {
    range: TextRange,
    text: &'static str,
}

impl Edit {
    fn insert(at: TextSize, text: &'static str) -> Edit {
        Edit { range: TextRange::empty(at), text }
    }
}

/// Returns a script as Python. `functions`: names of the functions that call tools. A text that cannot be
/// parsed is returned with its mistake, which the interpreter reports.
pub(super) fn as_python(code: &str, functions: &[String]) -> Result<String, Failure> {
    let edits = match source::parse(code) {
        None => indentation::of_text(code),
        Some(module) => {
            if let Some(failure) = hints::find(&module, code, functions) {
                return Err(failure);
            }
            edits(&module, code, functions)
        }
    };
    let body = edited(code, edits);
    Ok(format!("def __main__():\n{body}\n    return None\n__main__()"))
}

fn edits(module: &ModModule, code: &str, functions: &[String]) -> Vec<Edit> {
    let mut replaced = Replaced { code, edits: indentation::of_module(module, code) };
    replaced.visit_body(&module.body);
    let mut edits = replaced.edits;
    edits.extend(parallel_sites::edits(module, functions));
    edits
}

/// Applies edits, of which those at one place keep their order.
fn edited(code: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.range.start());
    let (mut text, mut end) = (String::with_capacity(code.len() + 64 * edits.len()), 0);
    for Edit { range, text: put } in edits {
        let (start, stop) = (range.start().to_usize(), range.end().to_usize());
        text.push_str(code.get(end..start).unwrap_or_default());
        text.push_str(put);
        end = stop.max(end);
    }
    text.push_str(code.get(end..).unwrap_or_default());
    text
}

/// Finds the operators and names that differ.
struct Replaced<'a> {
    code: &'a str,
    edits: Vec<Edit>,
}

impl<'a> Visitor<'a> for Replaced<'_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::BinOp(operation) if operation.op == Operator::Mod => {
                let between = TextRange::new(operation.left.end(), operation.right.start());
                let text = self.code.get(between.to_std_range()).unwrap_or_default();
                // A comment between them may have the sign, too: such an operation stays Python's.
                if let Some(place) = text.find('%').filter(|_| !text.contains('#'))
                    && let Ok(place) = TextSize::try_from(place)
                {
                    self.edits.push(Edit::insert(operation.start(), "__mod("));
                    let sign = TextRange::at(between.start() + place, TextSize::new(1));
                    self.edits.push(Edit { range: sign, text: "," });
                    self.edits.push(Edit::insert(operation.end(), ")"));
                }
            }
            // A name `type` that is not called is one of the script's own.
            Expr::Call(call) => {
                if let Expr::Name(name) = &*call.func
                    && name.id.as_str() == "type"
                {
                    self.edits.push(Edit { range: name.range, text: "__type" });
                }
            }
            _ => {}
        }
        visitor::walk_expr(self, expr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(code: &str) -> String {
        let functions = ["echo".to_owned(), "status".to_owned()];
        as_python(code, &functions).unwrap_or_else(|failure| format!("{failure:?}"))
    }

    fn body(code: &str) -> String {
        let python = python(code);
        let body = python.strip_prefix("def __main__():\n").unwrap();
        body.strip_suffix("\n    return None\n__main__()").unwrap().to_owned()
    }

    #[test]
    fn the_script_becomes_the_body_of_a_function_and_texts_stay() {
        assert_eq!(body("x = 1\nif x:\n    return x"), "    x = 1\n    if x:\n        return x");
        let text = "t = \"\"\"a\n  b\n\"\"\"\nf(\n1)\nreturn t";
        assert_eq!(body(text), "    t = \"\"\"a\n  b\n\"\"\"\n    f(\n    1)\n    return t");
        assert_eq!(body("return ]["), "    return ][", "the interpreter names the mistake");
        assert_eq!(body(""), "    ");
    }

    #[test]
    fn operators_and_names_that_differ_are_replaced() {
        assert_eq!(body("return \"%s %d\" % (a, b)"), "    return __mod(\"%s %d\" , (a, b))");
        assert_eq!(body("x = (a + b) % (c % d)"), "    x = __mod((a + b) , (__mod(c , d)))");
        assert_eq!(body("y = a % b % c"), "    y = __mod(__mod(a , b) , c)");
        assert_eq!(body("if type(x) == 'list':\n  pass"), "    if __type(x) == 'list':\n      pass");
        for same in ["x %= 2", "for type in types:\n        f(type, type=type)"] {
            assert_eq!(body(same), format!("    {same}").replace('\n', "\n    "));
        }
    }
}

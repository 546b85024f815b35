//! Indents the lines of a script, but for lines inside of a text, which would change.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, ModModule};
use ruff_text_size::{Ranged, TextRange, TextSize};

use super::Edit;

/// The indentation of a line.
const INDENTATION: &str = "    ";

/// Indents every line.
pub(super) fn of_text(code: &str) -> Vec<Edit> {
    lines(code).map(|at| Edit::insert(at, INDENTATION)).collect()
}

/// Indents every line that begins outside of texts.
pub(super) fn of_module(module: &ModModule, code: &str) -> Vec<Edit> {
    let mut texts = Texts::default();
    texts.visit_body(&module.body);
    texts.0.sort_by_key(Ranged::start);
    let mut texts = texts.0.iter().peekable();
    let outside = |at: &TextSize| {
        // Texts do not overlap: an outer one is visited alone.
        while texts.next_if(|range| range.end() <= *at).is_some() {}
        texts.peek().is_none_or(|range| *at <= range.start())
    };
    lines(code).filter(outside).map(|at| Edit::insert(at, INDENTATION)).collect()
}

/// Places at which lines begin.
fn lines(code: &str) -> impl Iterator<Item = TextSize> {
    let after = code.match_indices('\n').map(|(place, _)| place + 1);
    std::iter::once(0).chain(after).filter_map(|place| TextSize::try_from(place).ok())
}

/// Ranges of the texts in a script.
#[derive(Default)]
struct Texts(Vec<TextRange>);

impl<'a> Visitor<'a> for Texts {
    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::StringLiteral(_) | Expr::BytesLiteral(_) | Expr::FString(_) | Expr::TString(_) => {
                self.0.push(expr.range());
            }
            _ => visitor::walk_expr(self, expr),
        }
    }
}

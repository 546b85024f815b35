//! Templates that cannot end: loops over a number beyond the limit, and templates that call themselves on
//! every way. Others are bounded while they are rendered.

use std::collections::{BTreeMap, BTreeSet};

use gotmpl::parse::{DefineNode, Expr, ListNode, Node, Number, PipeNode};

use super::MAX_TURNS;

/// Refuses a template that never ends. The error says why.
pub(super) fn check(tree: &ListNode, defines: &[DefineNode]) -> Result<(), String> {
    loops(tree)?;
    let mut calls: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for define in defines {
        loops(&define.body)?;
        unconditional(&define.body, calls.entry(&define.name).or_default());
    }
    for define in defines {
        let mut reached = BTreeSet::new();
        let mut open = vec![&*define.name];
        while let Some(name) = open.pop() {
            for called in calls.get(name).into_iter().flatten() {
                if **called == *define.name {
                    return Err(format!("template {:?} always calls itself and never ends", define.name));
                }
                if reached.insert(*called) {
                    open.push(called);
                }
            }
        }
    }
    Ok(())
}

/// Refuses loops over a number that is larger than the limit.
fn loops(list: &ListNode) -> Result<(), String> {
    for node in &list.nodes {
        match node {
            Node::List(list) => loops(list)?,
            Node::If(branch) | Node::With(branch) => both(&branch.body, branch.else_body.as_ref())?,
            Node::Range(branch) => {
                if let Some(turns) = turns(&branch.pipe).filter(|turns| *turns > MAX_TURNS) {
                    return Err(format!("a loop of {turns} turns; a template has {MAX_TURNS} at most"));
                }
                both(&branch.body, branch.else_body.as_ref())?;
            }
            Node::Define(define) => loops(&define.body)?,
            Node::Action(_) | Node::Template(_) | Node::Text(_) | Node::Break(_) | Node::Continue(_) => {}
        }
    }
    Ok(())
}

fn both(body: &ListNode, other: Option<&ListNode>) -> Result<(), String> {
    loops(body)?;
    other.map_or(Ok(()), loops)
}

/// Returns the turns of a loop over a constant number.
fn turns(pipe: &PipeNode) -> Option<u64> {
    let [command] = pipe.commands.as_slice() else { return None };
    match command.args.as_slice() {
        [Expr::Number(_, Number::Int(turns))] => u64::try_from(*turns).ok(),
        [Expr::Number(_, Number::Uint(turns))] => Some(*turns),
        _ => None,
    }
}

/// Adds the templates that a list calls whatever the data is.
fn unconditional<'a>(list: &'a ListNode, calls: &mut BTreeSet<&'a str>) {
    for node in &list.nodes {
        match node {
            Node::List(list) => unconditional(list, calls),
            Node::Template(call) => drop(calls.insert(&call.name)),
            _ => {}
        }
    }
}

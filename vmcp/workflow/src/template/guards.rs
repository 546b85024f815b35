//! Guards that are put into the tree of a template: what is printed must be there, no text that a function
//! makes may be too large, and loops and called templates look at the clock. `{{.params.x}}` becomes
//! `{{.params.x | shown! ".params.x"}}`.

use gotmpl::parse::{ActionNode, CommandNode, Expr, ListNode, Node, Number, PipeNode, Pos, SmolStr};

use super::functions::{
    self, BOUNDED, DEMANDING, GIVEN, IN_TIME, JSON_VALUE, NOTHING, PRESENT, SHOWN, TEXT_MAKERS,
};

/// Guards all actions of a tree; `rooted` is true if `.` is the root of the data.
pub(super) fn guard(list: &mut ListNode, rooted: bool) {
    for node in &mut list.nodes {
        match node {
            Node::List(list) => guard(list, rooted),
            Node::Action(action) => {
                let name = described(&action.pipe);
                pipe(&mut action.pipe, rooted);
                if action.pipe.decl.is_empty() {
                    let name = Expr::String(action.pos, functions::name(&name));
                    action.pipe.commands.push(call(action.pos, SHOWN, vec![name]));
                }
            }
            Node::If(branch) => {
                pipe(&mut branch.pipe, rooted);
                guard(&mut branch.body, rooted);
                branch.else_body.iter_mut().for_each(|body| guard(body, rooted));
            }
            Node::Range(branch) | Node::With(branch) => {
                pipe(&mut branch.pipe, rooted);
                guard_repeated(&mut branch.body);
                branch.else_body.iter_mut().for_each(|body| guard(body, rooted));
            }
            Node::Template(template) => match &mut template.pipe {
                Some(given) => pipe(given, rooted),
                // Go gives it nothing, the engine its caller's data.
                none => *none = Some(pipe_of(template.pos, call(template.pos, NOTHING, Vec::new()))),
            },
            Node::Define(define) => guard_repeated(&mut define.body),
            Node::Text(_) | Node::Break(_) | Node::Continue(_) => {}
        }
    }
}

/// Guards the body of a loop or of a template that others call. A blank body stays blank: Go does not let one
/// replace a template of the same name.
pub(super) fn guard_repeated(body: &mut ListNode) {
    guard(body, false);
    if !body.is_empty_tree() {
        let pos = body.pos;
        let pipe = pipe_of(pos, call(pos, IN_TIME, Vec::new()));
        body.nodes.insert(0, Node::Action(ActionNode { pos, pipe }));
    }
}

/// Makes the only action of a guarded tree yield the JSON of its value.
pub(super) fn yield_json(list: &mut ListNode) {
    let [Node::Action(action)] = list.nodes.as_mut_slice() else { return };
    if let Some(shown) = action.pipe.commands.last_mut().and_then(|command| command.args.first_mut()) {
        *shown = Expr::Identifier(action.pos, SmolStr::new_static(PRESENT));
    }
    action.pipe.commands.push(call(action.pos, JSON_VALUE, Vec::new()));
}

fn call(pos: Pos, function: &'static str, args: Vec<Expr>) -> CommandNode {
    let mut all = vec![Expr::Identifier(pos, SmolStr::new_static(function))];
    all.extend(args);
    CommandNode { pos, args: all }
}

fn pipe_of(pos: Pos, command: CommandNode) -> PipeNode {
    PipeNode { pos, decl: Vec::new(), commands: vec![command], is_assign: false }
}

fn pipe(pipe: &mut PipeNode, rooted: bool) {
    let mut commands = Vec::with_capacity(pipe.commands.len());
    let is_demanding = |command: &CommandNode| function(command).is_some_and(|it| DEMANDING.contains(&it));
    let mut given_to: Vec<bool> = pipe.commands.iter().skip(1).map(is_demanding).collect();
    given_to.push(false);
    for (mut command, demanded) in std::mem::take(&mut pipe.commands).into_iter().zip(given_to) {
        let demanding = is_demanding(&command);
        let makes_text = function(&command).is_some_and(|it| TEXT_MAKERS.contains(&it));
        let alone = command.args.len() == 1;
        for (index, argument) in command.args.iter_mut().enumerate() {
            nested(argument, rooted);
            if (demanding && index > 0) || (demanded && alone) {
                demand(argument, rooted);
            }
        }
        let pos = command.pos;
        commands.push(command);
        if makes_text {
            commands.push(call(pos, BOUNDED, Vec::new()));
        }
    }
    pipe.commands = commands;
}

fn function(command: &CommandNode) -> Option<&str> {
    match command.args.first() {
        Some(Expr::Identifier(_, name)) => Some(name),
        _ => None,
    }
}

/// Guards the pipelines in parentheses.
fn nested(expr: &mut Expr, rooted: bool) {
    match expr {
        Expr::Pipe(_, inner) => pipe(inner, rooted),
        Expr::Chain(_, inner, _) => nested(inner, rooted),
        _ => {}
    }
}

/// Demands that a reference from the root leads to something.
fn demand(expr: &mut Expr, rooted: bool) {
    let path = match expr {
        Expr::Field(_, path) if rooted => path,
        Expr::Variable(_, name, path) if name == "$" && !path.is_empty() => path,
        _ => return,
    };
    let (name, pos) = (dotted(path), expr.pos());
    let name = Expr::String(pos, functions::name(&name));
    let root = Expr::Variable(pos, SmolStr::new_static("$"), Vec::new());
    let reference = std::mem::replace(expr, Expr::Nil(pos));
    *expr = Expr::Pipe(pos, pipe_of(pos, call(pos, GIVEN, vec![name, root, reference])));
}

fn dotted(path: &[SmolStr]) -> String {
    path.iter().fold(String::new(), |text, part| text + "." + part)
}

/// Names the value of a pipeline in an error.
fn described(pipe: &PipeNode) -> String {
    let last = pipe.commands.last().map(|command| command.args.as_slice()).unwrap_or_default();
    match last {
        [Expr::Identifier(_, name), place, keys @ ..] if name == "index" => {
            let keys = keys.iter().map(|key| match key {
                Expr::String(_, key) => format!("[{key:?}]"),
                Expr::Number(_, Number::Int(place)) => format!("[{place}]"),
                key => format!("[{}]", reference(key)),
            });
            format!("{}{}", reference(place), keys.collect::<Vec<_>>().concat())
        }
        [Expr::Identifier(_, name), ..] => format!("the result of {name}"),
        [first, ..] => reference(first),
        [] => reference(&Expr::Nil(pipe.pos)),
    }
}

fn reference(expr: &Expr) -> String {
    match expr {
        Expr::Field(_, path) => dotted(path),
        Expr::Variable(_, name, path) => format!("{name}{}", dotted(path)),
        Expr::Dot(_) => "the current item".to_owned(),
        _ => "the value".to_owned(),
    }
}

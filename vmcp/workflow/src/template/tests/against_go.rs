//! Templates against Go itself: generated ones, and those of ToolHive's documentation. `VMCP_TEMPLATES` is
//! the number of generated ones (default 3,000), `VMCP_TEMPLATES_SEED` their seed.

use std::io::Write as _;
use std::process::{Command, Stdio};

use fastrand::Rng;
use serde_json::{Value, json};

use super::super::*;

/// Values that templates refer to.
fn subject() -> Value {
    json!({
        "params": {
            "q": "bug <b> & \"q\"", "n": 3, "zero": 0, "big": 1_000_000, "minus": -7, "f": 2.5, "large": 123_456_789.5, "tiny": 0.000_01, "huge": 1e21,
            "yes": true, "no": false, "none": null, "empty": "", "list": [1, "two", 3.5, null, [1]], "nothing": [],
            "map": { "b": 1, "a": { "deep": "x" }, "z-z": 2 }, "words": ["a", "b c"], "json": "{\"k\":[1,2.5,\"x\"]}",
            "uni": "é世\u{1F600}\t\n",
        },
        "steps": { "s": { "status": "completed", "output": { "items": [{ "title": "a" }, { "title": "b" }], "count": 2 } } },
        "vars": {}, "workflow": { "id": "w" },
    })
}

const PATHS: [&str; 26] = [
    ".params.q",
    ".params.n",
    ".params.zero",
    ".params.big",
    ".params.minus",
    ".params.f",
    ".params.large",
    ".params.tiny",
    ".params.huge",
    ".params.yes",
    ".params.no",
    ".params.none",
    ".params.empty",
    ".params.list",
    ".params.nothing",
    ".params.map",
    ".params.map.a.deep",
    ".params.words",
    ".params.json",
    ".params.uni",
    ".params.missing",
    ".steps.s.output",
    ".steps.s.output.items",
    ".steps.s.output.count",
    ".steps.s.status",
    ".params.map.a",
];
const LITERALS: [&str; 12] =
    ["1", "0", "-3", "2.5", "\"text\"", "`raw`", "true", "false", "\"\"", "'a'", "0x1F", "1e3"];

/// Arguments of `printf`.
const FORMATTED: [&str; 30] = [
    "\"%v\" $.params.list",
    "\"%v\" $.params.map",
    "\"%d\" $.params.n",
    "\"%05d\" $.params.minus",
    "\"%s\" $.params.q",
    "\"%q\" $.params.uni",
    "\"%5.2f\" $.params.f",
    "\"%x\" $.params.big",
    "\"%x\" $.params.q",
    "\"%-6v|\" $.params.n",
    "\"%t\" $.params.yes",
    "\"%+v\" $.params.f",
    "\"%s-%d\" $.params.q 3",
    "\"%6s|\" `raw`",
    "\"%v %v %v\" $.params.large $.params.tiny $.params.huge",
    "\"%g %.3g %G %e %E %.0f\" $.params.large $.params.large $.params.tiny $.params.f $.params.huge $.params.f",
    "\"%x %b %X %.3x\" $.params.f $.params.f $.params.large $.params.tiny",
    "\"%q %+q %#q\" $.params.n $.params.uni `raw`",
    "\"%#v\" $.params.words",
    "\"%q\" $.params.words",
    "\"%-8q|\" $.params.words",
    "\"%U %#U %c\" $.params.n $.params.big 233",
    "\"%+d %+d % d %08d %-8d|\" $.params.n $.params.minus $.params.n $.params.minus $.params.n",
    "\"%#x %#o %O %b %.5d\" $.params.big $.params.big $.params.n $.params.n $.params.minus",
    "\"% x|%#X|%.2x|%.2s|%.3q\" $.params.q $.params.q $.params.q $.params.uni $.params.uni",
    "\"%[2]v %[1]v %[2]v\" $.params.n $.params.q",
    "\"%*d|%-*d|%.*f\" 5 $.params.n 6 $.params.minus 2 $.params.f",
    "\"%08.3f|%+.2e|%+09.2f|% f|%#.0f\" $.params.f $.params.large $.params.f $.params.f $.params.f",
    "\"100%% %v\" $.params.none",
    "\"%5t|%-7t|%05s|%05v\" $.params.yes $.params.no $.params.q $.params.words",
];

/// Writes templates at random.
struct Writer {
    rng: Rng,
    /// Variables in scope.
    variables: usize,
    in_range: bool,
}

impl Writer {
    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.rng.usize(..of.len())]
    }

    fn operand(&mut self, depth: usize) -> String {
        match self.rng.u32(..10) {
            0..=4 => {
                let path = self.pick(&PATHS);
                // Within a block `.` may be another; `$` is the root everywhere.
                if self.in_range || self.rng.u32(..6) == 0 { format!("${path}") } else { path.to_owned() }
            }
            5 | 6 => self.pick(&LITERALS).to_owned(),
            7 if self.variables > 0 => format!("$v{}", self.rng.usize(..self.variables)),
            8 if self.in_range => ".".to_owned(),
            _ if depth > 0 => format!("({})", self.pipeline(depth - 1)),
            _ => "$.params.n".to_owned(),
        }
    }

    fn command(&mut self, depth: usize) -> String {
        let args = |writer: &mut Writer, count: usize| {
            (0..count).map(|_| writer.operand(depth)).collect::<Vec<_>>().join(" ")
        };
        let (one, two) = (args(self, 1), args(self, 2));
        match self.rng.u32(..22) {
            0 => format!("json {one}"),
            1 => format!("quote {one}"),
            2 => format!("fromJson {}", self.pick(&["$.params.json", "`[1,{\"a\":null}]`", "$.params.q"])),
            3 => format!("len {one}"),
            4 => format!(
                "index {}",
                self.pick(&[
                    "$.params.list 1",
                    "$.params.map \"a\"",
                    "$.params.map \"b\"",
                    "$.params.words 5",
                    "$.params.list 4 0",
                    "$.params.map \"no\""
                ])
            ),
            5 => format!("printf {}", self.pick(&FORMATTED)),
            6 => format!("print {two}"),
            7 => format!("println {one}"),
            8 if self.rng.bool() => format!("eq {one} {two}"),
            8 => format!("{} {two}", self.pick(&["eq", "ne", "lt", "le", "gt", "ge"])),
            9 => format!("{} {two}", self.pick(&["and", "or"])),
            10 => format!("not {one}"),
            11 => format!(
                "slice {}",
                self.pick(&["$.params.q 1 3", "$.params.words 0 1", "$.params.list 2", "$.params.q 1 99"])
            ),
            12 => format!("{} {one}", self.pick(&["html", "js", "urlquery"])),
            _ => one,
        }
    }

    fn pipeline(&mut self, depth: usize) -> String {
        let mut text = self.command(depth);
        while self.rng.u32(..6) == 0 {
            text += " | ";
            text +=
                self.pick(&["json", "quote", "len", "print", "printf \"%v!\"", "html", "not", "eq 3", "js"]);
        }
        text
    }

    fn action(&mut self, inner: &str) -> String {
        match self.rng.u32(..8) {
            0 => format!("{{{{- {inner} }}}}"),
            1 => format!("{{{{ {inner} -}}}}"),
            _ => format!("{{{{{inner}}}}}"),
        }
    }

    fn nodes(&mut self, depth: usize) -> String {
        let mut text = String::new();
        for _ in 0..self.rng.usize(1..4) {
            text += &self.node(depth);
        }
        text
    }

    fn block(&mut self, keyword: &str, depth: usize, in_range: bool) -> String {
        let head = self.pipeline(1);
        let begin = self.action(&format!("{keyword} {head}"));
        let (variables, before) = (self.variables, self.in_range);
        self.in_range |= in_range;
        let body = self.nodes(depth - 1);
        self.in_range = before;
        self.variables = variables;
        let other =
            if self.rng.bool() { self.action("else") + &self.nodes(depth - 1) } else { String::new() };
        self.variables = variables;
        begin + &body + &other + &self.action("end")
    }

    fn node(&mut self, depth: usize) -> String {
        match self.rng.u32(..14) {
            0 | 1 => self.pick(&["text ", " a b\n", "}} x", "{ {", "é"]).to_owned(),
            2 if depth > 0 => self.block("if", depth, false),
            3 if depth > 0 => self.block("range", depth, true),
            4 if depth > 0 => self.block("with", depth, true),
            5 => "{{/* a comment */}}".to_owned(),
            6 => {
                let value = self.pipeline(1);
                self.variables += 1;
                let name = self.variables - 1;
                self.action(&format!("$v{name} := {value}"))
            }
            7 if self.rng.u32(..4) == 0 => {
                self.pick(&["{{end}}", "{{else}}", "{{", "{{.params.q", "{{nosuch 1}}"]).to_owned()
            }
            _ => {
                let inner = self.pipeline(2);
                self.action(&inner)
            }
        }
    }
}

/// Templates of ToolHive's documentation and examples, and of parts that the writer leaves out.
const DOCUMENTED: [&str; 32] = [
    "{{.params.q}}",
    "{{json .steps.s.output.items}}",
    "{{.steps.s.output.count}}",
    "{{quote .params.q}}",
    "{{(fromJson .params.json).k}}",
    "{{if .params.yes}}a{{else}}b{{end}}",
    "{{eq .steps.s.status \"completed\"}}",
    "{{range .steps.s.output.items}}{{.title}},{{end}}",
    "{{range $i, $e := .params.words}}{{$i}}{{$e}}{{end}}",
    "{{index .params.words 0}}",
    "{{len .params.list}}",
    "{{or .params.empty \"x\"}}",
    "{{and .params.yes (gt .params.n 2)}}",
    "{{with .params.map}}{{.b}}{{end}}",
    "{{printf \"%s/%d\" .steps.s.status .params.n}}",
    "{{.workflow.id}}",
    "{{define \"x\"}}[{{if .}}{{.}}{{end}}]{{end}}{{template \"x\"}}{{template \"x\" .params.q}}",
    "{{block \"b\" .params.words}}{{range .}}<{{.}}>{{end}}{{end}}",
    "{{$x := 1}}{{if .params.yes}}{{$x = 2}}{{end}}{{$x}}",
    "{{range $i := 3}}{{$i}}{{end}}{{range 0}}x{{else}}none{{end}}",
    "{{range .params.words}}{{if eq . \"b c\"}}{{break}}{{end}}{{.}}{{else}}none{{end}}",
    "{{range $k, $v := .params.map.a}}{{$k}}={{$v}}{{continue}}never{{end}}",
    "{{if .params.no}}a{{else if .params.yes}}b{{else}}c{{end}}",
    "{{with .params.no}}a{{else with .params.q}}{{.}}{{else}}c{{end}}",
    "a {{-\n/* comment */ -}} b {{- /* c */ -}} c",
    "{{-\tif .params.yes }} x {{-\nend }} y",
    "{{eq .params.q \"a\" .params.q \"c\"}}{{ne 1 2}}{{and 1 0 2}}{{or 0 \"\" 3}}{{not .params.no}}",
    "{{html .params.q 1 2}}|{{js .params.q}}|{{urlquery .params.q \"x y\"}}",
    "{{print 1 2 \"a\" 3 .params.list nil}}|{{println .params.large .params.map}}",
    "{{1_000}} {{0x1F}} {{0b11}} {{0o17}} {{'a'}} {{1e3}} {{`raw`}}",
    "{{\"x\" | printf \"%s-%s\" \"y\" | quote | len}}",
    "{{index .params.list 4 0}}{{index .params.map \"z-z\"}}{{slice .params.q 1 3}}{{(index .params.words 1)}}",
];

fn of_go(templates: &[String]) -> Vec<Value> {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/go/main.go");
    let mut go = Command::new("go")
        .args(["run", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test needs go, 1.24 or newer (go.dev/dl)");
    let mut stdin = go.stdin.take().unwrap();
    let data = subject();
    let lines: Vec<String> = templates
        .iter()
        .map(|template| json!({ "template": template, "data": data }).to_string() + "\n")
        .collect();
    let writer =
        std::thread::spawn(move || lines.iter().for_each(|line| stdin.write_all(line.as_bytes()).unwrap()));
    let output = go.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// True for a template with a function whose missing arguments Go takes: it fails at those of `lt` itself.
fn demands(template: &str) -> bool {
    let mut printing = functions::DEMANDING.iter().filter(|name| name.len() > 2 || **name == "js");
    printing.any(|name| template.contains(name))
}

#[test]
fn templates_render_as_in_go() {
    let mut templates: Vec<String> = DOCUMENTED.iter().map(ToString::to_string).collect();
    let mut writer =
        Writer { rng: Rng::with_seed(number("VMCP_TEMPLATES_SEED", 30)), variables: 0, in_range: false };
    for _ in 0..number("VMCP_TEMPLATES", 3000) {
        writer.variables = 0;
        templates.push(writer.nodes(3));
    }
    let data = Data::new(&subject());
    let theirs = of_go(&templates);
    assert_eq!(theirs.len(), templates.len());
    let (mut differ, mut rendered, mut nothing) = (Vec::new(), 0, 0);
    for (template, go) in templates.iter().zip(&theirs) {
        let ours = Template::parse(template).and_then(|template| template.text(&data));
        match (go["text"].as_str(), ours) {
            (Some(text), Ok(ours)) if text == ours => rendered += 1,
            // A missing value is an error here; Go prints this, `null` for `json`, or `<nil>`.
            (Some(text), Err(error))
                if error.contains("missing") && (text.contains("<no value>") || demands(template)) =>
            {
                nothing += 1;
            }
            (None, Err(_)) => nothing += 1,
            (Some(_), Err(error))
                if error.contains("budget exhausted") || error.contains("has more than") =>
            {
                nothing += 1;
            }
            // Numbers are compared by their size here, whole or not.
            (None, Ok(_))
                if go["error"].as_str().is_some_and(|error| {
                    error.contains("incompatible types for comparison")
                        && error.contains("int")
                        && error.contains("float64")
                }) =>
            {
                nothing += 1;
            }
            // `printf` names the type of a value that does not fit its verb: `int64` in Go, `int` here.
            (Some(text), Ok(_)) if text.contains("%!") || text.contains("%25%21") => nothing += 1,
            (_, ours) => differ.push(format!("{template}\n    go:   {go}\n    ours: {ours:?}")),
        }
    }
    println!("{rendered} the same, {nothing} errors in both, {} differ", differ.len());
    assert!(rendered > templates.len() / 20, "only {rendered} of {} were rendered", templates.len());
    assert!(
        differ.is_empty(),
        "{} of {} differ:\n{}",
        differ.len(),
        templates.len(),
        differ[..differ.len().min(30)].join("\n")
    );
}

//! Reads the arguments of functions that a script calls into [`HostCall`]s.

use monty_types::MontyObject;
use serde_json::{Map, Value};

use super::values;
use vmcp_script::protocol::HostCall;

/// Arguments of a call as the interpreter gives them.
pub(super) struct GivenArguments<'a> {
    pub(super) positional: &'a [MontyObject],
    pub(super) keywords: &'a [(MontyObject, MontyObject)],
}

impl GivenArguments<'_> {
    pub(super) fn keyword(&self, name: &str) -> Option<&MontyObject> {
        self.keywords.iter().find(|(key, _)| values::text(key) == name).map(|(_, value)| value)
    }

    /// The argument at a place, or by its keyword; `None` of Python is absent.
    pub(super) fn at(&self, place: usize, name: &str) -> Option<&MontyObject> {
        self.positional
            .get(place)
            .or_else(|| self.keyword(name))
            .filter(|it| !matches!(it, MontyObject::None))
    }

    fn keywords_as_json(&self, but: &[&str]) -> Result<Map<String, Value>, String> {
        let mut map = Map::new();
        for (key, value) in self.keywords {
            let key = values::text(key);
            if !but.contains(&key.as_str()) {
                map.insert(key, json(value)?);
            }
        }
        Ok(map)
    }

    /// Arguments of a tool as a function: keywords, or one dict.
    pub(super) fn of_tool(&self, name: &str) -> Result<Map<String, Value>, String> {
        let mut arguments = self.keywords_as_json(&[])?;
        match self.positional {
            [] => {}
            [only] => arguments.extend(dict(only).map_err(|_| by_keywords(name))?),
            _ => return Err(by_keywords(name)),
        }
        Ok(arguments)
    }

    /// `call_tool(server, tool, args)`, `call_tool(tool, args)`, `call_tool(tool, **args)`.
    pub(super) fn of_call_tool(&self) -> Result<HostCall, String> {
        const USAGE: &str = r#"write call_tool("server", "tool", {"argument": value})"#;
        let string = |value: &MontyObject| match value {
            MontyObject::String(text) => Some(text.clone()),
            _ => None,
        };
        let named = ["server", "tool", "args"];
        let (texts, rest): (Vec<_>, Vec<_>) = self.positional.iter().partition(|it| string(it).is_some());
        let (server, tool) = match texts.as_slice() {
            [] => (self.keyword("server").and_then(string), self.keyword("tool").and_then(string)),
            [only] => match self.keyword("tool").and_then(string) {
                Some(tool) => (string(only), Some(tool)),
                None => (self.keyword("server").and_then(string), string(only)),
            },
            [server, tool] if self.keyword("server").or(self.keyword("tool")).is_none() => {
                (string(server), string(tool))
            }
            _ => return Err(USAGE.to_owned()),
        };
        let tool = tool.ok_or(USAGE)?;
        let mut arguments = self.keywords_as_json(&named)?;
        let given = match rest.as_slice() {
            [] => self.keyword("args"),
            [only] => Some(*only),
            _ => return Err(USAGE.to_owned()),
        };
        if let Some(given) = given.filter(|given| !matches!(given, MontyObject::None)) {
            arguments.extend(dict(given).map_err(|_| USAGE.to_owned())?);
        }
        Ok(HostCall::Tool { server, tool, arguments })
    }

    /// A tool as a function of a script of ToolHive: keywords, one dict, or positions, which are `arg0`,
    /// `arg1` and so on.
    pub(super) fn of_tool_script(&self, name: &str) -> Result<HostCall, String> {
        Ok(HostCall::Tool {
            server: None,
            tool: name.to_owned(),
            arguments: self.of_positions(self.positional)?,
        })
    }

    /// `call_tool("name", argument=value)` in a script of ToolHive.
    pub(super) fn of_tool_script_call(&self) -> Result<HostCall, String> {
        match self.positional {
            [MontyObject::String(name), rest @ ..] => {
                Ok(HostCall::Tool { server: None, tool: name.clone(), arguments: self.of_positions(rest)? })
            }
            _ => Err(r#"write call_tool("name", argument=value)"#.to_owned()),
        }
    }

    fn of_positions(&self, positional: &[MontyObject]) -> Result<Map<String, Value>, String> {
        let mut arguments = match positional {
            [only @ MontyObject::Dict(_)] => dict(only)?,
            positional => {
                let by_place = positional.iter().enumerate();
                by_place
                    .map(|(place, value)| Ok((format!("arg{place}"), json(value)?)))
                    .collect::<Result<_, String>>()?
            }
        };
        arguments.extend(self.keywords_as_json(&[])?);
        Ok(arguments)
    }

    /// `search_tools(query, limit=5)`.
    pub(super) fn of_search(&self) -> Result<HostCall, String> {
        let Some(MontyObject::String(query)) = self.at(0, "query") else {
            return Err(r#"write search_tools("what the tool should do", limit=5)"#.to_owned());
        };
        let limit = match self.at(1, "limit") {
            None => None,
            Some(MontyObject::Int(limit)) => usize::try_from(*limit).ok(),
            Some(_) => return Err("limit must be a whole number".to_owned()),
        };
        Ok(HostCall::Search { query: query.clone(), limit })
    }

    /// `describe(tool)`: a function or a name.
    pub(super) fn of_describe(&self) -> Result<HostCall, String> {
        match self.at(0, "name") {
            Some(MontyObject::String(name) | MontyObject::Function { name, .. }) => {
                Ok(HostCall::Describe { name: name.clone() })
            }
            _ => Err(r#"write describe("server.tool")"#.to_owned()),
        }
    }
}

fn by_keywords(name: &str) -> String {
    format!("{name} takes its arguments by keyword, such as {name}(argument=value), or as one dict")
}

fn dict(value: &MontyObject) -> Result<Map<String, Value>, String> {
    match json(value)? {
        Value::Object(map) if matches!(value, MontyObject::Dict(_)) => Ok(map),
        _ => Err("a dict is expected".to_owned()),
    }
}

fn json(value: &MontyObject) -> Result<Value, String> {
    values::to_json(value).map_err(|unfit| unfit.to_string())
}

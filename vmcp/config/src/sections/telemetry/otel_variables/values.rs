//! Values of the variables: read, and left out with a warning if they cannot be used.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use url::Url;

use super::{OtelVariables, SAMPLER, SECTION};
use crate::values::headers::{MAX_HEADERS, is_reserved_header, is_token_char, value_fault};

impl OtelVariables<'_, '_> {
    /// Returns a variable's value; an empty one counts as unset.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        (self.variables)(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Returns the value of a variable that has one of a few words; the letter case does not count, as the
    /// specification asks.
    pub(super) fn word(&self, name: &str) -> Option<String> {
        self.get(name).map(|text| text.to_ascii_lowercase())
    }

    /// Returns the first of these variables that is set, with its name.
    pub(super) fn first(&self, names: &[&'static str]) -> Option<(&'static str, String)> {
        names.iter().find_map(|name| Some((*name, self.get(name)?)))
    }

    /// Warns that a variable's value is ignored.
    pub(super) fn ignored(&mut self, name: &str, why: &str, remedy: &str) {
        self.report.warn(SECTION, format!("`{name}` of the environment is ignored: {why}"), remedy);
    }

    /// Returns the URL of a collector. With gRPC it may lack a scheme, which is `https` then unless
    /// `OTEL_EXPORTER_OTLP_INSECURE` is true.
    pub(super) fn endpoint(&mut self, name: &str, is_grpc: bool) -> Option<String> {
        let mut endpoint = self.get(name)?;
        if is_grpc && !endpoint.contains("://") {
            let insecure = self.get("OTEL_EXPORTER_OTLP_INSECURE");
            let is_insecure = insecure.is_some_and(|text| text.eq_ignore_ascii_case("true"));
            let scheme = if is_insecure { "http" } else { "https" };
            endpoint = format!("{scheme}://{endpoint}");
        }
        if !endpoint.contains("://") {
            self.ignored(name, "it lacks a scheme", "write `http://` or `https://` before the host");
            return None;
        }
        let is_usable = |url: Url| {
            let is_bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
            is_bare && matches!(url.scheme(), "http" | "https")
        };
        if !Url::parse(&endpoint).is_ok_and(is_usable) {
            self.ignored(name, "it is not an http or https URL without credentials", "correct it");
            return None;
        }
        Some(endpoint)
    }

    /// Returns the share of traces that the sampler keeps.
    pub(super) fn sampling_rate(&mut self) -> Option<Value> {
        let (name, argument) = (SAMPLER, "OTEL_TRACES_SAMPLER_ARG");
        let sampler = self.word(name)?;
        let rate = match sampler.strip_prefix("parentbased_").unwrap_or(&sampler) {
            "always_on" => "1".to_owned(),
            "always_off" => "0".to_owned(),
            "traceidratio" => self.get(argument).unwrap_or_else(|| "1".to_owned()),
            _ => {
                let remedy = "use always_on, always_off or traceidratio, each also with parentbased_";
                self.ignored(name, &format!("`{sampler}` is not known here"), remedy);
                return None;
            }
        };
        if rate.parse::<f32>().is_ok_and(|rate| (0.0..=1.0).contains(&rate)) {
            return Some(Value::String(rate));
        }
        self.ignored(argument, &format!("`{rate}` is not a share"), "write a number from 0 to 1");
        // The specification: as if the argument were not set.
        Some(Value::String("1".to_owned()))
    }

    /// Returns a time, which the variable gives in milliseconds.
    pub(super) fn milliseconds(&mut self, name: &str, range: &RangeInclusive<Duration>) -> Option<Value> {
        let text = self.get(name)?;
        if let Ok(milliseconds) = text.parse::<u64>()
            && range.contains(&Duration::from_millis(milliseconds))
        {
            return Some(Value::String(format!("{milliseconds}ms")));
        }
        let (least, most) = (range.start().as_millis(), range.end().as_millis());
        let remedy = format!("write milliseconds, from {least} to {most}");
        self.ignored(name, &format!("`{text}` is not a time"), &remedy);
        None
    }

    /// Returns the headers of exports, if each can be sent.
    pub(super) fn headers(&mut self, variable: &str) -> Map<String, Value> {
        let pairs = self.pairs(variable);
        let is_sendable = |(name, value): (&String, &Value)| {
            let is_text = value.as_str().is_some_and(|text| value_fault(text).is_none());
            is_text && name.chars().all(is_token_char) && !is_reserved_header(&name.to_ascii_lowercase())
        };
        let names: HashSet<String> = pairs.keys().map(|name| name.to_ascii_lowercase()).collect();
        let fault = if pairs.len() > MAX_HEADERS {
            "it has more than 64 headers"
        } else if names.len() < pairs.len() {
            "one of its headers is given twice, with different capitals"
        } else if pairs.iter().all(is_sendable) {
            return pairs;
        } else {
            "one of its headers cannot be sent"
        };
        self.ignored(variable, fault, "correct it");
        Map::new()
    }

    /// Returns the attributes of the resource, whose keys are percent-encoded too. As the specification asks,
    /// one that cannot be decoded discards them all.
    pub(super) fn attributes(&mut self, variable: &str) -> Map<String, Value> {
        let is_encoded = self.get(variable).is_none_or(|text| has_whole_escapes(&text));
        let mut attributes = Map::new();
        for (key, value) in self.pairs(variable) {
            match percent_decode_str(&key).decode_utf8() {
                Ok(key) if is_encoded => attributes.insert(key.into_owned(), value),
                _ => {
                    self.ignored(variable, "one of its escapes is wrong", "write `%25` for a percent sign");
                    return Map::new();
                }
            };
        }
        attributes
    }

    /// Reads `key=value` pairs with percent-encoded values, separated by commas.
    pub(super) fn pairs(&mut self, name: &str) -> Map<String, Value> {
        let Some(text) = self.get(name) else { return Map::new() };
        let mut pairs = Map::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let read = pair.split_once('=').and_then(|(key, value)| {
                let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
                Some((key.trim().to_owned(), Value::String(value.into_owned())))
            });
            let Some((key, value)) = read.filter(|(key, _)| !key.is_empty()) else {
                // The pair may hold a key: it is not shown.
                self.ignored(name, "one of its pairs lacks the form `key=value`", "separate pairs by commas");
                return Map::new();
            };
            pairs.insert(key, value);
        }
        pairs
    }
}

/// True if two hexadecimal digits follow each percent sign.
fn has_whole_escapes(text: &str) -> bool {
    let escapes = text.split('%').skip(1);
    escapes
        .map(str::as_bytes)
        .all(|escape| escape.get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)))
}

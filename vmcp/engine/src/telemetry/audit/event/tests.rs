//! Compares events with the text that serde writes.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, UNIX_EPOCH};

use fastrand::Rng;
use serde::{Serialize, Serializer};
use serde_json::{Map, json};
use vmcp_config::sanitize::{escape_unseen, is_unseen};

use super::super::field::clip;
use super::*;
use crate::access::identity::Identity;
use crate::telemetry::calls::Origin;

/// Events that are compared.
const ROUNDS: usize = 2_000;
/// Their type.
const KIND: &str = "mcp_tool_call";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    metadata: Metadata<'a>,
    #[serde(rename = "type")]
    kind: &'static str,
    logged_at: String,
    source: Source,
    outcome: &'static str,
    subjects: Members<'a>,
    component: &'a str,
    target: Members<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Data<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    audit_id: Uuid,
    extra: Extra<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Extra<'a> {
    decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Cow<'a, str>>,
    policy_version: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    webhooks: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_sha256: Option<String>,
    result: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_in: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_out: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
}

#[derive(Serialize)]
struct Source {
    #[serde(rename = "type")]
    kind: &'static str,
    value: String,
}

#[derive(Serialize)]
struct Data<'a> {
    request: Arguments<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Arguments<'a> {
    Whole(Value),
    Cut(&'a str),
}

/// Members of an object; those without a value are left out.
struct Members<'a>(Vec<(&'static str, Option<&'a str>)>);

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members = self.0.iter().filter_map(|(key, value)| Some((key, clip((*value)?))));
        serializer.collect_map(members)
    }
}

/// Returns the event as serde writes it.
fn by_serde(facts: &EventFacts<'_>, component: &str, id: Uuid, logged_at: SystemTime) -> String {
    let identity = &facts.principal.identity;
    let claims = identity.as_known().map(KnownIdentity::claims);
    let claim = |name: &str| claims.and_then(|claims| claims.get(name)).and_then(Value::as_str);
    let figures = facts.figures;
    let event = Event {
        metadata: Metadata {
            audit_id: id,
            extra: Extra {
                decision: facts.decision,
                policy: facts.policy.map(clip),
                policy_version: facts.policy_version,
                webhooks: facts
                    .webhooks
                    .iter()
                    .map(|one| format!("{}: {}", one.webhook, one.effect))
                    .collect(),
                arguments_sha256: facts.arguments_digest.map(hex::encode),
                result: clip(facts.result),
                session: facts.session.map(hex::encode),
                run: facts.run.map(clip),
                trace_id: facts.trace.map(hex::encode),
                latency_ms: figures.map(|figures| figures.nanoseconds as f64 / 1e6),
                requests: figures.map(|figures| figures.requests),
                bytes_in: figures.map(|figures| figures.bytes_in),
                bytes_out: figures.map(|figures| figures.bytes_out),
                left_out: Some(facts.left_out).filter(|count| *count > 0),
            },
        },
        kind: KIND,
        logged_at: humantime::format_rfc3339_micros(logged_at).to_string(),
        source: match facts.principal.address {
            Some(address) => Source { kind: "network", value: address.to_canonical().to_string() },
            None => Source { kind: "local", value: "stdio".to_owned() },
        },
        outcome: facts.outcome,
        subjects: Members(vec![
            ("user", Some(facts.actor.unwrap_or(identity.subject()))),
            ("issuer", identity.as_known().map(KnownIdentity::issuer)),
            ("name", claim("preferred_username").or(claim("email"))),
            ("client", claim("client_id").or(claim("azp"))),
            ("operator", facts.principal.operator.as_deref()),
        ]),
        component,
        target: Members(vec![
            ("method", Some(facts.method).filter(|method| !method.is_empty())),
            ("name", facts.name),
            ("via", facts.via),
            ("backend", facts.backend),
        ]),
        data: facts.arguments.map(|arguments| Data {
            request: match serde_json::from_str(&arguments.text) {
                Ok(whole) if !arguments.truncated => Arguments::Whole(whole),
                _ => Arguments::Cut(&arguments.text),
            },
            truncated: arguments.truncated,
        }),
    };
    escape_unseen(serde_json::to_string(&event).unwrap())
}

/// Returns a text that is plain, or has characters of each kind that JSON or a terminal treats apart.
fn text(random: &mut Rng) -> String {
    let length = match random.u8(..) {
        0..8 => 900..1300,
        8..32 => 0..1,
        _ => 1..40,
    };
    let plain = "abcXYZ09.-_:/~\u{7f} ";
    let odd = "\"\\/\n\r\t\u{8}\u{c}\u{0}\u{1f}ä日😀\u{202e}\u{2028}\u{85}\u{9b}\u{200b}\u{feff}\u{e0041}az";
    let characters: Vec<char> = if random.bool() { plain } else { odd }.chars().collect();
    (0..random.usize(length)).map(|_| *random.choice(&characters).unwrap()).collect()
}

fn sometimes<T>(random: &mut Rng, make: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    random.bool().then(|| make(random))
}

fn bytes<const BYTES: usize>(random: &mut Rng) -> [u8; BYTES] {
    std::array::from_fn(|_| random.u8(..))
}

fn principal(random: &mut Rng) -> Principal {
    let identity = sometimes(random, |random| {
        let mut claims = Map::new();
        for name in ["preferred_username", "email", "client_id", "azp"] {
            if let Some(value) = sometimes(random, text) {
                claims
                    .insert(name.to_owned(), if random.u8(..) < 16 { json!([value]) } else { value.into() });
            }
        }
        Identity::known(&text(random), &text(random), claims, None)
    });
    let address = sometimes(random, |random| match random.u8(..3) {
        0 => IpAddr::V4(Ipv4Addr::from_bits(random.u32(..))),
        1 => IpAddr::V6(Ipv6Addr::from_bits(random.u128(..) & random.u128(..) & random.u128(..))),
        _ => IpAddr::V6(Ipv4Addr::from_bits(random.u32(..)).to_ipv6_mapped()),
    });
    let operator = sometimes(random, text).map(Into::into);
    Principal { identity: identity.unwrap_or_default(), address, profile: None, operator }
}

#[test]
fn events_are_byte_for_byte_the_text_that_serde_writes() {
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    let (mut packed, mut written) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let random = &mut random;
        let principal = principal(random);
        let (digest, session, trace) =
            (sometimes(random, bytes), sometimes(random, bytes), sometimes(random, bytes));
        let effects = ["changed_arguments", "denied"];
        let webhooks: Vec<_> = (0..random.usize(..3))
            .map(|at| WebhookEffect { webhook: text(random).into(), effect: effects[at % 2] })
            .collect();
        let arguments = sometimes(random, |random| {
            let inner = text(random);
            let whole = json!({"a": inner, "b": [1.5, -2, null], (inner.as_str()): {}}).to_string();
            RecordedArguments::new(&whole, random.usize(..2 * whole.len()))
        });
        let [component, policy, version, result, run, actor, method, name, backend] =
            std::array::from_fn(|_| sometimes(random, text));
        let figures = sometimes(random, |random| CallFigures {
            // A microsecond at least: serde writes a tiny number with an exponent.
            nanoseconds: (random.u64(..) >> random.u32(20..64)).max(1_000),
            requests: random.u32(..),
            bytes_in: random.u64(..) >> random.u32(..64),
            bytes_out: random.u64(..) >> random.u32(..64),
        });
        let id = Uuid::from_bytes(bytes(random));
        // Up to the year 6325, often several times within one second.
        let second = random.u64(..) >> random.u32(27..64);
        let time = UNIX_EPOCH + Duration::new(second, random.u32(..1_000_000_000));
        let facts = EventFacts {
            logged_at: Some(time),
            decision: "allowed",
            outcome: "success",
            policy: policy.as_deref(),
            policy_version: version.as_deref().unwrap_or_default(),
            webhooks: &webhooks,
            arguments_digest: digest.as_ref(),
            result: result.as_deref().unwrap_or("ok"),
            session: session.as_ref(),
            run: run.as_deref(),
            trace: trace.as_ref(),
            figures,
            left_out: random.u64(..3),
            principal: &principal,
            actor: actor.as_deref(),
            method: method.as_deref().unwrap_or_default(),
            name: name.as_deref(),
            via: random.bool().then_some("optim.call_tool"),
            backend: backend.as_deref(),
            arguments: arguments.as_ref(),
        };
        packed.clear();
        written.clear();
        facts.pack(&mut packed);
        let component = component.as_deref().unwrap_or("vmcp");
        write_json_as(id, KIND, component, &packed, &mut written);
        let written = str::from_utf8(&written).unwrap();
        assert_eq!(written, by_serde(&facts, component, id, time), "seed {seed}");
        assert!(!written.chars().any(is_unseen), "seed {seed}: {written}");
    }
}

#[test]
fn the_facts_of_a_call_take_less_than_half_of_its_event() {
    let mut record = CallRecord::begin(Principal::at("10.0.0.1"), Some([7; 16]), Origin::Client);
    record.backend = Some("files".into());
    record.policy = Some(PolicyId::new("policy0"));
    record.arguments_digest = Some([9; 32]);
    (record.requests, record.bytes_in, record.bytes_out) = (1, 120, 1500);
    record.took = Duration::from_micros(1_500);
    let (mut packed, mut json) = (Vec::new(), Vec::new());
    of_call("sha256:0123456789abcdef", &record, 0, &mut packed);
    write_json(KIND, "vmcp", &packed, &mut json);
    let event: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(event["metadata"]["extra"]["latencyMs"], json!(1.5));
    assert!(2 * packed.len() < json.len(), "{} and {}", packed.len(), json.len());
}

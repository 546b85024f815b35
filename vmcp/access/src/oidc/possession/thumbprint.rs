//! Thumbprints of keys (RFC 7638).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// Members of private keys (RFC 7518, 6) and of shared secrets.
const PRIVATE: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// Returns the SHA-256 thumbprint of a public key; `None` for a key with private parts, a symmetric one, or
/// one of another type than RSA, EC and OKP.
pub(super) fn of_public_key(jwk: &Map<String, Value>) -> Option<[u8; 32]> {
    if PRIVATE.iter().any(|name| jwk.contains_key(*name)) {
        return None;
    }
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    // Base64url needs no escapes in JSON, and has one spelling for each value.
    let number = |name: &str| text(name).filter(|text| URL_SAFE_NO_PAD.decode(text).is_ok());
    let curve = |known: &[&'static str]| known.iter().find(|known| text("crv") == Some(**known)).copied();
    let members = match text("kty")? {
        "EC" => format!(
            r#"{{"crv":"{}","kty":"EC","x":"{}","y":"{}"}}"#,
            curve(&["P-256", "P-384"])?,
            number("x")?,
            number("y")?
        ),
        "OKP" => format!(r#"{{"crv":"{}","kty":"OKP","x":"{}"}}"#, curve(&["Ed25519"])?, number("x")?),
        "RSA" => format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, number("e")?, number("n")?),
        _ => return None,
    };
    Some(Sha256::digest(members).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn thumbprint(jwk: &Value) -> Option<String> {
        of_public_key(jwk.as_object().unwrap()).map(|digest| URL_SAFE_NO_PAD.encode(digest))
    }

    /// The key and the thumbprint of RFC 7638, 3.1, and those of RFC 8037, A.3.
    #[test]
    fn thumbprints_are_those_of_the_standards() {
        let rsa = json!({
            "kty": "RSA", "alg": "RS256", "kid": "2011-04-29", "e": "AQAB",
            "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECP\
                  ebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY\
                  368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0f\
                  M4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
        });
        assert_eq!(thumbprint(&rsa).unwrap(), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
        let ed = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
        assert_eq!(thumbprint(&ed).unwrap(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }

    #[test]
    fn private_and_symmetric_keys_have_none() {
        let good = json!({"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"});
        assert!(thumbprint(&good).is_some());
        for (member, value) in [
            ("d", json!("AAAA")),
            ("k", json!("")),
            ("kty", json!("oct")),
            ("x", json!("\"}")),
            ("y", json!(7)),
        ] {
            let mut jwk = good.clone();
            jwk[member] = value;
            assert_eq!(thumbprint(&jwk), None, "{jwk}");
        }
    }
}

//! Keys, certificates and tokens of a control plane.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;

/// Files with the credentials in one folder, made again for each control plane.
pub(crate) struct Credentials {
    folder: PathBuf,
}

impl Credentials {
    /// Writes a certificate authority, a serving certificate for `names`, a key that signs the tokens of
    /// service accounts, and the tokens of an administrator and of the node.
    pub(crate) fn create(folder: &Path, names: &[&str]) -> Self {
        let credentials = Self { folder: folder.to_owned() };
        let authority_key = KeyPair::generate().expect("a key");
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = authority.self_signed(&authority_key).expect("a certificate");
        credentials.write("ca.crt", &certificate.pem());

        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let serving = CertificateParams::new(names).expect("names");
        let serving_key = KeyPair::generate().expect("a key");
        let issuer = Issuer::new(authority, authority_key);
        let certificate = serving.signed_by(&serving_key, &issuer).expect("a certificate");
        credentials.write("serving.crt", &certificate.pem());
        credentials.write("serving.key", &serving_key.serialize_pem());

        let accounts = KeyPair::generate().expect("a key");
        credentials.write("accounts.key", &accounts.serialize_pem());
        credentials.write("accounts.pub", &accounts.public_key_pem());
        credentials.write(
            "tokens.csv",
            "admin,admin,admin,system:masters\nnode,system:node:node1,node,system:nodes\n",
        );
        credentials
    }

    /// Returns the path of a file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes `<user>.kubeconfig` for a user of the token file, and returns its path.
    pub(crate) fn kubeconfig(&self, user: &str, server: &str) -> PathBuf {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": self.path("ca.crt")}}],
            "users": [{"name": user, "user": {"token": user}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        });
        let name = format!("{user}.kubeconfig");
        // JSON is YAML.
        self.write(&name, &config.to_string());
        self.path(&name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("writing a file of the control plane");
    }
}

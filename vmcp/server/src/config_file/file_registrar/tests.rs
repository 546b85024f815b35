use std::fs;

use vmcp_config::{Config, Transport};
use vmcp_engine::server_registrar::{RegisteredServer, SecretReference};
use vmcp_registry::entry::ServerEntry;
use vmcp_registry::plan::Draft;

use super::*;

const BEFORE: &str = "# mine\nbackends:\n# the first\n- name: one\n  url: https://one.example/mcp\n";

struct Folder {
    dir: tempfile::TempDir,
    registrar: FileRegistrar,
}

impl Folder {
    fn new(text: &str) -> Folder {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("vmcp.yaml"), text).unwrap();
        let registrar = FileRegistrar::new(dir.path().join("vmcp.yaml"), Folder::lookup());
        Folder { dir, registrar }
    }

    fn lookup() -> ReferenceLookup {
        let environment =
            |name: &str| (name == "VMCP_ADDED_A_TOKEN").then(|| "of the administrator".to_owned());
        ReferenceLookup::new(environment)
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.dir.path().join(name)).ok()
    }

    fn config(&self) -> Config {
        let (_, loaded) = ConfigInputs::read(&self.dir.path().join("vmcp.yaml"), &Folder::lookup()).unwrap();
        loaded.unwrap().config
    }

    async fn add(&self, name: &str, place: ServerPlace) -> Result<(), RegistrarError> {
        let server = NewServer::new(name, place);
        self.registrar.change(ServerChange::Add(server)).await.map(drop)
    }

    /// Installs a server of a registry that has a secret `TOKEN`.
    async fn install(&self, name: &str) -> Result<MadeChange, RegistrarError> {
        let entry = ServerEntry::read(&serde_json::json!({
            "name": "com.example/a", "version": "1.0.0", "packages": [{
                "registryType": "npm", "identifier": "a", "version": "1.0.0", "transport": {"type": "stdio"},
                "environmentVariables": [{"name": "TOKEN", "isRequired": true, "isSecret": true}],
            }],
        }));
        let answers = BTreeMap::from([("TOKEN".to_owned(), "placeholder".to_owned())]);
        let draft = Draft::new(&entry.unwrap(), None, &answers).unwrap();
        let registered = RegisteredServer { draft, origin: "com.example/a 1.0.0\n- evil: x".to_owned() };
        let server = NewServer {
            registered: Some(Box::new(registered)),
            ..NewServer::new(name, program(&["npx"], &[]))
        };
        self.registrar.change(ServerChange::Add(server)).await
    }
}

#[tokio::test]
async fn an_installed_server_refers_to_a_variable_of_its_own_and_waits_for_it() {
    let folder = Folder::new(BEFORE);
    let made = folder.install("a").await.unwrap();
    // The first choice is the administrator's.
    assert_eq!(made.needed, BTreeMap::from([("TOKEN".to_owned(), "VMCP_ADDED_A_TOKEN_2".to_owned())]));
    assert_eq!(made.needed_in, "`.env` beside the configuration file");
    let text = folder.text("vmcp.yaml").unwrap();
    assert!(text.contains("# com.example/a 1.0.0 - evil: x (optim.install_server)\n"), "{text}");
    assert!(text.contains("TOKEN: ${VMCP_ADDED_A_TOKEN_2}") && !text.contains("placeholder"), "{text}");
    assert_eq!(folder.text(".env"), None);
    let (name, reason) = folder.config().unavailable.into_iter().next().unwrap();
    assert!(&*name == "a" && reason.contains("VMCP_ADDED_A_TOKEN_2"), "{reason}");
    let other = folder.install("a-token").await.unwrap();
    assert_eq!(other.needed["TOKEN"], "VMCP_ADDED_A_TOKEN_TOKEN");
    fs::write(folder.dir.path().join(".env"), "VMCP_ADDED_A_TOKEN_2=mine\n").unwrap();
    assert!(folder.config().backends.iter().any(|backend| &*backend.name == "a" && backend.enabled));
}

fn values(of: &[(&str, &str)]) -> BTreeMap<String, Secret> {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect()
}

fn program(words: &[&str], env: &[(&str, &str)]) -> ServerPlace {
    ServerPlace::Program { words: words.iter().map(ToString::to_string).collect(), env: values(env) }
}

fn remote(url: &str, headers: &[(&str, &str)]) -> ServerPlace {
    ServerPlace::Remote { url: url.parse().unwrap(), headers: values(headers) }
}

#[tokio::test]
async fn the_addresses_of_an_added_server_stay_with_its_entry() {
    use vmcp_config::addresses::ReachableAddresses::{Any, Local, Public};
    let folder = Folder::new(BEFORE);
    for (name, addresses) in [("a", Any), ("b", Local), ("c", Public)] {
        let server = NewServer {
            addresses,
            ..NewServer::new(name, remote("https://a.example/mcp", &[("x-key", "hunter2")]))
        };
        folder.registrar.change(ServerChange::Add(server)).await.unwrap();
        let off = ServerChange::SetEnabled { name: name.to_owned(), enabled: false };
        folder.registrar.change(off).await.unwrap();
        let config = folder.config();
        let added = config.backends.iter().find(|backend| &*backend.name == name).unwrap();
        assert_eq!((added.addresses, added.enabled), (addresses, false), "{name}");
    }
    // An entry of a registry, whose lines another writer makes.
    let entry = ServerEntry::read(&serde_json::json!({
        "name": "com.example/r", "version": "1.0.0", "remotes": [{
            "type": "streamable-http", "url": "https://r.example/mcp",
            "headers": [{"name": "X-Zone", "value": "eu"}],
        }],
    }));
    let draft = Draft::new(&entry.unwrap(), None, &BTreeMap::new()).unwrap();
    let server = NewServer {
        addresses: Public,
        registered: Some(Box::new(RegisteredServer { draft, origin: "com.example/r 1.0.0".to_owned() })),
        ..NewServer::new("r", remote("https://r.example/mcp", &[("X-Zone", "eu")]))
    };
    folder.registrar.change(ServerChange::Add(server)).await.unwrap();
    let config = folder.config();
    let installed = config.backends.iter().find(|backend| &*backend.name == "r").unwrap();
    assert_eq!(installed.addresses, Public);
    assert!(installed.transport.headers().unwrap().contains_key("x-zone"), "{installed:?}");
}

#[tokio::test]
async fn a_read_only_file_stays_as_it_is() {
    let folder = Folder::new(BEFORE);
    let path = folder.dir.path().join("vmcp.yaml");
    let mut permissions = path.metadata().unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).unwrap();
    let refused = folder.add("a", remote("https://a.example/mcp", &[("x-key", "hunter2")])).await;
    assert!(refused.unwrap_err().to_string().contains("the file is read-only"));
    assert_eq!(folder.text("vmcp.yaml").as_deref(), Some(BEFORE));
    assert_eq!(folder.text(".env"), None, "the secret goes with the entry");
}

#[tokio::test]
async fn a_secret_that_a_client_names_is_referred_to() {
    let folder = Folder::new(BEFORE);
    let with_key = |key: Option<&str>| {
        let reference = SecretReference { name: "weather".to_owned(), key: key.map(str::to_owned) };
        NewServer {
            addresses: vmcp_config::addresses::ReachableAddresses::Public,
            secret_refs: BTreeMap::from([("x-key".to_owned(), reference)]),
            ..NewServer::new("a", remote("https://a.example/mcp", &[("x-key", "")]))
        }
    };
    let refused = folder.registrar.check(&with_key(Some("k"))).unwrap_err().to_string();
    assert!(refused.contains("leave `key` out"), "{refused}");
    folder.registrar.check(&with_key(None)).unwrap();
    folder.registrar.change(ServerChange::Add(with_key(None))).await.unwrap();
    let text = folder.text("vmcp.yaml").unwrap();
    assert!(text.contains("\"x-key\": \"${secret:weather}\"\n"), "{text}");
    assert_eq!(folder.text(".env"), None);
}

#[tokio::test]
async fn comments_stay_and_values_come_back_as_they_were_given() {
    let folder = Folder::new(BEFORE);
    let words = ["run", "it's $$5: #1", "- x", "é\"\\", "[a]", "${no", "null"];
    let env = [("TOKEN", "p$w#\"\n${HOME}"), ("EMPTY", ""), ("PORT", "8080")];
    folder.add("a", program(&words, &env)).await.unwrap();
    let text = folder.text("vmcp.yaml").unwrap();
    assert!(text.starts_with(BEFORE), "{text}");
    assert!(!text.contains("p$w") && !text.contains("8080"), "{text}");
    let config = folder.config();
    let Transport::Stdio { command, args, env: read, .. } = &config.backends[1].transport else { panic!() };
    assert_eq!(command, words[0]);
    assert_eq!(args[..], words[1..]);
    assert_eq!(read.iter().map(|(n, v)| (n.as_str(), v.expose())).collect::<Vec<_>>(), {
        let mut env = env.to_vec();
        env.sort_unstable();
        env
    });
}

#[tokio::test]
async fn a_client_does_not_get_the_value_of_a_variable_that_exists() {
    let folder = Folder::new(BEFORE);
    folder.add("a", remote("https://evil.example/", &[("token", "x")])).await.unwrap();
    let config = folder.config();
    let headers = config.backends[1].transport.headers().unwrap();
    assert_eq!(headers.values().next().unwrap().expose(), "x");
}

#[tokio::test]
async fn a_removed_server_leaves_neither_entry_nor_secret() {
    let folder = Folder::new(BEFORE);
    fs::write(folder.dir.path().join(".env"), "MINE=1\n").unwrap();
    folder.add("b", remote("https://b.example/", &[("Authorization", "Bearer hunter2")])).await.unwrap();
    assert!(folder.text(".env").unwrap().contains("hunter2"));
    folder.registrar.change(ServerChange::Remove { name: "b".to_owned() }).await.unwrap();
    assert_eq!(folder.text("vmcp.yaml").unwrap(), BEFORE);
    assert_eq!(folder.text(".env").unwrap(), "MINE=1\n");
    let unknown = folder.registrar.change(ServerChange::Remove { name: "b".to_owned() }).await;
    assert_eq!(unknown, Err(RegistrarError::Unknown("b".to_owned())));
}

#[tokio::test]
async fn a_server_with_rules_of_a_person_is_removed_by_the_person_alone() {
    let rules = "aggregation:\n  tools:\n  - workload: one\n    exclude: [drop]\n";
    let text = format!("{BEFORE}- name: two\n  url: https://two.example/mcp\n{rules}");
    let folder = Folder::new(&text);
    let refused = folder.registrar.change(ServerChange::Remove { name: "one".to_owned() }).await;
    assert!(matches!(refused, Err(RegistrarError::Invalid(_))), "{refused:?}");
    assert_eq!(folder.text("vmcp.yaml").unwrap(), text);
    folder.registrar.change(ServerChange::Remove { name: "two".to_owned() }).await.unwrap();
}

#[tokio::test]
async fn a_switch_changes_one_line() {
    let folder = Folder::new(BEFORE);
    let set = |enabled| ServerChange::SetEnabled { name: "one".to_owned(), enabled };
    folder.registrar.change(set(false)).await.unwrap();
    assert!(!folder.config().backends[0].enabled);
    folder.registrar.change(set(true)).await.unwrap();
    assert_eq!(folder.text("vmcp.yaml").unwrap(), BEFORE);
}

#[tokio::test]
async fn of_two_additions_at_once_one_is_made() {
    let folder = Folder::new(BEFORE);
    let add = || folder.add("two", remote("https://two.example/", &[("X", "y")]));
    let (first, second) = futures::join!(add(), add());
    let taken = Err(RegistrarError::Taken("two".to_owned()));
    assert!(
        (first == Ok(()) && second == taken) || (first == taken && second == Ok(())),
        "{first:?} {second:?}"
    );
    assert_eq!(folder.config().backends.len(), 2);
}

#[tokio::test]
async fn a_change_that_is_refused_writes_nothing() {
    for (before, place, expected) in [
        (
            "backends: [{ name: one, url: 'https://one.example/' }]\n",
            remote("https://a/", &[("X", "y")]),
            "not a list",
        ),
        ("foo: bar\nbackends: []\n", remote("https://a/", &[("X", "y")]), "has mistakes already"),
        (BEFORE, remote("ftp://a/", &[("X", "y")]), "scheme"),
    ] {
        let folder = Folder::new(before);
        let error = folder.add("a", place).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(folder.text("vmcp.yaml").as_deref(), Some(before));
        assert_eq!(folder.text(".env"), None);
    }
}

#[tokio::test]
async fn secrets_of_an_entry_that_cannot_be_written_are_taken_back() {
    let folder = Folder::new(BEFORE);
    fs::write(folder.dir.path().join(".env"), "MINE=1\n").unwrap();
    // The file is replaced by way of this name.
    fs::create_dir(folder.dir.path().join(format!("vmcp.{}.new", std::process::id()))).unwrap();
    let error = folder.add("a", remote("https://a/", &[("X", "hunter2")])).await.unwrap_err();
    assert!(error.to_string().contains("vmcp.yaml cannot be changed"), "{error}");
    assert_eq!(folder.text("vmcp.yaml").as_deref(), Some(BEFORE));
    assert_eq!(folder.text(".env").as_deref(), Some("MINE=1\n"));
}

//! `vmcp eval --log`: the report on a log of searches, and their replay under other settings. A server
//! leaves the log and the saved definitions behind.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use vmcp_model::discovered::{Discovered, Listing};
use vmcp_store::{SearchBatch, SearchCall, StateStore, Store, StoredSearch};

/// A folder with a configuration, saved definitions and an empty log.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        let yaml = folder.yaml("");
        std::fs::write(folder.file("vmcp.yaml"), &yaml).unwrap();
        let config = vmcp_config::load(&yaml, "vmcp.yaml", &|_| None).unwrap().config;
        let tool = |name: &str, description: &str| {
            let tool = json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
            serde_json::value::to_raw_value(&tool).unwrap()
        };
        let tools = vec![
            tool("create_issue", "Creates an issue."),
            tool("list_users", "Lists people."),
            tool("buy_ticket", "Buys a ticket for a train."),
        ];
        let json = Discovered::read(Listing { tools, ..Listing::default() }).to_json();
        let store = Store::open(folder.path()).unwrap();
        let fingerprint = config.backends.first().unwrap().fingerprint();
        store.save_definitions("jira", &fingerprint, &json, 1).unwrap();
        StateStore::open(folder.path()).unwrap();
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn yaml(&self, more: &str) -> String {
        format!(
            "backends: [{{ name: jira, url: 'http://127.0.0.1:9/mcp' }}]\n\
             optimizer: {{ storage: {{ dir: '{}' }}, embeddings: {{ provider: none }} }}\n{more}",
            self.path().display()
        )
    }

    /// Logs a search that found the ticket of a train, and after which an issue was created.
    fn log(&self, id: i64, query: &str) {
        let found = r#"[["jira","buy_ticket"]]"#.to_owned();
        let (query, keywords) = (query.to_owned(), String::new());
        let search = StoredSearch { id, at: id, owner: None, query, keywords, found };
        let (backend, tool) = ("jira".to_owned(), "create_issue".to_owned());
        let call = SearchCall { search: id, backend, tool, rank: None };
        let batch = SearchBatch { searches: vec![search], calls: vec![call], ..SearchBatch::default() };
        StateStore::open(self.path()).unwrap().log_searches(&batch).unwrap();
    }

    fn eval(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vmcp"));
        command.arg("eval").arg("--config").arg(self.file("vmcp.yaml")).arg("--log").args(arguments);
        command.output().unwrap()
    }

    fn report(&self, arguments: &[&str]) -> Value {
        let output = self.eval(&[arguments, &["-o", "json"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn failure(&self, arguments: &[&str]) -> String {
        let output = self.eval(arguments);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn a_log_names_the_words_that_a_description_lacks_and_shows_what_they_would_change() {
    let folder = Folder::new();
    assert!(folder.failure(&[]).contains("optimizer.queryLog.enabled"), "an empty log says how to fill it");
    folder.log(1, "open a ticket");
    folder.log(2, "a ticket for the team");
    let report = folder.report(&[]);
    assert_eq!((&report["searches"], &report["with_other_tool"]), (&json!(2), &json!(2)), "{report:#}");
    assert_eq!(report["wanted"][0]["called_instead"][0]["tool"], "create_issue");
    let suggestion = &report["suggestions"][0];
    assert_eq!((&suggestion["advice"], &suggestion["tool"]), (&json!("describe"), &json!("create_issue")));
    assert_eq!(suggestion["words"], json!([{"word": "ticket", "searches": 2}]));

    let description = "Opens a ticket or creates an issue for the team.";
    let overrides = format!(
        "aggregation: {{ tools: [{{ workload: jira, exclude: [buy_ticket], \
         overrides: {{ create_issue: {{ description: '{description}' }} }} }}] }}\n"
    );
    let other = folder.file("other.yaml");
    std::fs::write(&other, folder.yaml(&overrides)).unwrap();
    let compared = folder.report(&["--compare", other.to_str().unwrap()]);
    let [today, changed] = &compared["recipes"].as_array().unwrap()[..] else { panic!("{compared:#}") };
    assert_eq!((&today["recall_at_8"], &changed["recall_at_1"]), (&json!(0.0), &json!(1.0)), "{compared:#}");
    assert_eq!((&compared["with_needs"], &changed["changed"]), (&json!(2), &json!(2)));
    assert_eq!(changed["moved"][0]["after"], 1);

    assert!(folder.eval(&["--delete"]).status.success());
    assert!(folder.failure(&[]).contains("no searches are logged"));
}

#[test]
fn options_that_do_not_go_with_a_log_are_named() {
    let folder = Folder::new();
    folder.log(1, "open a ticket");
    assert!(folder.failure(&["--learned"]).contains("name the file of --log"));
    assert!(folder.failure(&["--since", "1h"]).contains("no searches are logged"), "the search is older");
    assert!(folder.failure(&["some.jsonl", "--delete"]).contains("do not go with the file of --log"));
}

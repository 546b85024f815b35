//! Peer of find_tool: the search of the best known gateway in Go, rebuilt over the same tools.
//!
//! SQLite in memory with a shared cache holds names, descriptions and vectors as blobs of `f32`, and an FTS5
//! index with the Porter stemmer. A search runs two arms at once on two connections: FTS5 ranks by `bm25` the
//! tools that match any word; and every vector that the caller may see is read, decoded and compared. Four
//! results of each arm are merged without a common score, and the definitions are sent twice, as text and as
//! structured content. The tools of the caller are an allow list of names, passed as JSON.
//!
//! Three things favor the peer here: SQLite is compiled instead of translated to Go, it runs without a
//! garbage collector, and the full-text index holds each tool once, where the original adds all of them again
//! with every session.

use std::collections::{HashMap, HashSet};

use anyhow::{Context as _, Result, anyhow};
use rusqlite::{Connection, OpenFlags, params};
use serde_json::{Value, json};

use crate::synthetic_tools::{SyntheticTool, unit_vector};

/// Results of each arm: half of the default limit of eight.
const PER_ARM: usize = 4;
/// Maximum cosine distance of a result; the default keeps all vectors that do not point away.
const THRESHOLD: f32 = 1.0;
/// Words of a query that are dropped.
const DROPPED: [&str; 23] = [
    "name",
    "description",
    "schema",
    "input",
    "output",
    "type",
    "properties",
    "required",
    "title",
    "id",
    "tool",
    "server",
    "meta",
    "data",
    "content",
    "text",
    "value",
    "field",
    "column",
    "table",
    "index",
    "key",
    "primary",
];
const SCHEMA: &str = "
    CREATE TABLE capabilities (name TEXT PRIMARY KEY, description TEXT, embedding BLOB, content_hash TEXT);
    CREATE VIRTUAL TABLE capabilities_fts USING fts5(
        name, description, content=capabilities, content_rowid=rowid, tokenize='porter');
    CREATE TRIGGER capabilities_ai AFTER INSERT ON capabilities BEGIN
        INSERT INTO capabilities_fts (rowid, name, description) VALUES (new.rowid, new.name, new.description);
    END;";
const BY_WORDS: &str = "
    SELECT capabilities.name FROM capabilities_fts JOIN capabilities ON capabilities.rowid = capabilities_fts.rowid
    WHERE capabilities_fts MATCH ?1 AND capabilities.name IN (SELECT value FROM json_each(?2))
    ORDER BY bm25(capabilities_fts) LIMIT ?3";
const VECTORS: &str = "
    SELECT name, embedding FROM capabilities
    WHERE embedding IS NOT NULL AND name IN (SELECT value FROM json_each(?1))";

/// The tools in SQLite.
pub(crate) struct SqlitePeer {
    words: Connection,
    vectors: Connection,
    allowed: Vec<String>,
    tools: HashMap<String, (Value, usize)>,
    baseline_tokens: usize,
}

impl SqlitePeer {
    /// Stores tools with their vectors.
    pub(crate) fn new(definitions: &[SyntheticTool]) -> Result<SqlitePeer> {
        let uri = format!("file:bench-{}?mode=memory&cache=shared", definitions.len());
        let flags =
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
        let mut words = Connection::open_with_flags(&uri, flags)?;
        words.execute_batch(SCHEMA)?;
        let mut tools = HashMap::new();
        let transaction = words.transaction()?;
        for definition in definitions {
            let name = format!("{}_{}", definition.server, definition.name);
            let text = format!("name: {name} description: {}", definition.description);
            let embedding: Vec<u8> = unit_vector(&text).into_iter().flat_map(f32::to_le_bytes).collect();
            transaction.execute(
                "INSERT INTO capabilities (name, description, embedding, content_hash) VALUES (?1, ?2, ?3, '')",
                params![name, definition.description, embedding],
            )?;
            let mut tool: Value = serde_json::from_str(definition.raw.get())?;
            tool.as_object_mut()
                .context("a definition is an object")?
                .insert("name".into(), name.clone().into());
            let tokens = tool.to_string().len() / 4;
            tools.insert(name, (tool, tokens));
        }
        transaction.commit()?;
        let vectors = Connection::open_with_flags(&uri, flags)?;
        let baseline_tokens = tools.values().map(|(_, tokens)| tokens).sum();
        Ok(SqlitePeer { words, vectors, allowed: tools.keys().cloned().collect(), tools, baseline_tokens })
    }

    /// Runs find_tool; returns the whole answer as it is sent.
    pub(crate) fn find_tool(&mut self, description: &str, keywords: &str) -> Result<String> {
        let names = self.search(description, keywords)?;
        let found: Vec<_> = names.iter().filter_map(|name| self.tools.get(name)).collect();
        let returned: usize = found.iter().map(|(_, tokens)| tokens).sum();
        let saved = (self.baseline_tokens as f64 - returned as f64) / self.baseline_tokens as f64 * 100.0;
        let answer = json!({
            "tools": found.iter().map(|(tool, _)| tool).collect::<Vec<_>>(),
            "token_metrics": {
                "baseline_tokens": self.baseline_tokens, "returned_tokens": returned, "savings_percent": saved,
            },
        });
        let text = answer.to_string();
        Ok(json!({"content": [{"type": "text", "text": text}], "structuredContent": answer}).to_string())
    }

    /// Returns the names that the arms find: hits by meaning first, then further hits by words.
    pub(crate) fn search(&mut self, description: &str, keywords: &str) -> Result<Vec<String>> {
        let allowed = serde_json::to_string(&self.allowed)?;
        let (words, vectors) = (&mut self.words, &mut self.vectors);
        let (by_meaning, by_words) = std::thread::scope(|scope| {
            let meaning = scope.spawn(|| by_meaning(vectors, &unit_vector(description), &allowed));
            let words = by_words(words, if keywords.is_empty() { description } else { keywords }, &allowed);
            (meaning.join().unwrap_or_else(|_| Err(anyhow!("the vector arm panicked"))), words)
        });
        let mut names = by_meaning?;
        let seen: HashSet<String> = names.iter().cloned().collect();
        names.extend(by_words?.into_iter().filter(|name| !seen.contains(name)));
        Ok(names)
    }
}

fn by_words(connection: &mut Connection, text: &str, allowed: &str) -> Result<Vec<String>> {
    let mut seen = HashSet::new();
    let words = text.split_whitespace().map(str::to_lowercase);
    let words = words.filter(|word| !DROPPED.contains(&word.as_str()) && seen.insert(word.clone()));
    let quoted: Vec<String> = words.map(|word| format!("\"{}\"", word.replace('"', "\"\""))).collect();
    let mut statement = connection.prepare_cached(BY_WORDS)?;
    let names = statement.query_map(params![quoted.join(" OR "), allowed, PER_ARM], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

fn by_meaning(connection: &mut Connection, query: &[f32], allowed: &str) -> Result<Vec<String>> {
    let mut statement = connection.prepare_cached(VECTORS)?;
    let mut rows = statement.query([allowed])?;
    let mut near = Vec::new();
    while let Some(row) = rows.next()? {
        let (blob, _) = row.get_ref(1)?.as_blob()?.as_chunks::<4>();
        let vector: Vec<f32> = blob.iter().copied().map(f32::from_le_bytes).collect();
        let distance = cosine_distance(query, &vector);
        if distance <= THRESHOLD {
            near.push((distance, row.get::<_, String>(0)?));
        }
    }
    near.sort_by(|(left, _), (right, _)| left.total_cmp(right));
    Ok(near.into_iter().take(PER_ARM).map(|(_, name)| name).collect())
}

fn cosine_distance(left: &[f32], right: &[f32]) -> f32 {
    let (mut dot, mut of_left, mut of_right) = (0.0, 0.0, 0.0);
    for (left, right) in left.iter().zip(right) {
        dot += left * right;
        of_left += left * left;
        of_right += right * right;
    }
    1.0 - dot / (of_left.sqrt() * of_right.sqrt())
}

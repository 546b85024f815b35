//! [`Instructions`]: the texts that some models want before a query or before a text to be found, by the
//! families of their names. A service adds none by itself, so that queries of such a model find less.

use std::borrow::Cow;

/// Texts in front of the texts of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Instructions {
    /// Before a query.
    pub(crate) query: &'static str,
    /// Before a text to be found. Vectors with and without it are not comparable.
    pub(crate) passage: &'static str,
}

const PASSAGES: &str = "Represent this sentence for searching relevant passages: ";
const CHINESE_PASSAGES: &str = "为这个句子生成表示以用于检索相关文章：";
const TASK: &str =
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ";

/// Parts of names, lower-case and without the owner; the first row whose parts a name has counts. By the
/// models' cards.
const FAMILIES: [(&str, &str, &str, &str); 14] = [
    ("bge-m3", "", "", ""),
    ("bge-", "-zh", CHINESE_PASSAGES, ""),
    ("bge-", "-en", PASSAGES, ""),
    ("mxbai-embed-", "", PASSAGES, ""),
    ("snowflake-arctic-embed-", "-v2", "query: ", ""),
    ("snowflake-arctic-embed2", "", "query: ", ""),
    ("snowflake-arctic-embed", "", PASSAGES, ""),
    ("multilingual-e5-", "-instruct", TASK, ""),
    ("e5-mistral-", "", TASK, ""),
    ("multilingual-e5-", "", "query: ", "passage: "),
    ("e5-", "", "query: ", "passage: "),
    ("nomic-embed-text", "", "search_query: ", "search_document: "),
    ("qwen3-embedding", "", TASK, ""),
    ("embeddinggemma", "", "task: search result | query: ", "title: none | text: "),
];

impl Instructions {
    /// Returns the instructions of a model, such as `BAAI/bge-small-en-v1.5`; those of an unknown one are
    /// empty.
    pub(crate) fn of_model(name: &str) -> Instructions {
        let name = name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        let fits =
            |(start, part, ..): &&(&str, &str, &str, &str)| name.starts_with(start) && name.contains(part);
        let family = FAMILIES.iter().find(fits);
        family.map(|&(_, _, query, passage)| Instructions { query, passage }).unwrap_or_default()
    }

    /// Returns the part of a model's id that tells vectors of instructed texts from those of bare ones.
    pub(crate) fn mark(self) -> &'static str {
        if self.passage.is_empty() { "" } else { "+instructed" }
    }
}

/// Returns texts with an instruction before each.
pub(crate) fn instructed<'a>(instruction: &str, texts: &'a [String]) -> Cow<'a, [String]> {
    if instruction.is_empty() {
        return texts.into();
    }
    texts.iter().map(|text| format!("{instruction}{text}")).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_known_by_its_name() {
        for (name, query, passage) in [
            ("BAAI/bge-small-en-v1.5", PASSAGES, ""),
            ("bge-large-en", PASSAGES, ""),
            ("BAAI/bge-base-zh-v1.5", CHINESE_PASSAGES, ""),
            ("BAAI/bge-m3", "", ""),
            ("mixedbread-ai/mxbai-embed-large-v1", PASSAGES, ""),
            ("Snowflake/snowflake-arctic-embed-m", PASSAGES, ""),
            ("Snowflake/snowflake-arctic-embed-m-v2.0", "query: ", ""),
            ("intfloat/e5-small-v2", "query: ", "passage: "),
            ("intfloat/multilingual-e5-small", "query: ", "passage: "),
            ("intfloat/multilingual-e5-large-instruct", TASK, ""),
            ("nomic-embed-text:latest", "search_query: ", "search_document: "),
            ("Qwen/Qwen3-Embedding-0.6B", TASK, ""),
            ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
            ("text-embedding-3-small", "", ""),
            ("/data/bge-small-en-v1.5", PASSAGES, ""),
            ("", "", ""),
        ] {
            assert_eq!(Instructions::of_model(name), Instructions { query, passage }, "{name}");
        }
    }

    #[test]
    fn each_text_has_the_instruction_before_it() {
        let texts = ["a".to_owned(), "b".to_owned()];
        assert_eq!(instructed("", &texts), texts.as_slice());
        assert_eq!(*instructed("query: ", &texts), ["query: a".to_owned(), "query: b".to_owned()]);
    }
}

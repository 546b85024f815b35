//! Searches: courtesy, deadlines of the model, and promoted tools.

use async_trait::async_trait;
use vmcp_search::{Document, Vectors};

use super::*;

/// A model that takes its time to load, and then for each request.
struct SlowModel {
    load: Duration,
    request: Duration,
}

#[async_trait]
impl Embedder for SlowModel {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        tokio::time::sleep(self.request).await;
        Ok(texts.iter().map(|_| vec![1.0]).collect())
    }

    async fn model_id(&self) -> Result<String, EmbedError> {
        Ok("slow".to_owned())
    }

    fn batch_size(&self) -> usize {
        8
    }

    async fn prepare(&self) {
        tokio::time::sleep(self.load).await;
    }
}

/// A model that embeds one text alone.
struct ModelOf(&'static str);

#[async_trait]
impl Embedder for ModelOf {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        assert_eq!(texts, [self.0]);
        Ok(vec![vec![1.0]])
    }

    async fn model_id(&self) -> Result<String, EmbedError> {
        Ok("one text".to_owned())
    }

    fn batch_size(&self) -> usize {
        1
    }
}

/// A searcher of one tool that has a vector.
fn searcher(model: impl Embedder + 'static) -> Searcher {
    let index = Index::new(&[Document { name: "add".to_owned(), ..Document::default() }]);
    Searcher {
        index: Arc::new(index.with_vectors(Vectors::from_rows(1, [Some(vec![1.0])]))),
        vectors: QueryVectors::From(Arc::new(model)),
        reliability: Arc::default(),
        learned: None,
        reranking: None,
        settings: SearchSettings::from(&crate::testing::config("").optimizer.search),
    }
}

#[tokio::test]
async fn courtesy_around_a_request_is_not_searched() {
    let searcher = searcher(ModelOf("add two numbers"));
    let polite = "Could you please add two numbers for me?";
    let request =
        SearchRequest { description: polite, keywords: "", limit: None, visible: None, explain: false };
    let found = search(&searcher, request).await;
    assert!(found.embedding_took.is_some() && found.degraded.is_none(), "{:?}", found.degraded);
    assert!(embed_query(&searcher, polite).await.is_ok(), "a context is embedded as its searches are");
}

#[tokio::test]
async fn slips_are_corrected_for_both_arms() {
    let mut searcher = searcher(ModelOf("add two numbers"));
    let documents = ["add_numbers"].map(|name| Document { name: name.to_owned(), ..Document::default() });
    let index = Index::deferred(documents.into()).with_vectors(Vectors::from_rows(1, [Some(vec![1.0])]));
    searcher.index = Arc::new(index);
    let typed = "add two numbrs";
    let request =
        SearchRequest { description: typed, keywords: "", limit: None, visible: None, explain: false };
    let found = search(&searcher, request).await;
    assert!(found.degraded.is_none(), "{:?}", found.degraded);
    let terms: Vec<_> = found.ranking.terms.iter().map(|term| (&*term.term, term.documents)).collect();
    assert_eq!(terms, [("add", 1), ("two", 0), ("number", 1)]);
    assert_eq!(found.corrected.as_deref(), Some("add two numbers"));
    assert!(embed_query(&searcher, typed).await.is_ok(), "a context is embedded as its searches are");
}

#[tokio::test]
async fn the_load_of_the_model_takes_nothing_from_the_time_of_the_first_search() {
    let quick = Duration::ZERO;
    // The deadline cuts a slow request long before its own end, also on a busy machine.
    let (long_load, long_request) = (Duration::from_millis(500), Duration::from_mins(1));
    for (load, request, is_slow) in [(long_load, quick, false), (quick, long_request, true)] {
        let mut searcher = searcher(SlowModel { load, request });
        searcher.settings.query_deadline = Duration::from_millis(200);
        let found = embed(&searcher, &["add two numbers".to_owned()]).await;
        assert_eq!(matches!(found, Err(Degraded::Slow(_))), is_slow, "{found:?}");
        assert_eq!(found.is_err(), is_slow);
        let context = embed_query(&searcher, "add two numbers").await;
        assert_eq!(matches!(context, Err(Degraded::Slow(_))), is_slow);
        assert_eq!(context.is_err(), is_slow);
    }
}

#[test]
fn hidden_tools_take_no_place_among_the_promoted_ones() {
    let promoted = |visible: Option<&[usize]>| {
        let visible = visible.map(|visible| Arc::new(visible.iter().copied().collect::<Visible>()));
        let learned = LearnedDocuments { promoted: vec![7, 3, 9, 1, 4], ..LearnedDocuments::default() };
        learned.promoting(visible.as_ref()).promoted
    };
    assert_eq!(promoted(None), [7, 3, 9]);
    assert_eq!(promoted(Some(&[0, 1, 2, 4, 9])), [9, 1, 4]);
    assert_eq!(promoted(Some(&[1])), [1]);
}

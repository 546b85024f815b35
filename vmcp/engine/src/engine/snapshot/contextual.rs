//! The tools that fit a context: chosen by their own texts and by learned pairs, once enough is known about
//! such tasks. Uncertain, everything is listed.

use std::collections::HashSet;
use std::sync::Arc;

use vmcp_config::{ContextSource, Exposure, NoContext};
use vmcp_search::learning::{AskedQuery, TierWeights, merge};

use super::Snapshot;
use super::list::PagedList;
use super::view::View;
use crate::access::context_key::ContextKey;
use crate::access::identity::PrincipalKey;
use crate::optim::names::NameStyle;
use crate::search::context::{Context, Contexts, Learned, QueryEmbedding};
use crate::search::{Degraded, QueryVectors, Searcher, embed_query};
use crate::telemetry::tool_metrics::ToolKey;

/// Rounding of confidences: three identical pairs may give .29999 instead of .3.
const TOLERANCE: f32 = 1e-6;

/// The choice of tools for a context.
#[derive(Debug)]
pub struct Choice {
    /// Confidence in the knowledge about such tasks, 0 to 1.
    pub confidence: f32,
    /// Chosen documents, best first; `None`: too little is known, so that everything is listed.
    pub documents: Option<Vec<usize>>,
}

/// Embeds what a client is busy with; `None` without an embedding provider.
pub(in crate::engine) async fn embed_context(
    searcher: &Searcher,
    text: &str,
) -> Result<Option<QueryEmbedding>, Degraded> {
    if matches!(searcher.vectors, QueryVectors::Off) {
        return Ok(None);
    }
    embed_query(searcher, text).await.map(Some)
}

/// Lists of tools for clients that have set a context.
pub(in crate::engine) struct ContextualLists<'a> {
    pub(in crate::engine) contexts: &'a Contexts,
    pub(in crate::engine) learned: &'a Learned,
    pub(in crate::engine) snapshot: &'a Snapshot,
    pub(in crate::engine) view: &'a View,
}

impl ContextualLists<'_> {
    /// Returns the list of tools of a client that has set a context, and remembers it in the context. `None`:
    /// the client gets the list of all clients.
    pub(in crate::engine) fn list(
        &self,
        key: Option<ContextKey>,
        principal: PrincipalKey,
        style: NameStyle,
    ) -> Option<PagedList> {
        let Self { contexts, learned, snapshot, view } = self;
        let optimizer = &snapshot.config.optimizer;
        if !optimizer.enabled || view.exposure() != Exposure::Contextual {
            return None;
        }
        let key = key?;
        let context = contexts.with(key, principal, |context| Context::clone(context))?;
        let choice = choose(snapshot, view, learned, principal, &context);
        let listed = choice.documents.as_deref().unwrap_or_default();
        let keys: HashSet<ToolKey> = listed.iter().filter_map(|at| tool_key(view, *at)).collect();
        // A use of a tool in the whole list teaches less than a use of a chosen tool.
        contexts.with(key, principal, |context| context.listed = keys);
        if let Some(documents) = choice.documents {
            return Some(view.chosen_list(style, &snapshot.config, Some(&documents)));
        }
        // The zero behind keeps a negative zero from being told as `-0.00`.
        tracing::debug!("cold start confidence={:.2}", choice.confidence.max(0.0) + 0.0);
        let all = || view.chosen_list(style, &snapshot.config, None);
        (optimizer.contextual.no_context == NoContext::None).then(all)
    }
}

/// Chooses the tools of a view for a context of this principal. Tools of its latest calls stay, as far as
/// `retainRecentCalls` asks for it.
pub fn choose(
    snapshot: &Snapshot,
    view: &View,
    learned: &Learned,
    principal: PrincipalKey,
    context: &Context,
) -> Choice {
    let mut choice = fitting(snapshot, view, learned, principal, context);
    if let Some(documents) = &mut choice.documents {
        let retained = snapshot.config.optimizer.contextual.retain_recent_calls;
        for tool in context.recent.iter().take(retained) {
            if let Some(used) = document(snapshot, view, tool)
                && !documents.contains(&used)
            {
                documents.push(used);
            }
        }
    }
    choice
}

/// Chooses the tools that fit.
fn fitting(
    snapshot: &Snapshot,
    view: &View,
    learned: &Learned,
    principal: PrincipalKey,
    context: &Context,
) -> Choice {
    let optimizer = &snapshot.config.optimizer;
    let settings = &optimizer.contextual;
    if settings.context_source != ContextSource::Embeddings {
        let visible = view.documents().into_iter();
        if let Some(mut documents) = snapshot.tagged_tools().documents_for(&context.query, visible) {
            documents.truncate(settings.top_k);
            let documents = Some(documents).filter(|documents| !documents.is_empty());
            return Choice { confidence: 1.0, documents };
        }
        if settings.context_source == ContextSource::Keywords {
            return Choice { confidence: 0.0, documents: None };
        }
    }
    let Some(QueryEmbedding { model, vector }) = &context.embedding else {
        return Choice { confidence: 0.0, documents: None };
    };
    let owner = principal.owner();
    let asked = AskedQuery { model, vector, owner: owner.as_deref() };
    let confidence = learned.confidence(&asked, optimizer.learning.min_similarity);
    if confidence + TOLERANCE < settings.cold_start_threshold {
        return Choice { confidence, documents: None };
    }
    let candidates = settings.top_k * 2;
    let by_text = snapshot.index.nearest(vector, Some(view.visible()), candidates);
    let by_use = learned.nearest(&asked, candidates).into_iter();
    let by_use: Vec<_> =
        by_use.filter_map(|(cosine, pair)| Some((document(snapshot, view, &pair.tool)?, cosine))).collect();
    let weights = TierWeights { text: settings.static_weight, learned: settings.dynamic_weight };
    let chosen = merge(&by_text, &by_use, weights, settings.top_k);
    let documents = chosen.into_iter().map(|(document, _)| document).collect::<Vec<_>>();
    // Without vectors there is nothing to choose by, and a list of nothing would hide everything.
    Choice { confidence, documents: Some(documents).filter(|documents| !documents.is_empty()) }
}

/// Returns the topics of a context, as `contextSource` asks for them: those that the words of its query mean,
/// or those of the visible tool whose text is nearest to it.
pub fn topics(snapshot: &Snapshot, view: &View, context: &Context) -> Vec<String> {
    let source = snapshot.config.optimizer.contextual.context_source;
    let tagged = snapshot.tagged_tools();
    if source != ContextSource::Embeddings {
        let by_words = tagged.topics.of_message(&context.query);
        if !by_words.is_empty() || source == ContextSource::Keywords {
            return by_words.into_iter().map(str::to_owned).collect();
        }
    }
    let Some(QueryEmbedding { vector, .. }) = &context.embedding else { return Vec::new() };
    let nearest = snapshot.index.nearest(vector, Some(view.visible()), 1);
    let tags = nearest.first().and_then(|(document, _)| tagged.get(*document));
    tags.map(|tags| tags.contexts.clone()).unwrap_or_default()
}

/// Returns the document of a tool, if the view shows it.
fn document(snapshot: &Snapshot, view: &View, (backend, name): &ToolKey) -> Option<usize> {
    let found = view.tools_of(backend, name);
    let tool = found.into_iter().find(|tool| tool.definition.name == **name)?;
    snapshot.unfiltered().position(&tool.name)
}

/// Returns the lasting name of a document's tool.
pub fn tool_key(view: &View, document: usize) -> Option<ToolKey> {
    let tool = view.document(document)?;
    Some((Arc::clone(&tool.backend), tool.definition.name.as_str().into()))
}

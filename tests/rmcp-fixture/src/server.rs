//! Server handler of rmcp: routes each method to its module.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
    JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, Prompt, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    RequestStateCodec, ServerCapabilities, ServerConfig, SetLevelRequestParams, SubscribeRequestParams,
    SubscriptionFilter, TASKS_EXTENSION_ID, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::task_manager::TaskManager;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use crate::args::Era;
use crate::catalog::Catalog;
use crate::listeners::{Listeners, Session};
use crate::stop::Stop;
use crate::{prompts, resources, tools};

/// Time for which clients may cache a list or a resource, in milliseconds.
const TTL_MS: u64 = 60_000;

/// Key that seals request states. It protects nothing here and only has to be long enough.
const SEALING_KEY: &[u8] = b"of a test server, and no secret of anybody";

/// State that all sessions and requests share.
pub(crate) struct Shared {
    /// Definitions that are always offered.
    pub catalog: Catalog,
    /// True while the tool that comes and goes is there.
    pub more_tools: AtomicBool,
    /// True while the prompt that comes and goes is there.
    pub more_prompts: AtomicBool,
    /// Clients that are told about changes.
    pub listeners: Listeners,
    /// Running and finished tasks.
    pub tasks: TaskManager,
    /// Seals the state that a modern client brings back.
    pub seal: RequestStateCodec,
    revisions: Vec<ProtocolVersion>,
}

impl Shared {
    /// Returns the state of a server that speaks the revisions of `era`.
    pub(crate) fn new(era: Era) -> anyhow::Result<Self> {
        Ok(Self {
            catalog: Catalog::load()?,
            more_tools: AtomicBool::new(false),
            more_prompts: AtomicBool::new(false),
            listeners: Listeners::default(),
            tasks: TaskManager::new(),
            seal: RequestStateCodec::try_new(SEALING_KEY)?,
            revisions: era.revisions(),
        })
    }
}

/// Handler of one legacy session, or of one modern request.
pub(crate) struct Server {
    /// State shared with all other handlers.
    pub shared: Arc<Shared>,
    /// State of this legacy session.
    pub session: Arc<Session>,
}

impl Server {
    /// Returns a handler with a session of its own.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, session: Arc::default() }
    }

    fn tools(&self) -> Vec<Tool> {
        let mut tools: Vec<_> =
            self.shared.catalog.tools.iter().map(|entry| entry.definition.clone()).collect();
        if self.shared.more_tools.load(Ordering::Relaxed) {
            tools.push(Tool::new("test_sometimes", "Comes and goes.", tools::no_arguments()));
        }
        tools
    }

    fn prompts(&self) -> Vec<Prompt> {
        let mut prompts: Vec<_> =
            self.shared.catalog.prompts.iter().map(|entry| entry.definition.clone()).collect();
        if self.shared.more_prompts.load(Ordering::Relaxed) {
            prompts.push(Prompt::new("test_sometimes", Some("Comes and goes."), None));
        }
        prompts
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        if self.shared.revisions.contains(&ProtocolVersion::V_2026_07_28) {
            capabilities
                .extensions
                .get_or_insert_default()
                .insert(TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
        }
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("vmcp-rmcp-fixture", env!("CARGO_PKG_VERSION")))
            .with_instructions("Everything here is for tests.")
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Owned(self.shared.revisions.clone())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if self.session.peer.set(context.peer).is_ok() {
            self.shared.listeners.add(&self.session);
        }
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools().into_iter().find(|tool| tool.name == name)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let list = ListToolsResult::with_all_items(self.tools());
        Ok(list.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Stop::tool(tools::call(self, params, &context).await)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let list = ListPromptsResult::with_all_items(self.prompts());
        Ok(list.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Stop::prompt(prompts::get(self, params, &context).await)
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        prompts::complete(&params)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let entries = self.shared.catalog.resources.iter();
        let list =
            ListResourcesResult::with_all_items(entries.map(|entry| entry.definition.clone()).collect());
        Ok(list.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let list = ListResourceTemplatesResult::with_all_items(vec![resources::template()]);
        Ok(list.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = resources::read(&self.shared.catalog, &params.uri)?;
        Ok(contents.with_ttl_ms(TTL_MS).with_cache_scope(CacheScope::Public).into())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.shared.listeners.listen(context).await;
        Ok(())
    }

    async fn subscribe(
        &self,
        params: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.session.watched.lock().insert(params.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        params: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.session.watched.lock().remove(&params.uri);
        Ok(())
    }

    async fn set_level(
        &self,
        params: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.session.level.lock() = Some(params.level);
        Ok(())
    }

    async fn get_task(
        &self,
        params: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.shared.tasks.get_task(&params.task_id)?))
    }

    async fn update_task(
        &self,
        params: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.shared.tasks.update_task(&params.task_id, params.input_responses)
    }

    async fn cancel_task(
        &self,
        params: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.shared.tasks.cancel_task(&params.task_id)
    }
}

// A server with something of everything: all_of_it.mjs SDK stdio | http | sse, where SDK is 1 or 2 (which has no sse). It
// writes its URL. On the SDK 2 it serves both eras, and legacy clients in sessions.
import crypto from 'node:crypto';
import http from 'node:http';
import * as z from 'zod';

const [sdk, transport] = process.argv.slice(-2);
const isFirst = sdk === '1';
const { McpServer, ResourceTemplate, completable } = isFirst
  ? { ...(await import('@modelcontextprotocol/sdk/server/mcp.js')), ...(await import('@modelcontextprotocol/sdk/server/completable.js')) }
  : await import('@modelcontextprotocol/server');
const text = (text) => ({ content: [{ type: 'text', text: String(text) }] });
const form = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };

const create = () => {
  const server = new McpServer({ name: 'all', version: '1' }, { capabilities: { logging: {} } });
  let count = 0;
  // What a call may do beyond answering, for either SDK. Questions are for legacy clients only.
  const asker = (context) => (isFirst
    ? { notify: (message) => context.sendNotification(message), token: context._meta?.progressToken }
    : { notify: (message) => context.mcpReq.notify(message), token: context.mcpReq._meta?.progressToken });
  const tool = (name, inputSchema, call, more = {}) =>
    server.registerTool(name, { description: `The tool ${name}`, inputSchema: z.object(inputSchema), ...more }, call);
  tool('add', { a: z.number(), b: z.number() }, ({ a, b }) => ({ ...text(a + b), structuredContent: { sum: a + b } }), {
    title: 'Add', outputSchema: z.object({ sum: z.number() }), annotations: { readOnlyHint: true },
  });
  tool('fail', { reason: z.string() }, ({ reason }) => {
    throw new Error(reason);
  });
  tool('blocks', {}, () => ({
    content: [
      { type: 'text', text: 'größer 🦀 \u0000', annotations: { audience: ['user'], priority: 0.5 } },
      { type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' },
      { type: 'resource', resource: { uri: 'all://text', text: 'Hello' } },
      { type: 'resource_link', uri: 'all://text', name: 'text' },
    ],
    _meta: { 'example.com/any': [1, 2.5, 1e300] },
  }));
  tool('progress', { steps: z.number() }, async ({ steps }, context) => {
    const { notify, token } = asker(context);
    for (let progress = 1; progress <= steps && token !== undefined; progress++) {
      await notify({ method: 'notifications/progress', params: { progressToken: token, progress, total: steps } });
    }
    return text('done');
  });
  tool('log', {}, async (_, context) => {
    for (const level of ['info', 'error']) {
      if (isFirst) await server.server.sendLoggingMessage({ level, data: { of: level } }, context.sessionId);
      else await context.mcpReq.log(level, { of: level });
    }
    return text('logged');
  });
  const question = (name, method, params, answer) =>
    tool(name, {}, async (_, context) => text(answer(await (isFirst
      ? server.server.request({ method, params }, z.any(), { relatedRequestId: context.requestId })
      : context.mcpReq.send({ method, params })))));
  question('ask', 'elicitation/create', { message: 'Who are you?', requestedSchema: form }, JSON.stringify);
  question('sample', 'sampling/createMessage', {
    messages: [{ role: 'user', content: { type: 'text', text: '2 + 2?' } }], maxTokens: 10,
  }, JSON.stringify);
  question('roots', 'roots/list', {}, JSON.stringify);
  tool('count', {}, () => text(++count));
  server.registerResource('text', 'all://text', { mimeType: 'text/plain' }, ({ href }) => ({
    contents: [{ uri: href, mimeType: 'text/plain', text: 'Hello\r\nworld' }],
  }));
  server.registerResource('bytes', 'all://bytes', { size: 32 }, ({ href }) => ({
    contents: [{ uri: href, blob: Buffer.alloc(32, 7).toString('base64') }],
  }));
  server.registerResource('of', new ResourceTemplate('all://of/{name}', { list: undefined }), {}, ({ href }, { name }) => ({
    contents: [{ uri: href, text: `of ${name}` }],
  }));
  const who = completable(z.string(), (value) => ['ada', 'adele', 'bob'].filter((name) => name.startsWith(value)));
  server.registerPrompt('greet', { argsSchema: isFirst ? { who } : z.object({ who }) }, ({ who }) => ({
    description: 'A greeting',
    messages: [{ role: 'user', content: { type: 'text', text: `Greet ${who}.` } }],
  }));
  return server;
};

// Serves `fetch`, or a handler of Node.
const listen = (handle, path) => {
  const listening = http.createServer(handle).listen(0, '127.0.0.1', () => {
    console.log(`listening on http://127.0.0.1:${listening.address().port}/${path}`);
  });
};
const sessions = new Map();

if (transport === 'stdio' && isFirst) {
  const { StdioServerTransport } = await import('@modelcontextprotocol/sdk/server/stdio.js');
  await create().connect(new StdioServerTransport());
} else if (transport === 'stdio') {
  (await import('@modelcontextprotocol/server/stdio')).serveStdio(create);
} else if (transport === 'sse') {
  const { SSEServerTransport } = await import('@modelcontextprotocol/sdk/server/sse.js');
  listen(async (request, response) => {
    const url = new URL(request.url, 'http://localhost');
    if (request.method === 'POST') return sessions.get(url.searchParams.get('sessionId')).handlePostMessage(request, response);
    const connection = new SSEServerTransport('/messages', response);
    sessions.set(connection.sessionId, connection);
    return create().connect(connection);
  }, 'sse');
} else if (isFirst) {
  const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js');
  listen(async (request, response) => {
    let connection = sessions.get(request.headers['mcp-session-id']);
    if (!connection && request.headers['mcp-session-id']) return response.writeHead(404).end();
    if (!connection) {
      connection = new StreamableHTTPServerTransport({
        sessionIdGenerator: () => crypto.randomUUID(),
        onsessioninitialized: (id) => void sessions.set(id, connection),
      });
      await create().connect(connection);
    }
    return connection.handleRequest(request, response);
  }, 'mcp');
} else {
  const { WebStandardStreamableHTTPServerTransport, createMcpHandler, isLegacyRequest } = await import('@modelcontextprotocol/server');
  const { toNodeHandler } = await import('@modelcontextprotocol/node');
  const modern = createMcpHandler(create, { legacy: 'reject' });
  const fetch = async (request) => {
    if (!(await isLegacyRequest(request.clone()))) return modern.fetch(request);
    let connection = sessions.get(request.headers.get('mcp-session-id'));
    if (!connection && request.headers.has('mcp-session-id')) return new Response('', { status: 404 });
    if (!connection) {
      connection = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: () => crypto.randomUUID(),
        onsessioninitialized: (id) => void sessions.set(id, connection),
      });
      await create().connect(connection);
    }
    return connection.handleRequest(request);
  };
  listen(toNodeHandler({ fetch }), 'mcp');
}

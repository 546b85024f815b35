// What the conformance suite asks of a server, on the TypeScript SDK 2: typescript.mjs DATA, where DATA is the folder of
// definitions that the server on rmcp has too. Of both eras at one URL: sessions for legacy clients, none for modern ones.
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  MissingRequiredClientCapabilityError, ProtocolError, Server, WebStandardStreamableHTTPServerTransport, createMcpHandler,
  inputRequired, isLegacyRequest,
} from '@modelcontextprotocol/server';

const read = (file) => JSON.parse(fs.readFileSync(`${process.argv.at(-1)}/${file}.json`, 'utf8'));
// Tasks are not in this SDK.
const TASKS = ['slow_compute', 'failing_job', 'protocol_error_job', 'confirm_delete', 'multi_input', 'test_tool_with_task'];
const tools = read('tools').filter(({ definition }) => !TASKS.includes(definition.name));
const [prompts, resources] = [read('prompts'), read('resources')];
const WATCHED = 'test://watched-resource';
const INVALID_PARAMS = -32602;
const NOT_FOUND = -32002;
const extra = { tools: false, prompts: false };
const sessions = new Map();

// Answers questions: a legacy client is asked while its request is under way, a modern one by the result.
class Dialogue {
  constructor(context, isModern) {
    Object.assign(this, { context, isModern, round: 0 });
    this.capabilities = isModern ? context.mcpReq.envelope['io.modelcontextprotocol/clientCapabilities'] : undefined;
    const sealed = context.mcpReq.requestState();
    this.answered = sealed === undefined ? undefined : open(sealed);
  }

  async put(questions) {
    const answers = {};
    for (const [key, { method, params }] of Object.entries(questions)) {
      answers[key] = await this.context.mcpReq.send({ method, params });
    }
    return answers;
  }

  // Asks without state.
  async ask(questions) {
    if (!this.isModern) return this.put(questions);
    const given = this.context.mcpReq.inputResponses ?? {};
    if (Object.keys(questions).every((key) => key in given)) return given;
    throw new Needed({ inputRequests: questions });
  }

  // Asks, and keeps the answers of earlier rounds in sealed state.
  async next(questions) {
    if (!this.isModern) return this.put(questions);
    const round = this.round++;
    if (this.answered?.[round]) return this.answered[round];
    const given = (this.answered && !this.used && this.context.mcpReq.inputResponses) || {};
    if (Object.keys(questions).every((key) => key in given)) {
      this.used = true;
      this.answered.push(given);
      return given;
    }
    throw new Needed({ inputRequests: questions, requestState: seal(this.answered ?? []) });
  }
}

// Ends a request whose client must answer first.
class Needed extends Error {
  constructor(spec) {
    super('input is required');
    this.spec = spec;
  }
}

const key = crypto.randomBytes(32);
const signature = (text) => crypto.createHmac('sha256', key).update(text).digest('base64url');
const seal = (answers) => {
  const text = Buffer.from(JSON.stringify(answers)).toString('base64url');
  return `${text}.${signature(text)}`;
};
const open = (sealed) => {
  const [text, signed] = String(sealed).split('.');
  if (signed !== signature(text)) throw new ProtocolError(INVALID_PARAMS, 'requestState was changed on its way');
  return JSON.parse(Buffer.from(text, 'base64url'));
};

const text = (text) => ({ content: [{ type: 'text', text }] });
const schemaForm = (message, requestedSchema) => inputRequired.elicit({ mode: 'form', message, requestedSchema });
const form = (message, properties) =>
  schemaForm(message, { type: 'object', required: Object.keys(properties), properties });
const string = { type: 'string' };
const sampling = (prompt) =>
  inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: prompt } }], maxTokens: 100 });
const nameForm = () => form('What is your name?', { name: string });
const roots = (answer) => answer.roots.map(({ uri }) => uri).join(', ');
const answered = ({ action, content }) => text(`The user answered: action=${action}, content=${JSON.stringify(content ?? {})}`);
const choice = ['value1', 'value2', 'value3'].map((value) => ({ const: value, title: value.toUpperCase() }));
const options = ['option1', 'option2', 'option3'];

const log = async (context, messages) => {
  for (const message of messages) {
    await context.mcpReq.log('info', message, 'typescript');
    await pause(50);
  }
  return text('Done.');
};

const CALLS = {
  test_error_handling: () => ({ ...text('This tool intentionally returns an error for testing'), isError: true }),
  test_tool_with_progress: async ({ context }) => {
    const progressToken = context.mcpReq._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      const params = { progressToken, progress, total: 100, message: `at ${progress}` };
      if (progressToken !== undefined) await context.mcpReq.notify({ method: 'notifications/progress', params });
      await pause(50);
    }
    return text('Done.');
  },
  test_tool_with_logging: ({ context }) => log(context, ['started', 'at work', 'finished']),
  test_logging_tool: ({ context }) => log(context, ['called']),
  test_reconnection: async () => pause(100).then(() => text('Done.')),
  test_custom_header: (_, { value }) => text(value),
  test_missing_capability: ({ capabilities, isModern }) => {
    if (isModern && !capabilities?.sampling) throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { sampling: {} } });
    return text('The client can sample.');
  },
  test_trigger_tool_change: () => changed('tools'),
  test_trigger_prompt_change: () => changed('prompts'),
  test_trigger_resource_update: () => {
    modern.notify.resourceUpdated(WATCHED);
    for (const { server, watched } of sessions.values()) if (watched.has(WATCHED)) server.sendResourceUpdated({ uri: WATCHED });
    return text('The resource has changed.');
  },
  test_sampling: async (dialogue, { prompt }) => {
    const { question } = await dialogue.ask({ question: sampling(prompt) });
    return text(`LLM response: ${question.content.text}`);
  },
  test_elicitation: async (dialogue, { message }) =>
    answered((await dialogue.ask({ question: form(message, { username: string, email: string }) })).question),
  test_elicitation_sep1034_defaults: async (dialogue) => {
    const properties = {
      name: { type: 'string', default: 'John Doe' },
      age: { type: 'integer', default: 30 },
      score: { type: 'number', default: 95.5 },
      status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
      verified: { type: 'boolean', default: true },
    };
    return answered((await dialogue.ask({ question: schemaForm('Everything has a default.', { type: 'object', properties }) })).question);
  },
  test_elicitation_sep1330_enums: async (dialogue) => {
    const properties = {
      untitledSingle: { type: 'string', enum: options },
      titledSingle: { type: 'string', oneOf: choice },
      legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['One', 'Two', 'Three'] },
      untitledMulti: { type: 'array', items: { type: 'string', enum: options } },
      titledMulti: { type: 'array', items: { anyOf: choice } },
    };
    return answered((await dialogue.ask({ question: schemaForm('Choose.', { type: 'object', properties }) })).question);
  },
  test_streaming_elicitation: async (dialogue) =>
    answered((await dialogue.ask({ question: form('Which value?', { value: string }) })).question),
  test_input_required_result_elicitation: async (dialogue) => {
    const { user_name } = await dialogue.ask({ user_name: nameForm() });
    return text(`Hello, ${user_name.content?.name}!`);
  },
  test_input_required_result_sampling: async (dialogue) => {
    const { capital_question } = await dialogue.ask({ capital_question: sampling('What is the capital of France?') });
    return text(`The model said: ${capital_question.content?.text}`);
  },
  test_input_required_result_list_roots: async (dialogue) =>
    text(`The roots are: ${roots((await dialogue.ask({ client_roots: inputRequired.listRoots() })).client_roots)}`),
  test_input_required_result_request_state: (dialogue) => confirmed(dialogue),
  test_input_required_result_tampered_state: (dialogue) => confirmed(dialogue),
  test_input_required_result_multiple_inputs: async (dialogue) => {
    const questions = { user_name: nameForm(), greeting: sampling('Write a greeting.'), client_roots: inputRequired.listRoots() };
    const { user_name, greeting, client_roots } = await dialogue.next(questions);
    return text(`${greeting.content?.text} ${user_name.content?.name} of ${roots(client_roots)}`);
  },
  test_input_required_result_multi_round: async (dialogue) => {
    const { step1 } = await dialogue.next({ step1: form('Step 1: what is your name?', { name: string }) });
    const { step2 } = await dialogue.next({ step2: form('Step 2: what is your favourite colour?', { color: string }) });
    return text(`${step1.content?.name} likes ${step2.content?.color}`);
  },
  test_input_required_result_capabilities: async (dialogue) => {
    const can = dialogue.capabilities ?? {};
    const questions = {
      ...(can.elicitation && { user_name: nameForm() }),
      ...(can.sampling && { greeting: sampling('Write a greeting.') }),
      ...(can.roots && { client_roots: inputRequired.listRoots() }),
    };
    if (Object.keys(questions).length) await dialogue.ask(questions);
    return text('The client answered all that it can.');
  },
  greet: (_, { name }) => text(`Hello, ${name}!`),
};

const confirmed = async (dialogue) => {
  const { confirm } = await dialogue.next({ confirm: form('Please confirm.', { ok: { type: 'boolean' } }) });
  return text(`state-ok: ${confirm.action}`);
};

// Adds an entry to a list, or takes it away again, and says so to everybody.
const changed = (list) => {
  extra[list] = !extra[list];
  const [notify, send] = list === 'tools' ? ['toolsChanged', 'sendToolListChanged'] : ['promptsChanged', 'sendPromptListChanged'];
  modern.notify[notify]();
  for (const { server } of sessions.values()) server[send]();
  return text(`The list of ${list} has changed.`);
};

const listed = (entries, added) => [...entries.map(({ definition }) => definition), ...added];
const find = (entries, name, what) => {
  const found = entries.find(({ definition }) => definition.name === name);
  if (!found) throw new ProtocolError(INVALID_PARAMS, `unknown ${what}: ${name}`);
  return found;
};
const filled = (value, values) =>
  JSON.parse(JSON.stringify(value).replace(/\{(\w+)\}/g, (whole, name) => (name in values ? JSON.stringify(values[name]).slice(1, -1) : whole)));

const create = (isModern, watched) => {
  const changes = { listChanged: true };
  const capabilities = { tools: changes, prompts: changes, resources: { ...changes, subscribe: true }, completions: {}, logging: {} };
  const server = new Server({ name: 'typescript', version: '1' }, { capabilities });
  // Runs a handler that may ask the client.
  const asking = (handle) => async ({ params }, context) => {
    try {
      return await handle(params, new Dialogue(context, isModern));
    } catch (needed) {
      if (needed instanceof Needed) return inputRequired(needed.spec);
      throw needed;
    }
  };
  const more = { name: 'more', description: 'One more.' };
  server.setRequestHandler('tools/list', () => ({
    tools: listed(tools, extra.tools ? [{ ...more, inputSchema: { type: 'object' } }] : []),
  }));
  server.setRequestHandler('tools/call', asking((params, dialogue) => {
    const { answer } = find(tools, params.name, 'tool');
    return answer ? { content: answer } : CALLS[params.name](dialogue, params.arguments ?? {});
  }));
  server.setRequestHandler('prompts/list', () => ({ prompts: listed(prompts, extra.prompts ? [more] : []) }));
  server.setRequestHandler('prompts/get', asking(async (params, dialogue) => {
    const values = { ...params.arguments };
    const { answer } = find(prompts, params.name, 'prompt');
    if (params.name === 'test_input_required_result_prompt') {
      const context = form('What context should the prompt use?', { context: string });
      values.context = (await dialogue.ask({ user_context: context })).user_context.content?.context;
    }
    return { messages: filled(answer, values) };
  }));
  server.setRequestHandler('resources/list', () => ({ resources: listed(resources, []) }));
  server.setRequestHandler('resources/templates/list', () => ({
    resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'Data by id', mimeType: 'application/json' }],
  }));
  server.setRequestHandler('resources/read', ({ params: { uri } }) => {
    const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
    const data = { id, templateTest: true, data: `Data for ID: ${id}` };
    if (id) return { contents: [{ uri, mimeType: 'application/json', text: JSON.stringify(data) }] };
    const found = resources.find(({ definition }) => definition.uri === uri);
    if (!found) throw new ProtocolError(isModern ? INVALID_PARAMS : NOT_FOUND, `unknown resource: ${uri}`, { uri });
    return { contents: [found.answer] };
  });
  server.setRequestHandler('completion/complete', ({ params: { argument } }) => ({
    completion: { values: ['paris', 'parma', 'passau'].filter((town) => town.startsWith(argument.value)) },
  }));
  if (!isModern) {
    server.setRequestHandler('resources/subscribe', ({ params: { uri } }) => (watched.add(uri), {}));
    server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => (watched.delete(uri), {}));
  }
  return server;
};

const modern = createMcpHandler(() => create(true), { legacy: 'reject' });

// Serves a legacy client in its session, which `initialize` opens.
const legacy = async (request) => {
  const known = sessions.get(request.headers.get('mcp-session-id'));
  if (known) return known.transport.handleRequest(request);
  if (request.headers.has('mcp-session-id')) {
    const error = { jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } };
    return Response.json(error, { status: 404 });
  }
  const watched = new Set();
  const server = create(false, watched);
  const transport = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: () => crypto.randomUUID(),
    onsessioninitialized: (id) => void sessions.set(id, { server, transport, watched }),
    onsessionclosed: (id) => void sessions.delete(id),
  });
  await server.connect(transport);
  return transport.handleRequest(request);
};

// DNS rebinding: only pages of this machine, and only under its own name.
const isLocal = (host) => ['localhost', '127.0.0.1', '[::1]'].includes(host.replace(/:\d+$/, ''));
const fetch = async (request) => {
  const [host, origin] = [request.headers.get('host') ?? '', request.headers.get('origin')];
  if (!isLocal(host) || (origin && !isLocal(new URL(origin).host))) return new Response('forbidden', { status: 403 });
  return (await isLegacyRequest(request.clone())) ? legacy(request) : modern.fetch(request);
};
const listening = http.createServer(toNodeHandler({ fetch })).listen(0, '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${listening.address().port}/mcp`);
});

// What a client does in a scenario of the suite: driver.mjs URL, read from standard input. The environment names the scenario.
// Prints one JSON line: what was called.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url] = process.argv.slice(2);
const { MCP_CONFORMANCE_SCENARIO: scenario, MCP_CONFORMANCE_PROTOCOL_VERSION: revision } = process.env;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const modern = revision === '2026-07-28';

const client = new Client({ name: 'driver', version: '1' }, {
  versionNegotiation: { mode: modern ? { pin: revision } : 'legacy' },
  capabilities: { elicitation: { form: { applyDefaults: true } } },
});
client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: {} }));
await client.connect(new StreamableHTTPClientTransport(new URL(url)));

const called = [];
const call = async (name, args) => {
  called.push(name);
  return client.callTool({ name, arguments: args });
};
// The SDK leaves out tools whose headers are invalid. vmcp has to have left them out before.
const listed = async () => {
  if (!modern) return (await client.listTools()).tools;
  const meta = { 'io.modelcontextprotocol/protocolVersion': revision, 'io.modelcontextprotocol/clientCapabilities': {} };
  const answer = await fetch(url, {
    method: 'POST',
    headers: {
      accept: 'application/json, text/event-stream', 'content-type': 'application/json',
      'mcp-protocol-version': revision, 'mcp-method': 'tools/list',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: meta } }),
  });
  return (await answer.json()).result.tools;
};
const tools = await listed();

switch (scenario) {
  case 'initialize':
  case 'request-metadata':
  case 'json-schema-ref-no-deref':
    break;
  case 'http-custom-headers':
    // The SDK knows the headers of a tool once it has listed it.
    await client.listTools();
    for (const { name, arguments: args } of context.toolCalls) await call(name, args);
    break;
  case 'http-invalid-tool-headers':
    await client.listTools();
    for (const { name } of tools) await call(name, { region: 'x', value: 'x', field1: 'x', field2: 'x' });
    break;
  case 'json-schema-2020-12-preservation': {
    const { inputSchema } = tools.find(({ name }) => name === 'json_schema_2020_12_tool');
    await call('json_schema_echo', { schema: inputSchema });
    break;
  }
  case 'http-standard-headers':
    for (const { name } of tools) await call(name, {});
    for (const { uri } of (await client.listResources()).resources) await client.readResource({ uri });
    for (const { name } of (await client.listPrompts()).prompts) await client.getPrompt({ name });
    break;
  default:
    for (const { name } of tools) await call(name, name === 'add_numbers' ? { a: 2, b: 3 } : {});
}
console.log(JSON.stringify({ tools: tools.map(({ name }) => name), called }));
await client.close();

// As library.py, with version 1 of the TypeScript SDK: library.mjs TARGET..., read from standard input.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [target, ...args] = process.argv.slice(2);
const transport = target.startsWith('http')
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args });
const client = new Client({ name: 'typescript', version: '1' });
await client.connect(transport);
const { tools } = await client.listTools();
const search = { name: 'optim_find_tool', arguments: { tool_description: 'add two numbers' } };
let name;
// The server may have just started.
for (let attempt = 0; attempt < 120 && !name; attempt += 1) {
  if (attempt > 0) await new Promise((resolve) => setTimeout(resolve, 250));
  name = (await client.callTool(search)).structuredContent.tools[0]?.name;
}
const called = await client.callTool({
  name: 'optim_call_tool',
  arguments: { tool_name: name, parameters: { a: 2, b: 3 } },
});
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), found: name, called: called.content[0].text }));
await client.close();

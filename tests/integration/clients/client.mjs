// Lists, finds and calls with the official TypeScript client: client.mjs URL MODE, read from standard input.
// Prints one JSON line, as client.py does.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, mode] = process.argv.slice(2);
const versionNegotiation = { mode: mode === 'auto' || mode === 'legacy' ? mode : { pin: mode } };
const client = new Client({ name: 'typescript', version: '1' }, { versionNegotiation });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));

const { tools } = await client.listTools();
const found = await client.callTool({ name: 'optim_find_tool', arguments: { tool_description: 'add two numbers' } });
const name = found.structuredContent.tools[0].name;
const called = await client.callTool({
  name: 'optim_call_tool',
  arguments: { tool_name: name, parameters: { a: 2, b: 3 } },
});
const progress = [];
await client.callTool({ name: 'echo_progress', arguments: { steps: 3 } }, { onprogress: (p) => progress.push(p.progress) });
const resource = await client.readResource({ uri: 'fixture://echo/greeting' });
const prompt = await client.getPrompt({ name: 'echo_greet', arguments: { who: 'Ada' } });

console.log(JSON.stringify({
  revision: client.getNegotiatedProtocolVersion(),
  tools: tools.map((tool) => tool.name),
  found: name,
  called: called.content[0].text,
  progress,
  resource: resource.contents[0].text,
  prompt: prompt.messages[0].content.text,
}));
await client.close();

// Calls a slow tool with the official TypeScript client, whose connection the test breaks: resume.mjs URL.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url] = process.argv.slice(2);
const client = new Client({ name: 'typescript', version: '1' }, { versionNegotiation: { mode: 'legacy' } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const progress = [];
const called = await client.callTool(
  { name: 'echo_progress', arguments: { steps: 8, delayMs: 300 } },
  { onprogress: (p) => progress.push(p.progress) },
);
console.log(JSON.stringify({ answer: called.content[0].text, progress }));
process.exit(0);

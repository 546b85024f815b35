// A server of the TypeScript SDK v2: server.mjs LEGACY, where LEGACY is `stateless` (both eras) or `reject` (modern only).
import http from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { McpServer, createMcpHandler } from '@modelcontextprotocol/server';
import * as z from 'zod';

const handler = createMcpHandler(() => {
  const server = new McpServer({ name: 'typescript', version: '1' });
  server.registerTool(
    'multiply',
    { description: 'Multiply two numbers', inputSchema: z.object({ a: z.number(), b: z.number() }) },
    async ({ a, b }) => ({ content: [{ type: 'text', text: String(a * b) }] }),
  );
  return server;
}, { legacy: process.argv[2] });
const listening = http.createServer(toNodeHandler(handler)).listen(0, '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${listening.address().port}/mcp`);
});

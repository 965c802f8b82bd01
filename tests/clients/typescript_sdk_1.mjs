// The official TypeScript client before version 2, which knows only the protocol with a handshake.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { McpError } from "@modelcontextprotocol/sdk/types.js";

const [url, , calls] = process.argv.slice(2);
const authorization = process.env.AUTHORIZATION;
const headers = authorization ? { Authorization: authorization } : {};

const client = new Client({ name: "test", version: "1" });
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
await client.connect(transport);
const tools = [];
let cursor;
do {
  const page = await client.listTools({ cursor });
  tools.push(...page.tools);
  cursor = page.nextCursor;
} while (cursor !== undefined);
const results = [];
for (const [name, args] of JSON.parse(calls)) {
  try {
    results.push(await client.callTool({ name, arguments: args }));
  } catch (error) {
    if (!(error instanceof McpError)) throw error;
    results.push({ error: error.code });
  }
}
console.log(
  JSON.stringify({
    version: transport.protocolVersion,
    server: client.getServerVersion().name,
    tools,
    results,
  }),
);
await client.close();

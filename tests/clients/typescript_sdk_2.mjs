// The official TypeScript client, from version 2 on: both eras of the protocol. It follows the pages of a list by itself.
import { Client, ProtocolError, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, mode, calls] = process.argv.slice(2);
const authorization = process.env.AUTHORIZATION;
const headers = authorization ? { Authorization: authorization } : {};

const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
const { tools } = await client.listTools();
const results = [];
for (const [name, args] of JSON.parse(calls)) {
  try {
    results.push(await client.callTool({ name, arguments: args }));
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    results.push({ error: error.code });
  }
}
console.log(
  JSON.stringify({
    version: client.getNegotiatedProtocolVersion(),
    server: client.getServerVersion().name,
    tools,
    results,
  }),
);
await client.close();

// The official TypeScript client before version 2, which knows only the protocol with a handshake.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema, McpError } from "@modelcontextprotocol/sdk/types.js";

const [url, , calls] = process.argv.slice(2);
const authorization = process.env.AUTHORIZATION;
const headers = authorization ? { Authorization: authorization } : {};

const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
const asked = [];
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  asked.push(params.message);
  const names = Object.keys(params.requestedSchema.properties);
  return { action: "accept", content: Object.fromEntries(names.map((name) => [name, "Ada"])) };
});
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
await client.connect(transport);

async function callTools(calls) {
  const tools = [];
  let cursor;
  do {
    const page = await client.listTools({ cursor });
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  const results = [];
  for (const [name, args] of calls) {
    try {
      results.push(await client.callTool({ name, arguments: args }));
    } catch (error) {
      if (!(error instanceof McpError)) throw error;
      results.push({ error: error.code });
    }
  }
  return { tools, results };
}

async function converse() {
  const progress = [];
  const onprogress = ({ progress: done, total, message }) => progress.push([done, total, message]);
  const text = (result) => result.content[0].text;
  const read = async (uri) => (await client.readResource({ uri })).contents[0];
  const prompt = await client.getPrompt({ name: "paint", arguments: { color: "green" } });
  const ref = { type: "ref/prompt", name: "paint" };
  const completed = await client.complete({ ref, argument: { name: "color", value: "gr" } });
  const counted = await client.callTool({ name: "count", arguments: { to: 3 } }, undefined, { onprogress });
  return {
    prompts: (await client.listPrompts()).prompts.map((each) => each.name),
    messages: prompt.messages.map((message) => [message.role, message.content.text]),
    completed: completed.completion.values,
    resources: (await client.listResources()).resources.map((each) => each.uri),
    templates: (await client.listResourceTemplates()).resourceTemplates.map((each) => each.uriTemplate),
    today: (await read("notes://today")).text,
    data: (await read("notes://7/data")).text,
    leaf: (await read("notes://leaf")).blob,
    progress,
    counted: text(counted),
    greeting: text(await client.callTool({ name: "greet", arguments: {} })),
    deleted: text(await client.callTool({ name: "delete", arguments: { id: 7 } })),
    asked,
  };
}

const wanted = JSON.parse(calls);
console.log(
  JSON.stringify({
    version: transport.protocolVersion,
    server: client.getServerVersion().name,
    ...(wanted === null ? await converse() : await callTools(wanted)),
  }),
);
await client.close();

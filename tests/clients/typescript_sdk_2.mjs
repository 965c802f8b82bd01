// The official TypeScript client, from version 2 on: both eras of the protocol. It follows the pages of a list by itself.
import { Client, ProtocolError, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, mode, calls] = process.argv.slice(2);
const authorization = process.env.AUTHORIZATION;
const headers = authorization ? { Authorization: authorization } : {};

const capabilities = { elicitation: {} };
const client = new Client({ name: "test", version: "1" }, { capabilities, versionNegotiation: { mode } });
const asked = [];
client.setRequestHandler("elicitation/create", ({ params }) => {
  asked.push(params.message);
  const names = Object.keys(params.requestedSchema.properties);
  return { action: "accept", content: Object.fromEntries(names.map((name) => [name, "Ada"])) };
});
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));

async function callTools(calls) {
  const { tools } = await client.listTools();
  const results = [];
  for (const [name, args] of calls) {
    try {
      results.push(await client.callTool({ name, arguments: args }));
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
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
  const counted = await client.callTool({ name: "count", arguments: { to: 3 } }, { onprogress });
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
    version: client.getNegotiatedProtocolVersion(),
    server: client.getServerVersion().name,
    ...(wanted === null ? await converse() : await callTools(wanted)),
  }),
);
await client.close();

// The official TypeScript client with ext-tasks: it calls, watches, answers and cancels. The client itself refuses results of
// the extension, so that ext-tasks sends its requests by a function of the host, which is this one.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createApplicationInputHandler, createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";

const [url] = process.argv.slice(2);
const clientInfo = { name: "test", version: "1" };
const clientCapabilities = { elicitation: {}, extensions: { "io.modelcontextprotocol/tasks": {} } };
const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation: { mode: "auto" } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const protocolVersion = client.getNegotiatedProtocolVersion();

let number = 0;
async function rawDispatch(request, options) {
  const name = request.params?.name ?? request.params?.taskId;
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": protocolVersion,
      "Mcp-Method": request.method,
      ...(name ? { "Mcp-Name": name } : {}),
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: ++number, ...request }),
    signal: options?.signal,
  });
  const { result, error } = await response.json();
  return error ? { kind: "error", error } : { kind: "result", result };
}

const asked = [];
const refuse = () => {
  throw new Error("not expected here");
};
const session = createTaskSessionFromClient(client, {
  endpointId: "test",
  rawDispatch,
  v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities },
  onInputRequest: createApplicationInputHandler({
    elicitation: ({ params }) => {
      asked.push(params.message);
      return { action: "accept", content: { name: "Ada" } };
    },
    sampling: refuse,
    roots: refuse,
  }),
});

async function settled(name, args = {}) {
  const execution = await session.callTool(name, args);
  const { outcome } = await execution.settle();
  return { kind: execution.kind, ...outcome };
}

async function watchAndCancel() {
  const execution = await session.callTool("hold", { key: "ext-tasks" });
  const task = session.task(execution.handle.taskId);
  let seen = await task.snapshot();
  while (seen.status === "working" && seen.statusMessage !== "1 of 2: waiting") {
    await new Promise((resolve) => setTimeout(resolve, 50));
    seen = await task.snapshot();
  }
  await execution.cancel();
  const { outcome } = await execution.settle();
  return { watched: seen.statusMessage, cancelled: outcome.status };
}

const value = async (name, args) => (await settled(name, args)).result.structuredContent;
console.log(
  JSON.stringify({
    version: protocolVersion,
    echoed: await value("echo", { number: 7 }),
    kind: (await settled("echo", { number: 8 })).kind,
    greeted: await value("greet"),
    invited: await value("invite"),
    asked,
    ...(await watchAndCancel()),
    error: (await settled("fail")).result.content[0].text,
    protocol_error: (await settled("ask_for_roots")).error.message,
  }),
);
await session.close();
await client.close();

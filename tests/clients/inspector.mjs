// The command line of the MCP Inspector, which connects anew for each request. Its "strict" looks for schemas that some
// clients would not understand.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";

const [url, era, calls] = process.argv.slice(2);
const inspector = fileURLToPath(new URL("node_modules/.bin/mcp-inspector", import.meta.url));
const authorization = process.env.AUTHORIZATION;
const connection = [inspector, "--cli", url, "--transport", "http", "--protocol-era", era, "--stored-auth-only"];
if (authorization) connection.push("--header", `Authorization: ${authorization}`);

function ask(method, ...options) {
  const command = [...connection, "--format", "json", "--method", method, ...options];
  return new Promise((resolve) => {
    execFile(process.execPath, command, (failure, stdout, stderr) =>
      resolve({ code: failure ? failure.code : 0, stdout, stderr }),
    );
  });
}

async function callTool([name, args]) {
  const { stdout, stderr } = await ask("tools/call", "--tool-name", name, "--tool-args-json", JSON.stringify(args));
  return stdout ? JSON.parse(stdout).result : { error: JSON.parse(stderr).error.code };
}

async function callTools(calls) {
  const [list, ...results] = await Promise.all([ask("tools/list", "--strict"), ...calls.map(callTool)]);
  const { tools } = JSON.parse(list.stdout).result;
  return { tools, results, strict: { code: list.code, problems: list.stderr } };
}

async function converse() {
  const result = async (...command) => JSON.parse((await ask(...command)).stdout).result;
  const read = async (uri) => (await result("resources/read", "--uri", uri)).contents[0];
  const [prompts, prompt, resources, templates, today, data, leaf] = await Promise.all([
    result("prompts/list"),
    result("prompts/get", "--prompt-name", "paint", "--prompt-args", "color=green"),
    result("resources/list"),
    result("resources/templates/list"),
    read("notes://today"),
    read("notes://7/data"),
    read("notes://leaf"),
  ]);
  return {
    prompts: prompts.prompts.map((each) => each.name),
    messages: prompt.messages.map((message) => [message.role, message.content.text]),
    resources: resources.resources.map((each) => each.uri),
    templates: templates.resourceTemplates.map((each) => each.uriTemplate),
    today: today.text,
    data: data.text,
    leaf: leaf.blob,
  };
}

const wanted = JSON.parse(calls);
const [welcome, seen] = await Promise.all([ask("initialize"), wanted === null ? converse() : callTools(wanted)]);
const { protocolVersion, serverInfo } = JSON.parse(welcome.stdout).result;
console.log(JSON.stringify({ version: protocolVersion, server: serverInfo.name, ...seen }));

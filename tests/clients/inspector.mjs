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

const [welcome, list, ...results] = await Promise.all([
  ask("initialize"),
  ask("tools/list", "--strict"),
  ...JSON.parse(calls).map(callTool),
]);
const { protocolVersion, serverInfo } = JSON.parse(welcome.stdout).result;
console.log(
  JSON.stringify({
    version: protocolVersion,
    server: serverInfo.name,
    tools: JSON.parse(list.stdout).result.tools,
    results,
    strict: { code: list.code, problems: list.stderr },
  }),
);

// The same call as curl, JSON-RPC, MCP and Python. Secrets are never in it: the reader is asked for them, or puts them in.

function shellQuoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function wellSpaced(value) {
  const line = spacedJson(value);
  return line.length <= 48 ? line : prettyJson(value);
}

function absolute(url) {
  return new URL(url, location.href).href;
}

function curlSecret({ kind, header, scheme, username }) {
  // With a name alone, curl asks for the password.
  if (kind === "password") return `-u ${shellQuoted(username)}`;
  return `-H "${header}: ${header === "Authorization" ? `${scheme} ` : ""}$TOKEN"`;
}

function curl(server, url, headers, body) {
  const parts = [
    `curl ${shellQuoted(absolute(url))}`,
    ...(server.credentials ? [curlSecret(server.credentials)] : []),
    ...Object.entries(headers).map(([name, value]) => `-H ${shellQuoted(`${name}: ${value}`)}`),
    `-d ${shellQuoted(wellSpaced(body))}`,
  ];
  return parts.join(" \\\n  ");
}

function http(server, url, headers, body) {
  const secret = server.credentials && httpSecret(server.credentials);
  const lines = [...Object.entries(headers), ...(secret ? [secret] : [])].map(([name, value]) => `${name}: ${value}`);
  return [`POST ${absolute(url)}`, ...lines, "", prettyJson(body)].join("\n");
}

function httpSecret({ kind, header, scheme, username }) {
  if (kind === "password") return [header, `Basic <base64 of ${username}:PASSWORD>`];
  return [header, header === "Authorization" ? `${scheme} <TOKEN>` : "<TOKEN>"];
}

function python(server, url, headers, body, member) {
  const { credentials } = server;
  const shown = Object.entries(headers).map(([name, value]) => [name, compactJson(value)]);
  const options = [];
  if (credentials?.kind === "password") options.push(`auth=(${compactJson(credentials.username)}, getpass()),`);
  else if (credentials) {
    const scheme = credentials.header === "Authorization" ? `${credentials.scheme} ` : "";
    shown.push([credentials.header, scheme ? `${compactJson(scheme)} + getpass()` : "getpass()"]);
  }
  if (shown.length > 0) options.push(`headers={${shown.map(([name, value]) => `${compactJson(name)}: ${value}`).join(", ")}},`);
  return [
    ...(credentials ? ["from getpass import getpass", ""] : []),
    "import httpx",
    "",
    "response = httpx.post(",
    `    ${compactJson(absolute(url))},`,
    `    json=${pythonLiteral(body, "    ")},`,
    ...options.map((option) => `    ${option}`),
    ")",
    "response.raise_for_status()",
    `print(response.json()["${member}"])`,
  ].join("\n");
}

function pythonLiteral(value, indent) {
  const inner = `${indent}    `;
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return value.length === 0 ? "[]" : `[${value.map((item) => pythonLiteral(item, inner)).join(", ")}]`;
  if (!isObject(value)) return compactJson(value);
  const entries = Object.entries(value).map(([name, item]) => `${inner}${compactJson(name)}: ${pythonLiteral(item, inner)},\n`);
  return entries.length === 0 ? "{}" : `{\n${entries.join("")}${indent}}`;
}

// The tabs for a call: [label, text] each. Prompts and resources are MCP alone.
function snippetsOf(server, { method, params, schema }) {
  const { urls } = server;
  const label = { "Content-Type": "application/json" };
  const message = mcpMessage(1, method, params);
  const headers = { ...label, ...mcpHeaders(method, params, schema) };
  const { "Content-Type": _, ...beside } = headers;
  const mcp = ["MCP", () => http(server, urls.mcp, headers, message)];
  if (method !== "tools/call") {
    return [["curl", () => curl(server, urls.mcp, headers, message)], mcp,
      ["Python", () => python(server, urls.mcp, beside, message, "result")]];
  }
  const { name, arguments: given } = params;
  const invoke = { name, arguments: given };
  return [
    ["curl", () => curl(server, urls.invoke, label, invoke)],
    ["JSON-RPC", () => http(server, urls.jsonrpc, label, { jsonrpc: "2.0", method: name, params: given, id: 1 })],
    mcp,
    ["Python", () => python(server, urls.invoke, {}, invoke, "result")],
  ];
}

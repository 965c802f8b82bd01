// The server: MCP 2026-07-28 at one URL, and the REST list and description of tools.

const VERSION = "2026-07-28";
const META = "io.modelcontextprotocol/";
const CLIENT = { name: "explorer", version: "1" };
// What the explorer can do for a tool that asks back. It has no model and no files: neither sampling nor roots.
const CAPABILITIES = { elicitation: { form: {}, url: {} } };
const TASKS = `${META}tasks`;

// A request that failed as such. What fails in a tool is a result.
class Failure extends Error {
  constructor(message, { status, code, data } = {}) {
    super(message);
    Object.assign(this, { status, code, data });
  }
}

class Server {
  constructor(site) {
    this.urls = site.urls;
    this.ways = site.signIn.map(asOAuth);
    this.cookies = site.cookies; // whether a cookie of this site can sign in
    this.visitor = null; // who is signed in by one
    this.credentials = null; // in memory only: gone with the page
    this.trouble = null; // with the last sign-in
    this.onEnd = () => {}; // called when the server ends it
    this.capabilities = {};
    this.requests = 0;
  }

  get headers() {
    return this.credentials === null ? {} : { [this.credentials.header]: this.credentials.value };
  }

  get isSignedIn() {
    return this.credentials !== null || this.visitor !== null;
  }

  // Whether some tools can go on as tasks, and give the page a handle.
  get hasTasks() {
    return this.capabilities.extensions?.[TASKS] !== undefined;
  }

  // Ask who is signed in by a cookie, which scripts cannot read.
  async recognise() {
    this.visitor = null;
    if (this.credentials?.kind === "oauth") {
      this.credentials.username = (await readReply(await this.fetch(this.urls.caller, {}))).name;
    }
    if (!this.cookies || this.credentials !== null) return;
    const response = await fetch(this.urls.caller, { credentials: "same-origin", cache: "no-cache" });
    if (response.ok) this.visitor = (await response.json()).name;
  }

  // Send an MCP request and return its result.
  async ask(method, params = {}, { signal, schema, onNotification } = {}) {
    this.requests += 1;
    const id = this.requests;
    const declared = this.hasTasks ? { ...CAPABILITIES, extensions: { [TASKS]: {} } } : CAPABILITIES;
    const body = mcpMessage(id, method, params, onNotification && this.wishes(id), declared);
    const response = await this.fetch(this.urls.mcp, {
      method: "POST", body: compactJson(body), signal,
      headers: { "Content-Type": "application/json", ...mcpHeaders(method, params, schema) },
    });
    const reply = isStream(response)
      ? await readStream(response, onNotification)
      : await readReply(response);
    if (reply.error) throw new Failure(reply.error.message, { status: response.status, ...reply.error });
    return reply.result;
  }

  // What to tell while a call runs: how far it is, and what it logs.
  wishes(id) {
    return { progressToken: `progress-${id}`, ...(this.capabilities.logging && { [`${META}logLevel`]: "info" }) };
  }

  // What the server is, and what it has.
  async discover() {
    const result = await this.ask("server/discover");
    const { name = "Explorer", version } = result._meta?.[`${META}serverInfo`] ?? {};
    this.capabilities = result.capabilities;
    return { name, version, instructions: result.instructions };
  }

  // Everything of a list, page after page.
  async askAll(method, member) {
    return allPages(async (cursor) => {
      const result = await this.ask(method, cursor === undefined ? {} : { cursor });
      return [result[member], result.nextCursor];
    });
  }

  async listTools(onFirst) {
    return allPages(async (cursor) => {
      const page = await this.get(this.urls.list, cursor === undefined ? {} : { cursor });
      if (cursor === undefined) onFirst(page.tools);
      return [page.tools, page.nextCursor];
    });
  }

  async describe(name) {
    return this.get(this.urls.describe, { name });
  }

  async get(url, query) {
    const response = await this.fetch(`${url}?${new URLSearchParams(query)}`, {});
    const reply = await readReply(response);
    if (reply.error) throw new Failure(reply.error.message, { status: response.status, code: reply.error.code });
    return reply;
  }

  async fetch(url, options) {
    const response = await this.send(url, options);
    const { credentials } = this;
    if (response.status !== 401 || !credentials?.renew) return response;
    try {
      await credentials.renew();
    } catch (error) {
      if (error.status === undefined) throw error; // it may work later
      if (this.credentials === credentials) this.end("Your sign-in has ended.");
      return response;
    }
    return this.send(url, options);
  }

  end(trouble = null) {
    this.credentials = null;
    this.trouble = trouble;
    this.onEnd();
  }

  async send(url, { headers, ...options }) {
    try {
      // Without the browser's own credentials, it has no reason to open its own sign-in dialog.
      const credentials = this.credentials === null && this.visitor !== null ? "same-origin" : "omit";
      return await fetch(url, { ...options, headers: { ...headers, ...this.headers }, credentials, cache: "no-cache" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Failure("The server did not answer. Is it running?");
    }
  }
}

// With the login page of this site, if this page has the address that the server is known by.
function asOAuth(way) {
  return way.metadata && new URL(way.issuer).origin === location.origin ? { ...way, kind: "oauth" } : way;
}

async function allPages(getPage) {
  const items = [];
  const seen = new Set();
  let cursor;
  do {
    seen.add(cursor);
    const [page, next] = await getPage(cursor);
    items.push(...page);
    cursor = next ?? undefined;
  } while (cursor !== undefined && !seen.has(cursor));
  return items;
}

function mcpMessage(id, method, params, wishes, declared = CAPABILITIES) {
  const meta = {
    [`${META}protocolVersion`]: VERSION,
    [`${META}clientInfo`]: CLIENT,
    [`${META}clientCapabilities`]: declared,
    ...wishes,
  };
  return { jsonrpc: "2.0", id, method, params: { ...params, _meta: meta } };
}

function mcpHeaders(method, params, schema) {
  const headers = {
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": VERSION,
    "Mcp-Method": method,
  };
  const name = params.name ?? params.uri ?? params.taskId;
  if (name !== undefined) headers["Mcp-Name"] = headerValue(name);
  return { ...headers, ...argumentHeaders(schema, params.arguments) };
}

// The arguments that a schema wants repeated in headers.
function argumentHeaders(schema, values) {
  const headers = {};
  for (const [name, rules] of Object.entries(schema?.properties ?? {})) {
    const value = values?.[name];
    if (!isObject(rules) || value === undefined || value === null) continue;
    if (typeof rules["x-mcp-header"] === "string") headers[`Mcp-Param-${rules["x-mcp-header"]}`] = headerValue(value);
    Object.assign(headers, argumentHeaders(rules, value));
  }
  return headers;
}

function headerValue(value) {
  const text = typeof value === "string" ? value : compactJson(value);
  const isPlain = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !text.startsWith("=?base64?");
  return isPlain ? text : `=?base64?${base64(text)}?=`;
}

function base64(text) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}

function isStream(response) {
  return (response.headers.get("Content-Type") ?? "").startsWith("text/event-stream");
}

async function readReply(response) {
  const text = await response.text();
  try {
    return readJson(text);
  } catch {
    const { status, statusText } = response;
    throw new Failure(`The server answered ${status} ${statusText}, not with JSON`, { status });
  }
}

// Read events as they come: notifications on the way, the reply at the end.
async function readStream(response, onNotification = () => {}) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let data = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Failure("The server ended the answer before it was whole");
    // The last line may not be whole yet, and a carriage return may be half of a line's end.
    const lines = `${rest}${value}`.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data:")) data.push(line.slice(5));
      if (line !== "" || data.length === 0) continue;
      const message = readJson(data.join("\n"));
      data = [];
      if ("result" in message || "error" in message) return message;
      onNotification(message);
    }
  }
}

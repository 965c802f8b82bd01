// The official TypeScript clients sign in by OAuth: version 2 in both eras, or version 1, which is the mode "1".
import { disconnect, signIn } from "./person.mjs";

const [url, mode, steps] = process.argv.slice(2);
const callback = "http://127.0.0.1:3030/callback";
const asked = [];
const saved = [];
let cameBack;

const provider = {
  redirectUrl: callback,
  clientMetadata: {
    client_name: "test",
    redirect_uris: [callback],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  },
  state: () => crypto.randomUUID(),
  clientInformation: () => provider.client,
  saveClientInformation: (client) => void (provider.client = client),
  tokens: () => provider.stored,
  saveTokens: (tokens) => {
    provider.stored = tokens;
    saved.push(tokens.scope);
  },
  invalidateCredentials: () => void (provider.stored = undefined),
  codeVerifier: () => provider.verifier,
  saveCodeVerifier: (verifier) => void (provider.verifier = verifier),
  async redirectToAuthorization(authorization) {
    asked.push(authorization.searchParams.get("scope"));
    cameBack = await signIn(authorization, callback);
  },
};

const { Client, StreamableHTTPClientTransport } =
  mode === "1"
    ? {
        ...(await import("@modelcontextprotocol/sdk/client/index.js")),
        ...(await import("@modelcontextprotocol/sdk/client/streamableHttp.js")),
      }
    : await import("@modelcontextprotocol/client");

let client;
let transport;

async function connect() {
  client = new Client({ name: "test", version: "1" }, mode === "1" ? {} : { versionNegotiation: { mode } });
  transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  await client.connect(transport);
}

/** Do something, and do it again if it was stopped by a sign-in. */
async function signedIn(act) {
  try {
    return await act();
  } catch (error) {
    if (!cameBack) throw error;
    const { searchParams } = cameBack;
    cameBack = undefined;
    await transport.finishAuth(searchParams.get("code"), searchParams.get("iss"));
    return act();
  }
}

await signedIn(connect);
const { tools } = await client.listTools();
const results = [];
for (const step of JSON.parse(steps)) {
  if (step === "refresh") {
    provider.stored = { ...provider.stored, access_token: "expired" };
    continue;
  }
  if (step === "disconnect") {
    await disconnect(url);
    continue;
  }
  try {
    results.push((await signedIn(() => client.callTool({ name: step, arguments: {} }))).content[0].text);
  } catch (error) {
    results.push({ error: error.message });
  }
}
const version = mode === "1" ? transport.protocolVersion : client.getNegotiatedProtocolVersion();
console.log(JSON.stringify({ version, tools: tools.map((tool) => tool.name), results, asked, saved }));
await client.close();

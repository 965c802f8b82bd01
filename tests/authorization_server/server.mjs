// An authorization server with pages to sign in and consent: oidc-provider on a loopback port, everything in memory.
// Its arguments are its port, and the resources that it issues tokens for. Its keys are new with each start.
import { generateKeyPairSync, randomUUID } from "node:crypto";
import Provider, { errors } from "oidc-provider";

const [port, ...resources] = process.argv.slice(2);
const format = process.env.TOKEN_FORMAT ?? "jwt";
const scopes = ["articles:read", "articles:write"];
const seconds = 3600;

function makeKey(type, options, alg) {
  const { privateKey } = generateKeyPairSync(type, options);
  return { ...privateKey.export({ format: "jwk" }), alg, use: "sig", kid: randomUUID() };
}

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    { client_id: "resource-server", client_secret: "secret", grant_types: [], response_types: [], redirect_uris: [] },
    {
      client_id: "machine",
      client_secret: "secret",
      grant_types: ["client_credentials"],
      response_types: [],
      redirect_uris: [],
    },
  ],
  cookies: { keys: ["key"] },
  // Those of a resource have to be here too, or clients cannot register with them.
  scopes: ["openid", "offline_access", ...scopes],
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    introspection: { enabled: true },
    revocation: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo(context, resource) {
        if (!resources.includes(resource)) throw new errors.InvalidTarget();
        return {
          scope: scopes.join(" "),
          audience: resource,
          accessTokenTTL: seconds,
          accessTokenFormat: format,
          ...(format === "jwt" && { jwt: { sign: { alg: "ES256" } } }),
        };
      },
    },
  },
  jwks: {
    // It signs ID tokens with RS256, whether anyone asks for them or not.
    keys: [makeKey("rsa", { modulusLength: 2048 }, "RS256"), makeKey("ec", { namedCurve: "P-256" }, "ES256")],
  },
  pkce: { required: () => true },
  issueRefreshToken: (context, client) => client.grantTypeAllowed("refresh_token"),
  ttl: Object.fromEntries(
    ["AccessToken", "AuthorizationCode", "ClientCredentials", "Grant", "Interaction", "RefreshToken", "Session"].map(
      (name) => [name, seconds],
    ),
  ),
  findAccount: (context, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
});

// SDKs register with the scopes of their first challenge. A client that is bound to these could not ask for more.
provider.use(async (context, next) => {
  if (context.method === "POST" && context.path === "/reg") {
    const chunks = [];
    for await (const chunk of context.req) chunks.push(chunk);
    const { scope, ...registration } = JSON.parse(Buffer.concat(chunks));
    context.req.body = registration;
  }
  await next();
});

for (const event of ["authorization.error", "grant.error", "registration_create.error", "introspection.error"]) {
  provider.on(event, (context, error) => console.error(event, error.error, error.error_description));
}
provider.on("server_error", (context, error) => console.error(error));
const server = provider.listen(Number(port), "127.0.0.1");
server.on("error", (error) => {
  console.error(`The authorization server cannot listen on port ${port}: ${error.message}`);
  process.exit(1);
});

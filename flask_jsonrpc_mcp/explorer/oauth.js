// Signing in on the login page of this site, by OAuth with PKCE. It opens in a window of its own, so that the forms here stay
// as they are filled in. Tokens, and what gets them, are in memory only.

const CHANNEL = "explorer-sign-in";
const HERE = location.origin + location.pathname;

// In that window, when it comes back: pass the answer on, and close. Returns whether this is that window.
function isBackFromSignIn() {
  const query = new URLSearchParams(location.search);
  if (!query.has("state") || !(query.has("code") || query.has("error"))) return false;
  new BroadcastChannel(CHANNEL).postMessage(location.search);
  history.replaceState(null, "", location.pathname);
  find("frame").classList.add("has-item");
  find("main").replaceChildren(make("div", { class: "welcome" },
    make("h1", { tabindex: "-1" }, "Back to the other window"),
    make("p", {}, "The explorer goes on there. You can close this window.")));
  close();
  return true;
}

// Sign in, in a window that is open already: browsers let pages open one only at a click. Returns the credentials.
async function signInByOAuth(way, opened, resource, signal) {
  const metadata = await askIssuer(way.metadata);
  const { client_id } = await askIssuer(metadata.registration_endpoint, JSON.stringify({
    client_name: "Explorer", redirect_uris: [HERE], token_endpoint_auth_method: "none",
  }), { "Content-Type": "application/json" });
  const [state, verifier] = [randomText(), randomText()];
  const url = new URL(metadata.authorization_endpoint);
  url.search = new URLSearchParams({
    response_type: "code", client_id, redirect_uri: HERE, scope: metadata.scopes_supported.join(" "), resource, state,
    code_challenge: await challengeOf(verifier), code_challenge_method: "S256",
  });
  const answered = waitForAnswer(state, signal);
  opened.location.replace(url.href);
  const answer = await answered;
  if (answer.get("iss") !== metadata.issuer) throw new Failure("The answer came from another server.");
  if (answer.has("error")) {
    throw new Failure(answer.get("error") === "access_denied" ? "You have not allowed it."
      : answer.get("error_description") ?? answer.get("error"));
  }
  const tokens = await askIssuer(metadata.token_endpoint, new URLSearchParams({
    grant_type: "authorization_code", client_id, redirect_uri: HERE, resource, code: answer.get("code"), code_verifier: verifier,
  }));
  return makeCredentials(way, metadata, client_id, tokens);
}

function makeCredentials(way, metadata, client_id, tokens) {
  let renewing = null;
  const credentials = {
    ...way,
    value: `Bearer ${tokens.access_token}`,
    // Get the next access token. Several requests may find out at once that they need it.
    renew() {
      renewing ??= askIssuer(metadata.token_endpoint, new URLSearchParams({
        grant_type: "refresh_token", client_id, refresh_token: tokens.refresh_token,
      })).then((next) => {
        tokens = next;
        credentials.value = `Bearer ${tokens.access_token}`;
      }).finally(() => (renewing = null));
      return renewing;
    },
    async revoke() {
      await askIssuer(metadata.revocation_endpoint, new URLSearchParams({ client_id, token: tokens.refresh_token }));
    },
  };
  return credentials;
}

function waitForAnswer(state, signal) {
  return new Promise((resolve, reject) => {
    const channel = new BroadcastChannel(CHANNEL);
    signal.addEventListener("abort", () => {
      channel.close();
      reject(signal.reason);
    });
    channel.addEventListener("message", ({ data }) => {
      const answer = new URLSearchParams(data);
      if (answer.get("state") !== state) return; // of another window
      channel.close();
      resolve(answer);
    });
  });
}

async function askIssuer(url, body, headers = {}) {
  let response;
  try {
    response = await fetch(url, { method: body ? "POST" : "GET", body, headers, credentials: "omit" });
  } catch {
    throw new Failure("The server did not answer. Is it running?");
  }
  const reply = await readReply(response);
  if (!response.ok) throw new Failure(reply.error_description ?? reply.error, { status: response.status });
  return reply;
}

function randomText() {
  return base64Url(crypto.getRandomValues(new Uint8Array(32)));
}

async function challengeOf(verifier) {
  return base64Url(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier))));
}

function base64Url(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

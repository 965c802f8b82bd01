// Signing in. Names and secrets stay in memory, and go nowhere but to this server.

function signInValue(way, { username, secret }) {
  if (way.kind === "password") return `Basic ${base64(`${username}:${secret}`)}`;
  return way.header === "Authorization" ? `${way.scheme} ${secret}` : secret;
}

function canSignIn(server) {
  return server.ways.some(({ kind }) => kind !== "other");
}

// Ask how, and try it; calls signedIn() when the server agrees.
function openSignIn(server, signedIn) {
  const ways = server.ways.filter(({ kind }) => kind !== "other");
  const username = make("input", {
    id: newId(), autocomplete: "username", spellcheck: "false", autocapitalize: "none", required: true,
  });
  const password = make("input", { id: newId(), type: "password", autocomplete: "current-password" });
  const token = make("input", { id: newId(), type: "password", autocomplete: "off", required: true });
  const labelled = (input, text) => make("div", { class: "field" }, make("label", { for: input.id }, text), input);
  const byKind = {
    password: [labelled(username, "User name"), labelled(password, "Password")],
    token: [labelled(token, "Token")],
    oauth: [make("p", {}, "The login page of this site opens in a new window. There you sign in, and decide what the explorer may do.")],
  };
  const inputs = make("div", { class: "fields" });
  const error = make("p", { class: "error", role: "alert", hidden: true });
  const submit = make("button", { class: "primary", type: "submit" }, "Sign in");
  const leaving = new AbortController();
  let way = ways[0];

  function choose(chosen) {
    way = chosen;
    submit.textContent = way.kind === "oauth" ? "Continue" : "Sign in";
    error.hidden = true;
    inputs.replaceChildren(...byKind[way.kind]);
    if (way.kind === "token") inputs.querySelector("label").textContent = way.issuer ? tokenName(way, ways) : "Token";
  }
  const radios = ways.length > 1 && make("div", { class: "choice", role: "radiogroup", "aria-label": "Sign in with" },
    ways.map((each, index) => make("label", {},
      make("input", { type: "radio", name: "way", checked: index === 0, onchange: () => choose(each) }),
      make("span", {}, wayName(each, ways)))));

  async function trySignIn(event) {
    event.preventDefault();
    error.hidden = true;
    submit.disabled = true;
    const before = server.credentials;
    try {
      server.credentials = way.kind === "oauth" ? await visitLoginPage() : typedCredentials();
      await server.discover();
      server.trouble = null;
      dialog.close("done");
      signedIn();
    } catch (failure) {
      server.credentials = before;
      if (leaving.signal.aborted) return;
      const wrong = { password: "Wrong user name or password.", token: "The server does not know this token." }[way.kind];
      error.textContent = (failure.status === 401 && wrong) || failure.message;
      error.hidden = false;
      inputs.querySelector("input[type=password]")?.select();
    } finally {
      submit.disabled = false;
    }
  }

  function typedCredentials() {
    if (way.kind === "token") return { ...way, value: signInValue(way, { secret: token.value.trim() }) };
    return { ...way, username: username.value, value: signInValue(way, { username: username.value, secret: password.value }) };
  }

  async function visitLoginPage() {
    const opened = open("about:blank", "_blank", "popup,width=560,height=720");
    if (opened === null) throw new Failure("The browser has blocked the new window. Allow this page to open it, and try again.");
    submit.textContent = "Waiting for the new window…";
    try {
      return await signInByOAuth(way, opened, absolute(server.urls.mcp), leaving.signal);
    } catch (failure) {
      opened.close();
      throw failure;
    } finally {
      submit.textContent = "Continue";
    }
  }
  const dialog = make("dialog", { "aria-labelledby": "sign-in-title", onclose: () => leaving.abort() },
    make("form", { onsubmit: trySignIn },
      make("h2", { id: "sign-in-title" }, "Sign in"), radios, inputs, error,
      make("p", { class: "hint" }, "Kept in this page’s memory only; reloading forgets it."),
      make("div", { class: "actions" }, button("Cancel", () => dialog.close()), submit)));
  choose(way);
  askInDialog(dialog);
  (inputs.querySelector("input") ?? submit).focus();
}

function wayName(way, ways) {
  return { password: "Password", oauth: "Login page" }[way.kind] ?? tokenName(way, ways);
}

function tokenName(way, ways) {
  if (way.issuer) return `Access token of ${way.issuer}`;
  const others = ways.filter(({ kind, issuer }) => kind === "token" && !issuer);
  return others.length > 1 ? `Token (${way.header})` : "Token";
}

// Who is signed in, and the button to change that.
function showWho(server, { open, signOut }) {
  const { credentials, ways } = server;
  if (credentials !== null) {
    const how = credentials.username ? "Signed in as " : "Signed in ";
    const who = credentials.username || "with a token";
    return [make("span", { class: "user" }, make("span", { class: "muted" }, how), who), button("Sign out", signOut)];
  }
  if (server.visitor !== null) {
    return [make("span", { class: "user" }, make("span", { class: "muted" }, "Signed in as "), server.visitor)];
  }
  if (canSignIn(server)) {
    const trouble = server.trouble && make("span", { class: "trouble", role: "alert" }, server.trouble);
    return [trouble, button("Sign in", open, { class: "primary", id: "sign-in" })].filter(Boolean);
  }
  return ways.length > 0 ? [make("span", { class: "muted" }, `Sign-in by ${ways[0].scheme} is not possible on this page`)] : [];
}

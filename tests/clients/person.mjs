// The person at the browser, who signs in and consents, on the pages of tests/authorization_server or of our own.

const cookies = new Map();

async function visit(url, body) {
  const method = body ? "POST" : "GET";
  const cookie = [...cookies].map((pair) => pair.join("=")).join("; ");
  const response = await fetch(url, { method, body, headers: { cookie }, redirect: "manual" });
  for (const line of response.headers.getSetCookie()) {
    const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
    if (value) cookies.set(name, value);
    else cookies.delete(name);
  }
  return response;
}

/** Open an authorization URL, and return the one that the browser comes back with. */
export async function signIn(url, callback) {
  let response = await visit(url);
  for (let page = 0; page < 20; page++) {
    if (response.headers.has("location")) {
      url = new URL(response.headers.get("location"), url);
      if (url.href.startsWith(callback)) return url;
      response = await visit(url);
      continue;
    }
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    const hidden = text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]+)"/g);
    const button = text.matchAll(/<button class="main" name="(\w+)" value="(\w+)"/g);
    const form = new URLSearchParams([...hidden, ...button].map(([, name, value]) => [name, value]));
    if (text.includes('name="login"')) {
      form.set("login", process.env.LOGIN);
      form.set("password", "any");
    }
    url = new URL(/<form[^>]* action="([^"]+)"/.exec(text)[1].replaceAll("&amp;", "&"), url);
    response = await visit(url, form);
  }
  throw new Error(`no way back to the client from ${url}`);
}

/** Disconnect all apps, on the page for it of the site that a URL belongs to. */
export async function disconnect(url) {
  const apps = new URL("/oauth/apps", url);
  for (const [form] of (await (await visit(apps)).text()).matchAll(/<form.*?<\/form>/gs)) {
    const hidden = [...form.matchAll(/name="(\w+)" value="([^"]+)"/g)];
    const response = await visit(apps, new URLSearchParams(hidden.map(([, name, value]) => [name, value])));
    if (!response.ok) throw new Error(await response.text());
  }
}

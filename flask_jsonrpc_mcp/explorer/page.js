// The page: who is here, what there is, what is shown.

const site = JSON.parse(document.body.dataset.site);
const server = new Server(site);
const KINDS = { tools: "Tool", prompts: "Prompt", resources: "Resource", templates: "Resource template" };

let items = [];
let about = { name: "Explorer" };
const views = new Map();
let entries = [];
let loads = 0;
let lastShown = "";

const START = "#/start"; // on a phone, the list is at "#"
const TASKS_PAGE = "#/tasks";
let tasksView = null;

// Ask the server everything anew, as whoever is signed in now.
async function load() {
  loads += 1;
  const load = loads;
  items = [];
  showList([]);
  let failure = null;
  try {
    await server.recognise();
    if (load !== loads) return;
    find("who").replaceChildren(...showWho(server, { open: () => openSignIn(server, signedIn), signOut }));
    about = await server.discover();
    const listed = await listItems(server, (first) => {
      if (load === loads) showList(first);
    });
    if (load !== loads) return; // someone has signed in or out meanwhile
    items = listed;
  } catch (error) {
    if (load !== loads) return;
    failure = error;
  }
  find("brand").textContent = about.name;
  find("version").textContent = about.version ?? "";
  showList(items, true);
  find("tasks").hidden = !(server.hasTasks && server.isSignedIn);
  failure ? showTrouble(failure) : show();
}

function signedIn() {
  announce("Signed in");
  for (const view of views.values()) view.refresh(); // the forms stay as they are filled in
  load();
}

async function signOut() {
  const { credentials } = server;
  views.clear(); // with what others should not see
  tasksView = null;
  announce("Signed out");
  server.end();
  try {
    await credentials.revoke?.();
  } catch {
    server.trouble = "Signed out here, but the server could not be told. Disconnect the explorer on its page of connected apps.";
    load();
  }
}

// The list at the side: kinds, and within them groups by what is before the first dot.
function showList(listed, complete = false) {
  entries = [];
  const kinds = Object.entries(KINDS).filter(([kind]) => listed.some((item) => item.kind === kind));
  find("list").replaceChildren(...kinds.map(([kind, title]) => {
    const groups = groupBy(listed.filter((item) => item.kind === kind));
    return make("section", { class: "kind" }, make("h2", {}, `${title}s`), [...groups].map(([name, members]) => {
      const heading = groups.size > 1 && name && make("h3", {}, name);
      return make("section", { class: "group" }, heading, make("ul", {}, members.map(listEntry)));
    }));
  }));
  filter();
  if (!complete) find("found").textContent = "Loading…";
}

function groupBy(members) {
  const groups = new Map();
  for (const item of members) {
    const [group, rest] = item.kind === "tools" || item.kind === "prompts" ? item.name.split(".", 2) : [""];
    const name = rest === undefined ? "" : group;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(item);
  }
  return new Map([...groups].sort(([a], [b]) => a.localeCompare(b)));
}

function listEntry(item) {
  const link = make("a", { href: addressOf(item.kind, item.id) },
    make("span", { class: "title" }, item.title), item.title !== item.name && make("code", {}, item.name));
  const element = make("li", {}, link);
  entries.push({ item, element, link, text: `${item.name} ${item.title} ${item.description ?? ""}`.toLowerCase() });
  return element;
}

function filter() {
  const words = find("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { element, text } of entries) {
    element.hidden = !words.every((word) => text.includes(word));
    shown += element.hidden ? 0 : 1;
  }
  for (const group of find("list").querySelectorAll(".group, .kind")) group.hidden = !group.querySelector("li:not([hidden])");
  find("found").textContent = words.length === 0 ? "" : shown === 0 ? "Nothing found" : `${shown} of ${entries.length}`;
}

// Show what the address names.
function show(focus = false) {
  const [kind, name] = readAddress(location.hash);
  const item = items.find((each) => each.kind === kind && each.id === name)
    ?? (kind === "resources" && server.capabilities.resources ? resourceItem({ uri: name }) : undefined);
  for (const { link, item: each } of entries) markCurrent(link, each === item);
  const isTasks = location.hash === TASKS_PAGE;
  markCurrent(find("start"), kind === undefined && !isTasks);
  markCurrent(find("tasks"), isTasks);
  find("frame").classList.toggle("has-item", Boolean(kind) || location.hash === START || isTasks);
  if (isTasks) {
    showTasks(focus);
    return;
  }
  if (!item) {
    document.title = `${about.name} – explorer`;
    find("main").replaceChildren(kind ? missing(name) : welcome());
    if (focus) goBack();
    return;
  }
  lastShown = location.hash;
  if (!views.has(location.hash)) views.set(location.hash, makeItemView(server, about, item));
  const view = views.get(location.hash);
  document.title = `${item.title} – ${about.name}`;
  find("main").replaceChildren(view.element);
  scrollTo(0, 0);
  if (focus) view.heading.focus();
}

function showTasks(focus) {
  document.title = `Your tasks – ${about.name}`;
  tasksView ??= makeTasksView(server, about, (name) => items.find((item) => item.kind === "tools" && item.name === name)?.title ?? name);
  find("main").replaceChildren(tasksView.element);
  tasksView.load();
  if (focus) tasksView.heading.focus();
}

function markCurrent(link, isCurrent) {
  if (isCurrent) link.setAttribute("aria-current", "page");
  else link.removeAttribute("aria-current");
}

function goBack() {
  const entry = entries.find(({ item }) => addressOf(item.kind, item.id) === lastShown);
  (entry?.link.checkVisibility() ? entry.link : find("main").querySelector("h1")).focus();
}

function welcome() {
  const counts = Object.entries(KINDS)
    .map(([kind, title]) => [items.filter((item) => item.kind === kind).length, title.toLowerCase()])
    .filter(([count]) => count > 0)
    .map(([count, title]) => make("li", {}, make("strong", {}, count.toLocaleString("en")), ` ${title}${count > 1 ? "s" : ""}`));
  const more = server.ways.length > 0 && !server.isSignedIn ? " Sign in, and there may be more." : "";
  return make("div", { class: "welcome" }, backLink(),
    make("h1", { tabindex: "-1" }, about.name),
    about.instructions && make("p", { class: "lead" }, about.instructions),
    make("ul", { class: "counts" }, counts),
    make("p", { class: "muted" },
      `${items.length === 0 ? "There is nothing here that you may use." : "Choose from the list, read, and try."}${more}`),
    connectSection(site.connect, absolute(server.urls.mcp)),
    server.urls.openapi && make("p", { class: "muted" }, "For other programs, the tools are plain REST endpoints: ",
      make("a", { href: server.urls.openapi }, "OpenAPI document"), "."));
}

function missing(name) {
  return make("div", { class: "welcome" }, make("h1", { tabindex: "-1" }, "Not here"),
    make("p", {}, make("code", {}, name), !server.isSignedIn && server.ways.length > 0
      ? " does not exist, or you have to sign in to see it." : " does not exist, or you may not use it."),
    make("p", {}, make("a", { href: "#" }, "See everything")));
}

function showTrouble(failure) {
  find("found").textContent = "";
  find("frame").classList.add("has-item");
  const closed = failure.status === 401 && !server.isSignedIn;
  find("main").replaceChildren(make("div", { class: "welcome" },
    make("h1", { tabindex: "-1" }, closed ? "Sign in to begin" : "This did not work"),
    make("p", {}, closed ? server.trouble ?? "This server answers only to those it knows." : failure.message),
    !closed && button("Try again", load),
    closed && canSignIn(server) && button("Sign in", () => openSignIn(server, signedIn), { class: "primary" }),
    closed && connectSection(site.connect, absolute(server.urls.mcp))));
}

// Keys: "/" to search, arrows to walk the list.
function onKey(event) {
  const typing = event.target.closest("input, textarea, select, dialog");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    find("search").focus();
  }
}

function walk(event) {
  const steps = { ArrowDown: 1, ArrowUp: -1 };
  if (!(event.key in steps)) return;
  const shown = [find("search"), ...entries.filter(({ element }) => !element.hidden).map(({ link }) => link)];
  const next = shown[shown.indexOf(document.activeElement) + steps[event.key]];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

find("search").addEventListener("input", filter);
document.querySelector("nav.list").addEventListener("keydown", walk);
document.addEventListener("keydown", onKey);
addEventListener("hashchange", () => {
  if (location.hash === "#main") find("main").focus();
  else show(true);
});
server.onEnd = load;
if (!isBackFromSignIn()) load();

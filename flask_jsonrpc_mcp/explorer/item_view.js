// The page of one tool, prompt or resource: what it is, its form, its result, the same call elsewhere, its schemas.

function makeItemView(server, about, item) {
  const form = makeForm(item.schema);
  const runner = makeRunner(server, about, item, form);
  const same = makeSameCall(server, () => item.callWith(form.read().value));
  if (item.reference && server.capabilities.completions) {
    form.element.addEventListener("input", ({ target }) => suggest(server, item, form, target));
  }
  const element = make("article", { class: "item" },
    backLink(),
    itemHeader(server, item),
    make("div", { class: "columns" },
      tryForm(item, form, runner, same),
      make("div", { class: "right" }, runner.outcome,
        make("section", { class: "same" }, make("h2", {}, "The same call"), same.element))),
    item.kind === "tools" && schemaSection(item));
  return { element, heading: element.querySelector("h1"), refresh: same.refresh };
}

// On a phone, where the list is a page of its own.
function backLink() {
  return make("a", { class: "back", href: "#" }, "← Everything");
}

function itemHeader(server, item) {
  const badges = item.badges.map(([tone, text]) => make("li", { class: `badge ${tone}` }, text));
  const facts = make("dl", { class: "facts" });
  if (item.kind === "tools") showPermissions(server, item, facts);
  return make("header", {},
    make("h1", { tabindex: "-1" }, item.title),
    item.title !== item.name && make("p", { class: "id" }, make("code", {}, item.name)),
    item.description && make("p", { class: "lead" }, item.description),
    badges.length > 0 && make("ul", { class: "badges", "aria-label": "Hints" }, badges),
    facts);
}

function tryForm(item, form, runner, same) {
  const change = button("Edit as JSON", () => {
    if (form.change()) change.textContent = form.isJson ? "Edit as a form" : "Edit as JSON";
    same.refresh();
  }, { class: "quiet" });
  const { properties = {}, additionalProperties } = item.schema;
  const canChange = item.kind === "tools" && (Object.keys(properties).length > 0 || additionalProperties !== false);
  const start = (event) => {
    event.preventDefault();
    runner.start();
  };
  const startByKey = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) start(event);
  };
  const control = /Mac|iP/.test(navigator.platform) ? "⌘" : "Ctrl";
  return make("form", {
    class: "try", "aria-label": "Arguments", novalidate: true, oninput: same.refresh, onsubmit: start, onkeydown: startByKey,
  },
  make("div", { class: "heading" }, make("h2", {}, item.kind === "resources" ? "Contents" : "Arguments"), canChange && change),
  item.kind !== "resources" && form.element,
  make("div", { class: "actions start" }, runner.run, runner.cancel,
    make("span", { class: "hint keys" }, make("kbd", {}, control), " ", make("kbd", {}, "Enter"))));
}

// Ask the server how an argument may go on.
async function suggest(server, { reference }, form, input) {
  const { argument } = input.dataset;
  if (argument === undefined) return;
  const { [argument]: value = "", ...others } = form.read().value;
  try {
    const params = { ref: reference, argument: { name: argument, value }, context: { arguments: others } };
    const { completion } = await server.ask("completion/complete", params);
    if (input.value === value) input.list.replaceChildren(...completion.values.map((text) => make("option", { value: text })));
  } catch {
    // Without suggestions it can be filled in just as well.
  }
}

// The call as it is filled in now, in the ways in which it can be made elsewhere.
function makeSameCall(server, call) {
  const place = make("div");
  let text = null;
  const refresh = () => place.replaceChildren(showText(text()));
  const tabs = snippetsOf(server, call()).map(([name], index) => {
    const snippet = () => snippetsOf(server, call())[index][1]();
    return [name, () => {
      text = snippet;
      refresh();
      return place;
    }, snippet];
  });
  return { element: makeTabs("The same call as", tabs), refresh };
}

async function showPermissions(server, item, facts) {
  try {
    const { access = [], tool } = await server.describe(item.name);
    for (const [label, names] of [["Permission", access], ["Scope", tool.annotations?.auth?.scopes ?? []]]) {
      if (names.length > 0) {
        facts.append(make("div", {}, make("dt", {}, names.length > 1 ? `${label}s` : label),
          make("dd", {}, names.map((name) => make("code", {}, name)))));
      }
    }
  } catch {
    // A server may keep its descriptions to itself; the tool works all the same.
  }
}

function schemaSection(item) {
  const part = (title, schema) => {
    const table = schema && schemaTable(schema, title);
    return table && make("section", {}, make("h2", {}, title), table,
      make("details", {}, make("summary", {}, "JSON Schema"),
        copyButton(() => prettyJson(schema)), showJson(schema)));
  };
  const parts = [part("What it takes", item.schema), part("What it gives", item.output)].filter(Boolean);
  return parts.length > 0 && make("div", { class: "schemas" }, parts);
}

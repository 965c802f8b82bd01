// How AI clients connect: what to paste into each. The server makes the texts, with the names of variables for secrets.

function connectSection({ notes, clients }, url) {
  const tabs = clients.map((client) => [client.title, () => showClient(client), () => client.text]);
  return make("section", { class: "connect" },
    make("h2", {}, "Connect an AI client"),
    make("p", { class: "address" }, make("span", { class: "muted" }, "URL"), make("code", {}, url), copyButton(() => url)),
    makeTabs("AI client", tabs),
    showNotes(notes));
}

function showClient({ text, notes: [place, ...others] }) {
  return make("div", { class: "blocks" }, make("p", {}, withCode(place)), showText(text), showNotes(others));
}

function showNotes(notes) {
  return notes.length > 0 && make("ul", { class: "notes" }, notes.map((note) => make("li", {}, withCode(note))));
}

// A text with code in backticks.
function withCode(text) {
  return text.split("`").map((part, index) => (index % 2 === 1 ? make("code", {}, part) : part));
}

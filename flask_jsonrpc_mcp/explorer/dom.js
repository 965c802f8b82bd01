// Elements. Whatever comes from the server goes in as text, never as HTML.

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

function find(id) {
  return document.getElementById(id);
}

let lastId = 0;

function newId() {
  lastId += 1;
  return `e${lastId}`;
}

// Tell screen readers, politely.
function announce(text) {
  find("announcer").textContent = text;
}

function button(text, onclick, attributes = {}) {
  return make("button", { type: "button", onclick, ...attributes }, text);
}

// Several views in one place, one of them shown. Each tab is [label, make its content, the text to copy].
function makeTabs(label, tabs) {
  const panel = make("div", { class: "tab-panel", role: "tabpanel", id: newId(), tabindex: "0" });
  let chosen = 0;

  function choose(index, focus = false) {
    chosen = index;
    buttons.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === index));
      tab.tabIndex = i === index ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", buttons[index].id);
    panel.replaceChildren(tabs[index][1]());
    if (focus) buttons[index].focus();
  }

  function move(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    choose((chosen + steps[event.key] + tabs.length) % tabs.length, true);
  }

  const buttons = tabs.map(([name], index) =>
    button(name, () => choose(index), { role: "tab", id: newId(), "aria-controls": panel.id, class: "tab" }));
  choose(0);
  const list = make("div", { role: "tablist", "aria-label": label, class: "tab-list", onkeydown: move }, buttons);
  return make("div", {}, make("div", { class: "tab-bar" }, list, copyButton(() => tabs[chosen][2]())), panel);
}

// A table that scrolls sideways within itself where it is wide.
function scrollingTable(caption, columns, body, kind) {
  return make("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": caption },
    make("table", { class: kind }, make("caption", { class: "visually-hidden" }, caption),
      make("thead", {}, make("tr", {}, columns.map((text) => make("th", { scope: "col" }, text)))), body));
}

// A button that hides an element, and shows it again.
function foldButton(element) {
  const fold = button("Collapse", () => {
    element.hidden = !element.hidden;
    fold.textContent = element.hidden ? "Expand" : "Collapse";
    fold.setAttribute("aria-expanded", String(!element.hidden));
  }, { class: "quiet", "aria-expanded": "true", "aria-controls": element.id });
  return fold;
}

// Ask in a dialog; the answer is the value of the button that was pressed, "" for Escape.
function askInDialog(dialog) {
  return new Promise((resolve) => {
    document.body.append(dialog);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue);
    });
    dialog.showModal();
  });
}

// A text that can be copied. Its button says that it was.
function copyButton(text) {
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text());
    } catch {
      copyBySelection(text()); // pages that came over plain HTTP from another machine have no clipboard
    }
    copy.textContent = "Copied";
    announce("Copied");
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  }, { class: "quiet copy" });
  return copy;
}

function copyBySelection(text) {
  const area = make("textarea", { class: "visually-hidden", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

// Values as people read them: JSON in colours, lists of objects as tables. What is long is cut, and a button shows the rest.

const MOST_LINES = 40;
const MOST_TEXT = 4000;
const MOST_ROWS = 50;
const MOST_IN_CELL = 100;

function showText(text) {
  return showLines(text, "text", (part) => [part]);
}

function showJson(value) {
  return showLines(prettyJson(value), "json", colouredJson);
}

function showLines(text, kind, show) {
  const shown = make("pre", { class: kind });
  const lines = text.split("\n");
  const start = lines.slice(0, MOST_LINES).join("\n").slice(0, MOST_TEXT);
  const fill = (whole) => shown.replaceChildren(...show(whole ? text : start));
  if (start.length === text.length) {
    fill(true);
    return shown;
  }
  return withMore(shown, fill, lines.length > MOST_LINES ? `${lines.length.toLocaleString("en")} lines` : "");
}

// Something of which fill(false) shows a part and fill(true) all, with a button to change between the two.
function withMore(element, fill, amount) {
  let whole = false;
  const more = button("", () => {
    whole = !whole;
    show();
    if (!whole) element.scrollIntoView({ block: "nearest" });
  }, { class: "quiet more" });
  function show() {
    fill(whole);
    more.textContent = whole ? "Show less" : `Show all ${amount}`.trim();
    more.setAttribute("aria-expanded", String(whole));
  }
  show();
  return make("div", { class: "long" }, element, more);
}

const MOST_COLOURED = 100_000;

// JSON with its parts marked for colours.
function colouredJson(text) {
  if (text.length > MOST_COLOURED) return [text];
  const tokens = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d[\d.eE+-]*)|\b(true|false|null)\b/g;
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(tokens)) {
    const kind = match[2] ? "key" : match[1] ? "string" : match[3] ? "number" : "word";
    parts.push(text.slice(end, match.index), make("span", { class: kind }, match[1] ?? match[0]), match[2] ?? "");
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}

// The rows of a value that is a list of objects, or an object of plain values and one such list: {name, rows, facts}.
function tableIn(value) {
  if (isRows(value)) return { name: "Result", rows: value, facts: [] };
  if (!isObject(value)) return null;
  const entries = Object.entries(value);
  const [list, ...others] = entries.filter(([, member]) => member !== null && typeof member === "object" && !isExactNumber(member));
  if (list === undefined || others.length > 0 || !isRows(list[1])) return null;
  return { name: list[0], rows: list[1], facts: entries.filter((entry) => entry !== list) };
}

function isRows(value) {
  return Array.isArray(value) && value.length > 0 && value.every((row) => isObject(row) && Object.keys(row).length > 0);
}

function showTable({ name, rows, facts }) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cells = (row) => make("tr", {}, columns.map((column) => make("td", {}, showCell(row[column]))));
  const body = make("tbody");
  const fill = (whole) => body.replaceChildren(...(whole ? rows : rows.slice(0, MOST_ROWS)).map(cells));
  const table = scrollingTable(name, columns, body, "values");
  fill(false);
  return make("div", { class: "blocks" },
    facts.length > 0 && make("dl", { class: "facts" },
      facts.map(([fact, value]) => make("div", {}, make("dt", {}, fact), make("dd", {}, showCell(value))))),
    rows.length > MOST_ROWS ? withMore(table, fill, `${rows.length.toLocaleString("en")} rows`) : table);
}

function showCell(value) {
  if (value === undefined) return "";
  if (value === null) return make("span", { class: "muted" }, "null");
  const text = plain(value);
  const shown = make(typeof value === "object" && text === spacedJson(value) ? "code" : "span");
  const fill = (whole) => (shown.textContent = whole ? text : `${text.slice(0, MOST_IN_CELL)}…`);
  if (text.length > MOST_IN_CELL) return withMore(shown, fill, "");
  shown.textContent = text;
  return shown;
}

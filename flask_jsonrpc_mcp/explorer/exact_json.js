// JSON in and out with every digit: a number that JavaScript cannot hold stays the text that it was.

const holdsDigits = typeof JSON.rawJSON === "function";

function isExactNumber(value) {
  return holdsDigits && JSON.isRawJSON(value);
}

function readNumber(text) {
  const number = Number(text);
  const exact = Number.isFinite(number) && (!/^-?\d+$/.test(text) || Number.isSafeInteger(number));
  return exact || !holdsDigits ? number : JSON.rawJSON(text);
}

function readJson(text) {
  return JSON.parse(text, (_, value, context) =>
    typeof value === "number" && context?.source ? readNumber(context.source) : value);
}

function compactJson(value) {
  return JSON.stringify(value);
}

function prettyJson(value) {
  return JSON.stringify(value, null, 2);
}

// On one line where it fits, with spaces as people write it.
function spacedJson(value) {
  if (Array.isArray(value)) return `[${value.map(spacedJson).join(", ")}]`;
  if (value === null || typeof value !== "object" || isExactNumber(value)) return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${spacedJson(item)}`).join(", ")}}`;
}

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !isExactNumber(value);
}

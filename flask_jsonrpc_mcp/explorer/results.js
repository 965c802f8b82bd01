// What a call gave: values, content blocks, messages of a prompt, contents of a resource.

const READABLE_LINK = /^https?:\/\//i;

function dataUrl(mimeType, data) {
  return `data:${mimeType};base64,${data}`;
}

function showBinary(mimeType = "application/octet-stream", data) {
  const type = /^[\w.+-]+\/[\w.+-]+$/.test(mimeType) ? mimeType : "application/octet-stream";
  const url = dataUrl(type, data);
  if (type.startsWith("image/")) return make("img", { src: url, alt: `Image of type ${type}` });
  if (type.startsWith("audio/")) return make("audio", { src: url, controls: true, "aria-label": `Sound of type ${type}` });
  const bytes = Math.floor((data.length * 3) / 4).toLocaleString("en");
  const download = { href: dataUrl("application/octet-stream", data), download: "download" };
  return make("p", {}, `${type}, about ${bytes} bytes. `, make("a", download, "Download"));
}

function showUri(uri) {
  // Anything but the web stays text: nobody can tell what another scheme would start.
  if (!READABLE_LINK.test(uri)) return make("code", {}, uri);
  return make("a", { href: uri, target: "_blank", rel: "noopener noreferrer" }, uri);
}

function showContents({ uri, mimeType, text, blob }) {
  return make("figure", {}, make("figcaption", {}, showUri(uri), mimeType && make("span", { class: "muted" }, ` ${mimeType}`)),
    blob === undefined ? showText(text ?? "") : showBinary(mimeType, blob));
}

function showBlock(block, canRead) {
  if (block.type === "text") return showText(block.text);
  if (block.type === "image" || block.type === "audio") return showBinary(block.mimeType, block.data);
  if (block.type === "resource") return showContents(block.resource);
  if (block.type === "resource_link") {
    return make("div", { class: "link-card" }, make("strong", {}, block.title ?? block.name), showUri(block.uri),
      block.description && make("p", {}, block.description),
      canRead && !READABLE_LINK.test(block.uri) && make("a", { href: addressOf("resources", block.uri) }, "Read it here"));
  }
  return showJson(block);
}

// Whether the content is nothing but the structured value once more.
function repeats(content, value) {
  if (content.length !== 1 || content[0].type !== "text") return false;
  if (typeof value === "string") return content[0].text === value;
  try {
    return compactJson(readJson(content[0].text)) === compactJson(value);
  } catch {
    return false;
  }
}

// The views of a result, as tabs: [label, make it, the text to copy] each.
// canRead: whether the server has resources, which links in the result may lead to.
function viewsOf(method, result, canRead) {
  const views = [];
  const list = (label, items, show, text) =>
    [label, () => make("div", { class: "blocks" }, items.map(show)), () => items.map(text).join("\n\n")];
  if (method === "tools/call") {
    const content = result.content ?? [];
    const structured = result.structuredContent;
    if (structured !== undefined) views.push(...valueViews(structured));
    const adds = content.length > 0 && (structured === undefined || !repeats(content, structured));
    if (adds) views.push(list("Content", content, (block) => showBlock(block, canRead), blockText));
  }
  if (method === "prompts/get") {
    views.push(list("Messages", result.messages ?? [], ({ role, content }) =>
      make("section", { class: "message" }, make("h4", {}, role), showBlock(content, canRead)), ({ content }) => blockText(content)));
  }
  if (method === "resources/read") views.push(list("Contents", result.contents ?? [], showContents, blockText));
  views.push(["Reply", () => showJson(result), () => prettyJson(result)]);
  return views;
}

function valueViews(value) {
  if (typeof value === "string") return [["Result", () => showText(value), () => value]];
  const json = ["JSON", () => showJson(value), () => prettyJson(value)];
  const table = tableIn(value);
  return table ? [["Table", () => showTable(table), () => prettyJson(value)], json] : [["Result", ...json.slice(1)]];
}

function blockText(block) {
  return block.text ?? prettyJson(block);
}

function textOf(result) {
  return (result.content ?? []).filter(({ type }) => type === "text").map(({ text }) => text).join("\n");
}

function duration(milliseconds) {
  return milliseconds < 1000 ? `${Math.max(1, Math.round(milliseconds))} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

// What is wrong with the arguments, found in the text of a failed call: "Invalid arguments: /limit: must be …; /type: …".
function problemsIn(text) {
  const [, listed] = /^Invalid arguments: (\/.*)$/s.exec(text) ?? [];
  return (listed?.split(/; (?=\/)/) ?? []).map((part) => {
    const end = part.indexOf(": ");
    return { path: part.slice(0, end), message: part.slice(end + 2) };
  });
}

// What there is to try: tools, prompts, resources and templates of resources, each as
// {kind, id, name, title, description, schema, output, badges, callWith(values), confirm, reference, raw}.

function toolItem(tool) {
  const hints = tool.annotations ?? {};
  const serverAsks = tool._meta?.["flask-jsonrpc-mcp/confirm"] === true;
  return {
    kind: "tools", id: tool.name, name: tool.name, title: tool.title ?? hints.title ?? tool.name, description: tool.description,
    schema: tool.inputSchema, output: tool.outputSchema, badges: [...badgesOf(hints), ...(serverAsks ? [["", "Asks first"]] : [])],
    confirm: mayDestroy(hints) && !serverAsks, raw: tool,
    callWith: (values) => ({ method: "tools/call", params: { name: tool.name, arguments: values }, schema: tool.inputSchema }),
  };
}

function promptItem(prompt) {
  const given = prompt.arguments ?? [];
  const properties = given.map(({ name, title, description }) => [name, { type: "string", title, description, suggests: true }]);
  const required = given.filter((argument) => argument.required).map(({ name }) => name);
  return {
    kind: "prompts", id: prompt.name, name: prompt.name, title: prompt.title ?? prompt.name, description: prompt.description,
    schema: { type: "object", properties: Object.fromEntries(properties), required }, badges: [], raw: prompt,
    reference: { type: "ref/prompt", name: prompt.name },
    callWith: (values) => ({ method: "prompts/get", params: { name: prompt.name, arguments: values } }),
  };
}

function resourceItem(resource) {
  return {
    kind: "resources", id: resource.uri, name: resource.uri, title: resource.title ?? resource.name ?? resource.uri,
    description: resource.description, schema: { type: "object", properties: {} },
    badges: resource.mimeType ? [["", resource.mimeType]] : [], raw: resource,
    callWith: () => ({ method: "resources/read", params: { uri: resource.uri } }),
  };
}

function templateItem(template) {
  const names = [...template.uriTemplate.matchAll(EXPRESSIONS)].flatMap(([, , variables]) => namesIn(variables));
  const properties = Object.fromEntries(names.map((name) => [name, { type: "string", suggests: true }]));
  return {
    ...resourceItem({ ...template, uri: template.uriTemplate }), kind: "templates", raw: template,
    schema: { type: "object", properties, required: names },
    reference: { type: "ref/resource", uri: template.uriTemplate },
    callWith: (values) => ({ method: "resources/read", params: { uri: expand(template.uriTemplate, values) } }),
  };
}

// The templates of RFC 6570, such as articles://{id} and search://all{?words,limit}.
const EXPRESSIONS = /\{([+#./;?&]?)([^}]*)\}/g;

function namesIn(variables) {
  return variables.split(",").map((name) => name.replace(/[*:].*$/, ""));
}

function expand(template, values) {
  const named = [";", "?", "&"];
  return template.replace(EXPRESSIONS, (_, operator, variables) => {
    const given = namesIn(variables).filter((name) => values[name] !== undefined);
    const written = given.map((name) => {
      const value = "+#".includes(operator || "-") ? encodeURI(values[name]) : encodeURIComponent(values[name]);
      return named.includes(operator) ? `${name}=${value}` : value;
    });
    if (written.length === 0) return "";
    const first = operator === "+" ? "" : operator;
    return first + written.join({ "": ",", "+": ",", "#": ",", "?": "&" }[operator] ?? operator);
  });
}

// MCP takes a tool for destructive unless it says that it only reads, or that it destroys nothing.
function mayDestroy(hints) {
  return hints.readOnlyHint !== true && hints.destructiveHint !== false;
}

function badgesOf(hints) {
  const badges = [];
  if (hints.readOnlyHint === true) badges.push(["good", "Read-only"]);
  else if (hints.destructiveHint === true) badges.push(["bad", "Destructive"]);
  else if (hints.destructiveHint === false) badges.push(["", "Not destructive"]);
  else badges.push(["warn", "May be destructive"]);
  if (hints.idempotentHint === true) badges.push(["", "Idempotent"]);
  if (hints.openWorldHint === true) badges.push(["", "Open world"]);
  if (hints.openWorldHint === false) badges.push(["", "Closed world"]);
  return badges;
}

// Everything this caller may use. What the server has not is left out.
// onFirst: hears of the first page of tools, which may be long before all are there.
async function listItems(server, onFirst) {
  const { capabilities } = server;
  const [tools, prompts, resources, templates] = await Promise.all([
    capabilities.tools ? server.listTools((tools) => onFirst(tools.map(toolItem))) : [],
    capabilities.prompts ? server.askAll("prompts/list", "prompts") : [],
    capabilities.resources ? server.askAll("resources/list", "resources") : [],
    capabilities.resources ? server.askAll("resources/templates/list", "resourceTemplates") : [],
  ]);
  return [...tools.map(toolItem), ...prompts.map(promptItem), ...resources.map(resourceItem), ...templates.map(templateItem)];
}

// The address of an item on this page, and back.
function addressOf(kind, id) {
  return `#/${kind}/${encodeURIComponent(id)}`;
}

function readAddress(hash) {
  const [, kind, id] = /^#\/(\w+)\/(.+)$/.exec(hash) ?? [];
  try {
    return id === undefined ? [] : [kind, decodeURIComponent(id)];
  } catch {
    return [kind, id]; // written by hand, and no address of ours
  }
}

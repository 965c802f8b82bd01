// What a JSON Schema says, in the few ways that a form and a table need to know.

const NOTES = ["title", "description", "default", "examples"];

// A schema with references followed, alternatives sorted out and null put aside:
// {rules, nullable, choices: [{value, title}] or null, alternatives: [schema] or null}
function lookAt(schema, root, depth = 0) {
  let rules = isObject(schema) ? follow(schema, root) : {};
  let nullable = false;
  let choices = null;
  let alternatives = null;

  if (Array.isArray(rules.type)) {
    nullable = rules.type.includes("null");
    const types = rules.type.filter((type) => type !== "null");
    if (types.length > 1) alternatives = types.map((type) => ({ ...rules, type }));
    else rules = { ...rules, type: types[0] };
  }
  const union = rules.anyOf ?? rules.oneOf;
  if (Array.isArray(union) && depth < 20) {
    const { anyOf, oneOf, ...outer } = rules;
    const options = union.filter((option) => !isNull(follow(option, root)));
    nullable ||= options.length < union.length;
    if (options.length === 1) {
      const inner = lookAt(merge(follow(options[0], root), outer), root, depth + 1);
      return { ...inner, nullable: nullable || inner.nullable };
    }
    if (options.every((option) => isObject(option) && "const" in option)) {
      choices = options.map((option) => ({ value: option.const, title: option.title }));
    } else {
      const shared = Object.fromEntries(Object.entries(outer).filter(([name]) => !NOTES.includes(name)));
      alternatives = options.map((option) => merge(shared, follow(option, root)));
    }
    rules = outer;
  }
  if (Array.isArray(rules.enum)) {
    const titles = rules.enumNames ?? []; // how MCP named the choices of a form before 2025-11-25
    choices = rules.enum.map((value, index) => ({ value, title: titles[index] })).filter(({ value }) => value !== null);
    nullable ||= choices.length < rules.enum.length;
  } else if ("const" in rules) {
    choices = [{ value: rules.const }];
  } else if (rules.type === "boolean") {
    choices = [{ value: true }, { value: false }];
  }
  return { rules, nullable, choices, alternatives };
}

// Follow a reference within the schema, and put what must all hold into one.
function follow(schema, root) {
  let found = isObject(schema) ? schema : {};
  for (let steps = 0; typeof found.$ref === "string" && steps < 20; steps += 1) {
    const { $ref, ...beside } = found;
    found = merge(pointedAt($ref, root), beside);
  }
  if (Array.isArray(found.allOf)) {
    const { allOf, ...outer } = found;
    found = [...allOf.map((part) => follow(part, root)), outer].reduce(merge, {});
  }
  return found;
}

function merge(first, second) {
  const merged = { ...first, ...second };
  if (first.properties && second.properties) merged.properties = { ...first.properties, ...second.properties };
  if (first.required && second.required) merged.required = [...first.required, ...second.required];
  return merged;
}

function pointedAt(reference, root) {
  if (!reference.startsWith("#")) return {};
  const steps = decodeURIComponent(reference.slice(1)).split("/").slice(1);
  const target = steps.reduce((value, step) => value?.[step.replaceAll("~1", "/").replaceAll("~0", "~")], root);
  return isObject(target) ? target : {};
}

function isNull(rules) {
  return rules.type === "null" || ("const" in rules && rules.const === null);
}

// Its type in a few words, such as "array of string or null".
function typeWords(schema, root, depth = 0) {
  const { rules, nullable, choices, alternatives } = lookAt(schema, root);
  let words = rules.type ?? "any";
  if (depth > 3) words = "…";
  else if (alternatives) words = [...new Set(alternatives.map((option) => typeWords(option, root, depth + 1)))].join(" or ");
  else if (choices && rules.type !== "boolean") words = rules.type ?? [...new Set(choices.map(({ value }) => typeOf(value)))].join(" or ");
  else if (rules.type === "array" && rules.items) words = `array of ${typeWords(rules.items, root, depth + 1)}`;
  else if (!rules.type && rules.properties) words = "object";
  else if (rules.format) words = `${words} (${rules.format})`;
  return nullable ? `${words} or null` : words;
}

function typeOf(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return isObject(value) || typeof value !== "object" ? typeof value : "number";
}

// Its rules in words, one text each.
function ruleWords(schema, root) {
  const { rules, choices } = lookAt(schema, root);
  const words = [];
  if (choices && rules.type !== "boolean") words.push(`one of ${choices.map(({ value }) => plain(value)).join(", ")}`);
  const range = (low, high, unit = "") => {
    const shown = (bound) => (unit ? bound.toLocaleString("en") : plain(bound));
    if (low !== undefined && high !== undefined) words.push(`${shown(low)} to ${shown(high)}${unit}`);
    else if (low !== undefined) words.push(`at least ${shown(low)}${unit}`);
    else if (high !== undefined) words.push(`at most ${shown(high)}${unit}`);
  };
  range(rules.minimum, rules.maximum);
  if (rules.exclusiveMinimum !== undefined) words.push(`more than ${plain(rules.exclusiveMinimum)}`);
  if (rules.exclusiveMaximum !== undefined) words.push(`less than ${plain(rules.exclusiveMaximum)}`);
  if (rules.multipleOf !== undefined) words.push(`multiple of ${plain(rules.multipleOf)}`);
  range(rules.minLength, rules.maxLength, " characters");
  range(rules.minItems, rules.maxItems, " items");
  if (rules.uniqueItems) words.push("no item twice");
  if (rules.pattern !== undefined) words.push(`matches ${rules.pattern}`);
  if (rules.default !== undefined) words.push(`default ${plain(rules.default)}`);
  return words;
}

function plain(value) {
  const isListOfTexts = Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === "string");
  if (isListOfTexts) return value.join(", ");
  return typeof value === "string" && value !== "" ? value : spacedJson(value);
}

// A schema as a table of fields; those of nested objects are indented below their own.
function schemaTable(schema, caption) {
  const rows = [];
  const add = (rules, name, required, level) => {
    rows.push(make("tr", {},
      make("th", { scope: "row", class: `level-${Math.min(level, 5)}` },
        make("code", {}, name), " ", required && make("span", { class: "required" }, "required")),
      make("td", {}, make("span", { class: "type" }, typeWords(rules, schema))),
      make("td", {}, describeRules(rules))));
    if (level < 5) addInner(rules, level + 1);
  };
  const describeRules = (rules) => {
    const { description } = follow(rules, schema);
    const words = ruleWords(rules, schema);
    return [description && make("p", {}, description),
      words.length > 0 && make("ul", { class: "rules" }, words.map((text) => make("li", {}, text)))];
  };
  const addInner = (rules, level) => {
    const { rules: inner, alternatives } = lookAt(rules, schema);
    const item = inner.type === "array" ? lookAt(inner.items, schema).rules : inner;
    for (const option of alternatives ?? [item]) {
      const { properties = {}, required = [] } = lookAt(option, schema).rules;
      for (const [name, part] of Object.entries(properties)) add(part, name, required.includes(name), level);
    }
  };
  const { rules } = lookAt(schema, schema);
  if (rules.properties) addInner(schema, 0);
  else if (Object.keys(rules).length > 0) add(schema, "value", false, 0);
  if (rows.length === 0) return null;
  return scrollingTable(caption, ["Field", "Type", "Meaning"], make("tbody", {}, rows), "fields-table");
}

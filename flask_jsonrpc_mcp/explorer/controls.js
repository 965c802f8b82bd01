// One control per kind of value. Each is {element, read(problems), write(value), child(step)}:
// read returns undefined for what is not to be sent, write tells whether the control can show the value,
// and child finds the field inside by one step of a path.

const LONG_TEXT = 200;
const MOST_BOXES = 20;

function makeControl(look, context) {
  const { rules, choices, alternatives } = look;
  if (alternatives) return alternativesControl(look, context);
  if (choices) return choiceControl(look, context);
  if (rules.type === "string") return textControl(look, context);
  if (rules.type === "integer" || rules.type === "number") return numberControl(look, context);
  if (rules.type === "array" && isObject(rules.items)) {
    const { choices: boxes } = lookAt(rules.items, context.root);
    const few = boxes && boxes.length <= MOST_BOXES && rules.items.type !== "boolean";
    return few ? boxesControl(boxes, context) : listControl(rules, context);
  }
  if (rules.properties) return objectControl(rules, context);
  if (rules.type === "object" && isObject(rules.additionalProperties)) return mapControl(rules, context);
  return jsonControl(look, context);
}

// Whether a control is a group of inputs, to be labelled as such.
function isGroup({ rules, choices, alternatives }) {
  if (alternatives) return true;
  return !choices && ((rules.type === "array" && isObject(rules.items)) || Boolean(rules.properties)
    || (rules.type === "object" && isObject(rules.additionalProperties)));
}

const INPUT_TYPES = { date: "date", time: "time", "date-time": "datetime-local", email: "email", uri: "url" };

function textControl({ rules }, { id, name, required, described }) {
  // Any text may have line breaks, unless it is known to be short or to follow a rule.
  const isFree = rules.maxLength === undefined && rules.pattern === undefined;
  const mayHaveLines = !rules.format && !rules.suggests && (isFree || rules.maxLength > LONG_TEXT);
  const isMoment = rules.format === "date-time";
  const type = INPUT_TYPES[rules.format] ?? "text";
  const attributes = { id, ...described, placeholder: exampleOf(rules), autocomplete: "off", spellcheck: "false" };
  const input = mayHaveLines
    ? make("textarea", { ...attributes, rows: rules.maxLength ? "3" : "1" })
    : make("input", { ...attributes, type, step: isMoment || type === "time" ? "1" : null });
  // Suggestions are fetched by whoever made the form.
  const suggestions = rules.suggests && make("datalist", { id: newId() });
  if (suggestions) {
    input.setAttribute("list", suggestions.id);
    input.dataset.argument = name;
  }
  let touched = false;
  input.addEventListener("input", () => (touched = true));
  return {
    element: suggestions ? make("div", {}, input, suggestions) : input,
    read() {
      if (input.value === "") return required && touched && type === "text" ? "" : undefined;
      // The input has no time zone, so it is taken for the reader's own and sent as the same moment in UTC.
      return isMoment ? new Date(input.value).toISOString().replace(".000Z", "Z") : input.value;
    },
    write(value) {
      touched = true;
      input.value = isMoment ? localMoment(value) : value;
      return typeof value === "string" && (isMoment ? input.value !== "" : input.value === value);
    },
  };
}

function localMoment(text) {
  const moment = new Date(text);
  if (Number.isNaN(moment.valueOf())) return "";
  return new Date(moment.valueOf() - moment.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function exampleOf(rules) {
  if (rules.default !== undefined) return `default: ${plain(rules.default)}`;
  const [example] = Array.isArray(rules.examples) ? rules.examples : [];
  return example === undefined || isObject(example) ? undefined : `for example ${plain(example)}`;
}

// A text input: the number inputs of browsers hide what they cannot read, and change when one scrolls over them.
function numberControl({ rules }, { id, described }) {
  const input = make("input", {
    id, ...described, type: "text", class: "number", autocomplete: "off", placeholder: exampleOf(rules),
    inputmode: rules.type === "integer" && !(rules.minimum < 0) ? "numeric" : "text",
  });
  return {
    element: input,
    read() {
      const text = input.value.trim();
      if (text === "") return undefined;
      // What is no number is sent as it is: the server says what is wrong with it, as with everything else.
      return /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text) ? readNumber(text) : text;
    },
    write(value) {
      input.value = compactJson(value);
      return typeof value === "number" || isExactNumber(value);
    },
  };
}

function choiceControl({ rules, choices }, { id, described, required }) {
  const unset = rules.default !== undefined ? `default: ${plain(rules.default)}` : required ? "Choose…" : "Not set";
  const select = make("select", { id, ...described },
    make("option", { value: "" }, unset),
    choices.map(({ value, title }, index) => make("option", { value: String(index) }, title ?? plain(value))));
  if (required && choices.length === 1) select.value = "0";
  return {
    element: select,
    read: () => (select.value === "" ? undefined : choices[Number(select.value)].value),
    write(value) {
      const index = choices.findIndex((choice) => compactJson(choice.value) === compactJson(value));
      select.value = index < 0 ? "" : String(index);
      return index >= 0;
    },
  };
}

// A list of some of a few values: a box for each.
function boxesControl(choices, { required, described }) {
  const boxes = choices.map(() => make("input", { type: "checkbox" }));
  const labels = choices.map(({ value, title }, index) => make("label", { class: "box" }, boxes[index], title ?? plain(value)));
  return {
    element: make("div", { class: "boxes", ...described }, labels),
    read() {
      const chosen = choices.filter((_, index) => boxes[index].checked).map(({ value }) => value);
      return chosen.length > 0 || required ? chosen : undefined;
    },
    write(value) {
      const wanted = Array.isArray(value) ? value.map(compactJson) : [];
      boxes.forEach((box, index) => (box.checked = wanted.includes(compactJson(choices[index].value))));
      return compactJson(this.read([])) === compactJson(value);
    },
  };
}

function listControl(rules, context) {
  const rows = [];
  const list = make("ol", { class: "rows" });
  const itemName = (index) => `${context.name} ${index + 1}`;

  function renumber() {
    rows.forEach((row, index) => {
      row.field.rename(itemName(index));
      row.remove.setAttribute("aria-label", `Remove ${itemName(index)}`);
    });
    list.hidden = rows.length === 0;
    list.dispatchEvent(new Event("input", { bubbles: true }));
  }
  function add(focus) {
    const field = makeField({ ...context, name: itemName(rows.length), schema: rules.items, required: true, inRow: true });
    const remove = button("Remove", () => {
      rows.splice(rows.indexOf(row), 1);
      row.element.remove();
      renumber();
      addButton.focus();
    }, { class: "quiet" });
    const row = { field, remove, element: make("li", {}, field.element, remove) };
    rows.push(row);
    list.append(row.element);
    renumber();
    if (focus) field.focus();
    return field;
  }
  const addButton = button("Add item", () => add(true), { class: "quiet add", "aria-label": `Add item to ${context.name}` });
  list.hidden = true;
  return {
    element: make("div", { class: "list", ...context.described }, list, addButton),
    read: (problems) => (rows.length > 0 || context.required ? rows.map(({ field }) => field.read(problems) ?? null) : undefined),
    write(value) {
      if (!Array.isArray(value)) return false;
      rows.splice(0).forEach((row) => row.element.remove());
      return value.map((item) => add(false).write(item)).every(Boolean);
    },
    child: (step) => rows[Number(step)]?.field,
  };
}

function objectControl(rules, context) {
  const required = rules.required ?? [];
  const fields = new Map();
  const body = make("div", { class: "fields" });
  const wrapper = make("div", { class: "object", ...context.described });
  let open = false;

  // Fields are made when they are needed: an object may contain itself.
  function setOpen(wanted) {
    open = wanted;
    if (open && fields.size === 0) {
      for (const [name, schema] of Object.entries(rules.properties)) {
        const field = makeField({ ...context, name, schema, required: required.includes(name), inRow: false });
        fields.set(name, field);
        body.append(field.element);
      }
    }
    wrapper.replaceChildren(...(open ? [body] : []), ...(context.required ? [] : [toggle()]));
  }
  function toggle() {
    return button(open ? "Leave out" : "Fill in", () => {
      setOpen(!open);
      (open ? [...fields.values()][0] : null)?.focus();
      if (!open) wrapper.querySelector("button").focus();
      wrapper.dispatchEvent(new Event("input", { bubbles: true }));
    }, { class: "quiet add" });
  }
  setOpen(context.required);
  return {
    element: wrapper,
    read(problems) {
      if (!open) return undefined;
      const read = [...fields].map(([name, field]) => [name, field.read(problems)]);
      return Object.fromEntries(read.filter(([, value]) => value !== undefined));
    },
    write(value) {
      if (!isObject(value)) return false;
      setOpen(true);
      return Object.entries(value).map(([name, item]) => fields.get(name)?.write(item) ?? false).every(Boolean);
    },
    child: (step) => fields.get(step),
  };
}

// An object with names of the caller's choice.
function mapControl(rules, context) {
  const entry = {
    type: "object", required: ["name", "value"],
    properties: { name: { type: "string", maxLength: LONG_TEXT }, value: rules.additionalProperties },
  };
  const list = listControl({ items: entry }, { ...context, name: "Entry" });
  return {
    element: list.element,
    read(problems) {
      const entries = list.read(problems);
      return entries && Object.fromEntries(entries.map(({ name = "", value = null }) => [name, value]));
    },
    write: (value) => isObject(value) && list.write(Object.entries(value).map(([name, item]) => ({ name, value: item }))),
  };
}

function alternativesControl({ rules, alternatives }, context) {
  const controls = new Map();
  const place = make("div", {});
  const names = alternatives.map((option) => follow(option, context.root).title ?? typeWords(option, context.root));
  const select = make("select", { id: context.id, "aria-label": `${context.name}: kind of value`, class: "kind", onchange: show },
    names.map((name, index) => make("option", { value: String(index) }, name)));
  const unset = !context.required && make("option", { value: "" }, "Not set");
  if (unset) select.prepend(unset);
  select.value = unset ? "" : "0";

  function chosen() {
    if (select.value === "") return null;
    if (!controls.has(select.value)) {
      const look = lookAt(alternatives[Number(select.value)], context.root);
      controls.set(select.value, makeControl(look, { ...context, id: newId(), required: true, label: context.name }));
    }
    return controls.get(select.value);
  }
  function show() {
    const control = chosen();
    place.replaceChildren(...(control ? [control.element] : []));
    const input = control?.element;
    if (input?.matches("input, select, textarea")) input.setAttribute("aria-label", context.name);
  }
  show();
  return {
    element: make("div", { class: "alternatives", ...context.described }, select, place),
    read: (problems) => chosen()?.read(problems),
    write(value) {
      return alternatives.some((_, index) => {
        select.value = String(index);
        show();
        return chosen().write(value) && compactJson(chosen().read([])) === compactJson(value);
      });
    },
    child: (step) => chosen()?.child?.(step),
  };
}

// Anything else, as JSON.
function jsonControl({ rules }, { id, described }) {
  const area = make("textarea", {
    id, ...described, class: "code", rows: "3", spellcheck: "false", autocomplete: "off",
    placeholder: rules.default === undefined ? "JSON" : compactJson(rules.default),
  });
  return {
    element: area,
    read(problems, field) {
      if (area.value.trim() === "") return undefined;
      try {
        return readJson(area.value);
      } catch (error) {
        problems.push({ field, message: `is not JSON: ${error.message}` });
        return undefined;
      }
    },
    write(value) {
      area.value = prettyJson(value);
      return true;
    },
  };
}

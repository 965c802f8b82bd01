// A form made from a schema: labelled fields, and one piece of JSON for those who would rather write it.

// A field: its label, what is said about it, its control, and what is wrong with it.
function makeField(options) {
  const { schema, root, required, inRow, prefill } = options;
  const look = lookAt(schema, root);
  const { rules, nullable } = look;
  const group = isGroup(look);
  const id = newId();
  const label = make(group ? "span" : "label", { class: "name", for: group ? null : id }, rules.title ?? options.name);
  const type = make("span", { class: "type", id: newId() }, [typeWords(schema, root), ...formHints(look, options)].join(" · "));
  const description = make("p", { class: "description", id: newId() }, inRow ? "" : rules.description);
  const error = make("p", { class: "error", id: newId(), hidden: true });
  const described = {
    "aria-describedby": [type, description, error].map((note) => note.id).join(" "),
    "aria-required": required && !group ? "true" : null,
  };
  const control = makeControl(look, { ...options, id, described });
  const nullBox = nullable && make("input", { type: "checkbox", "aria-label": `${options.name}: send null`, onchange: disable });

  const title = [label, " ", rules.title && !inRow && make("code", { class: "key" }, options.name), " ", type, " ",
    required && !inRow && make("span", { class: "required" }, "required")];
  const element = make(group ? "fieldset" : "div", { class: inRow ? "field in-row" : "field" },
    make(group ? "legend" : "div", { class: "title" }, title), description,
    make("div", { class: "control" }, control.element, nullBox && make("label", { class: "box null" }, nullBox, "null")), error);

  function disable() {
    const inputs = "input, select, textarea, button";
    for (const input of [control.element, ...control.element.querySelectorAll(inputs)]) input.disabled = nullBox.checked;
  }
  const field = {
    element,
    read(problems) {
      return nullBox && nullBox.checked ? null : control.read(problems, field);
    },
    write(value) {
      if (nullBox) {
        nullBox.checked = value === null;
        disable();
      }
      return value === null && nullable ? true : control.write(value);
    },
    // The field that a path leads to, or the nearest one on the way.
    find: ([step, ...rest]) => (step === undefined ? field : control.child?.(step)?.find(rest) ?? field),
    focus: () => element.querySelector("input:not([disabled]), select, textarea, button")?.focus(),
    rename: (name) => (label.textContent = rules.title ?? name),
    report(message) {
      error.textContent = error.hidden ? message : `${error.textContent}; ${message}`;
      error.hidden = false;
      element.classList.add("wrong");
      if (!group) element.querySelector("input, select, textarea").setAttribute("aria-invalid", "true");
    },
  };
  if (prefill && rules.default !== undefined) field.write(rules.default);
  return field;
}

// What helps to fill in a field. The rest, such as patterns, is in the table of the schema.
function formHints({ rules, choices }, { schema, root, inRow }) {
  if (choices || inRow) return [];
  const hasPlaceholder = rules.type !== "array" && !rules.properties;
  const elsewhere = hasPlaceholder ? /^(matches|default) / : /^matches /;
  const words = ruleWords(schema, root).filter((text) => !elsewhere.test(text));
  return rules.format === "date-time" ? [...words, "in your time zone, sent as UTC"] : words;
}

// The form of a schema of an object.
function makeForm(schema, { prefill = false } = {}) {
  const { rules } = lookAt(schema, schema);
  const fits = isObject(rules.properties) || !rules.type || rules.type === "object";
  const shape = fits ? { ...rules, properties: rules.properties ?? {} } : rules;
  const element = make("div", { class: "form" });
  let fields = null;
  let json = null;

  function newFields() {
    return objectControl(shape, { root: schema, required: true, prefill, described: {}, name: "" });
  }
  function showFields(value) {
    const made = newFields();
    if (value !== undefined && !(made.write(value) && compactJson(made.read([])) === compactJson(value))) return false;
    fields = made;
    json = null;
    const nothing = Object.keys(shape.properties).length === 0 && make("p", { class: "muted" }, "Takes no arguments.");
    element.replaceChildren(nothing || fields.element);
    return true;
  }
  function showJson(value) {
    const area = make("textarea", {
      class: "code whole", rows: "12", spellcheck: "false", autocomplete: "off", "aria-label": "Arguments as JSON",
    });
    const error = make("p", { class: "error", role: "alert", hidden: true });
    area.value = prettyJson(value);
    json = { area, error };
    fields = null;
    element.replaceChildren(area, error);
  }
  function complain(message) {
    json.error.textContent = message;
    json.error.hidden = false;
  }
  const form = {
    element,
    get isJson() {
      return json !== null;
    },
    // What is filled in: {value, problems}.
    read() {
      const problems = [];
      if (fields) return { value: fields.read(problems) ?? {}, problems };
      try {
        const value = readJson(json.area.value);
        if (isObject(value)) return { value, problems };
        problems.push({ message: "Arguments must be an object: { … }" });
      } catch (error) {
        problems.push({ message: `This is not JSON: ${error.message}` });
      }
      return { value: {}, problems };
    },
    // Change between fields and JSON, and keep the values; tells whether it could.
    change() {
      form.clear();
      const { value, problems } = form.read();
      if (problems.length > 0) {
        form.report(problems);
        return false;
      }
      if (fields) {
        showJson(value);
        return true;
      }
      const changed = showFields(value);
      if (!changed) complain("The form has no place for some of this; it stays JSON.");
      return changed;
    },
    clear() {
      for (const error of element.querySelectorAll(".error")) error.hidden = true;
      for (const wrong of element.querySelectorAll(".wrong")) wrong.classList.remove("wrong");
      for (const input of element.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
    },
    report(problems) {
      for (const { field, message } of problems) field ? field.report(message) : complain(message);
      const first = element.querySelector(".wrong :is(input, select, textarea, button):not([disabled])");
      if (problems.length > 0) (first ?? json?.area)?.focus();
    },
    // The field at a path such as /period/start, if there is one.
    at(path) {
      const [step, ...rest] = path.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
      return step === undefined ? undefined : fields?.child(step)?.find(rest);
    },
  };
  showFields();
  return form;
}

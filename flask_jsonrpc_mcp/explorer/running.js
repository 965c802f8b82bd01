// One call from the button to its result: confirmed, running, asked back, done, cancelled or failed.

function makeRunner(server, about, item, form) {
  const outcome = make("section", { class: "outcome", "aria-label": "Result", hidden: true });
  const run = make("button", { type: "submit", class: "primary run" }, item.kind === "tools" ? "Run" : "Get");
  const cancel = button("Cancel", () => controller.abort(), { hidden: true });
  let controller = null;
  let running = false;

  async function start() {
    if (running) return;
    running = true; // also while its question is open
    try {
      await attempt();
    } finally {
      running = false;
    }
  }

  async function attempt() {
    form.clear();
    const { value, problems } = form.read();
    if (problems.length > 0) {
      form.report(problems);
      return;
    }
    if (item.confirm && !(await confirmRun(item, value))) return;
    controller = new AbortController();
    run.setAttribute("aria-disabled", "true"); // were it disabled, it would lose the focus
    cancel.hidden = false;
    const started = performance.now();
    const time = () => duration(performance.now() - started);
    try {
      const call = item.callWith(value);
      const result = await finish(call);
      if (result === null) show("Cancelled", "muted");
      else if (result.isError) {
        const text = textOf(result) || "The tool failed";
        const [, showReply] = views(call, result).at(-1);
        showFailure(text, time(), problemsIn(text), make("details", {}, make("summary", {}, "Reply"), showReply()));
      } else show(`Done in ${time()}`, "good", makeTabs("Result", views(call, result)));
    } catch (error) {
      if (error.name === "AbortError") show(`Cancelled after ${time()}`, "muted");
      else showFailure(explain(error), time(), error.data?.errors ?? []);
    } finally {
      run.removeAttribute("aria-disabled");
      if (document.activeElement === cancel) run.focus();
      cancel.hidden = true;
    }
  }

  function views({ method }, result) {
    return viewsOf(method, result, Boolean(server.capabilities.resources));
  }

  // Send the call, and again with the answers as often as the server asks back.
  async function finish({ method, params, schema }) {
    let answers = {};
    for (;;) {
      const progress = makeProgress();
      outcome.hidden = false;
      outcome.replaceChildren(progress.element);
      const result = await server.ask(method, { ...params, ...answers }, {
        signal: controller.signal, schema, onNotification: progress.onNotification,
      });
      if (result.resultType !== "input_required") return result;
      answers = result.requestState === undefined ? {} : { requestState: result.requestState };
      if (result.inputRequests === undefined) continue;
      const inputResponses = await askBack(result.inputRequests, outcome, about.name, controller.signal);
      if (inputResponses === null) return null;
      answers.inputResponses = inputResponses;
    }
  }

  function show(text, tone, ...content) {
    outcome.hidden = false;
    const heading = make("h3", { class: `status ${tone}`, tabindex: "-1" }, text);
    const body = make("div", { id: newId() }, content);
    outcome.replaceChildren(make("div", { class: "heading" }, heading, content.length > 0 && foldButton(body)), body);
    if (document.activeElement === document.body) heading.focus(); // it was on a question that is gone
    outcome.scrollIntoView({ block: "nearest" });
    announce(text);
  }
  function showFailure(text, time, problems, reply = "") {
    show(`Failed after ${time}`, "bad", make("p", { class: "failure" }, text), reply);
    form.report(problems.map(({ path, message }) => ({ field: form.at(path), message })).filter(({ field }) => field));
    announce(text);
  }
  function explain(error) {
    const listed = (error.data?.errors ?? []).map(({ path, message }) => `${path}: ${message}`);
    if (error.status !== 401) return [error.message, ...listed].join("\n");
    return server.isSignedIn ? "The server does not accept your sign-in any more." : "Sign in to use this.";
  }
  return { start, outcome, run, cancel };
}

async function confirmRun(item, value) {
  const dialog = make("dialog", { "aria-labelledby": "confirm-title" },
    make("form", { method: "dialog" },
      make("h2", { id: "confirm-title" }, `Run ${item.name}?`),
      make("p", {}, item.raw.annotations?.destructiveHint === true
        ? "It says that it changes or deletes what is there."
        : "It does not say whether it changes or deletes what is there."),
      showJson(value),
      make("div", { class: "actions" },
        make("button", { value: "" }, "Cancel"), make("button", { value: "run", class: "danger" }, "Run it"))));
  return (await askInDialog(dialog)) === "run";
}

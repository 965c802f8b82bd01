// One call from the button to its result: confirmed, running, asked back, done, cancelled or failed.

// The place where something runs, and then its result is.
function makeOutcome(server) {
  const element = make("section", { class: "outcome", "aria-label": "Result", hidden: true });

  function show(text, tone, ...content) {
    element.hidden = false;
    const heading = make("h3", { class: `status ${tone}`, tabindex: "-1" }, text);
    const body = make("div", { id: newId() }, content);
    element.replaceChildren(make("div", { class: "heading" }, heading, content.length > 0 && foldButton(body)), body);
    if (document.activeElement === document.body) heading.focus(); // it was on a question that is gone
    element.scrollIntoView({ block: "nearest" });
    announce(text);
  }
  function showFailure(heading, text, reply = "") {
    show(heading, "bad", make("p", { class: "failure" }, text), reply);
    announce(text);
  }
  // Show a result under one of two headings. Returns what the tool says if it failed.
  function showResult(method, result, done, failed) {
    const views = viewsOf(method, result, Boolean(server.capabilities.resources));
    if (!result.isError) {
      show(done, "good", makeTabs("Result", views));
      return "";
    }
    const text = textOf(result) || "The tool failed";
    const [, showReply] = views.at(-1);
    showFailure(failed, text, make("details", {}, make("summary", {}, "Reply"), showReply()));
    return text;
  }
  function place() {
    element.hidden = false;
    return element;
  }
  return { element, place, show, showFailure, showResult };
}

function makeRunner(server, about, item, form) {
  const outcome = makeOutcome(server);
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
      if (result === null) outcome.show(`Cancelled after ${time()}`, "muted");
      else report(problemsIn(outcome.showResult(call.method, result, `Done in ${time()}`, `Failed after ${time()}`)));
    } catch (error) {
      if (error.name === "AbortError") outcome.show(`Cancelled after ${time()}`, "muted");
      else {
        outcome.showFailure(`Failed after ${time()}`, explain(error));
        report(error.data?.errors ?? []);
      }
    } finally {
      run.removeAttribute("aria-disabled");
      if (document.activeElement === cancel) run.focus();
      cancel.hidden = true;
    }
  }

  // Send the call, and again with the answers as often as the server asks back.
  async function finish({ method, params, schema }) {
    let answers = {};
    for (;;) {
      const progress = makeProgress();
      outcome.place().replaceChildren(progress.element);
      const result = await server.ask(method, { ...params, ...answers }, {
        signal: controller.signal, schema, onNotification: progress.onNotification,
      });
      if (result.resultType === "task") return followTask(server, result.taskId, outcome.place(), about.name, controller.signal);
      if (result.resultType !== "input_required") return result;
      answers = result.requestState === undefined ? {} : { requestState: result.requestState };
      if (result.inputRequests === undefined) continue;
      const inputResponses = await askBack(result.inputRequests, outcome.place(), about.name, controller.signal);
      if (inputResponses === null) return null;
      answers.inputResponses = inputResponses;
    }
  }

  function report(problems) {
    form.report(problems.map(({ path, message }) => ({ field: form.at(path), message })).filter(({ field }) => field));
  }
  function explain(error) {
    const listed = (error.data?.errors ?? []).map(({ path, message }) => `${path}: ${message}`);
    if (error.status !== 401) return [error.message, ...listed].join("\n");
    return server.isSignedIn ? "The server does not accept your sign-in any more." : "Sign in to use this.";
  }
  return { start, outcome: outcome.element, run, cancel };
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

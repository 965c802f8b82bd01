// Tasks: calls that go on in a worker. Their handle is followed until they are over, here or after a reload.

const FIRST_LOOK = 250; // milliseconds: many are over soon
const RETRY_AFTER = 5000;

// Follow a task until it is over: show how far it is, ask what it asks, cancel it on the signal.
// Returns what the plain call would have given, or null if it was cancelled; throws what that would have thrown.
async function followTask(server, taskId, place, serverName, signal) {
  const progress = makeProgress();
  place.replaceChildren(progress.element);
  let pause = FIRST_LOOK;
  let isCancelled = false;
  for (;;) {
    await waitFor(pause, isCancelled ? undefined : signal);
    if (signal.aborted && !isCancelled) {
      isCancelled = true;
      await server.ask("tasks/cancel", { taskId });
    }
    let task;
    try {
      task = await server.ask("tasks/get", { taskId });
    } catch (error) {
      if (error.status !== undefined) throw error;
      progress.onTask({ statusMessage: error.message }); // the server may be back soon, and the task with it
      pause = RETRY_AFTER;
      continue;
    }
    if (task.status === "completed") return task.result;
    if (task.status === "cancelled") return null;
    if (task.status === "failed") throw new Failure(task.error.message, task.error);
    pause = task.pollIntervalMs;
    if (task.status === "input_required") {
      const inputResponses = await askBack(task.inputRequests, place, serverName, signal);
      isCancelled = inputResponses === null;
      await (isCancelled ? server.ask("tasks/cancel", { taskId }) : server.ask("tasks/update", { taskId, inputResponses }));
      place.replaceChildren(progress.element);
      pause = FIRST_LOOK;
    } else progress.onTask(task);
  }
}

// Wait, but no longer than until the signal.
function waitFor(milliseconds, signal) {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", resolve);
  });
}

// The page of the tasks of whoever is signed in: those that run are followed, of the others the result can be shown.
function makeTasksView(server, about, titleOf) {
  const cards = new Map();
  const list = make("ul", { class: "tasks" });
  const state = make("p", { class: "muted", role: "status" });
  const more = button("Show more", () => load(cursor), { hidden: true });
  const heading = make("h1", { tabindex: "-1" }, "Your tasks");
  let cursor = null;

  async function load(from = null) {
    state.textContent = "Loading…";
    try {
      const page = await server.get(server.urls.tasks, from === null ? {} : { cursor: from });
      for (const task of page.tasks) if (!cards.has(task.id)) cards.set(task.id, makeTaskCard(server, about, task, titleOf(task.tool)));
      const shown = page.tasks.map(({ id }) => cards.get(id));
      from === null ? list.replaceChildren(...shown) : list.append(...shown);
      cursor = page.nextCursor;
      more.hidden = cursor === null;
      state.textContent = list.childElementCount === 0 ? "None. A tool that runs as a task appears here, until it expires." : "";
    } catch (error) {
      state.textContent = error.status === 401 ? "Sign in to see your tasks." : error.message;
    }
  }
  const element = make("div", { class: "welcome" }, backLink(), heading, state, list, more);
  return { element, heading, load };
}

function makeTaskCard(server, about, task, title) {
  const controller = new AbortController();
  const outcome = makeOutcome(server);
  const cancel = button("Cancel", () => controller.abort(), { hidden: true, "aria-label": `Cancel ${title}` });
  const open = button("Show result", () => follow(), { hidden: true, class: "quiet", "aria-label": `Show result of ${title}` });
  const isOver = ["completed", "failed", "cancelled"].includes(task.status);
  const started = new Date(task.created);

  async function follow() {
    cancel.hidden = isOver;
    open.hidden = true;
    try {
      const result = await followTask(server, task.id, outcome.place(), about.name, controller.signal);
      if (result === null) outcome.show("Cancelled", "muted");
      else outcome.showResult("tools/call", result, "Done", "Failed");
    } catch (error) {
      outcome.showFailure("Failed", error.message);
    } finally {
      cancel.hidden = true;
    }
  }
  if (!isOver) follow();
  else if (task.status === "cancelled") outcome.show("Cancelled", "muted");
  else open.hidden = false;
  return make("li", { class: "task" },
    make("div", { class: "heading" },
      make("div", {}, make("a", { href: addressOf("tools", task.tool) }, title),
        make("p", { class: "muted" }, "Started ", make("time", { datetime: task.created }, started.toLocaleString()))),
      open, cancel),
    outcome.element);
}

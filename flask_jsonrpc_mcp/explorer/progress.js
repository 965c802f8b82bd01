// What a call reports while it runs: how far it is, and its messages.
// Reports may come faster than anyone can read. They are kept until the next frame, and only the last messages are shown.

const MOST_MESSAGES = 100;
const MOST_CHARACTERS = 300;

function makeProgress() {
  const bar = make("progress", { "aria-label": "Progress" });
  const status = make("p", { class: "status muted" }, "Running…");
  const leftOut = make("p", { class: "hint left-out", hidden: true });
  const messages = make("ol", { class: "messages", "aria-label": "Messages", tabindex: "0", hidden: true });
  let reached = null;
  let fresh = [];
  let reported = 0;
  let frame = null;

  function add(text) {
    reported += 1;
    fresh.push(text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text);
    if (fresh.length > MOST_MESSAGES) fresh.shift();
  }
  function showReached({ progress, total }) {
    if (total !== undefined) Object.assign(bar, { max: total, value: progress });
    status.textContent = `Running… ${progress}${total === undefined ? "" : ` of ${total}`}`;
  }
  function showMessages() {
    const wasAtEnd = messages.scrollTop + messages.clientHeight >= messages.scrollHeight - 1;
    messages.append(...fresh.map((text) => make("li", {}, text)));
    fresh = [];
    while (messages.childElementCount > MOST_MESSAGES) messages.firstElementChild.remove();
    const missing = reported - messages.childElementCount;
    leftOut.textContent = `${missing.toLocaleString("en")} earlier messages are left out`;
    leftOut.hidden = missing === 0;
    messages.hidden = false;
    if (wasAtEnd) messages.scrollTop = messages.scrollHeight;
  }
  function show() {
    frame = null;
    if (reached) showReached(reached);
    if (fresh.length > 0) showMessages();
  }
  return {
    element: make("div", { class: "progress" }, status, bar, leftOut, messages),
    // What a task says of itself; one that runs in a worker sends no notifications.
    onTask({ statusMessage = "Running…", _meta: { "flask-jsonrpc-mcp/progress": numbers } = {} }) {
      status.textContent = statusMessage;
      if (typeof numbers?.total === "number") Object.assign(bar, { max: numbers.total, value: numbers.done });
    },
    onNotification({ method, params = {} }) {
      if (method === "notifications/progress") reached = params;
      if (method === "notifications/progress" && params.message !== undefined) add(params.message);
      if (method === "notifications/message") add(`${params.level}: ${plain(params.data)}`);
      frame ??= requestAnimationFrame(show);
    },
  };
}

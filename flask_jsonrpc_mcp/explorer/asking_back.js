// Tools that ask back: a form for each question, or a link to follow. Answers go into another try of the same call.

// Ask the reader everything a server wants to know. Returns the answers, or null to give up.
function askBack(requests, place, serverName, signal) {
  return new Promise((resolve) => {
    const questions = Object.entries(requests).map(([key, request]) => ({ key, request, form: questionForm(request) }));
    const known = questions.every(({ request }) => request.method === "elicitation/create");

    function answerAll(answer) {
      place.replaceChildren();
      resolve(answer === null ? null : Object.fromEntries(questions.map((question) => [question.key, answer(question)])));
    }
    function accept(event) {
      event.preventDefault();
      const read = questions.map(({ form }) => form?.read() ?? { problems: [] });
      questions.forEach(({ form }, index) => form?.report(read[index].problems));
      if (read.some(({ problems }) => problems.length > 0)) return;
      answerAll(({ form }) => (form ? { action: "accept", content: form.read().value } : { action: "accept" }));
    }
    const panel = make("form", { class: "question", "aria-label": `${serverName} asks`, onsubmit: accept },
      make("h3", { tabindex: "-1" }, `${serverName} asks`),
      questions.map(({ request, form }) => showQuestion(request, form)),
      make("div", { class: "actions" },
        button("Cancel", () => answerAll(null)),
        known && button("Decline", () => answerAll(() => ({ action: "decline" }))),
        known && make("button", { type: "submit", class: "primary" }, consentWord(questions))));
    place.replaceChildren(panel);
    signal.addEventListener("abort", () => answerAll(null));
    panel.querySelector("h3").focus();
    announce(`${serverName} asks`);
  });
}

function questionForm({ method, params }) {
  const asksForm = method === "elicitation/create" && params.mode !== "url";
  return asksForm ? makeForm(params.requestedSchema ?? {}, { prefill: true }) : null;
}

function asksForFields({ params }) {
  return Object.keys(params.requestedSchema?.properties ?? {}).length > 0;
}

function consentWord(questions) {
  if (questions.some(({ request, form }) => form && asksForFields(request))) return "Send";
  return questions.every(({ form }) => form) ? "Accept" : "Done, go on";
}

function showQuestion({ method, params }, form) {
  if (method !== "elicitation/create") return make("p", {}, `It asks for ${method}, which the explorer cannot do.`);
  const message = make("p", { class: "message-text" }, params.message);
  if (form) return make("div", {}, message, asksForFields({ params }) && form.element);
  const host = READABLE_LINK.test(params.url) ? new URL(params.url).host : params.url;
  return make("div", {}, message,
    make("p", {}, "It wants you to open a page at ", make("strong", {}, host), ":"), make("p", {}, showUri(params.url)));
}

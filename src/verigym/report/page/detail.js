// One sample: verdict, prompt, turns, completion with its answer and its scored steps, and the other samples of its prompt.

const MOST_OTHERS = 60;

async function detail(id, open) {
  const texts = await textsOf(id);
  const status = statusOf(id);
  const facts = [
    ["Reward", short(optional("reward", id))], ["Advantage", signed(optional("advantage", id))], ["Surprise", fixed(optional("surprise", id))],
    ["Length", lengthText(id)], ["Ended by", texts.finish || NONE], ["Step", optional("step", id)], ["Place", texts.place], ["Task", texts.task],
    ["Difficulty", head.index.difficulties[index.difficulty[id]]], ["Label", texts.label],
  ].filter(([, value]) => known(value) && value !== "" && value !== NONE);
  return [
    el("div", { class: "detail-head" }, badge(status), el("b", {}, addText(el("span"), sourceOf(id))),
      el("span", { class: "muted" }, kindText(id)), head.inputs.length > 1 ? inputName(index.input[id]) : null),
    el("dl", { class: "facts" }, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), addText(el("dd"), value)))),
    texts.reason ? block("Reason", textBlock(texts.reason)) : null,
    texts.error ? block("Failure of ours", textBlock(texts.error)) : null,
    texts.raised ? block("judge raised", textBlock(texts.raised)) : null,
    answers(texts),
    texts.components ? block("Components", components(texts.components)) : null,
    block("Prompt", prompt(texts)),
    block(texts.turns ? "Turns" : "Completion", texts.turns ? turns(texts) : completion(texts)),
    texts.steps ? block("Scored steps", steps(texts)) : null,
    texts.metadata ? block("Metadata", textBlock(texts.metadata)) : null,
    others(id, open),
  ];
}

function kindText(id) {
  const kind = kindOf(id);
  return kind === "train" ? "sampled in training" : kind === "eval" ? "held out" : "";
}

function lengthText(id) {
  const tokens = optional("tokens", id);
  const characters = optional("characters", id);
  if (tokens !== null) return plural(tokens, "token");
  return characters === null ? NONE : plural(characters, "character");
}

const block = (title, ...content) => el("section", { class: "block" }, el("h3", {}, title), content);

function answers(texts) {
  if (texts.answer === undefined && texts.gold === undefined) return null;
  const one = (name, value) => el("div", {}, el("h3", {}, name), value === undefined ? el("p", { class: "muted" }, "none") : textBlock(value));
  return el("div", { class: "pair block" }, one("Extracted answer", texts.answer), one("Gold", texts.gold));
}

function components(found) {
  return table([{ name: "Name", text: true }, { name: "Value" }], found.map(([name, value]) => [addText(el("span"), name), short(value)]), { class: "compact" });
}

function prompt(texts) {
  if (!texts.prompt || !texts.prompt.length) return el("p", { class: "muted" }, "The prompt is not in the data.");
  const single = texts.prompt.length === 1 && texts.prompt[0].role === "user";
  return texts.prompt.map((message) => (single ? textBlock(message.text) : turn(message)));
}

function turn(one, content) {
  const name = el("p", { class: "role" }, addText(el("b"), one.name ? `${one.role}: ${one.name}` : one.role), known(one.reward) ? rewardMark(one.reward) : null);
  const calls = (one.calls || []).map(([called, given, fault]) => el("p", { class: fault ? "call fault" : "call" },
    addText(el("b"), called || "call"), " ", addText(el("code"), given), fault ? addText(el("span", { class: "fault-name" }), `not run: ${fault}`) : null));
  return el("div", { class: `turn role-${["assistant", "tool", "user", "system"].includes(one.role) ? one.role : "user"}` }, name, content || textBlock(one.text), calls);
}

function turns(texts) {
  const last = texts.turns.map((one) => one.role).lastIndexOf("assistant");
  return texts.turns.map((one, place) => turn(one, place === last && one.text === texts.completion ? completion(texts) : null));
}

function rewardMark(reward) {
  return el("span", { class: `reward ${reward > 0 ? "good" : reward < 0 ? "bad" : "zero"}` }, signed(reward, 2));
}

// The completion with the last place of the extracted answer marked, and steps underlined where their offsets fit.
function completion(texts) {
  if (texts.completion === undefined) return el("p", { class: "muted" }, "The text is not in the data; see \u201cAbout this page\u201d.");
  const text = texts.completion;
  const box = el("div", { class: "text completion", dir: "auto" });
  if (!text) return el("p", { class: "muted" }, "The completion is empty.");
  const answer = texts.answer ? text.lastIndexOf(texts.answer) : -1;
  const marks = answer < 0 ? [] : [{ start: answer, end: answer + texts.answer.length, class: "answer", title: "the extracted answer" }];
  const parts = texts.steps && texts.marked ? texts.steps.filter((step) => step[4] === texts.steps[0][4]) : [];
  for (const [start, end, reward, reason] of parts) {
    marks.push({ start, end, class: `step ${reward > 0 ? "good" : reward < 0 ? "bad" : "zero"}`, title: `${short(reward)} ${oneLine(reason, 200)}` });
  }
  const cuts = [...new Set([0, text.length, ...marks.flatMap((mark) => [mark.start, mark.end])])].sort((a, b) => a - b);
  cuts.slice(0, -1).forEach((start, place) => {
    const over = marks.filter((mark) => mark.start <= start && mark.end >= cuts[place + 1]);
    const piece = text.slice(start, cuts[place + 1]);
    if (over.length) addText(box.appendChild(el("mark", { class: over.map((mark) => mark.class).join(" "), title: over.map((mark) => mark.title).join("; ") })), piece);
    else addText(box, piece);
  });
  return box;
}

function steps(texts) {
  const columns = [{ name: "Step" }, { name: "Reward" }, { name: "Text", text: true }, { name: "Reason", text: true }];
  const rows = texts.steps.map(([start, end, reward, reason, part], place) => [
    place + 1, short(reward), addText(el("span", { class: "clip" }), texts.marked ? oneLine(texts.completion.slice(start, end), 160) : `${start}\u2013${end}`),
    addText(el("span"), part ? `${part}: ${reason}` : reason),
  ]);
  return table(columns, rows);
}

function others(id, open) {
  const found = [];
  for (let other = 0; other < index.count && found.length <= MOST_OTHERS; other += 1) {
    if (other !== id && index.prompt[other] === index.prompt[id]) found.push(other);
  }
  if (!found.length) return null;
  const shown = found.slice(0, MOST_OTHERS);
  return block(`Other samples of this prompt (${found.length > MOST_OTHERS ? `more than ${MOST_OTHERS}` : found.length})`, el("ul", { class: "others" }, shown.map((other) => {
    const twin = index.twin[other] >= 0 && index.twin[other] === index.twin[id];
    const what = [twin ? "the same completion" : null, optional("step", other) === null ? null : `step ${index.step[other]}`, `reward ${short(optional("reward", other))}`];
    return el("li", {}, el("button", { type: "button", class: "plain row-link", onclick: () => open(other) },
      badge(statusOf(other)), head.inputs.length > 1 ? inputName(index.input[other]) : null, el("span", { class: "muted" }, what.filter(Boolean).join(", "))));
  })));
}

// The sample browser: filters and orders on the index, search through the texts, pages of rows, one sample beside them.

const PAGE = 50;
const view = { status: "", input: "", source: "", kind: "", difficulty: "", change: "", query: "", order: "place", down: false, page: 0, open: null };
const ORDERS = [
  ["place", "as logged"], ["surprise", "surprise of the reward"], ["reward-low", "reward, lowest first"], ["reward", "reward, highest first"],
  ["advantage", "advantage, highest first"], ["advantage-low", "advantage, lowest first"], ["length", "longest first"], ["length-low", "shortest first"],
  ["newest", "newest step first"],
];
let searchRun = 0;
let ids = new Uint32Array(0);

function samplesTab() {
  const list = el("div", { class: "rows", id: "rows" });
  const side = el("aside", { class: "side", id: "side", "aria-label": "Sample" });
  const state = el("p", { class: "muted", role: "status" });
  const pager = el("div", { class: "pager" });
  const parts = { list, side, state, pager, layout: el("div", { class: "browser" }, el("div", { class: "list" }, state, list, pager), side) };
  const box = el("div", {}, el("p", { class: "muted" }, "unpacking the index\u2026"));
  indexReady.then(() => {
    if (!index.count) box.replaceChildren(panel("Samples", el("p", { class: "empty" }, "There are no samples in the inputs.")));
    else box.replaceChildren(filters(parts), parts.layout);
    if (index.count) refresh(parts);
  }).catch((error) => box.replaceChildren(failure(error)));
  return [box];
}

function filters(parts) {
  const change = (name) => (value) => { view[name] = value; view.page = 0; refresh(parts); };
  const names = (values) => values.map((value, place) => [String(place), value || NONE]);
  const any = (label) => ["", label];
  const search = el("input", { type: "search", placeholder: "in prompts, completions, reasons\u2026", value: view.query, "aria-label": "Search" });
  let waiting = null;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => change("query")(search.value.trim()), 250); });
  const seen = head.statuses.map((name, place) => [String(place), STATUS_NAMES[name]]).filter(([place]) => index.status.includes(Number(place)));
  const orders = ORDERS.filter(([name]) => (!name.startsWith("advantage") || hasColumn("advantage")) && (name !== "newest" || hasColumn("step")));
  return el("div", { class: "controls" },
    el("label", { class: "field grow" }, el("span", {}, "Search"), search),
    select("Verdict", [any("any"), ...seen], view.status, change("status")),
    head.inputs.length > 1 ? select("Input", [any("all"), ...names(head.inputs.map((one) => one.label))], view.input, change("input")) : null,
    head.index.sources.length > 1 ? select("Environment", [any("all"), ...names(head.index.sources)], view.source, change("source")) : null,
    head.index.kinds.length > 1 ? select("Sampled in", [any("any"), ...names(head.index.kinds.map((kind) => ({ train: "training", eval: "evaluation" })[kind] || kind))], view.kind, change("kind")) : null,
    head.index.difficulties.length > 1 ? select("Difficulty", [any("any"), ...names(head.index.difficulties)], view.difficulty, change("difficulty")) : null,
    index.change.includes(2) ? select("Graders", [any("any"), ["2", "disagree"], ["1", "agree"]], view.change, change("change")) : null,
    select("Order", orders, view.order, change("order")));
}

function passing() {
  const wanted = ["status", "input", "source", "kind", "difficulty", "change"].filter((name) => view[name] !== "").map((name) => [index[name], Number(view[name])]);
  const found = new Uint32Array(index.count);
  let size = 0;
  for (let id = 0; id < index.count; id += 1) {
    if (wanted.every(([column, value]) => column[id] === value)) { found[size] = id; size += 1; }
  }
  return found.subarray(0, size);
}

function ordered(found) {
  const [name, low] = view.order.endsWith("-low") ? [view.order.slice(0, -4), true] : [view.order, false];
  if (name === "place") return found;
  const column = name === "newest" ? index.step : name === "length" ? (hasColumn("tokens") ? index.tokens : index.characters) : index[name];
  const missing = (value) => Number.isNaN(value) || (value === -1 && (name === "newest" || name === "length"));
  return found.slice().sort((a, b) => {
    const [x, y] = [column[a], column[b]];
    if (missing(x) || missing(y)) return missing(x) - missing(y) || a - b; // what is not known stands last either way
    return (low ? x - y : y - x) || a - b;
  });
}

async function refresh(parts) {
  const run = (searchRun += 1);
  const found = ordered(passing());
  if (!view.query) {
    ids = found;
    return showPage(parts, `${count(ids.length)} of ${plural(index.count, "sample")}`);
  }
  try {
    await search(found, run, parts);
  } catch (error) {
    parts.state.replaceChildren(failure(error));
  }
  return undefined;
}

// Goes through the chunks that hold candidates, in the order of the file, and shows hits as they come.
async function search(found, run, parts) {
  const wanted = view.query.toLowerCase();
  const rank = new Map();
  const byChunk = new Map();
  found.forEach((id, place) => {
    rank.set(id, place);
    const number = Math.floor(id / head.index.chunk);
    if (!byChunk.has(number)) byChunk.set(number, []);
    byChunk.get(number).push(id);
  });
  const numbers = [...byChunk.keys()].sort((a, b) => a - b);
  const hits = [];
  let shownAt = 0;
  for (let place = 0; place < numbers.length; place += 1) {
    const texts = await readChunk(numbers[place]);
    if (run !== searchRun) return;
    for (const id of byChunk.get(numbers[place])) if (holds(texts[id % head.index.chunk], wanted)) hits.push(id);
    if (performance.now() - shownAt > 200) {
      shownAt = performance.now();
      parts.state.textContent = `searching, ${percent((place + 1) / numbers.length, 0)}: ${plural(hits.length, "hit")}`;
      await new Promise((resolve) => setTimeout(resolve));
    }
  }
  if (run !== searchRun) return;
  ids = Uint32Array.from(hits.sort((a, b) => rank.get(a) - rank.get(b)));
  showPage(parts, `${plural(ids.length, "hit")} in ${plural(found.length, "sample")}`);
}

function holds(value, wanted) {
  if (typeof value === "string") return value.toLowerCase().includes(wanted);
  if (value === null || typeof value !== "object") return false;
  for (const part of Object.values(value)) if (holds(part, wanted)) return true;
  return false;
}

async function showPage(parts, message) {
  const run = searchRun;
  const pages = Math.max(1, Math.ceil(ids.length / PAGE));
  view.page = Math.min(view.page, pages - 1);
  const shown = [...ids.subarray(view.page * PAGE, (view.page + 1) * PAGE)];
  const go = (page) => { view.page = page; showPage(parts, message); parts.list.scrollTop = 0; };
  const button = (label, page, title) => el("button", { type: "button", title, disabled: page < 0 || page >= pages || page === view.page, onclick: () => go(page) }, label);
  parts.pager.replaceChildren(...(pages > 1 ? [
    button("\u00ab", 0, "first page"), button("\u2039", view.page - 1, "page before"), el("span", {}, `${count(view.page + 1)} / ${count(pages)}`),
    button("\u203a", view.page + 1, "next page"), button("\u00bb", pages - 1, "last page"),
  ] : []));
  if (!shown.length) {
    parts.list.replaceChildren(el("p", { class: "empty" }, "No sample fits. Choose fewer filters, or search for less."));
    parts.state.textContent = message;
    return;
  }
  const texts = await Promise.all(shown.map((id) => textsOf(id).catch((error) => ({ reason: error.message }))));
  if (run !== searchRun) return;
  const open = (id) => openSample(id, parts);
  parts.list.replaceChildren(...shown.map((id, place) => sampleRow(id, texts[place], open)));
  parts.state.textContent = message; // not before the rows that it counts
  // Beside the list there is always a sample; on a narrow screen one covers the list only when it is chosen.
  openSample(shown.includes(view.open) ? view.open : shown[0], parts, false);
}

function sampleRow(id, texts, open) {
  const messages = texts.prompt || [];
  const asked = messages.length ? messages[messages.length - 1].text : texts.task ? `task ${texts.task}` : texts.place || "";
  const end = (texts.completion || "").trimEnd();
  const numbers = [
    ["reward", short(optional("reward", id))],
    known(optional("advantage", id)) ? ["advantage", signed(optional("advantage", id), 2)] : null,
    known(optional("surprise", id)) ? ["surprise", fixed(optional("surprise", id), 2)] : null,
    optional("step", id) === null ? null : ["step", index.step[id]],
  ].filter(Boolean);
  const row = el("button", { type: "button", class: "sample-row", onclick: () => open(id) },
    el("span", { class: "row-top" }, badge(statusOf(id)), head.inputs.length > 1 ? inputName(index.input[id]) : null,
      head.index.sources.length > 1 ? addText(el("span", { class: "muted" }), oneLine(sourceOf(id), 40)) : null,
      el("span", { class: "row-numbers" }, numbers.map(([name, value]) => el("span", {}, el("small", {}, name), ` ${value}`)))),
    addText(el("span", { class: "clip", dir: "auto" }), oneLine(asked) || NONE),
    addText(el("span", { class: "clip muted", dir: "auto" }), texts.completion === undefined ? oneLine(texts.reason || "") : end ? oneLine(lastOf(end, innerWidth < 700 ? 40 : 72)) : "(empty)"));
  row.dataset.id = id;
  row.addEventListener("keydown", (event) => {
    const next = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
    if (next) { event.preventDefault(); next.focus(); next.click(); }
  });
  return row;
}

function lastOf(text, chars) {
  return text.length > chars ? `\u2026${text.slice(-chars)}` : text;
}

async function openSample(id, parts, chosen = true) {
  view.open = id;
  for (const row of parts.list.children) row.classList.toggle("open", row.dataset.id === String(id));
  const close = el("button", { type: "button", class: "close", onclick: () => { parts.side.classList.remove("shown"); } }, "Back to the list");
  let content;
  try {
    content = await detail(id, (other) => openSample(other, parts));
  } catch (error) {
    content = [failure(error)];
  }
  if (view.open !== id) return;
  parts.side.replaceChildren(close, ...content.filter(Boolean));
  parts.side.scrollTop = 0;
  if (chosen) parts.side.classList.add("shown");
}

// Called from other tabs: shows the samples that a filter chooses.
function browse(filter) {
  Object.assign(view, { status: "", input: "", source: "", kind: "", difficulty: "", change: "", query: "", order: "place", page: 0, open: null }, filter);
  showTab("samples");
}

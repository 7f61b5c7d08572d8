// Elements and texts. Nothing here takes markup: every text goes through `textContent`.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/;
const MOST_MARKS = 2000;

function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  add(element, children);
  return element;
}

function add(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
  return parent;
}

// Appends a text in which characters that are invisible, or that reorder others, stand as their code points.
function addText(parent, text) {
  let marks = 0;
  let rest = String(text);
  while (rest) {
    const place = marks < MOST_MARKS ? rest.search(HIDDEN) : -1;
    if (place < 0) break;
    if (place) parent.append(rest.slice(0, place));
    const code = rest.charCodeAt(place).toString(16).toUpperCase().padStart(4, "0");
    parent.append(el("span", { class: "hidden-char", title: "an invisible or control character" }, `U+${code}`));
    rest = rest.slice(place + 1);
    marks += 1;
  }
  if (rest) parent.append(rest);
  return parent;
}

function textBlock(text, attributes = {}) {
  return addText(el("div", { class: "text", dir: "auto", ...attributes }), text);
}

function oneLine(text, most = 220) {
  const plain = text.length > most * 2 ? text.slice(0, most * 2) : text;
  return plain.replace(/\s+/g, " ").trim().slice(0, most);
}

const NONE = "\u2013";
const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);
const count = (value) => (known(value) ? Math.round(value).toLocaleString("en") : NONE);
const percent = (value, digits = 1) => (known(value) ? `${(100 * value).toFixed(digits)}%` : NONE);
const fixed = (value, digits = 3) => (known(value) ? value.toFixed(digits) : NONE);
const signed = (value, digits = 3) => (known(value) ? `${value < 0 ? "\u2212" : "+"}${Math.abs(value).toFixed(digits)}` : NONE);
const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

// A number with about four digits, for axes and legends.
function short(value) {
  if (!known(value)) return NONE;
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e5 || size < 1e-4) return value.toExponential(2).replace("e+", "e");
  if (size >= 1000) return value.toFixed(0);
  return String(Number(value.toPrecision(4)));
}

function interval(low, high, digits = 1) {
  return known(low) && known(high) ? `${(100 * low).toFixed(digits)}\u2013${(100 * high).toFixed(digits)}` : "";
}

function table(columns, rows, attributes = {}) {
  const kind = (column) => (column.bar ? "bar-column" : column.text ? "" : "number");
  const head = el("tr", {}, columns.map((column) => el("th", { class: kind(column), scope: "col", title: column.help }, column.name)));
  const body = rows.map((row) => el("tr", {}, columns.map((column, place) => el("td", { class: kind(column) }, row[place]))));
  return el("div", { class: "scroll" }, el("table", attributes, el("thead", {}, head), el("tbody", {}, body)));
}

function select(label, options, value, onchange) {
  const box = el("select", { "aria-label": label, onchange: (event) => onchange(event.target.value) });
  for (const [key, name] of options) box.append(el("option", { value: key, selected: key === value }, oneLine(String(name), 60)));
  return el("label", { class: "field" }, el("span", {}, label), box);
}

function panel(title, ...children) {
  return el("section", { class: "panel" }, el("h2", {}, title), children);
}

// A panel that is closed until one asks for it.
function foldedPanel(title, ...children) {
  return el("details", { class: "panel" }, el("summary", {}, el("h2", {}, title)), children);
}

function badge(status) {
  return el("span", { class: `badge status-${status}` }, STATUS_NAMES[status] || status);
}

const STATUS_NAMES = {
  correct: "correct", partial: "partial", incorrect: "incorrect", no_answer: "no answer", truncated: "truncated", limit: "limit", error: "unscored",
};

// A horizontal bar whose parts are shares of 1; sizes are set one by one, because the page allows no style attributes.
function shareBar(parts, label) {
  const bar = el("div", { class: "bar", role: "img", "aria-label": label });
  for (const part of parts) {
    if (!(part.share > 0)) continue;
    const piece = el("span", { class: part.class, title: part.title });
    piece.style.width = `${100 * part.share}%`;
    bar.append(piece);
  }
  return bar;
}

// A share with its interval on a scale from 0 to 1.
function intervalBar(value, low, high) {
  const bar = el("div", { class: "gauge", role: "img", "aria-label": percent(value) });
  if (!known(value)) return bar;
  const fill = el("span", { class: "fill" });
  fill.style.width = `${100 * value}%`;
  bar.append(fill);
  if (known(low) && known(high)) {
    const range = el("span", { class: "range" });
    range.style.left = `${100 * low}%`;
    range.style.width = `${100 * Math.max(0.004, high - low)}%`;
    bar.append(range);
  }
  return bar;
}

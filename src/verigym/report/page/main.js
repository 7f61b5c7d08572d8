// Tabs, theme, start.

const TABS = { overview: ["Overview", overview], curves: ["Curves", curvesTab], samples: ["Samples", samplesTab], compare: ["Compare", comparisonTab] };
const THEMES = ["", "light", "dark"];

function showTab(name) {
  const chosen = Object.hasOwn(TABS, name) ? name : "overview";
  for (const tab of document.getElementById("tabs").children) tab.setAttribute("aria-selected", String(tab.dataset.tab === chosen));
  const main = document.getElementById("main");
  main.className = `tab-${chosen}`;
  main.replaceChildren(...TABS[chosen][1]().filter(Boolean));
  forgetCharts();
  if (location.hash.slice(1) !== chosen) history.replaceState(null, "", `#${chosen}`);
}

function remember(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(name);
    localStorage.setItem(name, value);
  } catch {
    return null; // a page from a file may have no storage
  }
  return value;
}

function setTheme(theme) {
  const button = document.getElementById("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  button.textContent = theme === "light" ? "\u2600 light" : theme === "dark" ? "\u263e dark" : "\u25d0 auto";
  button.title = "Colours: as the system, light, dark";
  button.onclick = () => { setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]); };
  remember("verigym-theme", theme);
  if (document.getElementById("main").className) showTab(location.hash.slice(1));
}

function start() {
  document.getElementById("title").replaceChildren(addText(el("span"), head.title));
  const shown = Object.entries(TABS).filter(([name]) => (name !== "curves" || head.curves.length) && (name !== "compare" || head.inputs.length > 1));
  for (const [name, [label]] of shown) {
    const tab = el("button", { type: "button", role: "tab", onclick: () => showTab(name) }, label);
    tab.dataset.tab = name;
    document.getElementById("tabs").append(tab);
  }
  setTheme(THEMES.includes(remember("verigym-theme")) ? remember("verigym-theme") : "");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => showTab(location.hash.slice(1)));
  window.addEventListener("hashchange", () => showTab(location.hash.slice(1)));
  showTab(location.hash.slice(1));
}

start();

// The second tab: the metrics of runs by step.

const ALL = "*";
const OVERALL = "";
const curveState = { span: null, source: null, more: "" };

function curvesTab() {
  if (!head.curves.length) return [panel("Curves", el("p", { class: "empty" }, "Curves are drawn for training runs, and none is among the inputs."))];
  const steps = Math.max(...head.curves.map((run) => Math.max(0, ...Object.values(run.kinds).map((kind) => kind.steps.length))));
  if (curveState.span === null) curveState.span = steps < 40 ? 1 : Math.min(25, Math.round(steps / 20));
  const sources = curveSources();
  // Lines of each environment of each of several runs are too many to read.
  if (curveState.source === null) curveState.source = head.curves.filter(hasSources).length > 1 ? OVERALL : ALL;
  const grid = el("div", { class: "charts" });
  const spanLabel = el("output");
  const fill = () => {
    spanLabel.textContent = curveState.span > 1 ? `over ${curveState.span} steps` : "off";
    grid.replaceChildren(...curvePanels(), ...moreChart());
    forgetCharts();
  };
  const slider = el("input", { type: "range", min: 1, max: Math.max(2, Math.min(100, steps)), value: curveState.span, "aria-label": "Smoothing" });
  slider.addEventListener("input", () => { curveState.span = Number(slider.value); fill(); });
  const controls = el("div", { class: "controls" },
    sources.length ? select("Environments", [[ALL, "each and all"], [OVERALL, "all together"], ...sources.map((one) => [one, one])], curveState.source, (value) => { curveState.source = value; fill(); }) : null,
    el("label", { class: "field" }, el("span", {}, "Smoothing ", spanLabel), slider),
    select("Any metric", [["", "choose\u2026"], ...metricNames().map((name) => [name, name])], curveState.more, (value) => { curveState.more = value; fill(); }),
    el("p", { class: "muted hint" }, "Drag across a chart to zoom all of them, double-click to zoom out. Click a name to hide its line."));
  fill();
  return [controls, grid];
}

const hasSources = (run) => run.panels.some((one) => one.lines.some((line) => line.source));

function metricNames() {
  return [...new Set(head.curves.flatMap((run) => Object.entries(run.kinds).flatMap(([kind, columns]) => Object.keys(columns.values).map((name) => `${kind}: ${name}`))))].sort();
}

const fromMetric = (run, kind, name) => ({ x: run.kinds[kind].steps, y: run.kinds[kind].values[name] });

function curvePanels() {
  const order = [...new Set(head.curves.flatMap((run) => run.panels.map((one) => one.key)))];
  const places = order.sort((a, b) => panelPlace(a) - panelPlace(b));
  const flat = places.filter(alwaysZero);
  const drawn = places.filter((name) => !flat.includes(name)).map((name) => curvePanel(name)).filter(Boolean);
  if (flat.length) drawn.push(el("p", { class: "muted hint" }, `Always 0, and not drawn: ${flat.map(panelTitle).join("; ")}.`));
  return drawn;
}

const panelsOf = (name) => head.curves.flatMap((run) => run.panels.filter((one) => one.key === name).map((one) => [run, one]));
const alwaysZero = (name) => panelsOf(name).every(([run, one]) => one.lines.every((line) => fromMetric(run, one.kind, line.metric).y.every((value) => !value)));
const panelTitle = (name) => panelsOf(name)[0][1].title;

function panelPlace(name) {
  for (const run of head.curves) {
    const place = run.panels.findIndex((one) => one.key === name);
    if (place >= 0) return place;
  }
  return 0;
}

function curvePanel(name) {
  const named = head.curves.length > 1;
  const found = panelsOf(name);
  const several = found.length > 1;
  const first = found[0][1];
  const own = new Set(found.flatMap(([, one]) => one.lines.map((line) => `${line.source}\n${line.name}`)));
  const kinds = [...own].sort((a, b) => (a < b ? -1 : 1));
  const sources = curveSources();
  const bySource = name !== "components" && first.lines.some((line) => line.source);
  const told = kinds.length > 1 && !(bySource && curveState.source === OVERALL);
  const lines = [];
  for (const [run, one] of found) {
    for (const line of one.lines) {
      if (!chosenLine(line, bySource, several && !bySource && one.lines.length > 1, name)) continue;
      // A source keeps its colour in all charts.
      const place = bySource ? 1 + sources.indexOf(line.source) : kinds.indexOf(`${line.source}\n${line.name}`);
      const label = name === "components" ? `${line.source}: ${line.name}` : line.source || (bySource ? "all" : metricLabel(line.name));
      const status = line.name.startsWith("status/") ? line.name.slice(7) : null;
      lines.push({
        label: named ? `${head.inputs[run.input].label}${told ? ` \u00b7 ${label}` : ""}` : label,
        color: status && !several ? () => statusColor(status) : () => (several ? color(run.input) : color(place)),
        wide: bySource && !line.source,
        dash: several ? DASHES[place % DASHES.length] : DASHES[Math.floor(place / LIGHT.length) % DASHES.length],
        ...fromMetric(run, one.kind, line.metric),
      });
    }
  }
  if (!lines.length) return null;
  return lineChart(lines, { title: first.title, unit: first.unit, share: first.share, span: first.kind === "eval" ? 1 : curveState.span, sync: "steps" });
}

function chosenLine(line, bySource, manyNames, name) {
  if (name === "components") return curveState.source === ALL || curveState.source === OVERALL || curveState.source === line.source;
  if (!bySource) return !line.source || curveState.source === ALL || curveState.source === OVERALL || curveState.source === line.source;
  return curveState.source === ALL || line.source === curveState.source;
}

const curveSources = () => [...new Set(head.curves.flatMap((run) => run.panels.flatMap((one) => one.lines.map((line) => line.source))))].filter(Boolean).sort();

const metricLabel = (name) => (name.startsWith("status/") ? STATUS_NAMES[name.slice(7)] : name.replace(/_s$/, "").replaceAll("_", " "));

function moreChart() {
  if (!curveState.more) return [];
  const cut = curveState.more.indexOf(": ");
  const [kind, name] = [curveState.more.slice(0, cut), curveState.more.slice(cut + 2)];
  const lines = head.curves.filter((run) => run.kinds[kind] && Object.hasOwn(run.kinds[kind].values, name)).map((run) => ({
    label: head.curves.length > 1 ? head.inputs[run.input].label : name, color: () => color(run.input), dash: [], ...fromMetric(run, kind, name),
  }));
  return lines.length ? [lineChart(lines, { title: oneLine(name, 60), unit: kind, span: kind === "eval" ? 1 : curveState.span, sync: "steps" })] : [];
}

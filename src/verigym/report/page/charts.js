// Line charts by uPlot: raw and smoothed lines, a legend with the values under the cursor, one zoom for all.

const LIGHT = ["#2563a8", "#c2571a", "#2e7d4f", "#8a4fa3", "#b8860b", "#0f8a8a", "#b03a5b", "#5f6b7a"];
const DARK = ["#6aa9e9", "#f0935a", "#6cc08b", "#c592dd", "#e0b84c", "#4fc4c4", "#ec7d9d", "#a8b3c1"];
const DASHES = [[], [6, 4], [2, 3], [10, 4, 2, 4], [1, 2]];
const STATUS_COLORS = {
  light: { correct: "#2e8b57", partial: "#1f8a99", incorrect: "#c8433c", no_answer: "#d08a1d", truncated: "#8a63b8", limit: "#8c6239", error: "#7a828c" },
  dark: { correct: "#5fc58c", partial: "#4fc0cf", incorrect: "#f07a72", no_answer: "#eab04f", truncated: "#b893e6", limit: "#c49a6c", error: "#9aa3ad" },
};
const charts = new Set();

function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

const color = (place) => (dark() ? DARK : LIGHT)[place % LIGHT.length];
const statusColor = (status) => STATUS_COLORS[dark() ? "dark" : "light"][status];
const cssColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// An exponential mean over about `span` steps, without the pull of a start at 0; gaps stay gaps.
function smoothed(values, span) {
  if (span <= 1) return values;
  const keep = 1 - 2 / (span + 1);
  let total = 0;
  let weight = 0;
  return values.map((value) => {
    if (value === null) return null;
    total = keep * total + (1 - keep) * value;
    weight = keep * weight + (1 - keep);
    return total / weight;
  });
}

function aligned(lines) {
  const steps = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
  const place = new Map(steps.map((step, number) => [step, number]));
  return [steps, ...lines.map((line) => {
    const values = new Array(steps.length).fill(null);
    line.x.forEach((step, number) => { if (line.y[number] !== null) values[place.get(step)] = line.y[number]; });
    return values;
  })];
}

// Draws lines `{label, color, dash, x, y}` into a new figure. Options: `share` (a scale from 0 to 1), `span` of the smoothing, `unit`,
// `sync` (charts with the same key share cursor and zoom), `stepped`, `height`, `xLabel`.
function lineChart(lines, options = {}) {
  const span = options.span || 1;
  const box = el("div", { class: "chart" });
  const legend = el("ul", { class: "legend" });
  const data = aligned(lines);
  const means = span > 1 ? data.slice(1).map((values) => smoothed(values, span)) : [];
  const shown = span > 1 ? means : data.slice(1);
  const sparse = data[0].length <= 60;
  const series = lines.flatMap((line) => (span > 1 ? [{ line, faint: true }, { line, faint: false }] : [{ line, faint: false }]));
  const columns = span > 1 ? data.slice(1).flatMap((values, place) => [values, means[place]]) : data.slice(1);
  const stepped = options.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined;
  const values = lines.map((line, place) => {
    const value = el("b");
    const name = el("button", { type: "button", class: "plain", "aria-pressed": "true", title: "show or hide" });
    const swatch = el("i");
    swatch.style.background = line.dash && line.dash.length ? "none" : line.color();
    swatch.style.borderColor = line.color();
    swatch.className = line.dash && line.dash.length ? "swatch dashed" : "swatch";
    add(name, [swatch, addText(el("span"), oneLine(line.label, 48)), value]);
    name.addEventListener("click", () => {
      const on = name.getAttribute("aria-pressed") !== "true";
      name.setAttribute("aria-pressed", String(on));
      if (!plot) return;
      if (span > 1) plot.setSeries(2 * place + 1, { show: on });
      plot.setSeries(span > 1 ? 2 * place + 2 : place + 1, { show: on });
    });
    legend.append(el("li", {}, name));
    return value;
  });
  const last = (column) => { for (let n = column.length - 1; n >= 0; n -= 1) if (column[n] !== null) return column[n]; return null; };
  const format = options.share ? (value) => percent(value) : short;
  const show = (place) => values.forEach((value, number) => {
    if (place === null && options.stepped) value.textContent = "";
    else value.textContent = format(place === null ? last(shown[number]) : shown[number][place]);
  });
  const where = el("span", { class: "where" });
  let plot = null;

  function settings(width) {
    const grid = { stroke: cssColor("--grid"), width: 1 };
    const axis = { stroke: cssColor("--muted"), grid, ticks: { ...grid, size: 4 }, font: "11px system-ui, sans-serif" };
    const yFormat = options.share
      ? (_, marks) => marks.map((mark) => `${(100 * mark).toFixed(marks.length > 1 && marks[1] - marks[0] < 0.0099 ? 1 : 0)}%`)
      : (_, marks) => marks.map(short);
    const ySize = (_, labels) => Math.max(44, 14 + 6.5 * Math.max(0, ...(labels || []).map((label) => label.length)));
    return {
      width, height: options.height || 210, legend: { show: false }, padding: [8, 10, 0, 0],
      cursor: { sync: options.sync ? { key: options.sync, setSeries: false } : undefined, drag: { x: true, y: false, setScale: true }, points: { size: 6 } },
      scales: { x: { time: false }, y: options.share ? { range: (_, low, high) => shareRange(low, high) } : {} },
      axes: [{ ...axis, size: 30, space: 60 }, { ...axis, size: ySize, values: yFormat }],
      series: [{}, ...series.map(({ line, faint }) => ({
        stroke: line.color() + (faint ? "40" : ""), width: faint ? 1 : line.wide ? 2.5 : 1.5, dash: line.dash, spanGaps: true, paths: stepped,
        points: { show: !faint && sparse && !stepped, size: 4, fill: line.color() },
      }))],
      hooks: { setCursor: [(self) => {
        const place = self.cursor.idx;
        show(place === undefined || place === null ? null : place);
        where.textContent = known(place) ? ` \u00b7 ${options.xLabel || "step"} ${short(data[0][place])}` : "";
      }] },
    };
  }

  function draw() {
    if (plot) plot.destroy();
    const width = Math.max(220, Math.floor(box.clientWidth));
    plot = new uPlot(settings(width), [data[0], ...columns], box);
  }

  const chart = { drawn: () => plot !== null, resize: () => { if (plot && box.clientWidth) plot.setSize({ width: Math.floor(box.clientWidth), height: options.height || 210 }); }, box };
  const caption = el("figcaption", {}, el("span", { class: "chart-title" }, options.title || ""), el("span", { class: "unit" }, options.unit || "", where));
  const figure = el("figure", { class: "figure" }, caption, box, legend);
  show(null);
  chart.watch = new ResizeObserver(() => (plot ? chart.resize() : box.clientWidth && draw()));
  chart.watch.observe(box);
  charts.add(chart);
  return figure;
}

// Shares keep the scale from 0 to 1 unless all of them lie in a small part of it.
function shareRange(low, high) {
  if (low === null || high === null) return [0, 1];
  if (high <= 0.3) return [0, Math.max(0.01, high * 1.15)];
  return [0, 1];
}

// A chart draws itself once it has a width. Those that have left the page are let go.
function forgetCharts() {
  for (const chart of charts) {
    if (!chart.box.isConnected && chart.drawn()) {
      chart.watch.disconnect();
      charts.delete(chart);
    }
  }
}

// The first tab: the inputs, their verdicts, accuracy by source and difficulty, lengths, warnings.

const KIND_NAMES = { run: "training run", scores: "graded file", evaluation: "samples" };

// Two bootstraps of the same prompts differ by chance in their third digit.
const BOOTSTRAP = "a bootstrap that draws prompts; report.md of an evaluation draws anew, so its last digit may differ";

function dot(place) {
  const mark = el("i", { class: "dot" });
  mark.style.background = color(place);
  return mark;
}

function inputName(place) {
  const name = addText(el("span", { class: "input-name" }), head.inputs[place].label);
  return head.inputs.length > 1 ? el("span", { class: "nowrap" }, dot(place), name) : name;
}

function overview() {
  const parts = [findingsPanel(), inputsPanel()];
  const warnings = warningsPanel();
  if (warnings) parts.push(warnings);
  parts.push(verdictsPanel(), sourcesPanel());
  const pair = [difficultyPanel(), passRatePanel()].filter(Boolean);
  if (pair.length) parts.push(el("div", { class: pair.length > 1 ? "pair" : "" }, pair));
  parts.push(lengthsPanel());
  const settings = settingsPanel();
  if (settings) parts.push(settings);
  parts.push(notesPanel());
  return parts;
}

function findingsPanel() {
  if (!head.findings.length) return null;
  return panel("In short", el("ul", { class: "findings" }, head.findings.map((one) => addText(el("li", { class: one.weight }), one.text))));
}

function inputsPanel() {
  const runs = head.inputs.map((one, place) => [one, place]).filter(([one]) => one.run);
  const others = head.inputs.map((one, place) => [one, place]).filter(([one]) => !one.run);
  const parts = [];
  if (runs.length) {
    const columns = [
      { name: "Run", text: true }, { name: "Steps" }, { name: "Completions" },
      { name: "Held-out accuracy", help: "on the held-out prompts of the run itself, at its first and at its last evaluation" }, { name: "Best", help: "evaluation, with its step" },
      { name: "Reward", help: "mean of the last 10 steps" }, { name: "Tokens", help: "mean length of the last 10 steps" },
      { name: "Unscored" }, { name: "s a step" }, { name: "Warnings" },
    ];
    parts.push(table(columns, runs.map(([one, place]) => {
      const run = one.run;
      return [
        inputName(place), run.planned ? `${count(run.steps)} of ${count(run.planned)}` : count(run.steps), count(run.completions),
        known(run.last) ? `${percent(run.first)} \u2192 ${percent(run.last)}` : NONE,
        known(run.best) ? `${percent(run.best)} (${run.bestStep})` : NONE, fixed(run.reward), known(run.tokens) ? run.tokens.toFixed(0) : NONE,
        count(run.unscored), known(run.stepSeconds) ? run.stepSeconds.toFixed(2) : NONE, count(run.warnings),
      ];
    })));
  }
  if (others.length) {
    const columns = [
      { name: "Input", text: true }, { name: "Kind", text: true }, { name: "Samples" }, { name: "Prompts" }, { name: "Accuracy" },
      { name: "95% interval", help: BOOTSTRAP }, { name: "Mean reward" }, { name: "Tokens" }, { name: "Unscored" },
    ];
    parts.push(table(columns, others.map(([one, place]) => {
      const whole = one.figures.sources[0];
      if (!whole) return [inputName(place), KIND_NAMES[one.kind], "0", ...new Array(6).fill(NONE)];
      return [
        inputName(place), KIND_NAMES[one.kind], count(one.figures.samples), count(whole.prompts), percent(whole.accuracy),
        interval(whole.low, whole.high), fixed(whole.reward), known(whole.tokens) ? whole.tokens.toFixed(0) : NONE,
        count(one.figures.statuses.error || 0),
      ];
    })));
  }
  return panel(head.inputs.length > 1 ? "Inputs" : "Summary", parts);
}

function statusBar(statuses) {
  const total = Object.values(statuses).reduce((sum, value) => sum + value, 0);
  const parts = head.statuses.map((status) => ({
    share: total ? (statuses[status] || 0) / total : 0, class: `fill-${status}`,
    title: `${STATUS_NAMES[status]}: ${count(statuses[status] || 0)} (${percent((statuses[status] || 0) / total)})`,
  }));
  return shareBar(parts, parts.filter((part) => part.share > 0).map((part) => part.title).join(", "));
}

function verdictsPanel() {
  const lines = [];
  head.inputs.forEach((one, place) => {
    if (one.run && Object.keys(one.run.statuses).length) lines.push([place, "all completions of training", one.run.statuses]);
    if (one.figures.samples) lines.push([place, one.run ? "logged samples of training" : "all samples", one.figures.statuses]);
  });
  if (!lines.length) return panel("Verdicts", el("p", { class: "empty" }, "No verdicts are logged yet."));
  const seen = head.statuses.filter((status) => status === "error" || lines.some(([, , statuses]) => statuses[status]));
  const columns = [{ name: "", text: true }, { name: "Share", bar: true }, ...seen.map((status) => ({ name: el("span", {}, el("i", { class: `key fill-${status}` }), STATUS_NAMES[status]) }))];
  const rows = lines.map(([place, what, statuses]) => {
    const total = Object.values(statuses).reduce((sum, value) => sum + value, 0);
    const label = el("span", {}, head.inputs.length > 1 ? inputName(place) : "", el("span", { class: "muted" }, ` ${what}, ${count(total)}`));
    return [label, statusBar(statuses), ...seen.map((status) => percent((statuses[status] || 0) / total))];
  });
  return panel("Verdicts", table(columns, rows, { class: "wide-bar" }));
}

function sourcesPanel() {
  const many = head.inputs.length > 1;
  const rows = [];
  head.inputs.forEach((one, place) => {
    for (const source of one.figures.sources) {
      const name = source.source === "" ? el("b", {}, "all") : addText(el("span"), source.source);
      rows.push([
        ...(many ? [inputName(place)] : []), name, known(source.prompts) ? count(source.prompts) : NONE, count(source.scored), intervalBar(source.accuracy, source.low, source.high),
        percent(source.accuracy), interval(source.low, source.high), fixed(source.reward), known(source.tokens) ? source.tokens.toFixed(0) : NONE,
      ]);
    }
  });
  if (!rows.length) return panel("By environment", el("p", { class: "empty" }, "There are no samples."));
  const columns = [
    ...(many ? [{ name: "Input", text: true }] : []), { name: "Environment", text: true }, { name: "Prompts" }, { name: "Scored" },
    { name: "", bar: true }, { name: "Accuracy" }, { name: "95% interval", help: BOOTSTRAP }, { name: "Mean reward" }, { name: "Tokens" },
  ];
  const runs = head.inputs.filter((one) => one.run && one.figures.sources.length);
  const whole = runs.filter((one) => one.run.sourcesOfSteps).length;
  let said = null;
  if (whole) said = "For a run, this table covers all completions of training. There is no interval, for its log does not keep the verdicts of single prompts.";
  if (whole < runs.length) said = "For a run with a single source, or of an earlier version, this table covers only the logged samples of training, a few of each step. The curves cover all completions.";
  const logged = said ? el("p", { class: "muted" }, said) : null;
  return panel("By environment", logged, table(columns, rows, { class: "gauges" }));
}

function difficultyPanel() {
  const many = head.inputs.length > 1;
  const rows = [];
  head.inputs.forEach((one, place) => {
    for (const row of one.figures.difficulties) {
      rows.push([
        ...(many ? [inputName(place)] : []), addText(el("span"), row.difficulty), count(row.prompts), intervalBar(row.accuracy, row.low, row.high),
        percent(row.accuracy), interval(row.low, row.high),
      ]);
    }
  });
  if (!rows.length) return null; // docs/report.md says how to name the column
  const columns = [
    ...(many ? [{ name: "Input", text: true }] : []), { name: "Difficulty", text: true }, { name: "Prompts" }, { name: "", bar: true },
    { name: "Pass rate" }, { name: "95% interval", help: BOOTSTRAP },
  ];
  return panel("Pass rate by difficulty", table(columns, rows, { class: "gauges" }));
}

function passRatePanel() {
  const with_rates = head.inputs.map((one, place) => [one.figures.passRates, place]).filter(([rates]) => rates.length);
  if (!with_rates.length) return null;
  const rows = with_rates.flatMap(([rates, place]) => {
    const total = rates.reduce((sum, rate) => sum + rate.prompts, 0);
    return rates.map((rate) => [
      ...(head.inputs.length > 1 ? [inputName(place)] : []), rate.bin, intervalBar(total ? rate.prompts / total : null), count(rate.prompts), percent(rate.prompts / total),
    ]);
  });
  const columns = [
    ...(head.inputs.length > 1 ? [{ name: "Input", text: true }] : []), { name: "Right samples", text: true }, { name: "", bar: true }, { name: "Prompts" }, { name: "Share" },
  ];
  return foldedPanel("Prompts by their share of right samples", table(columns, rows, { class: "gauges" }));
}

function lengthsPanel() {
  const box = el("div", {}, el("p", { class: "muted" }, "\u2026"));
  indexReady.then(() => box.replaceChildren(...lengthFigures())).catch((error) => box.replaceChildren(failure(error)));
  return panel("Lengths of the samples", box);
}

function lengthFigures() {
  const column = hasColumn("tokens") ? "tokens" : "characters";
  const values = index[column].filter((value) => value >= 0);
  if (!values.length) return [el("p", { class: "empty" }, "No lengths are known: the texts are missing.")];
  values.sort();
  const most = Math.max(1, values[Math.floor(0.995 * (values.length - 1))]);
  const width = Math.max(1, Math.ceil((most - values[0]) / 40));
  const least = Math.floor(values[0] / width) * width;
  const bins = Math.floor((most - least) / width) + 1;
  const groups = [["correct", (id) => statusOf(id) === "correct", () => statusColor("correct")], ["not correct", (id) => statusOf(id) !== "correct", () => statusColor("incorrect")]];
  const lines = groups.map(([label, belongs, lineColor]) => {
    const counts = new Array(bins + 1).fill(0);
    let total = 0;
    for (let id = 0; id < index.count; id += 1) {
      const length = index[column][id];
      if (length >= 0 && length <= most && belongs(id)) { counts[Math.floor((length - least) / width)] += 1; total += 1; }
    }
    return { label, color: lineColor, x: counts.map((_, place) => least + place * width), y: counts.map((value) => (total ? value : null)) };
  }).filter((line) => line.y[0] !== null);
  const quantile = (share) => count(values[Math.floor(share * (values.length - 1))]);
  return [
    el("p", { class: "muted" }, `Median ${quantile(0.5)}, 10% below ${quantile(0.1)}, 10% above ${quantile(0.9)}, longest ${quantile(1)} ${column}.`),
    lineChart(lines, { stepped: true, height: 170, unit: `samples, by ${column} in steps of ${width}`, xLabel: column }),
  ];
}

function warningsPanel() {
  const rows = head.curves.flatMap((run) => run.warnings.map((warning) => [run.input, warning]));
  if (!rows.length) return null;
  return panel("Warnings of the runs", el("ul", { class: "warnings" }, rows.map(([place, warning]) => el("li", {},
    el("p", {}, head.inputs.length > 1 ? [inputName(place), " "] : "", el("b", {}, `Step ${warning.step}`), " ", addText(el("b"), warning.name),
      addText(el("span"), `: ${warning.seen}, since step ${known(warning.since) ? warning.since : "?"}.`)),
    addText(el("p", { class: "muted" }), warning.advice),
    warning.traceback ? el("details", {}, el("summary", {}, "Traceback"), textBlock(warning.traceback)) : null))));
}

function settingsPanel() {
  const runs = head.inputs.map((one, place) => [one.run && one.run.settings, place]).filter(([settings]) => settings && settings.length);
  if (!runs.length) return null;
  const names = [...new Set(runs.flatMap(([settings]) => settings.map(([name]) => name)))];
  const columns = [{ name: "Setting", text: true }, ...runs.map(([, place]) => ({ name: head.inputs[place].label, text: true }))];
  const rows = names.map((name) => {
    const values = runs.map(([settings]) => (settings.find(([other]) => other === name) || [name, NONE])[1]);
    const differ = new Set(values).size > 1;
    return [addText(el("span"), name), ...values.map((value) => addText(el(differ ? "b" : "span"), value))];
  });
  return foldedPanel("Settings", table(columns, rows));
}

function notesPanel() {
  const notes = head.inputs.flatMap((one, place) => one.notes.map((note) => [place, note]));
  const shown = head.samples > head.index.count
    ? `The page holds ${count(head.index.count)} of ${count(head.samples)} samples, whole prompts chosen by their hash; figures cover all. --max-samples sets the number.`
    : `All ${plural(head.samples, "sample")} are in the page.`;
  return foldedPanel("About this page", el("ul", { class: "notes" },
    el("li", {}, shown), notes.map(([place, note]) => el("li", {}, head.inputs.length > 1 ? [inputName(place), ": "] : "", addText(el("span"), note))),
    el("li", {}, `Made ${head.made} by verigym report. The page loads nothing and sends nothing.`)));
}

function failure(error) {
  return el("p", { class: "failure", role: "alert" }, error.message);
}

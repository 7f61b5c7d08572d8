// The last tab: the other inputs against the first, on the same completions and on the same prompts.

function comparisonTab() {
  if (head.inputs.length < 2) return [panel("Comparison", el("p", { class: "empty" }, "There is one input. Give several runs, files of scores or evaluations to compare them."))];
  const parts = [];
  const prompts = head.pairs.filter((pair) => pair.prompts);
  if (prompts.length) parts.push(promptsPanel(prompts));
  parts.push(...head.pairs.filter((pair) => pair.twins).map(gradersPanel));
  if (head.evaluations.length) parts.push(figuresPanel());
  const runs = runsPanel();
  if (runs) parts.push(runs);
  if (!parts.length) parts.push(panel("Comparison", el("p", { class: "empty" }, "The inputs have neither prompts nor completions in common.")));
  return parts;
}

function promptsPanel(pairs) {
  const columns = [
    { name: "Input", text: true }, { name: "Prompts in both" }, { name: "Difference of accuracy", help: "mean over prompts" },
    { name: "95% interval", help: "paired bootstrap interval that draws prompts" }, { name: "Better on" }, { name: "Worse on" }, { name: "", bar: true },
  ];
  const several = pairs.some(({ prompts }) => prompts.sources.length);
  if (several) columns.splice(1, 0, { name: "Environment", text: true });
  const lines = pairs.flatMap(({ other, prompts }) => [[other, "", prompts], ...prompts.sources.map((one) => [other, one.source, one])]);
  const rows = lines.map(([other, source, prompts]) => {
    const equal = prompts.prompts - prompts.better - prompts.worse;
    const bar = shareBar([
      { share: prompts.better / prompts.prompts, class: "fill-correct", title: `better on ${count(prompts.better)} prompts` },
      { share: equal / prompts.prompts, class: "fill-none", title: `equal on ${count(equal)} prompts` },
      { share: prompts.worse / prompts.prompts, class: "fill-incorrect", title: `worse on ${count(prompts.worse)} prompts` },
    ], "better, equal, worse");
    const range = known(prompts.low) ? `${signed(100 * prompts.low, 1)} to ${signed(100 * prompts.high, 1)}` : NONE;
    const environment = source ? addText(el("span"), source) : el("b", {}, "all");
    return [inputName(other), ...(several ? [environment] : []), count(prompts.prompts), `${signed(100 * prompts.gain, 1)} points`, range, count(prompts.better), count(prompts.worse), bar];
  });
  return panel("On the same prompts", el("p", { class: "muted" }, "Against ", inputName(0), ", over prompts that both have scored."), table(columns, rows, { class: "wide-bar" }));
}

function gradersPanel({ other, twins }) {
  const seen = head.statuses.filter((status) => twins.matrix.some(([a, b]) => a === status || b === status));
  const most = Math.max(1, ...twins.matrix.map(([, , number]) => number));
  const cell = (a, b) => {
    const found = twins.matrix.find(([x, y]) => x === a && y === b);
    const mark = el("span", { class: a === b ? "cell same" : "cell" }, found ? count(found[2]) : "");
    if (found) mark.style.setProperty("--heat", (0.12 + 0.6 * (found[2] / most)).toFixed(2));
    return mark;
  };
  const columns = [{ name: "", text: true }, ...seen.map((status) => ({ name: STATUS_NAMES[status] }))];
  const matrix = table(columns, seen.map((a) => [badge(a), ...seen.map((b) => cell(a, b))]), { class: "matrix" });
  const agreed = twins.judged ? twins.agreed / twins.judged : null;
  const facts = [
    `${count(twins.common)} completions are in both.`,
    `Both judge ${count(twins.judged)} of them, and agree on whether they are right in ${percent(agreed, 2)} (${count(twins.judged - twins.agreed)} disagreements).`,
    `${count(twins.changed)} have another status or another reward.`,
    twins.onlyFirst || twins.onlyOther ? `${count(twins.onlyFirst)} are only in the first, ${count(twins.onlyOther)} only in the other.` : "",
  ];
  const show = twins.changed ? el("button", { type: "button", onclick: () => browse({ change: "2" }) }, "Show where graders disagree") : null;
  return panel("On the same completions", el("p", {}, "Rows: ", inputName(0), ". Columns: ", inputName(other), "."), matrix, el("p", { class: "muted" }, facts.join(" ")), show);
}

function figuresPanel() {
  const places = [...new Set(head.evaluations.map((one) => one.input))];
  const lines = [...new Set(head.evaluations.map((one) => `${one.source}\n${one.name}`))];
  const columns = [{ name: "Environment", text: true }, { name: "Figure", text: true }, ...places.map((place) => ({ name: head.inputs[place].label }))];
  const rows = lines.map((line) => {
    const [source, name] = line.split("\n");
    const values = places.map((place) => {
      const found = head.evaluations.find((one) => one.input === place && one.source === source && one.name === name);
      if (!found || !known(found.values[0])) return NONE;
      const range = interval(found.values[1], found.values[2]);
      return el("span", {}, percent(found.values[0]), range ? el("small", { class: "muted" }, ` ${range}`) : "");
    });
    return [addText(el("span"), source), addText(el("span"), name), ...values];
  });
  return panel("Figures of the evaluations", table(columns, rows));
}

function runsPanel() {
  const runs = head.inputs.map((one, place) => [one.run, place]).filter(([run]) => run);
  if (runs.length < 2) return null;
  const rows = [
    ["Steps", (run) => count(run.steps)], ["Held-out accuracy, last", (run) => percent(run.last)],
    ["Held-out accuracy, best (step)", (run) => (known(run.best) ? `${percent(run.best)} (${run.bestStep})` : NONE)],
    ["Gain over the first evaluation", (run) => (known(run.last) ? `${signed(100 * (run.last - run.first), 1)} points` : NONE)],
    ["Reward, last 10 steps", (run) => fixed(run.reward)], ["Tokens, last 10 steps", (run) => short(run.tokens)],
    ["Completions", (run) => count(run.completions)], ["Unscored", (run) => count(run.unscored)], ["Seconds a step", (run) => short(run.stepSeconds)],
  ];
  const columns = [{ name: "", text: true }, ...runs.map(([, place]) => ({ name: head.inputs[place].label }))];
  return panel("Runs", el("p", { class: "muted" }, "Their curves are drawn together in the tab Curves."), table(columns, rows.map(([name, value]) => [name, ...runs.map(([run]) => value(run))])));
}

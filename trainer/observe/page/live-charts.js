// The curves of the live page: which there are, what they show, and when they are drawn again.
"use strict";
globalThis.Curves = (() => {
  const { known, number } = Words;
  const RECENT_SECONDS = { recent: 600, hours: 7200, whole: Infinity };
  const drawn = new Map(), visible = new Set();
  let range = "whole", measure = "util", legend = null;

  // Plotly's dates have no zone: a reader's own clock is shown.
  const at = (t) => 1000 * t - 60000 * new Date(1000 * t).getTimezoneOffset();
  const pick = (name) => Feed.history[name][range];

  // Nothing is drawn across a time without readings.
  function broken(view, ...columns) {
    const gap = Math.max(3 * view.seconds, 10 * Math.min(...view.t.slice(1).map((t, index) => t - view.t[index])), 5);
    const x = [], lists = columns.map(() => []);
    view.t.forEach((t, index) => {
      if (index && t - view.t[index - 1] > gap) {
        x.push(at(view.t[index - 1] + view.seconds), at(t - view.seconds));
        lists.forEach((list) => list.push(null, null));
      }
      x.push(at(t));
      columns.forEach((name, column) => lists[column].push(view[name][index]));
    });
    return { x, lists };
  }

  function span() {
    const views = [pick("speed"), pick("machine")].filter((view) => view.t.length);
    if (!views.length) return null;
    const end = Math.max(...views.map((view) => view.t.at(-1) + view.seconds));
    const begin = Math.max(end - RECENT_SECONDS[range], Math.min(...views.map((view) => view.t[0])));
    return [begin, end];
  }

  function marksWithin([begin, end]) {
    return Feed.history.marks.time.filter((mark) => mark.x >= begin && mark.x <= end).map((mark) => ({ ...mark, x: at(mark.x) }));
  }

  function overTime(id, series, more) {
    return { id, x_title: "", x_range: span().map(at), stacked: false, series, marks: marksWithin(span()), ...more };
  }

  function speedChart() {
    const view = pick("speed"), [begin, end] = span(), roof = Feed.now.doctor?.roof;
    const { x, lists: [mean, low, high] } = broken(view, "speed", "speed_low", "speed_high");
    const series = [{ name: "lowest to highest", style: "band", colour: "blue", x, low, high }, { name: "images/s", style: "line", colour: "blue", x, y: mean }];
    if (roof) series.push({ name: "roof", style: "dash", colour: "good", x: [at(begin), at(end)], y: [roof, roof] });
    const top = Math.max(roof || 0, ...view.speed_high.filter(known));
    return overTime("chart-speed", series, { y_range: [0, 1.08 * top || 1] });
  }

  function waitChart() {
    const { x, lists: [wait] } = broken(pick("speed"), "wait");
    return overTime("chart-wait", [{ name: "waiting", style: "line", colour: "orange", x, y: wait }], { y_range: [0, 100] });
  }

  const CPU = { user: "blue", system: "violet", iowait: "orange", idle: "grey" };
  function cpuChart() {
    const names = Object.keys(CPU), { x, lists } = broken(pick("machine"), ...names);
    return overTime("chart-cpu", names.map((name, index) => ({ name, style: "line", colour: CPU[name], x, y: lists[index] })), { y_range: [0, 100], stacked: true });
  }

  function machineChart(id, key, scale, colour) {
    const { x, lists: [values] } = broken(pick("machine"), key);
    const y = values.map((value) => (known(value) ? value * scale : null));
    return overTime(id, [{ name: key, style: "line", colour, x, y }], { y_range: [0, null] });
  }

  function byEpoch(id, series, more) {
    return { id, x_title: "Epoch", stacked: false, series, marks: Feed.history.marks.epoch.filter((mark) => mark.kind !== "checkpoint"), ...more };
  }

  function lossChart() {
    const { epoch, loss, loss_low: low, loss_high: high } = Feed.history.learning, checks = Feed.history.validations;
    return byEpoch("chart-loss", [
      { name: "lowest to highest", style: "band", colour: "blue", x: epoch, low, high }, { name: "training", style: "line", colour: "blue", x: epoch, y: loss },
      { name: "validation", style: "points", colour: "orange", x: checks.map((one) => one.epoch), y: checks.map((one) => one.loss) },
    ]);
  }

  function accuracyChart() {
    const checks = Feed.history.validations;
    const line = (key, name, colour) => ({ name, style: "points", colour, x: checks.map((one) => one.epoch), y: checks.map((one) => (known(one[key]) ? 100 * one[key] : null)) });
    return byEpoch("chart-accuracy", [line("top1", "top-1", "blue"), line("top5", "top-5", "orange")]);
  }

  function rateChart() {
    const { epoch, rate } = Feed.history.learning;
    return byEpoch("chart-rate", [{ name: "rate", style: "line", colour: "blue", x: epoch, y: rate }], { y_range: [0, null] });
  }

  const CHARTS = {
    "chart-speed": speedChart, "chart-wait": waitChart, "chart-cpu": cpuChart,
    "chart-memory": () => machineChart("chart-memory", "available", 1e-3, "blue"), "chart-disk": () => machineChart("chart-disk", "read", 1, "blue"),
    "chart-loss": lossChart, "chart-accuracy": accuracyChart, "chart-rate": rateChart,
  };
  const SIGNS = { line: "line", dash: "dash", points: "points", band: "band" };
  const LEGENDS = { "chart-speed": "speed-legend", "chart-cpu": "cpu-legend", "chart-loss": "loss-legend", "chart-accuracy": "accuracy-legend" };
  const MARKS = { checkpoint: ["checkpoint", "grey"], resume: ["resumed", "violet"], stop: ["stopped", "text"], interrupted: ["interrupted", "bad"] };

  function signsOf(marks) {
    const kinds = Object.keys(MARKS).filter((kind) => marks.some((mark) => mark.kind === kind));
    return kinds.map((kind) => legend(...MARKS[kind], kind));
  }

  function drawChart(id) {
    const chart = CHARTS[id]();
    Charts.draw(chart);
    const entries = chart.series.map((one) => legend(one.name, one.colour, chart.stacked ? "area" : SIGNS[one.style]));
    if (LEGENDS[id]) document.getElementById(LEGENDS[id]).replaceChildren(...entries, ...signsOf(chart.marks));
    describe(chart);
  }

  // For those who do not see the curves.
  function describe(chart) {
    const words = chart.series.filter((one) => one.y && one.style !== "dash").map((one) => {
      const values = one.y.filter(known);
      return values.length ? `${one.name}: last ${number(values.at(-1))}, lowest ${number(Math.min(...values))}, highest ${number(Math.max(...values))}` : `${one.name}: nothing yet`;
    });
    const title = document.getElementById(chart.id).closest("figure").querySelector("h3").textContent;
    Charts.words(chart.id, `${title}. ${words.join(". ")}.`);
  }

  function drawStrips() {
    const view = pick("machine"), total = Math.max(0, ...Feed.now.gpus.map((gpu) => gpu.mem_total_mb || 0)), marks = marksWithin(span());
    Strips.draw("chart-gpus", view, measure, { at, x_title: "", x_range: span().map(at), total, marks });
    document.getElementById("gpus-legend").replaceChildren(...signsOf(marks.filter((mark) => mark.kind !== "checkpoint")));
    const [low, high] = Strips.limits(view, measure, total), unit = Strips.MEASURES[measure].unit;
    document.getElementById("scale").style.setProperty("--scale", `linear-gradient(90deg, ${Strips.scaleOf(measure).map(([, paint]) => paint).join(", ")})`);
    document.getElementById("scale-low").textContent = measure === "util" ? "idle" : `${number(low)} ${unit}`;
    document.getElementById("scale-high").textContent = measure === "util" ? "busy" : `${number(high)} ${unit}`;
    const each = view.seconds > 1 ? `a column is ${Words.duration(view.seconds)}` : "a column is a second";
    document.getElementById("strips-note").textContent = measure === "util" && view.seconds > 1 ? `one strip each: highest, mean and lowest reading; ${each}` : `one strip each; ${each}`;
    const means = view.gpus.map((gpu, index) => `GPU ${index} ${number(Math.round(mean(gpu[measure])))}`);
    Charts.words("chart-gpus", `${measure === "util" ? "Utilisation" : measure} of each GPU over time. Means in ${unit}: ${means.join(", ")}. The table GPUs now holds the newest readings.`);
  }

  function mean(values) {
    const found = values.filter(known);
    return found.length ? found.reduce((sum, value) => sum + value, 0) / found.length : 0;
  }

  // Seconds that a chart stays: a bucket of minutes changes little within a second.
  function due(id) {
    const seconds = document.getElementById(id).closest(".by-epoch") ? 5 : Math.min(Math.max(pick("machine").seconds / 4, 1), 30);
    const before = drawn.get(id);
    return !before || before.revision !== JSON.stringify(Feed.history.revision) || (Feed.messages !== before.messages && performance.now() - before.at > 1000 * seconds - 500);
  }

  function draw(id) {
    drawn.set(id, { at: performance.now(), messages: Feed.messages, revision: JSON.stringify(Feed.history.revision) });
    if (id === "chart-gpus") drawStrips();
    else drawChart(id);
  }

  // Only what can be seen is drawn, and for a fifth of the time at most: a slow device stays usable.
  let rest = 0;
  function show() {
    const began = performance.now();
    if (!Feed.history || !Feed.now || !span() || began < rest) return;
    for (const id of visible) if (due(id)) draw(id);
    rest = performance.now() + 4 * (performance.now() - began);
  }

  function again() {
    drawn.clear();
    rest = 0;
    show();
  }

  function start(legendOf) {
    legend = legendOf;
    const watcher = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) isIntersecting ? visible.add(target.id) : visible.delete(target.id);
      rest = 0;
      show();
    }, { rootMargin: "200px" });
    document.querySelectorAll(".chart").forEach((chart) => watcher.observe(chart));
    document.getElementById("range").addEventListener("change", (event) => { range = event.target.value; again(); });
    document.getElementById("measure").addEventListener("change", (event) => { measure = event.target.value; again(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  }
  return { start, show };
})();

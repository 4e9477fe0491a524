// One strip a GPU: a measure over time as colour. Where a column stands for more than a second, utilisation has three rows:
// the highest, the mean and the lowest reading, so that no stall is averaged away.
"use strict";
globalThis.Strips = (() => {
  const MEASURES = {
    util: { unit: "%", scale: ["--idle-0", "--idle-1", "--idle-2"], range: () => [0, 100] },
    memory: { unit: "MB", range: (gpus, total) => [0, total || highest(gpus, "memory")] },
    power: { unit: "W", range: (gpus) => [0, highest(gpus, "power")] },
    temperature: { unit: "°C", range: () => [30, 95] },
  };
  const ROWS = { util: [["util_high", "highest"], ["util", "mean"], ["util_low", "lowest"]] };
  const GAP = 0.16;
  // Pixels; report.css gives each strip 24 between them. LEFT: as charts.js, so that times stand below each other.
  const TOP = 30, BOTTOM = 44, LEFT = 44;

  const highest = (gpus, key) => Math.max(1, ...gpus.flatMap((gpu) => gpu[key].filter((value) => value !== null)));

  // Edges of the columns, and which column of the data each one is; -1 for a stretch of time without data.
  function columns(view) {
    const edges = [], picks = [];
    view.t.forEach((t, index) => {
      if (index && t > view.t[index - 1] + 1.5 * view.seconds) {
        edges.push(view.t[index - 1] + view.seconds);
        picks.push(-1);
      }
      edges.push(t);
      picks.push(index);
    });
    if (view.t.length) edges.push(view.t.at(-1) + view.seconds);
    return { edges, picks };
  }

  function rows(gpu, measure) {
    const found = (ROWS[measure] || []).filter(([key]) => gpu[key]);
    return found.length > 1 ? found : [[measure, ""]];
  }

  function data(view, measure) {
    const { edges, picks } = columns(view);
    const z = [], y = [], notes = [];
    view.gpus.forEach((gpu, number) => {
      const parts = rows(gpu, measure);
      parts.forEach(([key, what], part) => {
        y.push(number + ((1 - GAP) * part) / parts.length);
        z.push(picks.map((pick) => (pick < 0 ? null : gpu[key][pick])));
        notes.push(new Array(picks.length).fill(`GPU ${number}${what ? ", " + what : ""}`));
      });
      y.push(number + 1 - GAP);
      z.push(new Array(picks.length).fill(null));
      notes.push(new Array(picks.length).fill(""));
    });
    return { x: edges, y: [...y, view.gpus.length], z, customdata: notes };
  }

  function scaleOf(measure) {
    const names = MEASURES[measure].scale || ["--heat-0", "--heat-1", "--heat-2"];
    return names.map((name, index) => [index / 2, Charts.colour(name)]);
  }

  const limits = (view, measure, total) => MEASURES[measure].range(view.gpus, total);

  // at(t): the x of a time; marks as in charts.
  function draw(id, view, measure, { at, x_title, x_range, total, marks }) {
    const found = data(view, measure);
    const [zmin, zmax] = limits(view, measure, total);
    document.getElementById(id).style.setProperty("--gpus", view.gpus.length);
    const middles = view.gpus.map((_, number) => number + 0.5 - GAP / 2);
    return Plotly.react(id, [{
      type: "heatmap", ...found, x: found.x.map(at), zmin, zmax, colorscale: scaleOf(measure), showscale: false, hoverongaps: false,
      hovertemplate: `%{customdata}: %{z} ${MEASURES[measure].unit}<br>%{x}<extra></extra>`,
    }], Charts.layout({
      margin: { l: LEFT, r: 10, t: TOP, b: BOTTOM }, shapes: Charts.rules(marks, "above"),
      xaxis: Charts.axis(x_title, { automargin: false, showgrid: false, ticks: "outside", tickcolor: Charts.colour("--edge"), ...(x_range ? Charts.dates(x_range) : {}) }),
      yaxis: Charts.axis("", { automargin: false, autorange: false, range: [view.gpus.length, 0], tickvals: middles, ticktext: view.gpus.map((_, number) => String(number)), showgrid: false, fixedrange: true }),
    }), Charts.CONFIG);
  }

  return { draw, limits, scaleOf, MEASURES };
})();

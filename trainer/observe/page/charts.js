// Draws the charts that the page's JSON describes, in the colours of its style sheet, again when those change.
"use strict";
(() => {
  const { charts, confusion } = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const coarse = matchMedia("(pointer: coarse)").matches;
  const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset" };
  const MARKS = {
    checkpoint: { symbol: "line-ns", y: 0.025, colour: "--grey" },
    resume: { symbol: "triangle-down", y: 0.97, colour: "--violet" },
    stop: { symbol: "square", y: 0.97, colour: "--text" },
  };

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // Plotly reads a few tags in its texts: names are no markup.
  const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const short = (text) => plain(text.length > 16 ? text.slice(0, 15) + "…" : text);

  function axis(title, options) {
    return {
      title: { text: title, font: { size: 12 }, standoff: 8 }, automargin: true, gridcolor: colour("--grid"), zeroline: false,
      linecolor: colour("--edge"), fixedrange: coarse, ...options,
    };
  }

  function layout(options) {
    return {
      paper_bgcolor: "transparent", plot_bgcolor: "transparent", uirevision: "keep", showlegend: false, dragmode: coarse ? false : "zoom",
      font: { family: colour("--font"), size: 12, color: colour("--quiet") }, margin: { l: 44, r: 10, t: 8, b: 40 },
      hoverlabel: { bgcolor: colour("--surface"), bordercolor: colour("--edge"), font: { color: colour("--text") } },
      ...options,
    };
  }

  function line(series, stacked) {
    const paint = colour("--" + series.colour);
    const faint = series.style === "faint";
    const points = series.style === "points";
    return {
      x: series.x, y: series.y, name: plain(series.name), connectgaps: false, hovertemplate: "%{y:.4~g}",
      mode: points ? "lines+markers" : "lines", marker: { color: paint, size: series.x.length > 40 ? 4 : 7 },
      line: { color: paint, width: stacked ? 0.5 : faint ? 1 : 2 },
      ...(stacked ? { stackgroup: "all", y: series.y.map((value) => value ?? 0), fillcolor: paint + (series.name === "idle" ? "22" : "bb") } : {}),
    };
  }

  function markTrace(kind, marks) {
    const { symbol, y, colour: paint } = MARKS[kind];
    return {
      x: marks.map((mark) => mark.x), y: marks.map(() => y), text: marks.map((mark) => plain(mark.label)),
      yaxis: "y2", mode: "markers", hovertemplate: "%{text}<extra></extra>", cliponaxis: false,
      marker: { symbol, size: 8, color: colour(paint), line: { color: colour(paint), width: 1 } },
    };
  }

  function rule(mark) {
    const { colour: paint } = MARKS[mark.kind];
    const dash = mark.kind === "resume" ? "dash" : "dot";
    return { type: "line", x0: mark.x, x1: mark.x, y0: 0, y1: 1, yref: "paper", layer: "below", line: { color: colour(paint), width: 1, dash } };
  }

  function drawChart(chart) {
    const kinds = Object.keys(MARKS).map((kind) => [kind, chart.marks.filter((mark) => mark.kind === kind)]);
    const marks = kinds.filter(([, found]) => found.length).map(([kind, found]) => markTrace(kind, found));
    const range = chart.y_range || [null, null];
    Plotly.react(chart.id, [...chart.series.map((series) => line(series, chart.stacked)), ...marks], layout({
      hovermode: "x unified",
      shapes: chart.marks.filter((mark) => mark.kind !== "checkpoint").map(rule),
      xaxis: axis(chart.x_title, { showgrid: false, rangemode: "nonnegative", ticks: "outside", tickcolor: colour("--edge"), hoverformat: ".4~g" }),
      yaxis: axis("", { range, autorangeoptions: range[1] === null ? { include: range[0] } : {} }),
      yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
    }), CONFIG);
  }

  function cell(row, column) {
    const count = confusion.counts[row][column];
    const total = confusion.counts[row].reduce((sum, one) => sum + one, 0);
    const share = total ? count / total : 0;
    const words = `true: ${plain(confusion.labels[row])}<br>predicted: ${plain(confusion.labels[column])}`;
    return { share, shown: count ? count.toLocaleString("en") : "", hover: `${words}<br>${count} of ${total} (${(100 * share).toFixed(1)} %)` };
  }

  function drawConfusion() {
    const places = confusion.labels.map((_, index) => index);
    const cells = places.map((row) => places.map((column) => cell(row, column)));
    const pick = (key) => cells.map((row) => row.map((one) => one[key]));
    const ticks = { tickvals: places, ticktext: confusion.labels.map(short), showgrid: false, fixedrange: true };
    Plotly.react("confusion", [{
      type: "heatmap", z: pick("share"), text: pick("shown"), customdata: pick("hover"), zmin: 0, zmax: 1, xgap: 1, ygap: 1,
      texttemplate: "%{text}", hovertemplate: "%{customdata}<extra></extra>", showscale: false,
      colorscale: [[0, colour("--heat-0")], [0.5, colour("--heat-1")], [1, colour("--heat-2")]],
    }], layout({
      xaxis: axis("predicted class", { ...ticks, tickangle: -45 }), yaxis: axis("true class", { ...ticks, autorange: "reversed" }),
    }), CONFIG);
  }

  function draw() {
    charts.forEach(drawChart);
    if (confusion) drawConfusion();
  }

  draw();
  dark.addEventListener("change", draw);
})();

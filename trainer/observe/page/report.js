// The report: everything is in the page's own JSON. Drawn again when the reader's colours change.
"use strict";
(() => {
  const { charts, confusion, strips } = JSON.parse(document.getElementById("data").textContent);
  const short = (text) => Charts.plain(text.length > 16 ? text.slice(0, 15) + "…" : text);

  function cell(row, column) {
    const count = confusion.counts[row][column];
    const total = confusion.counts[row].reduce((sum, one) => sum + one, 0);
    const share = total ? count / total : 0;
    const words = `true: ${Charts.plain(confusion.labels[row])}<br>predicted: ${Charts.plain(confusion.labels[column])}`;
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
      colorscale: [[0, Charts.colour("--heat-0")], [0.5, Charts.colour("--heat-1")], [1, Charts.colour("--heat-2")]],
    }], Charts.layout({
      xaxis: Charts.axis("predicted class", { ...ticks, tickangle: -45 }), yaxis: Charts.axis("true class", { ...ticks, autorange: "reversed" }),
    }), Charts.CONFIG);
  }

  function drawStrips() {
    const at = (t) => (t - strips.origin) / strips.unit_seconds;
    const marks = charts.find((chart) => chart.id === "speed")?.marks || [], { x_title, memory_mb: total } = strips;
    for (const measure of strips.measures) Strips.draw(`gpus-${measure}`, strips.view, measure, { at, x_title, total, marks });
  }

  function draw() {
    charts.forEach(Charts.draw);
    if (confusion) drawConfusion();
    if (strips) drawStrips();
  }

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();

// Draws charts and strips from plain descriptions (trainer/observe/charts.py), in the colours of the style sheet.
"use strict";
globalThis.Charts = (() => {
  const coarse = matchMedia("(pointer: coarse)").matches;
  const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset" };
  const MARKS = {
    checkpoint: { symbol: "line-ns", y: 0.025, colour: "--grey" },
    resume: { symbol: "triangle-down", y: 0.89, colour: "--violet", dash: "dash" },
    stop: { symbol: "square", y: 0.97, colour: "--text", dash: "dot" },
    interrupted: { symbol: "x", y: 0.97, colour: "--bad", dash: "dot" },
  };

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // Plotly reads a few tags in its texts: names are no markup.
  const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

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

  const STYLES = {
    line: { mode: "lines", width: 2 }, faint: { mode: "lines", width: 1 }, points: { mode: "lines+markers", width: 2 },
    dash: { mode: "lines", width: 1.5, dash: "dash" },
  };

  function line(series, stacked) {
    const paint = colour("--" + series.colour);
    const { mode, width, dash } = STYLES[series.style];
    return {
      x: series.x, y: series.y, name: plain(series.name), connectgaps: false, hovertemplate: "%{y:.4~g}", mode,
      marker: { color: paint, size: series.x.length > 40 ? 4 : 7 }, line: { color: paint, width: stacked ? 0.5 : width, dash },
      ...(stacked ? { stackgroup: "all", y: series.y.map((value) => value ?? 0), fillcolor: paint + (series.name === "idle" ? "22" : "bb") } : {}),
    };
  }

  // From the lowest to the highest reading of each bucket: one closed shape for each stretch without a gap.
  function band(series) {
    const x = [], y = [];
    const ends = [...series.x.keys()].filter((row) => series.low[row] === null);
    let begin = 0;
    for (const end of [...ends, series.x.length]) {
      const xs = series.x.slice(begin, end);
      if (xs.length) {
        x.push(...xs, ...xs.toReversed(), null);
        y.push(...series.high.slice(begin, end), ...series.low.slice(begin, end).toReversed(), null);
      }
      begin = end + 1;
    }
    return { x, y, name: plain(series.name), mode: "lines", line: { width: 0 }, fill: "toself", fillcolor: colour("--" + series.colour) + "33", hoverinfo: "skip" };
  }

  const trace = (series, stacked) => (series.style === "band" ? band(series) : line(series, stacked));

  function markTrace(kind, marks) {
    const { symbol, y, colour: paint } = MARKS[kind];
    return {
      x: marks.map((mark) => mark.x), y: marks.map(() => y), text: marks.map((mark) => plain(mark.label)),
      yaxis: "y2", mode: "markers", hovertemplate: "%{text}<extra></extra>", cliponaxis: false,
      marker: { symbol, size: 8, color: colour(paint), line: { color: colour(paint), width: 1 } },
    };
  }

  function rule(mark, layer) {
    const { colour: paint, dash } = MARKS[mark.kind];
    return { type: "line", x0: mark.x, x1: mark.x, y0: 0, y1: 1, yref: "paper", layer, line: { color: colour(paint), width: 1, dash } };
  }

  // Lines through the whole picture, for all marks but those of checkpoints.
  const rules = (marks, layer) => marks.filter((mark) => MARKS[mark.kind].dash).map((mark) => rule(mark, layer));

  // Clock times within some days, dates beyond.
  const SHORT_MS = 3 * 86_400_000;
  const dates = ([begin, end]) => ({ type: "date", range: [begin, end], hoverformat: "%e %b %H:%M:%S", tickformat: end - begin < 600_000 ? "%H:%M:%S" : end - begin < SHORT_MS ? "%H:%M" : "%e %b", tickangle: 0 });
  const timeAxis = (chart) => (chart.x_range ? dates(chart.x_range) : { rangemode: "nonnegative", hoverformat: ".4~g" });

  function draw(chart) {
    const kinds = Object.keys(MARKS).map((kind) => [kind, chart.marks.filter((mark) => mark.kind === kind)]);
    const marks = kinds.filter(([, found]) => found.length).map(([kind, found]) => markTrace(kind, found));
    const range = chart.y_range || [null, null];
    return Plotly.react(chart.id, [...chart.series.map((series) => trace(series, chart.stacked)), ...marks], layout({
      hovermode: "x unified", ...(chart.x_title ? {} : { margin: { l: 44, r: 10, t: 8, b: 28 } }),
      shapes: rules(chart.marks, "below"),
      xaxis: axis(chart.x_title, { showgrid: false, ticks: "outside", tickcolor: colour("--edge"), ...timeAxis(chart) }),
      // Charts of the same time stand below each other: no left margin of their own.
      yaxis: axis("", { automargin: !chart.x_range, range, autorangeoptions: range[1] === null ? { include: range[0] } : {} }),
      yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
    }), CONFIG);
  }

  const words = (chart, text) => document.getElementById(chart).setAttribute("aria-label", text);

  return { axis, colour, CONFIG, dates, draw, layout, plain, rules, words };
})();

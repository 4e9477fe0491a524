// The live page: what the newest message says, in words and tables. live-charts.js draws the curves.
"use strict";
(() => {
  const { clock, duration, known, moment, money, number, percent, plural } = Words;
  const STATES = {
    running: ["▶", "Running"], finished: ["✓", "Finished"], stopped: ["⏸", "Stopped on request"], failed: ["✕", "Failed"],
    interrupted: ["!", "Interrupted"], "not started": ["–", "Not started"],
  };
  const LOSS_COLOURS = ["orange", "violet", "faint"];
  const OLD_SECONDS = 10, SPOKEN_SECONDS = 60;
  let spokenAt = -Infinity, spokenState = "", told = null;

  const element = (id) => document.getElementById(id);
  // Only what changed is touched: a reader's selection and screen readers are left alone.
  const set = (id, text) => { if (element(id).textContent !== text) element(id).textContent = text; };
  const fill = (id, items) => element(id).replaceChildren(...items);

  function update(id, rows) {
    const shown = element(id).rows;
    if (shown.length !== rows.length) return fill(id, rows);
    return rows.forEach((row, number) => {
      shown[number].className = row.className;
      [...row.cells].forEach((cell, place) => {
        const old = shown[number].cells[place];
        if (!old.isEqualNode(cell)) old.replaceChildren(...cell.childNodes);
      });
    });
  }

  function make(tag, attributes, ...children) {
    const made = Object.assign(document.createElement(tag), attributes);
    made.append(...children);
    return made;
  }

  function showState(now) {
    const [sign, words] = STATES[now.state];
    const busy = now.state === "running" && now.activity === "validation" ? "Validating" : words;
    set("state", `${sign} ${busy}`);
    element("state").className = `state ${now.state.replace(" ", "-")}`;
    const costs = now.costs || {};
    set("machine", ["Training run", costs.instance_type, costs.market === "spot" ? "spot" : costs.market?.replace("_", " "), costs.place].filter(Boolean).join(" · "));
  }

  // Of a run that is over, what the machine did last is no news.
  function showEnd(now) {
    const over = now.state !== "running" && known(now.sample_age_seconds);
    element("ended").hidden = !over;
    set("ended", over ? `Nobody trains this run now: the machine is shown as it was ${duration(now.sample_age_seconds)} ago.` : "");
  }

  // What the reader must not miss: a sentence, which is spoken when it changes, and in the pill the seconds that go on.
  function trouble(now) {
    const { seconds, lost } = Feed.silence();
    if (lost) return ["No connection to the monitor: what is shown is old. Trying again.", `no connection for ${duration(seconds)}`];
    if (!now) return ["", "connecting"];
    if (now.loaded < 1) return ["Reading the run's log: not all of it is shown yet.", `${percent(now.loaded)} read`];
    if (now.stands_still) return ["Training lives and makes no steps: it hangs, or waits for something.", `no step for ${duration(now.step_age_seconds)}`];
    if (isOld(now)) {
      return ["The monitor has no new reading of the machine: GPUs and processor are shown as they were.", `live, machine seen ${duration(now.sample_age_seconds)} ago`];
    }
    return ["", "live"];
  }

  const isOld = (now) => now?.state === "running" && now.sample_age_seconds > OLD_SECONDS;

  function showAge(now) {
    const [warning, pill] = trouble(now), { lost } = Feed.silence();
    set("warning", warning);
    element("warning").hidden = !warning;
    document.body.classList.toggle("stale", lost || isOld(now));
    set("link", pill);
    element("link").classList.toggle("lost", lost || Boolean(now?.stands_still));
  }

  function showProgress(now) {
    const share = now.epochs ? now.epoch / now.epochs : 0;
    const since = now.state === "running" && known(now.step_age_seconds);
    set("stepped", since ? `${now.has_stepped ? "last step" : "start"} ${duration(now.step_age_seconds)} ago` : "");
    set("epochs", known(now.epoch) ? `Epoch ${number(now.epoch)} of ${number(now.epochs)}` : "No step yet");
    set("steps", known(now.step) ? `step ${now.step.toLocaleString("en")} of ${now.steps_total.toLocaleString("en")}` : "");
    set("ends", now.state === "running" && known(now.seconds_left) ? `ends ${clock(now.t + now.seconds_left)}` : "");
    element("progress").value = share;
    set("left", duration(now.seconds_left));
    set("left-note", `${plural(now.starts, "start")}, ${plural(now.interruptions, "interruption")}`);
    set("saved", now.checkpoint ? `checkpoint ${duration(now.t - now.checkpoint.t)} ago` : "no checkpoint yet");
    set("top1", percent(now.top1, 2));
    set("top1-note", known(now.top1) ? `top-5 ${percent(now.top5, 2)} · best ${percent(now.best_top1, 2)}` : `loss ${number(now.loss)}`);
  }

  function showSpeed(now) {
    const found = now.doctor;
    const speed = known(now.speed_now) ? now.speed_now : now.state === "running" ? null : found?.speed;
    element("speed").replaceChildren(number(speed), make("small", { textContent: " images/s" }));
    const roof = found?.roof;
    set("speed-note", roof && known(speed) ? `${percent(speed / roof)} of ${found.roof_is_estimated ? "an estimated roof" : "the roof"} of ${number(roof)}` : "no roof is known");
  }

  const legend = (name, colour, sign) => {
    const mark = make("i", { className: sign });
    mark.style.color = `var(--${colour})`;
    return make("li", {}, mark, name);
  };

  // What is missing to the roof and has no cause: a roof is measured without validation, checkpoints and real data.
  const unnamed = (found) => (found.verdict === "device_bound" && !found.roof_is_estimated
    ? "what training loses to a measurement: validation, checkpoints, real data, noise" : "no cause found");

  // The roof's images/s: trained ones, and what each cause costs.
  function showLimits(now) {
    const found = now.doctor;
    if (JSON.stringify(found) === told) return;
    told = JSON.stringify(found);
    set("limit", found ? `${found.title[0].toUpperCase()}${found.title.slice(1)}.` : "Too few readings for a verdict yet.");
    set("advice", found ? found.advice : "");
    const losses = (found?.losses || []).slice(0, LOSS_COLOURS.length);
    const parts = found?.roof ? [{ title: "trained", cost: found.speed, colour: "blue" }, ...losses.map((loss, index) => ({ ...loss, colour: LOSS_COLOURS[index] }))] : [];
    const sum = parts.reduce((whole, part) => whole + part.cost, 0), total = Math.max(found?.roof || 0, sum);
    if (total - sum > 0.01 * total) parts.push({ title: unnamed(found), cost: total - sum, colour: "grid" });
    fill("account", parts.map((part) => {
      const bar = make("span", {}, part.cost > 0.12 * total ? number(Math.round(part.cost)) : "");
      bar.style.cssText = `flex-basis: ${(100 * part.cost) / total}%; background: var(--${part.colour})`;
      return bar;
    }));
    const words = parts.map((part) => `${part.title}: ${number(Math.round(part.cost))} images/s`);
    element("account").setAttribute("aria-label", parts.length ? `Of a roof of ${number(found.roof)} images/s: ${words.join("; ")}` : "");
    element("account").hidden = !parts.length;
    fill("account-legend", parts.map((part, index) => legend(words[index], part.colour, "area")));
  }

  function bar(share, text, note = "") {
    const meter = make("span", { className: "meter" });
    meter.style.setProperty("--share", `${Math.round(100 * Math.min(share || 0, 1))}%`);
    return make("td", {}, meter, make("span", { className: "value", textContent: text }), ...(note ? [make("span", { className: "trouble", textContent: note })] : []));
  }

  function gpuRow(gpu, index) {
    const gone = !["util", "mem_used_mb", "power_w", "temperature_c"].some((key) => known(gpu[key]));
    const unit = (value, text) => (known(value) ? `${number(Math.round(value))}${text}` : "–");
    const note = gone ? "no answer" : gpu.throttle === "thermal" ? "slowed by heat" : gpu.throttle === "power" ? "at power limit" : "";
    return make("tr", { className: gone || gpu.throttle ? "held" : "" },
      make("th", { scope: "row", textContent: String(index), title: gpu.pci_bus_id || "" }), bar(gpu.util / 100, unit(gpu.util, "\u202f%"), note),
      bar(gpu.mem_used_mb / gpu.mem_total_mb, known(gpu.mem_used_mb) ? `${(gpu.mem_used_mb / 1000).toFixed(1)} GB` : "–"),
      make("td", { className: "n", textContent: unit(gpu.power_w, " W") }), make("td", { className: "n", textContent: unit(gpu.temperature_c, " °C") }),
      make("td", { className: "n more", textContent: unit(gpu.sm_clock_mhz, " MHz") }));
  }

  function showCosts(now) {
    const costs = now.costs;
    element("money").hidden = !costs;
    if (!costs) {
      set("cost-title", "Machine");
      set("cost", "not rented");
      set("cost-note", "no price is known for it");
      return;
    }
    set("cost", money(costs.so_far_usd));
    set("cost-note", `${known(costs.forecast_usd) ? `${money(costs.forecast_usd)} at the end` : `${money(costs.price_usd_per_hour)} an hour`}${known(costs.saving_share) ? ` · ${percent(costs.saving_share)} less than on demand` : ""}`);
    const rows = [
      ["So far", money(costs.so_far_usd)], ["Forecast", money(costs.forecast_usd)], ["On demand, so far", money(costs.on_demand_so_far_usd)],
      ["On demand, forecast", money(costs.on_demand_forecast_usd)], ["Saving", known(costs.saving_usd) ? `${money(costs.saving_usd)} (${percent(costs.saving_share)})` : "–"],
      ["Price an hour", `${money(costs.price_usd_per_hour)}${known(costs.on_demand_usd_per_hour) ? ` (on demand ${money(costs.on_demand_usd_per_hour)})` : ""}`],
      ["Budget", known(costs.budget_usd) ? `${money(costs.budget_usd)}${costs.over_budget ? ": will not be enough" : ""}` : "none set"],
    ];
    update("cost-rows", rows.map(([what, value]) => make("tr", {}, make("th", { scope: "row", textContent: what }), make("td", { textContent: value }))));
  }

  function showStory(history) {
    const rows = [...history.story].reverse().map((one) => make("tr", {}, make("td", { textContent: moment(one.t) }),
      make("td", { textContent: `${one.what}${one.reason ? `: ${one.reason}` : ""}` }), make("td", { className: "n", textContent: known(one.step) ? one.step.toLocaleString("en") : "–" })));
    fill("story", rows);
  }

  // For those who listen: at a change of state, else once a minute.
  function speak(now) {
    const state = `${element("state").textContent} ${element("limit").textContent} ${element("warning").textContent}`;
    if (state === spokenState && performance.now() - spokenAt < 1000 * SPOKEN_SECONDS) return;
    [spokenState, spokenAt] = [state, performance.now()];
    set("spoken", `${element("state").textContent.slice(2)}: ${element("speed").textContent}, ${element("speed-note").textContent}; ${element("epochs").textContent}; time left ${duration(now.seconds_left)}; top-1 ${percent(now.top1, 1)}. ${element("limit").textContent}`);
  }

  let shownMessages = 0, shownRevision = "";
  function show() {
    const { now, history } = Feed;
    showAge(now);
    if (!now || document.hidden) return;
    if (Feed.messages !== shownMessages) {
      shownMessages = Feed.messages;
      showState(now);
      showEnd(now);
      showProgress(now);
      showSpeed(now);
      showLimits(now);
      showCosts(now);
      element("gpus").hidden = !now.gpus.length && !history?.machine.whole.gpus.length;
      update("gpu-rows", now.gpus.map(gpuRow));
      speak(now);
    }
    if (history && JSON.stringify(history.revision) !== shownRevision) {
      shownRevision = JSON.stringify(history.revision);
      showStory(history);
    }
    Curves.show();
  }

  document.addEventListener("visibilitychange", show);
  Curves.start(legend);
  Feed.start(show);
})();

// The run's data, kept up to date: all of it once (history.json), then one message a second (events).
"use strict";
globalThis.Feed = (() => {
  const QUIET_SECONDS = 5, DEAD_SECONDS = 15, HISTORY_PAUSE_SECONDS = 3, MOST = 1000;
  const feed = { history: null, now: null, messages: 0 };
  // Seconds without a message are counted by a clock that stands still while this page is busy or asleep.
  let quiet = 0;
  let source = null, retry = 1, asked = -Infinity, asking = false, tell = () => {};

  const since = (moment) => (performance.now() - moment) / 1000;
  const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

  function join(into, tail, keep) {
    for (const [name, values] of Object.entries(tail)) if (Array.isArray(values) && name !== "gpus") into[name].splice(keep, Infinity, ...values);
  }

  // Puts the newest buckets in the place of those that they bring up to date; false when there may be some between.
  function merge(view, tail, key, most = Infinity) {
    const places = view[key], known = places.length;
    let keep = known;
    while (keep && places[keep - 1] >= tail[key][0]) keep -= 1;
    const misses = tail[key].length > 0 && keep === known;
    join(view, tail, keep);
    (tail.gpus || []).forEach((gpu, number) => join(view.gpus[number], gpu, keep));
    const over = Math.max(places.length - most, 0);
    for (const lists of [view, ...(view.gpus || [])]) for (const [name, values] of Object.entries(lists)) if (Array.isArray(values) && name !== "gpus") values.splice(0, over);
    return !misses;
  }

  function mergeAll(history, message) {
    const views = ["speed", "machine"].flatMap((part) => Object.keys(message[part]).map((range) => [history[part][range], message[part][range], "t"]));
    return [...views, [history.learning, message.learning, "epoch"]].map(([view, tail, key]) => merge(view, tail, key, MOST)).every(Boolean);
  }

  function take(message) {
    feed.now = message;
    feed.messages += 1;
    if (!feed.history || !same(feed.history.revision, message.revision) || !mergeAll(feed.history, message)) ask();
  }

  async function ask() {
    if (asking || since(asked) < HISTORY_PAUSE_SECONDS) return;
    asking = true;
    try {
      const answer = await fetch("history.json", { cache: "no-store" });
      if (answer.ok) feed.history = await answer.json();
    } catch {
      // The stream tells that the connection is gone; the next message asks again.
    }
    asked = performance.now();
    asking = false;
    tell();
  }

  // A browser tries again by itself, but not after an answer that is no stream, nor when a connection just goes silent.
  function connect() {
    source?.close();
    source = new EventSource("events");
    source.onopen = () => { retry = 1; };
    source.onmessage = (event) => {
      quiet = 0;
      take(JSON.parse(event.data));
      tell();
    };
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) return;
      setTimeout(connect, 1000 * retry);
      retry = Math.min(2 * retry, 30);
    };
  }

  function watch() {
    quiet += 1;
    if (source.readyState === EventSource.OPEN && quiet % DEAD_SECONDS === 0) connect();
    tell();
  }

  // Seconds since the last message, and whether that is too long.
  feed.silence = () => ({ seconds: quiet, lost: quiet > QUIET_SECONDS });

  feed.start = (told) => {
    tell = told;
    connect();
    setInterval(watch, 1000);
  };
  return feed;
})();

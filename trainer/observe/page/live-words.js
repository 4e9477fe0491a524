// Numbers in words, as trainer/observe/words.py puts them.
"use strict";
globalThis.Words = (() => {
  const known = (value) => value !== null && value !== undefined;
  const unless = (write) => (value, ...more) => (known(value) ? write(value, ...more) : "–");
  const digits = (value, most) => value.toLocaleString("en", { maximumFractionDigits: most });

  const number = unless((value) => digits(value, Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 1 ? 2 : 4));
  const percent = unless((share, most = 0) => `${digits(100 * share, most)}\u202f%`);
  const money = unless((usd) => `$${usd.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`);
  const duration = unless((seconds) => {
    const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
    if (hours >= 48) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
    if (hours) return `${hours} h ${minutes % 60} min`;
    return minutes ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${Math.floor(seconds)} s`;
  });
  const clock = (t) => new Date(1000 * t).toLocaleString([], { weekday: "short", hour: "2-digit", minute: "2-digit" });
  const moment = (t) => new Date(1000 * t).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
  const plural = (count, what) => `${number(count)} ${what}${count === 1 ? "" : "s"}`;

  return { clock, duration, known, moment, money, number, percent, plural };
})();

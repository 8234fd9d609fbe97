// Dots with intervals on a logarithmic axis, samples in their order, and times by the day.

const WIDE = 900, LEFT = 240, RIGHT = 180, LINE = 26; // user units of a picture: 900 are its width
// A measured number to so many digits, its zeros included. `digits` are those that the data has.
const significant = (value, digits = 3) => value.toLocaleString("en", { minimumSignificantDigits: digits, maximumSignificantDigits: digits });
const UNITS = {
  s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
  B: [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
};
// A number, written by `write`, with the largest unit in which it is at least one.
function worded(value, unit, write = (of) => of.toLocaleString("en", { maximumSignificantDigits: 3 })) {
  if (unit === "×") return value === 1 ? "1×" : `${write(Math.max(value, 1 / value))}× ${value > 1 ? "faster" : "slower"}`;
  const [size, name] = UNITS[unit].find(([least]) => value >= least * 0.9995) ?? UNITS[unit].at(-1);
  return `${write(value / size)} ${name}`;
}

// Round values from `low` to `high`; those of speed-ups are as far from 1 on both sides.
function ticks(low, high, unit) {
  if (unit === "×") return [...(low < 1 ? ticks(1.0001, 1 / low).map((value) => 1 / value).reverse() : []), 1, ...(high > 1 ? ticks(1.0001, high) : [])];
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
    for (const times of high / low > 100 ? [1] : high / low > 10 ? [1, 2, 5] : [1, 1.2, 1.5, 2, 3, 5, 7])
      if (times * 10 ** power >= low && times * 10 ** power <= high) found.push(times * 10 ** power);
  return found;
}

// A line for each row: `name`, `value`, `low`, `high`, `said`, and a line at `one` if there is one.
function dots(rows, { title, unit, one = null }) {
  const shown = rows.filter((row) => row.value > 0);
  if (!shown.length) return make("p", {}, "There is nothing to draw.");
  const ends = shown.flatMap((row) => [row.value, row.low > 0 ? row.low : row.value, row.high > 0 ? row.high : row.value]);
  const low = Math.min(...ends, one ?? Infinity) / 1.08, high = Math.max(...ends, one ?? 0) * 1.08;
  const across = (value) => LEFT + (WIDE - LEFT - RIGHT) * Math.log(value / low) / Math.log(high / low);
  const down = (place) => 22 + LINE * place, bottom = down(shown.length) - 6;
  let free = -Infinity; // where the label of the next tick may begin
  const axis = ticks(low, high, unit).flatMap((value) => {
    const x = across(value), words = worded(value, unit), half = 3.4 * words.length;
    const fits = x - half > free;
    if (fits) free = x + half;
    return [draw("line", { class: "grid", x1: x, x2: x, y1: 8, y2: bottom }), fits ? draw("text", { x, y: bottom + 14, "text-anchor": "middle" }, words) : null];
  }).filter(Boolean);
  const marks = shown.flatMap((row, place) => {
    const y = down(place);
    const reach = row.low > 0 && row.high > 0 && draw("line", { class: "reach", x1: across(row.low), x2: across(row.high), y1: y, y2: y });
    return [draw("text", { x: LEFT - 10, y: y + 4, "text-anchor": "end" }, row.name), reach || draw("g"),
      draw(row.hollow ? "rect" : "circle", row.hollow ? { class: "mark", x: across(row.value) - 4, y: y - 4, width: 8, height: 8 } : { class: "mark", cx: across(row.value), cy: y, r: 4.5 }),
      draw("text", { x: WIDE - RIGHT + 10, y: y + 4 }, row.said)];
  });
  const line = one ? [draw("line", { class: "one", x1: across(one), x2: across(one), y1: 8, y2: bottom })] : [];
  return draw("svg", { viewBox: `0 0 ${WIDE} ${bottom + 22}`, role: "img", "aria-label": title }, ...axis, ...line, ...marks);
}

// Samples in the order of rounds, so that a drift shows; the line is their median.
function strip(samples, title) {
  const low = Math.min(...samples), high = Math.max(...samples), span = high - low || high || 1;
  const across = (place) => 70 + (WIDE - 90) * (place + 0.5) / samples.length, up = (value) => 130 - 110 * (value - low) / span;
  const ordered = [...samples].sort((a, b) => a - b), middle = (ordered[(samples.length - 1) >> 1] + ordered[samples.length >> 1]) / 2;
  return draw("svg", { viewBox: `0 0 ${WIDE} 150`, role: "img", "aria-label": title },
    draw("line", { class: "one", x1: 70, x2: WIDE - 20, y1: up(middle), y2: up(middle) }),
    ...[low, high].map((value) => draw("text", { x: 62, y: up(value) + 4, "text-anchor": "end" }, worded(value * 1e-6, "s", (of) => significant(of, 4)))),
    ...samples.map((value, place) => draw("circle", { class: "mark", cx: across(place), cy: up(value), r: 2 })),
    draw("text", { x: 70, y: 148 }, `rounds 1 to ${samples.length}`));
}

// Values by the day, with their intervals; a level that begins is marked, and so is a library's new version.
function byDay(line) {
  const moments = line.moments, ends = moments.flatMap(([, , value, low, high]) => [value, low ?? value, high ?? value]).filter((value) => value > 0);
  const low = Math.min(...ends) / 1.05, high = Math.max(...ends) * 1.05, days = moments.map(([when]) => Date.parse(when));
  const ordered = [...moments].sort((one, other) => other[2] - one[2]), extremes = ordered[0][5] === ordered.at(-1)[5] ? [ordered[0]] : [ordered[0], ordered.at(-1)];
  const first = Math.min(...days), last = Math.max(...days);
  const across = (day) => 110 + (WIDE - 150) * (last > first ? (day - first) / (last - first) : 0.5);
  const up = (value) => 170 - 140 * Math.log(value / low) / Math.log(high / low);
  const marks = moments.flatMap(([when, commit, value, from, to, words], place) => {
    const x = across(days[place]), begins = line.changes.includes(place);
    const said = draw("title", {}, `${when} ${commit}: ${words}`);
    return [from > 0 && to > 0 ? draw("line", { class: "reach", x1: x, x2: x, y1: up(from), y2: up(to) }) : draw("g"),
      begins ? draw("rect", { class: "mark step", x: x - 5, y: up(value) - 5, width: 10, height: 10 }, said) : draw("circle", { class: "mark", cx: x, cy: up(value), r: 4 }, said)];
  });
  const releases = line.releases.filter(([when]) => Date.parse(when) >= first && Date.parse(when) <= last).flatMap(([when, words]) => [
    draw("line", { class: "one", x1: across(Date.parse(when)), x2: across(Date.parse(when)), y1: 14, y2: 170 }), draw("text", { x: across(Date.parse(when)) + 3, y: 12 }, words)]);
  return draw("svg", { viewBox: `0 0 ${WIDE} 195`, role: "img", "aria-label": `${line.implementation}: ${line.what}` }, ...releases, ...marks,
    ...extremes.map(([, , value, , , words], place) => draw("text", { x: 100, y: Math.max(up(value) + 4, up(extremes[0][2]) + 4 + LINE / 2 * place), "text-anchor": "end" }, words)),
    draw("text", { x: 110, y: 190 }, moments[0][0].slice(0, 10)), draw("text", { x: WIDE - 30, y: 190, "text-anchor": "end" }, moments.at(-1)[0].slice(0, 10)));
}

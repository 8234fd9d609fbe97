// One timed table: dots with intervals, every number, and on a click the samples in the order of rounds.

const SHOWN = {
  speed: { words: "speed-up", unit: "×", one: 1, of: (row) => row.u ?? (row.verdict === "baseline" ? [1, 1, 1] : null), said: judged },
  time: { words: "time", unit: "s", of: (row) => row.t, said: (row) => row.words.time },
  memory: { words: "peak memory", unit: "B", of: (row) => row.peak > 0 ? [row.peak, null, null] : null, said: (row) => row.words.memory },
};
// The speed-up with its verdict, without the reason: "1.15× slower", "1.01× faster, same", "baseline".
function judged(row) {
  const verdict = row.verdict.split(":")[0];
  return ["faster", "slower"].includes(verdict) ? row.words.speedup : [row.words.speedup, verdict].filter(Boolean).join(", ");
}
const timesChooser = tableChoices();
const quantity = choice("show", "Shown", () => Object.entries(SHOWN).map(([name, each]) => [name, each.words]));
const said = (name) => (row) => row.words?.[name] ?? "–";
const TIME_COLUMNS = [
  { title: "implementation", of: short },
  { title: "time", of: (row) => row.words?.time ?? row.status, by: (row) => row.t?.[0], n: true },
  { title: "99 % interval", of: said("between"), by: (row) => row.t?.[1] },
  { title: "speed-up", of: said("speedup"), by: (row) => row.u?.[0], n: true },
  { title: "its interval", of: said("ends"), by: (row) => row.u?.[1] },
  { title: "verdict", of: (row) => row.verdict || "–" },
  { title: "peak memory", of: said("memory"), by: (row) => row.peak, n: true },
  { title: "of roofline", of: said("roofline"), by: (row) => row.roof, n: true },
  { title: "energy", of: said("energy"), by: (row) => row.joules, n: true },
  { title: "error in bounds", of: said("error"), by: (row) => row.error, n: true },
];

const unfoldedTime = (row) => make("div", {},
  row.x ? strip(row.x, `Samples of ${short(row)} in the order of rounds`) : "",
  described([
    ["samples", row.x && `${row.x.length}, each the mean of ${row.calls} call${row.calls === 1 ? "" : "s"}; the line is the median`],
    ["what ran", row.kernel],
    ["detail", DATA.details[row.said]],
    ["time again", row.command && command(row.command)],
    ...madeIn(machine().runs[row.r], DATA.implementations[row.i]),
  ]));

part(() => {
  if (!machine()?.tables.some((of) => of.rows.some((row) => row.t))) return byId("times").replaceChildren("Nothing was timed on this machine.");
  if (!byId("timed")) byId("times").replaceChildren(make("div", { class: "choices" }, ...timesChooser.elements, quantity.element), make("div", { id: "timed" }));
  timesChooser.update();
  quantity.update();
  const of = timesChooser.table(), shown = SHOWN[quantity.value()];
  const rows = of.rows.filter((row) => shown.of(row)).map((row) => {
    const [value, low, high] = shown.of(row);
    return { name: short(row), value, low, high, hollow: row.verdict === "baseline", said: shown.said(row) };
  });
  const there = TIME_COLUMNS.filter((column) => of.rows.some((row) => !["–", ""].includes(column.of(row))));
  byId("timed").replaceChildren(
    make("p", {}, `${of.w}${of.shape ? ` (${of.shape})` : ""}, ${of.dtype} on ${of.device}, ${of.direction.replaceAll("_", " and ")}, ${how(of)}. The square is the baseline${of.baseline ? `, ${of.baseline}` : ""}; a line is the interval.`),
    make("figure", {}, dots(rows, { title: `${shown.words} of ${of.w}`, ...shown })),
    tabulated({ name: "ts", caption: "Every number", columns: there, rows: of.rows, unfolded: unfoldedTime }),
    asCsv("times", TIME_COLUMNS, of.rows));
});

part(() => {
  const lines = DATA.history.filter((line) => line.machine === machine()?.name);
  if (!byId("past")) return;
  byId("past").replaceChildren(...(lines.length ? lines.flatMap((line) => [make("h3", {}, `${line.implementation}: ${line.what}`), make("figure", {}, byDay(line)), changes(line)]) : [make("p", {}, "There is no history of this machine.")]));
});

const changes = (line) => make("ul", {}, ...line.changes.filter((place) => place > 0).map((place) => {
  const [[, before, , , , from], [when, after, , , , to]] = [line.moments[place - 1], line.moments[place]];
  return make("li", {}, `${when.slice(0, 10)}: ${from} to ${to}, between ${before || "unknown"} and ${after || "unknown"}`);
}));

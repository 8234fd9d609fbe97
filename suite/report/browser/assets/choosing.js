// What should I use? A shape, how it is called and how much memory there is, and who is fastest then.

const short = (row) => DATA.implementations[row.i].split("/").slice(1).join("/");
const how = (of) => [of.threads > 1 ? `${of.threads} threads` : of.threads ? "one thread" : "", `${of.cache} cache`].filter(Boolean).join(", ");

// The choices that lead to one timed table. Both places that have them share what is chosen.
function tableChoices() {
  const steps = [
    ["tc", "Contract", (of) => of.contract, (value) => value],
    ["w", "Shape", (of) => of.w, (value, of) => `${value}${of.shape ? `: ${of.shape}` : ""}`],
    ["dt", "Dtype", (of) => of.dtype, (value) => value],
    ["dir", "Direction", (of) => of.direction, (value) => value.replaceAll("_", " and ")],
    ["dev", "Device", (of) => of.device, (value) => value],
    ["how", "Called", how, (value) => value],
  ];
  // For each step the options that the choices before it leave, and the tables that its own choice leaves.
  const walk = () => {
    let left = machine().tables.filter((of) => of.rows.some((row) => row.t)).sort((one, other) => (other.contract === "attention") - (one.contract === "attention"));
    return steps.map(([name, , key, words]) => {
      const options = [...new Map(left.map((of) => [key(of), words(key(of), of)]))], wanted = picked(name, options);
      left = left.filter((of) => key(of) === wanted);
      return { options, left };
    });
  };
  const choices = steps.map(([name, label], place) => choice(name, label, () => walk()[place].options));
  return { elements: choices.map((each) => each.element), update: () => choices.forEach((each) => each.update()), table: () => walk().at(-1).left[0] };
}

// How many of the questions in this dtype an implementation answered rightly on this machine.
function conformance(row, dtype) {
  let passed = 0, known = 0, all = 0;
  for (const block of machine().blocks) if (block.i === row.i && block.t === dtype) {
    known += Object.keys(block.k ?? {}).length;
    for (const letter of block.s) { passed += letter === "p"; all += "pwrxh".includes(letter); }
  }
  return all ? `${passed === all ? "✓" : passed + known >= all ? "◆" : "✗"} ${passed}/${all}` : "not checked here";
}

const ends = (row) => [typeof row.t[1] === "number" ? row.t[1] : 0, typeof row.t[2] === "number" ? row.t[2] : Infinity];
// The first and the last place that a row may have, as far as the intervals tell.
function places(row, rows) {
  const [low, high] = ends(row);
  return [1 + rows.filter((of) => ends(of)[1] < low).length, rows.filter((of) => of === row || ends(of)[0] <= high).length];
}

const limit = field("mem", "Memory limit in MiB", { type: "number", min: "0", step: "any", inputmode: "decimal" });
const chooser = tableChoices();
const speedup = (row) => row.u ? `${row.words.speedup} (${row.words.ends})` : row.verdict ?? "–";
const RANK_COLUMNS = (dtype, rows) => [
  { title: "place", of: (row) => [...new Set(places(row, rows))].join("–"), by: (row) => row.t[0], n: true },
  { title: "implementation", of: short, folds: true },
  { title: "time", of: (row) => row.words.time, by: (row) => row.t[0], n: true },
  { title: "99 % interval", of: (row) => row.words.between, by: (row) => row.t[1] },
  { title: "speed-up", of: speedup, by: (row) => row.u?.[0] ?? 1, n: true },
  { title: "peak memory", of: (row) => row.words.memory, by: (row) => row.peak, n: true },
  { title: `passed/asked in ${dtype}`, of: (row) => conformance(row, dtype) },
];

function advice(rows, left) {
  if (!rows.length) return "Nothing that was timed here keeps that limit.";
  const [first] = rows, tied = rows.slice(1).filter((row) => places(row, rows)[0] === 1).map(short);
  const frugal = [...rows].filter((row) => row.peak !== undefined).sort((one, other) => one.peak - other.peak)[0];
  return [
    `Fastest: ${short(first)}, ${first.words.time} (${first.words.between}).`,
    tied.length ? `As far as the intervals tell, as fast: ${tied.join(", ")}.` : "",
    frugal ? `Least memory: ${short(frugal)}, ${frugal.words.memory}.` : "",
    left.length ? `Over the limit or of unknown memory: ${left.map((row) => `${short(row)} (${row.words.memory})`).join(", ")}.` : "",
  ].filter(Boolean).join(" ");
}

const untimed = (of) => of.rows.filter((row) => !row.t).map((row) => `${short(row)}: ${row.status}${row.said !== undefined ? `, ${DATA.details[row.said]}` : ""}`);

part(() => {
  if (!machine()?.tables.some((of) => of.rows.some((row) => row.t))) return byId("choosing").replaceChildren("Nothing was timed on this machine.");
  if (!byId("ranked")) byId("choosing").replaceChildren(make("div", { class: "choices" }, ...chooser.elements, limit.element), make("div", { id: "ranked" }));
  chooser.update();
  limit.update();
  const of = chooser.table(), most = Number(limit.value()) * 2 ** 20 || Infinity;
  const timed = of.rows.filter((row) => row.t), fits = (row) => most === Infinity || row.peak <= most;
  const rows = timed.filter(fits), none = untimed(of);
  byId("ranked").replaceChildren(
    make("p", { role: "status", class: "advice" }, advice(rows, timed.filter((row) => !fits(row)))),
    of.why ? make("p", {}, `${of.w}: ${of.why}.`) : "",
    tabulated({ name: "rs", caption: "Ranking", columns: RANK_COLUMNS(of.dtype, rows), rows, unfolded: unfoldedTime }),
    none.length ? make("details", {}, make("summary", {}, `Not timed: ${none.length}`), make("ul", {}, ...none.map((words) => make("li", {}, words)))) : "");
});

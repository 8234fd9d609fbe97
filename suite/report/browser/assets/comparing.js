// Two machines: first whose answers differ, then whose speed-ups do. Times of two machines say which machine is faster,
// so what is compared is the speed-up against the baseline in the same rounds.

const MOST_CHANGES = 200; // rows that are shown of each table
const others = () => DATA.machines.filter((each) => each !== machine());
const otherChoice = choice("with", "Compared with", () => others().map((each) => [each.name, each.short, each.what]));
const keyOfAnswer = (of) => JSON.stringify([of.implementation, of.name, of.dtype, of.device]);
const letters = (of) => new Map(answers(of).filter((each) => each.name !== "*").map((each) => [keyOfAnswer(each), each]));

function changedAnswers(mine, theirs) {
  const here = letters(mine), there = letters(theirs), unlike = [];
  let alone = 0, gone = 0;
  for (const [key, of] of here) {
    const other = there.get(key);
    if (!other) alone += 1;
    else if (statusOf(of) !== statusOf(other)) unlike.push({ ...of, other });
  }
  for (const key of there.keys()) gone += !here.has(key);
  return { unlike, alone, gone, both: here.size - alone };
}

const keyOfTable = (of) => JSON.stringify([of.contract, of.w, of.dtype, of.device, of.threads, of.direction, of.cache, of.baseline]);

function changedSpeeds(mine, theirs) {
  const there = new Map(theirs.tables.map((of) => [keyOfTable(of), of]));
  return mine.tables.flatMap((of) => of.rows.filter((row) => row.u).flatMap((row) => {
    const other = there.get(keyOfTable(of))?.rows.find((each) => each.i === row.i && each.u);
    return other ? [{ of, row, other, times: row.u[0] / other.u[0], certain: certain(row.u, other.u) }] : [];
  })).sort((one, other) => (other.certain !== "") - (one.certain !== "") || Math.abs(Math.log(other.times)) - Math.abs(Math.log(one.times)));
}

// What can be said of two speed-ups: only intervals that lie apart tell of a difference.
function certain([, low, high], [, itsLow, itsHigh]) {
  if (![low, high, itsLow, itsHigh].every((each) => typeof each === "number")) return "";
  return low > itsHigh ? "▲ higher" : high < itsLow ? "▼ lower" : "";
}

part(() => {
  const box = byId("comparison");
  if (!machine() || !others().length) return box.replaceChildren("There is one machine here, and nothing to compare it with.");
  if (!byId("compared")) box.replaceChildren(make("div", { class: "choices" }, otherChoice.element), make("div", { id: "compared" }));
  otherChoice.update();
  otherChoice.element.hidden = false;
  const theirs = DATA.machines.find((each) => each.name === otherChoice.value());
  const { unlike, alone, gone, both } = changedAnswers(machine(), theirs), speeds = changedSpeeds(machine(), theirs);
  const sure = speeds.filter((each) => each.certain).length;
  byId("compared").replaceChildren(
    make("p", { role: "status" }, `${both} answers of both: ${unlike.length} differ; ${alone} are here alone, ${gone} there alone. ` +
      `${speeds.length} speed-ups of both: ${sure} differ for certain, for their intervals lie apart. They are ratios to the baseline in the same rounds, so that a faster machine makes no difference.`),
    unlike.length ? tabulated({ name: "us", caption: "Answers that differ", rows: unlike, most: MOST_CHANGES, columns: [
      { title: "case", of: (of) => of.name }, { title: "implementation", of: (of) => of.implementation }, { title: "dtype", of: (of) => of.dtype },
      { title: "here", of: statusOf }, { title: "there", of: (of) => statusOf(of.other) }, { title: "detail", of: (of) => of.detail || of.other.detail }] }) : "",
    speeds.length ? tabulated({ name: "vs", caption: "Speed-ups", rows: speeds, most: MOST_CHANGES, columns: [
      { title: "implementation", of: (each) => short(each.row) }, { title: "workload", of: (each) => each.of.w },
      { title: "setting", of: (each) => [each.of.dtype, each.of.device, each.of.direction.replaceAll("_", " and "), how(each.of)].join(", ") },
      { title: "here", of: (each) => speedup(each.row), by: (each) => each.row.u[0] },
      { title: "there", of: (each) => speedup(each.other), by: (each) => each.other.u[0] },
      { title: "ratio", of: (each) => `${significant(Math.max(each.times, 1 / each.times))}×${each.times === 1 ? "" : each.times > 1 ? " higher" : " lower"}`, by: (each) => each.times, n: true },
      { title: "difference", of: (each) => each.certain ? make("strong", { class: each.certain.includes("higher") ? "up" : "down" }, each.certain) : "not certain", by: (each) => each.certain }] }) : "");
});

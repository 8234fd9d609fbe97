// What became of each case: chosen by implementation, family, dtype, status, feature and words.

const STATUS = { p: "passed", w: "wrong", r: "raised", x: "died", h: "hung", d: "declined", m: "missing" };
const SIGN = { p: "✓", w: "✗", r: "✗", x: "✗", h: "✗", d: "–", m: "–" };
const MOST_CASES = 100; // rows that are shown at first: more take a moment, and nobody reads them
const contractOf = (implementation) => implementation.split("/")[0];
const familyOf = (name) => name.split("/")[0];

const flat = new Map();
// Every answer of a machine as an object, made when it is first looked at.
function answers(of) {
  if (!flat.has(of.name)) flat.set(of.name, of.blocks.flatMap((block) => block.c.map((name, place) => ({
    name: DATA.cases[name], family: familyOf(DATA.cases[name]),
    implementation: DATA.implementations[block.i], contract: contractOf(DATA.implementations[block.i]), dtype: block.t, device: block.v,
    letter: block.s[place], error: block.e[place], run: of.runs[block.r],
    detail: DATA.details[block.x?.[place]] ?? "", known: block.k?.[place] ?? "", diagnosis: block.g?.[place] ?? [],
  }))).sort((one, other) => badness(one) - badness(other)));
  return flat.get(of.name);
}

const badness = (of) => of.known ? 1 : "wrxh".includes(of.letter) ? 0 : of.letter === "p" ? 2 : 3;
const statusOf = (of) => `${of.known ? "◆" : SIGN[of.letter]} ${STATUS[of.letter]}${of.known ? " (known)" : ""}`;

const contractChoice = choice("c", "Contract", () => {
  const names = new Set(machine().blocks.map((block) => contractOf(DATA.implementations[block.i])));
  return pairs([...names].sort((one, other) => (other === "attention") - (one === "attention") || one.localeCompare(other)));
});
let ofContract = { key: "", rows: [], values: {} };
// The answers of the chosen machine and contract, and which values each of their fields has.
function inContract() {
  const contract = contractChoice.value(), key = JSON.stringify([machine().name, contract]);
  if (ofContract.key !== key) {
    const rows = answers(machine()).filter((of) => of.contract === contract);
    const values = Object.fromEntries(["implementation", "family", "dtype", "device"].map((name) => [name, any(new Set(rows.map((of) => of[name])))]));
    ofContract = { key, rows, values };
  }
  return ofContract;
}
const featuresOf = () => DATA.contracts[contractChoice.value()]?.features ?? {};
const any = (values) => [["", "all"], ...pairs([...values].sort())];
const caseChoices = {
  implementation: choice("i", "Implementation", () => inContract().values.implementation),
  family: choice("f", "Family", () => inContract().values.family),
  dtype: choice("t", "Dtype", () => inContract().values.dtype),
  device: choice("v", "Device", () => inContract().values.device),
  status: choice("s", "Status", () => [["", "all"], ["failing", "failing, known or not"], ...pairs(Object.values(STATUS))]),
  feature: choice("n", "Feature", () => [["", "all"], ...Object.entries(featuresOf())]),
};
const search = field("q", "Search", { type: "search", id: "search", "aria-keyshortcuts": "/" });

function asked() {
  const of = Object.fromEntries(Object.entries(caseChoices).map(([name, each]) => [name, each.value()]));
  const words = search.value().toLowerCase(), needs = DATA.contracts[contractChoice.value()]?.needs ?? {};
  return inContract().rows.filter((each) =>
    (!of.implementation || each.implementation === of.implementation) && (!of.family || each.family === of.family) &&
    (!of.dtype || each.dtype === of.dtype) && (!of.device || each.device === of.device) &&
    (!of.status || (of.status === "failing" ? "wrxh".includes(each.letter) : STATUS[each.letter] === of.status)) &&
    (!of.feature || needs[each.name]?.includes(of.feature)) &&
    (!words || `${each.implementation} ${each.name} ${each.detail} ${each.known}`.toLowerCase().includes(words)));
}

const errorOf = (of) => typeof of.error === "number" ? significant(of.error) : of.error ?? "–";
const quoted = (word) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;

// The command that asks a question again.
function askAgain(of) {
  const words = ["attnsuite", "check", ...(machine().again[of.implementation] ?? [of.implementation])];
  if (of.name !== "*") words.push("--case", of.name);
  if (of.dtype !== "*") words.push("--dtype", of.dtype);
  if (of.device && of.device !== "cpu") words.push("--device", of.device);
  return words.map(quoted).join(" ");
}

const madeIn = (run, implementation) => [
  ["run", `${run.date}, commit ${run.commit || "unknown"}`],
  ["versions", Object.entries(run.versions).map((each) => each.join(" ")).join(", ")],
  ["hash of its source", run.sources[implementation]],
];

const unfoldedCase = (of) => described([
  ["why it is asked", DATA.contracts[contractOf(of.implementation)]?.why?.[of.name]],
  ["what became of it", statusOf(of)],
  ["error", errorOf(of) === "–" ? "" : `${errorOf(of)} times the bound`],
  ["detail", of.detail],
  ["diagnosis", of.diagnosis.join(" or ")],
  ["finding", of.known && `${of.known}: ${DATA.findings[of.known] ?? ""}`],
  ["ask again", command(askAgain(of))],
  ...madeIn(of.run, of.implementation),
]);

const CASE_COLUMNS = [
  { title: "case", of: (of) => of.name },
  { title: "implementation", of: (of) => of.implementation },
  { title: "dtype", of: (of) => of.dtype },
  { title: "status", of: statusOf, by: (of) => badness(of), csv: statusOf },
  { title: "error in bounds", of: errorOf, by: (of) => of.error, n: true },
  { title: "detail", of: (of) => of.detail.length > 160 ? `${of.detail.slice(0, 160)}…` : of.detail, csv: (of) => of.detail },
];

let mostCases = MOST_CASES, shownCases = "";
const showCases = part(() => {
  if (!machine()?.blocks.length) return byId("cases").replaceChildren("Nothing was checked on this machine.");
  [contractChoice, search, ...Object.values(caseChoices)].forEach((each) => each.update());
  const where = JSON.stringify([machine().name, contractChoice.value(), ...Object.values(caseChoices).map((each) => each.value()), search.value()]);
  if (where !== shownCases) mostCases = MOST_CASES;
  shownCases = where;
  const rows = asked(), passed = rows.filter((of) => of.letter === "p").length;
  const said = `${rows.length} answers, ${passed} passed${rows.length > mostCases ? `; ${mostCases} are shown` : ""}`;
  const more = rows.length > mostCases && make("button", { type: "button", click: () => { mostCases *= 5; showCases(); } }, "Show more");
  byId("case-list").replaceChildren(
    make("p", { role: "status" }, said),
    tabulated({ name: "cs", caption: "Cases", columns: CASE_COLUMNS, rows, most: mostCases, unfolded: unfoldedCase }),
    more || "", " ", asCsv("cases", CASE_COLUMNS, rows));
});

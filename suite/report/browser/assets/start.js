// The page as it stands becomes one that answers: one machine at a time, cells that are links, keys.

byId("machine").replaceChildren(machineChoice.element);
if (byId("contract")) byId("contract").replaceChildren(contractChoice.element);
if (byId("cases")) byId("cases").replaceChildren(
  make("div", { class: "choices" }, ...Object.values(caseChoices).map((each) => each.element), search.element), make("div", { id: "case-list" }));

const NO_CASES = { i: "", f: "", t: "", v: "", s: "", n: "", q: "" }; // no choice of cases
// Scroll to a part of the page, unfolded if it is folded.
function show(id) {
  const place = byId(id);
  if (place?.closest("details")) place.closest("details").open = true;
  place?.scrollIntoView();
}

// What stands in the page of each machine: that of the chosen one is shown.
part(() => {
  machineChoice.update();
  for (const each of document.querySelectorAll(".of")) each.hidden = each.dataset.m !== machine()?.name;
  for (const each of document.querySelectorAll(".matrix"))
    if (!(each.hidden = each.dataset.m !== machine()?.name || each.dataset.contract !== contractChoice.value())) linked(each);
});

// The cells of a matrix as links to their cases, made when it is first shown.
function linked(matrix) {
  if (matrix.dataset.linked) return;
  matrix.dataset.linked = "yes";
  const families = [...matrix.querySelectorAll("thead th")].map((head) => head.textContent);
  for (const row of matrix.querySelectorAll("tbody tr"))
    for (const [place, cell] of [...row.querySelectorAll("td")].entries())
      if (cell.textContent) {
        const cases = { m: matrix.dataset.m, c: matrix.dataset.contract, i: row.dataset.i, f: families[place], at: "cases-title" };
        cell.replaceChildren(make("a", { href: `#${new URLSearchParams(cases)}`, "aria-label": `${row.dataset.i}, ${families[place]}: ${cell.textContent}`, click: (event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          choose({ ...NO_CASES, ...cases });
          show("cases-title");
          byId("cases-title").focus();
        } }, cell.textContent));
      }
}

for (const box of document.querySelectorAll(".of"))
  for (const [place, table] of [...box.querySelectorAll("table")].entries()) {
    table.id = `table-${box.dataset.m}-${box.dataset.what}${place || ""}`;
    if (table.tHead) sortable(table, `${box.dataset.what}${place || ""}`);
  }
for (const link of document.querySelectorAll("nav a")) link.addEventListener("click", (event) => {
  event.preventDefault();
  choose({ at: link.hash.slice(1) });
  show(link.hash.slice(1));
});

addEventListener("popstate", refresh);
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  search.element.querySelector("input").focus();
});
// On paper nothing can be unfolded.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));

if (DATA.machines.length) {
  refresh();
  show(chosen("at") ?? (Object.keys(NO_CASES).some(chosen) ? "cases" : ""));
}
document.documentElement.dataset.ready = "yes";

// The page as it stands becomes one that answers: one machine at a time, cells that are links, keys.

byId("machine").replaceChildren(machineChoice.element);
if (byId("contract")) byId("contract").replaceChildren(contractChoice.element);
if (byId("cases")) byId("cases").replaceChildren(
  make("div", { class: "choices" }, ...Object.values(caseChoices).map((each) => each.element), search.element), make("div", { id: "case-list" }));

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
      if (cell.textContent) cell.replaceChildren(make("a", { href: `#i=${encodeURIComponent(row.dataset.i)}&f=${encodeURIComponent(families[place])}`,
        "aria-label": `${row.dataset.i}, ${families[place]}: ${cell.textContent}`, click: (event) => {
          event.preventDefault();
          choose({ i: row.dataset.i, f: families[place], t: "", v: "", s: "", n: "", q: "", at: "cases-title" });
          byId("cases-title").scrollIntoView();
          byId("cases-title").focus();
        } }, cell.textContent));
}

for (const table of document.querySelectorAll(".of table")) if (table.tHead) sortable(table);
for (const link of document.querySelectorAll("nav a")) link.addEventListener("click", (event) => {
  event.preventDefault();
  choose({ at: link.hash.slice(1) });
  byId(link.hash.slice(1)).scrollIntoView();
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
  byId(chosen().get("at") ?? "")?.scrollIntoView();
}
document.documentElement.dataset.ready = "yes";

// Tables that are sorted by any column, of which rows unfold.

// A table of `rows`. A column has a title, `of` (what is shown), `by` (what is sorted by), `n` for numbers, and `folds`
// where a row unfolds by it, not by the first.
// `name` is where its order stands in the fragment: the column's number, with a minus to turn it round.
function tabulated({ name, caption, columns, rows, most = Infinity, unfolded = null }) {
  const wanted = chosen(name) ?? "", column = columns[Math.abs(parseInt(wanted, 10)) - 1];
  const ordered = column ? sorted(rows, column.by ?? column.of, wanted.startsWith("-")) : rows;
  const heads = columns.map((each, place) => headed(each, place + 1, wanted, name));
  const body = make("tbody", {}, ...ordered.slice(0, most).flatMap((row) => lines(row, columns, unfolded)));
  const table = make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...heads)), body);
  return make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": caption }, table);
}

function headed(column, place, wanted, name) {
  const here = Math.abs(parseInt(wanted, 10)) === place, down = wanted.startsWith("-");
  const next = here && !down ? `-${place}` : String(place);
  const button = make("button", { type: "button", "data-sort": `${name}${place}`, click: () => {
    choose({ [name]: next, at: placeOf(button) });
    document.querySelector(`[data-sort="${name}${place}"]`)?.focus();
  } }, column.title);
  return make("th", { scope: "col", "aria-sort": here ? (down ? "descending" : "ascending") : null }, button);
}

function lines(row, columns, unfolded) {
  const cells = columns.map((column, place) => {
    const shown = column.of(row) ?? "–";
    return place ? make("td", { class: column.n ? "n" : null }, shown) : make("th", { scope: "row" }, shown);
  });
  const line = make("tr", {}, ...cells), holder = cells[Math.max(0, columns.findIndex((column) => column.folds))];
  if (!unfolded) return [line];
  const button = make("button", { type: "button", class: "fold", "aria-expanded": "false", click: () => {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) line.nextSibling.remove();
    else line.after(make("tr", { class: "unfolded" }, make("td", { colspan: columns.length }, unfolded(row))));
  } }, ...holder.childNodes);
  holder.replaceChildren(button);
  return [line];
}

function sorted(rows, by, down) {
  const keys = new Map(rows.map((row) => [row, by(row)]));
  const sign = down ? -1 : 1;
  const empty = (key) => key === undefined || key === null || key === "";
  return [...rows].sort((one, other) => {
    const a = keys.get(one), b = keys.get(other);
    if (empty(a) || empty(b)) return empty(a) - empty(b);
    return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  });
}

// Tables that stand in the page already: their rows are put in order where they are. `name` is where the order stands
// in the fragment: the column's title, with a minus to turn it round.
function sortable(table, name) {
  const rows = [...table.tBodies[0].rows];
  let asMade = true;
  const heads = [...table.tHead.rows[0].cells].map((head) => ({ head, title: head.tagName === "TH" ? head.textContent : "" }));
  for (const { head, title } of heads.filter((each) => each.title))
    head.replaceChildren(make("button", { type: "button", click: () => choose({
      [name]: head.getAttribute("aria-sort") === "ascending" ? `-${title}` : title, at: placeOf(table) }) }, title));
  part(() => {
    const wanted = chosen(name) ?? "", down = wanted.startsWith("-");
    const place = heads.findIndex(({ title }) => title && title === wanted.slice(down ? 1 : 0));
    if (place < 0 && asMade) return;
    asMade = place < 0;
    for (const { head } of heads) head.removeAttribute("aria-sort");
    heads[place]?.head.setAttribute("aria-sort", down ? "descending" : "ascending");
    table.tBodies[0].append(...(place < 0 ? rows : sorted(rows, (row) => keyOf(row.cells[place]), down)));
  });
}

function keyOf(cell) {
  const text = cell.textContent.trim(), number = Number(cell.dataset.v ?? text);
  return text === "–" ? "" : Number.isFinite(number) && text ? number : text;
}

// A name with what is said of it, for as many as are said.
const described = (entries) => make("dl", {}, ...entries.filter(([, said]) => said).flatMap(
  ([name, said]) => [make("dt", {}, name), make("dd", {}, said)]));

// A command with a button that copies it.
function command(words) {
  const text = make("code", {}, words), said = make("span", { role: "status" });
  const button = make("button", { type: "button", class: "copy", click: async () => {
    said.textContent = (await copied(text)) ? " copied" : " marked: press Ctrl+C";
  } }, "Copy");
  return make("span", {}, text, " ", button, said);
}

async function copied(element) {
  getSelection().selectAllChildren(element);
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    return document.execCommand("copy");
  }
}

// A link that keeps the rows as CSV. A text that a spreadsheet would take for a formula gets a quote before it.
function asCsv(name, columns, rows) {
  const harmless = (value) => typeof value === "string" && /^[=+\-@]/.test(value) ? `'${value}` : value ?? "";
  const cell = (value) => `"${String(harmless(value)).replaceAll('"', '""')}"`;
  return make("button", { type: "button", class: "csv", click: () => {
    const text = [columns.map((each) => each.title), ...rows.map((row) => columns.map((each) => (each.csv ?? each.by ?? each.of)(row)))];
    const link = make("a", { download: `${name}.csv`, href: URL.createObjectURL(new Blob([text.map((row) => row.map(cell).join(",")).join("\n")], { type: "text/csv" })) });
    link.click();
    URL.revokeObjectURL(link.href);
  } }, "Save these rows as CSV");
}

"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  for (const of of data.blocks) of.c = data.lists[of.c];
  const form = document.getElementById("filter"), MOST = 300;
  const KIND = { passed: "passed", unsupported: "none", missing: "none" };
  // i: implementation (or the start of its name), g: group, d: dtype, s: status, q: part of a case's name.
  let chosen = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

  const element = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  const matching = () => {
    const rows = [];
    const group = data.names.indexOf(chosen.g || ""), words = (chosen.q || "").toLowerCase();
    for (const of of data.blocks) {
      if (chosen.i && !of.i.startsWith(chosen.i)) continue;
      if (chosen.d && of.dtype !== chosen.d) continue;
      for (let place = 0; place < of.c.length; place++) {
        const status = data.statuses[of.s[place]];
        if (chosen.s === "failures" ? KIND[status] !== undefined : chosen.s && status !== chosen.s) continue;
        if (group >= 0 && data.groups[of.c[place]] !== group) continue;
        if (words && !data.cases[of.c[place]].toLowerCase().includes(words)) continue;
        rows.push([of, place, status]);
      }
    }
    return rows;
  };

  const show = () => {
    const rows = matching(), table = element("table"), head = element("tr"), body = element("tbody"), top = element("thead");
    for (const title of ["implementation", "case", "dtype", "status", "what happened"]) head.append(element("th", title, { scope: "col" }));
    top.append(head);
    for (const [of, place, status] of rows.slice(0, MOST)) {
      const line = element("tr"), test = element("td", data.cases[of.c[place]], { "data-head": "case" });
      const known = of.k[place] ? `known bug ${of.k[place]}: ` : "", detail = of.d[place] === undefined ? "" : data.details[of.d[place]];
      if (data.why[of.c[place]]) test.append(element("br"), element("span", data.why[of.c[place]], { class: "note" }));
      line.append(element("th", of.i, { scope: "row" }), test, element("td", of.dtype + (of.device === "cpu" ? "" : ` on ${of.device}`), { "data-head": "dtype" }),
        element("td", status, { "data-head": "status", class: KIND[status] || (known ? "known" : "failed") }), element("td", known + detail, { "data-head": "what happened" }));
      body.append(line);
    }
    table.append(top, body);
    document.getElementById("tests").replaceChildren(table);
    const passed = rows.filter((row) => row[2] === "passed").length;
    document.getElementById("count").textContent = `${rows.length.toLocaleString("en")} tests, ${passed.toLocaleString("en")} passed` + (rows.length > MOST ? `; the first ${MOST} are shown` : "");
  };

  const control = (key, title, made) => {
    const label = element("label", title);
    made.value = chosen[key] || "";
    made.addEventListener("input", () => {
      if (made.value) chosen[key] = made.value; else delete chosen[key];
      history.replaceState(null, "", "#" + new URLSearchParams(chosen));
      show();
    });
    label.append(made);
    return label;
  };
  const select = (values) => {
    const made = element("select");
    made.append(element("option", "all", { value: "" }));
    for (const value of values) made.append(element("option", value, { value }));
    return made;
  };

  const draw = () => {
    const names = [...new Set(data.blocks.map((of) => of.i))].sort();
    if (chosen.i && !names.includes(chosen.i)) names.unshift(chosen.i);
    form.replaceChildren(
      control("i", "implementation", select(names)), control("g", "group", select(data.names)),
      control("d", "dtype", select([...new Set(data.blocks.map((of) => of.dtype))])),
      control("s", "status", select(["failures", ...Object.values(data.statuses)])), control("q", "case contains", element("input", undefined, { type: "search" })));
    form.hidden = false;
    show();
  };
  addEventListener("hashchange", () => { chosen = Object.fromEntries(new URLSearchParams(location.hash.slice(1))); draw(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  draw();
})();

"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const form = document.getElementById("shape"), recommendation = document.getElementById("recommendation");
  if (!data.machines.length) return;

  // The address holds the choice: m (machine), then one key per chooser.
  const KEYS = { contract: "contract", workload: "shape", dtype: "dtype", device: "device", threads: "threads", direction: "direction", cache: "cache" };
  const read = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  let chosen = Object.fromEntries(read());

  const element = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const svg = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const machine = () => data.machines.find((of) => of.name === chosen.m) || data.machines[0];

  // The tables that remain after each choice. An impossible choice falls back to the page's default.
  const narrowed = () => {
    const of = machine(), start = of.tables[of.start];
    let left = of.tables;
    const options = {};
    for (const key of Object.keys(KEYS)) {
      const values = [...new Set(left.map((table) => table[key]))];
      options[key] = values;
      const wanted = values.includes(chosen[key]) ? chosen[key] : start && values.includes(start[key]) ? start[key] : values[0];
      left = left.filter((table) => table[key] === wanted);
    }
    return { table: left[0], options };
  };

  const choose = (key, value) => {
    chosen = key === "m" ? { m: value } : { ...chosen, m: machine().name, [key]: value };
    history.replaceState(null, "", "#" + new URLSearchParams(chosen));
    show(key);
  };

  const chooser = (key, title, values, current, words) => {
    const label = element("label", title), select = element("select", undefined, { name: key });
    for (const value of values) {
      const option = element("option", words(value), { value });
      option.selected = value === current;
      select.append(option);
    }
    select.addEventListener("change", () => choose(key, select.value));
    label.append(select);
    return label;
  };

  const choosers = (table, options) => {
    const has = (of) => `${of.label}: ${of.words.includes("tested") ? (of.tables.length ? "tested, timed" : "tested") : of.tables.length ? "timed, not tested" : "empty"}`;
    const names = data.machines.map((of) => of.name);
    form.replaceChildren(chooser("m", "machine", names, machine().name, (name) => has(data.machines.find((of) => of.name === name))));
    for (const [key, title] of Object.entries(KEYS)) {
      if (table && options[key].length > 1) {
        const shape = (value) => { const of = machine().tables.find((each) => each.workload === value); return of.shape ? `${value}: ${of.shape}` : value; };
        form.append(chooser(key, title, options[key], table[key], key === "workload" ? shape : (value) => value || "–"));
      }
    }
    form.hidden = false;
  };

  const bar = (row, most) => {
    const drawn = svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" });
    const [median, low, high] = row.seconds.map((value) => (value === null ? null : (98 * value) / most));
    drawn.append(svg("rect", { x: 0, y: 1, width: median, height: 6 }));
    if (low !== null && high !== null) drawn.append(svg("line", { x1: low, x2: Math.min(high, 100), y1: 4, y2: 4 }));
    return drawn;
  };

  const timesTable = (of) => {
    const made = element("table"), head = element("tr"), body = element("tbody");
    made.append(element("caption", `${of.workload}: ${of.why}`));
    for (const title of ["implementation", "time of a call (99 % interval)", `compared with ${of.baseline || "–"}`, "memory", "tests"]) head.append(element("th", title, { scope: "col" }));
    const top = element("thead");
    top.append(head);
    const most = Math.max(...of.rows.map(({ seconds: [median, , high] }) => Math.max(median, Math.min(high ?? median, 2 * median))));
    for (const row of of.rows) {
      const line = element("tr"), time = element("td", row.time + " ", { "data-head": "time" }), tests = element("td", row.tests + (row.bugs.length ? ": " : ""), { "data-head": "tests", class: row.kind });
      time.append(element("small", row.between), bar(row, most));
      for (const bug of row.bugs) tests.append(element("a", data.bugs.indexOf(bug) + 1, { href: "#bug-" + bug.replace(/[^A-Za-z0-9_-]+/g, "-"), "aria-label": `known bug ${bug}` }), " ");
      line.append(element("th", row.name, { scope: "row" }), time, element("td", row.verdict, { "data-head": "compared" }), element("td", row.memory, { "data-head": "memory" }), tests);
      body.append(line);
    }
    made.append(top, body);
    const box = element("div", undefined, { class: "times" });
    box.append(made);
    return box;
  };

  // One colour and dash per implementation everywhere: palettes of Okabe and Ito and of Tol, attention's names first.
  const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a8f98", "#7a5cc9", "#c2457a", "#4d8c2b", "#b07b3e"];
  const named = (isAttention) => data.machines.flatMap((of) => of.tables.filter((table) => (table.contract === "attention") === isAttention).flatMap((table) => table.rows.map((row) => row.name))).sort();
  const everyName = [...new Set([...named(true), ...named(false)])];
  const look = (name) => { const place = everyName.indexOf(name); return { stroke: COLOURS[place % COLOURS.length], "stroke-dasharray": ["none", "6 3", "2 3"][Math.floor(place / COLOURS.length) % 3] }; };

  const seriesLike = (of) => machine().tables.filter((table) => table.length && table.group === of.group && Object.keys(KEYS).every((key) => key === "workload" || table[key] === of[key])
    && table.shape.replace(/length \d+/, "") === of.shape.replace(/length \d+/, "")).sort((a, b) => a.length - b.length);

  const chart = (of) => {
    const tables = seriesLike(of), box = element("div", undefined, { id: "chart" });
    if (new Set(tables.map((table) => table.length)).size < 2) return box;
    const lines = new Map();
    for (const table of tables) for (const row of table.rows) if (row.seconds[0]) lines.set(row.name, [...(lines.get(row.name) || []), [table.length, row.seconds[0]]]);
    const all = [...lines.values()].flat(), low = Math.floor(Math.log10(Math.min(...all.map((at) => at[1])))), high = Math.ceil(Math.log10(Math.max(...all.map((at) => at[1]))));
    const lengths = tables.map((table) => table.length), first = Math.log2(lengths[0]), last = Math.log2(lengths.at(-1));
    const x = (length) => 70 + (610 * (Math.log2(length) - first)) / (last - first), y = (seconds) => 340 - (310 * (Math.log10(seconds) - low)) / Math.max(high - low, 1);
    const drawn = svg("svg", { viewBox: "0 0 900 390", role: "img", "aria-label": `time of a call over sequence length, ${of.setting}` });
    const units = { "0": "1 s", "-3": "1 ms", "-6": "1 µs", "1": "10 s", "2": "100 s", "-1": "100 ms", "-2": "10 ms", "-4": "100 µs", "-5": "10 µs" };
    for (let power = low; power <= high; power++) drawn.append(svg("line", { class: "axis", x1: 70, x2: 680, y1: y(10 ** power), y2: y(10 ** power) }), svg("text", { x: 62, y: y(10 ** power) + 4, "text-anchor": "end" }, units[power] || `10^${power} s`));
    for (const length of new Set(lengths)) drawn.append(svg("text", { x: x(length), y: 362, "text-anchor": "middle" }, length >= 1024 && length % 1024 === 0 ? `${length / 1024}k` : length));
    drawn.append(svg("text", { x: 375, y: 384, "text-anchor": "middle" }, "tokens"));
    const ends = [...lines].map(([name, points]) => ({ name, points, at: y(points.at(-1)[1]), stops: points.at(-1)[0] < lengths.at(-1) })).sort((a, b) => a.at - b.at);
    const top = new Set(of.rows.slice(0, 3).map((row) => row.name));
    let above = -Infinity;
    for (const { name, points, at, stops } of ends) {
      const group = svg("g", { class: top.has(name) ? "" : "dim", "data-name": name });
      group.append(svg("path", { ...look(name), d: points.map(([length, seconds], place) => `${place ? "L" : "M"}${x(length)} ${y(seconds)}`).join("") }));
      for (const [length, seconds] of points) group.append(svg("circle", { cx: x(length), cy: y(seconds), r: 3, fill: look(name).stroke }));
      if (stops) group.append(svg("text", { x: x(points.at(-1)[0]) + 5, y: at + 5 }, `× ${name}`));
      else { above = Math.max(at + 4, above + 15); group.append(svg("text", { class: "name", x: 690, y: above }, name)); }
      group.addEventListener("mouseenter", () => { for (const other of drawn.querySelectorAll("g")) other.classList.toggle("dim", other !== group); });
      drawn.append(group);
    }
    box.append(element("h2", "Time over sequence length"), drawn, element("p", "The three fastest at the chosen length stand out; point at another name to see its line. ×: not measured at greater lengths.", { class: "note" }));
    return box;
  };

  const show = (focus) => {
    const { table, options } = narrowed(), of = machine();
    choosers(table, options);
    const sentences = element("div", undefined, { class: "recommendation" });
    for (const sentence of table ? table.recommendation : ["Nothing was timed on this machine; its tests are below."]) sentences.append(element("p", sentence));
    recommendation.replaceChildren(element("p", table ? `${table.shape || table.workload}: ${table.setting}` : "", { class: "note" }), sentences);
    if (table) recommendation.append(timesTable(table));
    if (table) recommendation.append(element("p", `${table.absent} ${data.how}`, { class: "note" }));
    if (table) recommendation.append(chart(table));
    recommendation.append(element("p", of.words + ".", { class: "note" }));
    for (const part of document.querySelectorAll("section:not(#recommendation) [data-machine]")) part.hidden = part.dataset.machine !== of.name;
    for (const bug of document.querySelectorAll(".bug")) document.getElementById(bug.dataset.machines.split(" ").includes(of.name) ? "here" : "elsewhere").append(bug);
    document.getElementById("elsewhere").hidden = !document.querySelector("#elsewhere .bug");
    if (focus) form.querySelector(`[name=${focus}]`)?.focus();
  };

  document.querySelector("main").classList.add("alone");
  addEventListener("hashchange", () => { if (location.hash.includes("=")) { chosen = Object.fromEntries(read()); show(); } });
  show();
})();

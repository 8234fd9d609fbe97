// What is chosen stands in the fragment of the address, so that a link shows the same.

const DATA = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

// An element with attributes, listeners and children. A text stays a text: nothing is ever read as HTML.
function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

// The same for a part of a picture.
function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

let parsed = { address: null, names: null };
let reading = null; // the names that the part which is being drawn has read, with their values
// All names that the address has, with their values; without a machine, it is the first.
function names() {
  if (parsed.address !== location.hash) {
    const fragment = location.hash.slice(1), said = new URLSearchParams(fragment.includes("=") ? fragment : fragment && `at=${fragment}`);
    parsed = { address: location.hash, names: new Map([["m", DATA.machines[0]?.name], ...said]) };
  }
  return parsed.names;
}

// What the address says of a name; undefined if nothing.
function chosen(name) {
  const value = names().get(name);
  reading?.set(name, value);
  return value;
}

// Change what is chosen; an empty value leaves the name out. `quietly` adds no step to the way back.
// The address always names the machine, so that a link keeps it.
function choose(changes, quietly = false) {
  const all = new Map(names());
  for (const [name, value] of Object.entries(changes)) value ? all.set(name, value) : all.delete(name);
  const address = `#${new URLSearchParams([...all])}`;
  if (address === location.hash) return;
  history[quietly ? "replaceState" : "pushState"](null, "", address);
  refresh();
}

const parts = [];
// A part of the page is drawn again when a name changes that it read when it was last drawn. Returns what draws it anyway.
function part(update) {
  const of = { read: null, draw: () => {
    of.read = reading = new Map();
    try { update(); } finally { reading = null; }
  } };
  parts.push(of);
  return of.draw;
}
const refresh = () => parts.forEach((of) => {
  if (!of.read || [...of.read].some(([name, value]) => chosen(name) !== value)) of.draw();
});

// Where a link that holds a choice leads to: the part of the page that the control stands in.
const placeOf = (element) => element.closest("[id]:not(select, input)")?.id;

let labels = 0;
function labelled(words, box) {
  if (!box.id) box.id = `choice-${labels += 1}`;
  return make("span", { class: "choice" }, make("label", { for: box.id }, words), box);
}

// The value that the address says, if it is one of these options, else the first.
const picked = (name, options) => {
  const wanted = chosen(name);
  return options.some(([value]) => value === wanted) ? wanted : options[0]?.[0] ?? "";
};

// A list to choose from. `options()` gives pairs of value and words, and a title if there is one.
function choice(name, label, options) {
  let shown = "";
  const box = make("select", { change: () => choose({ [name]: box.value, at: placeOf(box) }) });
  const update = () => {
    const found = options(), now = JSON.stringify(found);
    if (now !== shown) box.replaceChildren(...found.map(([value, words, title]) => make("option", { value, title }, words)));
    shown = now;
    box.value = picked(name, found);
    element.hidden = found.length < 2;
  };
  const element = labelled(label, box);
  return { element, value: () => picked(name, options()), update };
}

const PAUSE = 150; // ms without a key after which what was typed counts
// A field to write into. What is typed counts after a pause, or when the field is left or confirmed.
function field(name, label, attributes = {}) {
  let waiting = 0;
  const typed = () => { clearTimeout(waiting); choose({ [name]: box.value, at: placeOf(box) }, true); };
  const later = () => { clearTimeout(waiting); waiting = setTimeout(typed, PAUSE); };
  const box = make("input", { ...attributes, input: later, change: typed });
  const update = () => { if (document.activeElement !== box) box.value = chosen(name) ?? ""; };
  return { element: labelled(label, box), value: () => chosen(name) ?? "", update };
}

const pairs = (values) => [...new Set(values)].map((each) => [String(each), String(each)]);

const machineChoice = choice("m", "Machine", () => DATA.machines.map((each) => [each.name, each.short, each.what]));
const machine = () => DATA.machines.find((each) => each.name === machineChoice.value());

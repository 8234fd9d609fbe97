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

function chosen() {
  const fragment = location.hash.slice(1);
  return new URLSearchParams(fragment.includes("=") ? fragment : fragment && `at=${fragment}`);
}

// Change what is chosen; an empty value leaves the name out. `quietly` adds no step to the way back.
function choose(changes, quietly = false) {
  const all = chosen();
  for (const [name, value] of Object.entries(changes)) value ? all.set(name, value) : all.delete(name);
  const address = `#${all}`;
  if (address === location.hash) return;
  history[quietly ? "replaceState" : "pushState"](null, "", address);
  refresh();
}

const parts = [];
// A part of the page: what it does when anything is chosen. It is told once at the start.
const part = (update) => parts.push(update);
const refresh = () => parts.forEach((update) => update());

let labels = 0;
function labelled(words, box) {
  if (!box.id) box.id = `choice-${labels += 1}`;
  return make("span", { class: "choice" }, make("label", { for: box.id }, words), box);
}

// A list to choose from. `options()` gives pairs of value and words; without a choice the first counts.
function choice(name, label, options) {
  let shown = "";
  const box = make("select", { change: () => choose({ [name]: box.value }) });
  const value = () => {
    const values = options().map(([each]) => each);
    const wanted = chosen().get(name);
    return values.includes(wanted) ? wanted : values[0] ?? "";
  };
  const update = () => {
    const found = options(), now = JSON.stringify(found);
    if (now !== shown) box.replaceChildren(...found.map(([each, words]) => make("option", { value: each }, words)));
    shown = now;
    box.value = value();
    element.hidden = found.length < 2;
  };
  const element = labelled(label, box);
  return { element, value, update };
}

// A field to write into.
function field(name, label, attributes = {}) {
  const box = make("input", { ...attributes, input: () => choose({ [name]: box.value }, true) });
  const update = () => { if (document.activeElement !== box) box.value = chosen().get(name) ?? ""; };
  return { element: labelled(label, box), value: () => chosen().get(name) ?? "", update };
}

const pairs = (values) => [...new Set(values)].map((each) => [String(each), String(each)]);

const machineChoice = choice("m", "Machine", () => DATA.machines.map((each) => [each.name, `${each.name}: ${each.what}`]));
const machine = () => DATA.machines.find((each) => each.name === machineChoice.value());

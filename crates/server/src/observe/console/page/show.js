// How values become what is seen. Text of others is only ever set as text, never as markup.

export const get = id => document.getElementById(id);

export function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

export function button(text, act) {
  const made = element("button", text);
  made.type = "button";
  made.onclick = act;
  return made;
}

export function row(cells) {
  const line = element("tr");
  for (const cell of cells) line.append(cell instanceof HTMLTableCellElement ? cell : cell instanceof Node ? cellOf(cell) : element("td", cell));
  return line;
}

function cellOf(node) {
  const cell = element("td");
  cell.append(node);
  return cell;
}

// Fills a table's body; words stand where there are no rows.
export function fill(body, rows, words) {
  if (rows.length) return body.replaceChildren(...rows);
  const cell = element("td", words, "none");
  cell.colSpan = 9;
  body.replaceChildren(row([cell]));
}

export const time = us => us < 1e3 ? `${us.toFixed(1)} µs` : us < 1e6 ? `${(us / 1e3).toFixed(1)} ms` : `${(us / 1e6).toFixed(2)} s`;

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  for (; Math.abs(count) >= 1024 && power < units.length - 1; power++) count /= 1024;
  return `${count < 10 && power ? count.toFixed(1) : Math.round(count)} ${units[power]}`;
}

export function number(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  return size >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : value.toFixed(1);
}

export function duration(ms) {
  const seconds = Math.floor(ms / 1000), days = Math.floor(seconds / 86400), hours = Math.floor(seconds / 3600) % 24;
  const minutes = Math.floor(seconds / 60) % 60;
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

export const moment = date => typeof date === "object" && date ? Date.parse(date.$date) || Number(date.$date?.$numberLong) : Date.parse(date);

// Shows a text at the pointer, and where the keyboard is.
export function tip(node, text) {
  node.dataset.tip = text;
  return node;
}

export function startTips() {
  const shown = get("tip");
  const place = (target, x, y) => {
    const text = target?.closest?.("[data-tip]")?.dataset.tip;
    shown.hidden = !text;
    if (!text) return;
    shown.textContent = text;
    shown.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - shown.offsetWidth - 8))}px`;
    shown.style.top = `${y + 18 + shown.offsetHeight > innerHeight ? y - shown.offsetHeight - 8 : y + 18}px`;
  };
  document.addEventListener("pointermove", event => place(event.target, event.clientX, event.clientY));
  document.addEventListener("focusin", event => {
    const box = event.target.getBoundingClientRect();
    place(event.target, box.left, box.top);
  });
  document.addEventListener("keydown", event => { if (event.key === "Escape") shown.hidden = true; });
}

// A value of Extended JSON as the shell writes it, indented; the server reads the same spelling again.
export function shell(value, indent = 0) {
  const inner = "  ".repeat(indent + 1), outer = "  ".repeat(indent);
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  if (Array.isArray(value)) {
    if (!value.length) return "[]";
    const items = value.map(item => shell(item, indent + 1));
    const line = `[${items.join(", ")}]`;
    return line.length < 90 && !line.includes("\n") ? line : `[\n${items.map(item => inner + item).join(",\n")}\n${outer}]`;
  }
  const special = constructed(value);
  if (special !== undefined) return special;
  const entries = Object.entries(value).map(([name, of]) => `${fieldName(name)}: ${shell(of, indent + 1)}`);
  if (!entries.length) return "{}";
  const line = `{ ${entries.join(", ")} }`;
  if (indent && line.length < 90 && !line.includes("\n")) return line;
  return `{\n${entries.map(entry => inner + entry).join(",\n")}\n${outer}}`;
}

const fieldName = name => /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);

const constructors = {
  $oid: hex => `ObjectId(${JSON.stringify(hex)})`,
  $numberInt: text => text,
  $numberLong: text => `NumberLong(${JSON.stringify(text)})`,
  $numberDouble: text => text === "-Infinity" ? text : /[.eEnN]/.test(text) ? text : `${text}.0`,
  $numberDecimal: text => `NumberDecimal(${JSON.stringify(text)})`,
  $uuid: text => `UUID(${JSON.stringify(text)})`,
  $binary: of => `BinData(${parseInt(of.subType, 16)}, ${JSON.stringify(of.base64)})`,
  $timestamp: of => `Timestamp(${of.t}, ${of.i})`,
  $regularExpression: of => `RegExp(${JSON.stringify(of.pattern)}, ${JSON.stringify(of.options)})`,
  $minKey: () => "MinKey", $maxKey: () => "MaxKey", $undefined: () => "undefined",
  $date: of => {
    if (typeof of === "string") return `ISODate(${JSON.stringify(of)})`;
    const ms = Number(of.$numberLong);
    return Math.abs(ms) < 6e13 && ms >= 0 ? `ISODate("${new Date(ms).toISOString()}")` : `ISODate(${of.$numberLong})`;
  },
};

function constructed(value) {
  const names = Object.keys(value);
  if (names.length === 1 && Object.hasOwn(constructors, names[0])) return constructors[names[0]](value[names[0]]);
  // What has no constructor is spelled out.
  return names[0]?.startsWith("$code") || names[0] === "$symbol" || names[0] === "$dbPointer" ? JSON.stringify(value) : undefined;
}

// A plain number of what Extended JSON may spell out.
export function plain(value) {
  if (value && typeof value === "object") return Number(value.$numberLong ?? value.$numberInt ?? value.$numberDouble ?? value.$numberDecimal ?? NaN);
  return typeof value === "number" ? value : NaN;
}

// A question to the user, in the page's dialog: resolves to what was chosen, or to nothing.
export function ask(title, parts, choices) {
  const dialog = get("dialog");
  return new Promise(resolve => {
    const acts = element("div", undefined, "tools");
    let answer;
    for (const [text, value] of choices) acts.append(button(text, () => { answer = value; dialog.close(); }));
    acts.append(button("Cancel", () => dialog.close()));
    dialog.replaceChildren(element("h3", title), ...parts, acts);
    dialog.onclose = () => resolve(answer);
    dialog.showModal();
  });
}

export async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Over plain HTTP a browser has no clipboard for pages: the text is there to be copied.
    const area = element("textarea", text);
    await ask("Copy", [area], []);
    return;
  }
  const before = said.textContent;
  said.textContent = "Copied";
  setTimeout(() => { said.textContent = before; }, 1500);
}

// Sorts by the head of a column that is pressed; `state` holds `by` and `isDown`.
export function sortable(table, state, show) {
  const heads = [...table.querySelectorAll("th button[data-sort]")];
  const mark = () => heads.forEach(head => {
    const order = head.dataset.sort === state.by ? (state.isDown ? "descending" : "ascending") : "none";
    head.parentElement.setAttribute("aria-sort", order);
  });
  for (const head of heads) {
    head.onclick = () => {
      state.isDown = state.by === head.dataset.sort ? !state.isDown : true;
      state.by = head.dataset.sort;
      mark();
      show();
    };
  }
  mark();
}

export function sorted(list, state, value) {
  const way = state.isDown ? -1 : 1;
  return [...list].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    return way * (typeof x === "string" ? x.localeCompare(y) : x - y);
  });
}

// A row that can be chosen by pointer and keyboard.
export function choosable(line, act) {
  line.tabIndex = 0;
  line.onclick = act;
  line.onkeydown = event => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(event); }
    if (event.key === "ArrowDown") line.nextElementSibling?.focus();
    if (event.key === "ArrowUp") line.previousElementSibling?.focus();
  };
  return line;
}

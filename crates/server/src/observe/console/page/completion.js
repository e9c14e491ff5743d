// What can stand at the caret of a filter, a projection or a sort: fields that the collection has, and operators that the server knows. It knows
// nothing of the page: it is given a text and a place in it, and tells what is offered there and what the text becomes.

// Paths of fields that are remembered of a collection, how deep, and how many values of an array are looked at.
const PATHS_MAX = 2000;
const DEPTH_MAX = 10;
const VALUES_MAX = 20;
// Suggestions that are offered at a time.
const OFFERED_MAX = 50;

const types = {
  $oid: "objectId", $date: "date", $numberInt: "number", $numberLong: "number", $numberDouble: "number", $numberDecimal: "decimal", $binary: "binData",
  $uuid: "binData", $timestamp: "timestamp", $regularExpression: "regex",
};

function typeOf(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value !== "object") return { boolean: "bool" }[typeof value] ?? typeof value;
  return types[Object.keys(value)[0]] ?? "object";
}

// Adds the paths of a document, which is Extended JSON, to those that are known: a Map of paths to `{type, isIndexed}`.
export function noteFields(known, document, prefix = "", depth = 0) {
  if (depth > DEPTH_MAX || !document || typeof document !== "object") return;
  if (Array.isArray(document)) {
    for (const value of document.slice(0, VALUES_MAX)) noteFields(known, value, prefix, depth + 1);
    return;
  }
  for (const [name, value] of Object.entries(document)) {
    // A value with a type, such as a date; or a name that no path leads to.
    if (!name || name.startsWith("$") || name.includes(".")) continue;
    note(known, prefix + name, { type: typeOf(value) });
    noteFields(known, value, `${prefix + name}.`, depth + 1);
  }
}

function note(known, path, facts) {
  const before = known.get(path);
  if (before || known.size < PATHS_MAX) known.set(path, { ...facts, ...before, ...(facts.isIndexed ? { isIndexed: true } : {}) });
}

// Adds the paths that a collection's indexes have, which may be in none of the documents that were looked at.
export function noteIndexes(known, indexes) {
  for (const path of indexes.flatMap(index => Object.keys(index.key))) {
    const name = path.replace(/\.?\$\*\*$/, "");
    if (name && !["_fts", "_ftsx"].includes(name)) note(known, name, { isIndexed: true });
  }
}

// Where the caret stands: the brackets around it with the key that each follows, whether a key or a value is due, and the word at the caret.
export function placeAt(text, caret) {
  const frames = [];
  const top = () => frames.at(-1);
  const close = () => { frames.pop(); if (top()) top().due = "comma"; };
  const took = word => {
    if (!top()) return;
    if (top().due === "key") Object.assign(top(), { key: word, due: "colon" });
    else top().due = "comma";
  };
  const open = bracket => frames.push({ bracket, due: bracket === "{" ? "key" : "value" });
  for (let at = 0; at < caret;) {
    const one = text[at];
    if ("{[(".includes(one)) { open(one); at += 1; }
    else if ("}])".includes(one)) { close(); at += 1; }
    else if (one === ":") { if (top()) top().due = "value"; at += 1; }
    else if (one === ",") { if (top()) top().due = top().bracket === "{" ? "key" : "value"; at += 1; }
    else if (one === "\"" || one === "'") {
      const end = closing(text, at);
      if (end === undefined || caret <= end) return { frames, word: quoted(text, at, caret, end) };
      took(text.slice(at + 1, end));
      at = end + 1;
    } else if (one === "/") {
      const end = closing(text, at);
      if (end === undefined || caret <= end) return { frames, word: undefined };
      took("/");
      at = end + 1;
    } else {
      const word = text.slice(at).match(/^[\p{L}\p{N}_$.-]+/u)?.[0];
      if (word && caret <= at + word.length) return { frames, word: { from: at, to: at + word.length, text: text.slice(at, caret) } };
      if (word) took(word);
      at += word?.length ?? 1;
    }
  }
  return { frames, word: { from: caret, to: caret, text: "" } };
}

// Where the quotation mark, or the pattern, that begins at a place ends.
function closing(text, from) {
  for (let at = from + 1; at < text.length; at++) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === text[from]) return at;
  }
  return undefined;
}

// The word within quotation marks. Where the closing one may be that of a later word, the word ends where its letters do.
function quoted(text, from, caret, end) {
  const rest = text.slice(caret).match(/^[\p{L}\p{N}_$.-]*/u)[0].length;
  const to = end !== undefined && caret + rest === end ? end + 1 : caret + rest;
  return { from, to, text: text.slice(from + 1, caret), quote: text[from] };
}

// What a bracket means that follows `key` where `of` is meant: `{mode, path}`. A mode says what may stand in it.
const within = {
  filter: ({ path }, key, bracket) => {
    if (["$and", "$or", "$nor"].includes(key)) return { mode: "filters", path };
    if (key === "$expr") return { mode: "expression", path: "" };
    return !key?.startsWith("$") && bracket === "{" ? { mode: "condition", path: path + key } : {};
  },
  filters: ({ path }, _, bracket) => bracket === "{" ? { mode: "filter", path } : {},
  condition: ({ path }, key, bracket) => {
    if (key === "$elemMatch" && bracket === "{") return { mode: "element", path: `${path}.` };
    if (key === "$not" && bracket === "{") return { mode: "condition", path };
    return key === "$all" && bracket === "[" ? { mode: "conditions", path } : {};
  },
  conditions: ({ path }, _, bracket) => bracket === "{" ? { mode: "condition", path } : {},
  element: (of, key, bracket) => key?.startsWith("$") && !["$and", "$or", "$nor"].includes(key) ? within.condition({ path: of.path.slice(0, -1) }, key, bracket) : within.filter(of, key, bracket),
  expression: () => ({ mode: "expression", path: "" }),
  projection: ({ path }, key, bracket) => bracket === "{" ? { mode: "projected", path: `${path + key}.` } : { mode: "expression", path: "" },
  projected: ({ path }, key, bracket) => {
    if (key === "$elemMatch" && bracket === "{") return { mode: "element", path };
    return key?.startsWith("$") ? { mode: "expression", path: "" } : within.projection({ path }, key, bracket);
  },
  sort: (_, __, bracket) => bracket === "{" ? { mode: "metadata", path: "" } : {},
};

function meaning(kind, frames) {
  let of = { mode: kind, path: "" };
  for (const [place, { bracket }] of frames.entries()) {
    if (place === 0) { if (bracket !== "{") return {}; } else of = within[of.mode]?.(of, frames[place - 1].key, bracket) ?? {};
  }
  return of;
}

// Names that may stand in the place of a key.
function keys({ mode, path }, known) {
  const { ofField = [], topLevel = [], expression = [], projection = [] } = known.operators ?? {};
  const operators = { filter: topLevel, element: [...ofField, ...topLevel], condition: ofField, expression, projected: projection, metadata: ["$meta"] }[mode] ?? [];
  const hasFields = ["filter", "element", "projection", "projected", "sort"].includes(mode);
  return [...(hasFields ? fields(known, path) : []), ...operators.map(name => ({ name, hint: "operator" }))];
}

// The paths below `path`, those with an index first.
function fields(known, path, mark = "") {
  const below = [...known.fields].filter(([name]) => name.startsWith(path) && name.length > path.length);
  below.sort(([a, x], [b, y]) => Boolean(y.isIndexed) - Boolean(x.isIndexed) || (a < b ? -1 : 1));
  return below.map(([name, { type, isIndexed }]) => ({ name: mark + name.slice(path.length), hint: [type, isIndexed ? "indexed" : ""].filter(Boolean).join(", ") }));
}

// Values of an order and of a projection.
const values = {
  sort: [{ name: "1", hint: "ascending" }, { name: "-1", hint: "descending" }],
  projection: [{ name: "1", hint: "shown" }, { name: "0", hint: "left out" }],
  projected: [{ name: "1", hint: "shown" }, { name: "0", hint: "left out" }],
};

// What is offered at a place of the text of a `kind`: "filter", "projection" or "sort". `known` has the collection's fields and the server's
// operators. Nothing, or `{options: [{name, hint}], isKey, word, isBare}`.
export function suggestions(kind, text, caret, known) {
  const { frames, word } = placeAt(text, caret);
  if (!word) return undefined;
  const isBare = !frames.length && !(text.slice(0, word.from) + text.slice(word.to)).trim();
  if (!frames.length && !isBare) return undefined;
  const of = meaning(kind, frames), due = isBare ? "key" : frames.at(-1).due;
  let all = [];
  if (due === "key") all = keys(of, known);
  else if (due === "value") all = ofValue(of, word, known);
  const wanted = word.text.toLowerCase();
  const begins = [], has = [];
  for (const one of all) {
    const name = one.name.toLowerCase();
    if (one.name === word.text) continue;
    if (name.startsWith(wanted)) begins.push(one);
    else if (due === "key" && name.includes(wanted)) has.push(one);
  }
  const options = [...begins, ...has].slice(0, OFFERED_MAX);
  return options.length ? { options, isKey: due === "key", word, isBare } : undefined;
}

function ofValue({ mode }, word, known) {
  // In an expression a text that begins so is the path of a field.
  if (word.quote) return word.text.startsWith("$") && ["expression", "projection", "projected"].includes(mode) ? fields(known, "", "$") : [];
  return values[mode] ?? [];
}

// The edit that puts an option in the place of the word: `{from, to, text, caret}`, with the caret counted from the beginning of the whole text.
export function accepted(text, { word, isKey, isBare }, name) {
  let put = name;
  if (word.quote || (isKey && !/^[A-Za-z_$][\w$]*$/.test(name))) put = JSON.stringify(name);
  if (isKey && !/^\s*:/.test(text.slice(word.to))) put += ": ";
  if (isBare) put = `{${put}}`;
  return { from: word.from, to: word.to, text: put, caret: word.from + put.length - (isBare ? 1 : 0) };
}

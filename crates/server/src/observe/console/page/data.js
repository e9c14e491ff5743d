// Databases, collections and their documents, a page at a time, with a query and its plan. Where the server was started with `--console rw`,
// documents can be changed; what changes is shown before it is saved, and nothing is saved over what somebody else has changed meanwhile.

import * as server from "./server.js";
import { ask, button, copy, element, get, number, plain, shell } from "./show.js";
import { collectionsOf } from "./collections.js";
import { summary, tree } from "./plan.js";
import { accepted, noteFields, noteIndexes, suggestions } from "./completion.js";
import { suggest } from "./suggestions.js";

const LINES_MAX = 2000;
// The last documents of a collection whose fields are offered, and how long reading them may take.
const SAMPLE = 50;
const SAMPLE_MS = 2000;
const shown = { db: undefined, name: undefined, page: 0, asked: undefined, mayChange: false };
// What is offered to whoever types a query: the fields of the collection `of`, and the server's operators.
const known = { of: undefined, fields: new Map(), operators: undefined };

export function start() {
  get("query").onsubmit = event => { event.preventDefault(); shown.page = 0; find(); };
  get("before").onclick = () => { shown.page -= 1; find(); };
  get("after").onclick = () => { shown.page += 1; find(); };
  get("explain").onclick = explain;
  get("insert").onclick = () => edit(undefined);
  get("treeFilter").oninput = filterTree;
  for (const kind of ["filter", "projection", "sort"]) {
    const input = get("query").elements[kind];
    const refresh = suggest(input, get("suggestions"), (text, caret) => suggestions(kind, text, caret, known), accepted);
    input.addEventListener("focus", () => learn().then(refresh));
  }
}

// Reads what can be offered, once somebody is about to type. Where the user may not read it, or it takes long, fewer fields are offered.
async function learn() {
  known.operators ??= await server.language().catch(() => undefined);
  const { db, name } = shown, of = `${db}.${name}`;
  if (!name || known.of === of) return;
  known.of = of;
  const find = { find: name, sort: { $natural: -1 }, limit: SAMPLE, singleBatch: true, maxTimeMS: SAMPLE_MS, $db: db };
  const [found, listed] = await Promise.allSettled([server.command(find), server.command({ listIndexes: name, cursor: { batchSize: 1000 }, $db: db })]);
  if (known.of !== of) return;
  if (listed.value) noteIndexes(known.fields, listed.value.cursor.firstBatch);
  for (const document of found.value?.cursor.firstBatch ?? []) noteFields(known.fields, document);
}

export function show({ now }) {
  shown.mayChange = now.timing.console === "rw";
  get("insert").hidden = !shown.mayChange;
}

export async function open([db, name] = []) {
  if (!get("tree").children.length) await readTree();
  if (db && name) choose(db, name);
}

async function readTree() {
  try {
    const { databases } = await server.command({ listDatabases: 1, $db: "admin" });
    get("tree").replaceChildren(...databases.map(databaseItem));
    tell(databases.length ? "choose a collection" : "there are no databases");
  } catch (error) {
    tell(error.message, true);
  }
}

function databaseItem({ name }) {
  const item = element("li"), list = element("ul");
  list.hidden = true;
  const head = button(name, async () => {
    list.hidden = !list.hidden;
    head.setAttribute("aria-expanded", !list.hidden);
    if (list.hidden) return;
    try {
      const collections = await collectionsOf(name);
      list.replaceChildren(...collections.map(collection => collectionItem(name, collection)));
      filterTree();
    } catch (error) {
      tell(error.message, true);
    }
  });
  head.setAttribute("aria-expanded", false);
  item.dataset.database = name;
  item.append(head, list);
  return item;
}

function collectionItem(db, { name, type }) {
  const item = element("li");
  const head = button(type === "view" ? `${name} (view)` : name, () => { location.hash = `data/${encodeURIComponent(db)}/${encodeURIComponent(name)}`; });
  head.dataset.ns = `${db}.${name}`;
  item.append(head);
  return item;
}

function filterTree() {
  const wanted = get("treeFilter").value.toLowerCase();
  for (const item of get("tree").querySelectorAll("ul li")) item.hidden = !item.textContent.toLowerCase().includes(wanted);
}

function choose(db, name) {
  if (shown.db !== db || shown.name !== name) {
    get("query").reset();
    Object.assign(known, { of: undefined, fields: new Map() });
  }
  Object.assign(shown, { db, name, page: 0 });
  get("queryOf").textContent = `${db}.${name}`;
  get("queryOf").className = "";
  for (const head of get("tree").querySelectorAll("[data-ns]")) head.setAttribute("aria-current", head.dataset.ns === `${db}.${name}`);
  get("plan").replaceChildren();
  find();
}

function tell(text, isBad = false) {
  get("dataState").textContent = text;
  get("dataState").className = isBad ? "bad" : "dim";
}

// The find as text in the shell's spelling. Each part is what was typed, or empty.
function findText(more) {
  const fields = get("query").elements, part = name => fields[name].value.trim() || "{}";
  return `{find: ${JSON.stringify(shown.name)}, filter: ${part("filter")}, projection: ${part("projection")}, sort: ${part("sort")}${more}}`;
}

async function find() {
  if (!shown.name) return;
  const limit = Number(get("query").elements.limit.value), asked = {};
  shown.asked = asked;
  tell("asking");
  try {
    const more = `, skip: ${shown.page * limit}, limit: ${limit + 1}, batchSize: ${limit + 1}, singleBatch: true, $db: ${JSON.stringify(shown.db)}`;
    const started = performance.now();
    const { cursor } = await server.shellCommand(findText(more));
    if (shown.asked !== asked) return;
    const documents = cursor.firstBatch.slice(0, limit), first = shown.page * limit;
    for (const document of documents) noteFields(known.fields, document);
    get("documents").replaceChildren(...documents.map(documentItem));
    get("before").disabled = shown.page === 0;
    get("after").disabled = cursor.firstBatch.length <= limit;
    const words = documents.length ? `documents ${number(first + 1)} to ${number(first + documents.length)}` : "no documents";
    tell(`${words}, ${Math.round(performance.now() - started)} ms`);
  } catch (error) {
    if (shown.asked === asked) tell(error.message, true);
  }
}

async function explain() {
  if (!shown.name) return;
  const limit = Number(get("query").elements.limit.value);
  try {
    const explained = await server.shellCommand(`{explain: ${findText(`, limit: ${limit}`)}, verbosity: "executionStats", $db: ${JSON.stringify(shown.db)}}`);
    get("plan").replaceChildren(element("p", summary(explained), "dim"), tree(explained));
  } catch (error) {
    get("plan").replaceChildren(element("p", error.message, "bad"));
  }
}

function documentItem(document) {
  const item = element("div", undefined, "document"), acts = element("div", undefined, "acts");
  const copied = button("Copy", () => copy(shell(document), copied));
  acts.append(copied);
  if (shown.mayChange) acts.append(button("Edit", () => edit(document)), button("Delete", () => remove(document)));
  item.append(element("pre", shell(document)), acts);
  return item;
}

// The document exactly as it was shown: nothing is found where somebody has changed it since.
const unchanged = document => `{_id: ${shell(document._id)}, $expr: {$eq: ["$$ROOT", {$literal: ${shell(document)}}]}}`;

// The words in the editor, then the difference, then the write.
async function edit(document) {
  const before = document ? shell(document) : "", area = element("textarea");
  area.value = before || "{\n  \n}";
  area.spellcheck = false;
  for (;;) {
    if (!await ask(document ? "Edit the document" : "Insert a document", [area], [["Show the changes", true]])) return;
    if (!await ask("Save this?", [difference(before, area.value)], [["Save", true]])) continue;
    try {
      if (document) await replace(document, area.value);
      else await server.shellCommand(`{insert: ${JSON.stringify(shown.name)}, documents: [${area.value}], $db: ${JSON.stringify(shown.db)}}`);
      return find();
    } catch (error) {
      await ask("It was not saved", [element("p", error.message, "bad")], []);
    }
  }
}

async function replace(document, text) {
  const update = `{q: ${unchanged(document)}, u: ${text}}`;
  const reply = await server.shellCommand(`{update: ${JSON.stringify(shown.name)}, updates: [${update}], $db: ${JSON.stringify(shown.db)}}`);
  if (plain(reply.n) === 0) throw new Error("the document has been changed or deleted meanwhile: find it again");
}

async function remove(document) {
  if (!await ask("Delete this document?", [element("pre", shell(document))], [["Delete", true]])) return;
  try {
    const reply = await server.shellCommand(`{delete: ${JSON.stringify(shown.name)}, deletes: [{q: ${unchanged(document)}, limit: 1}], $db: ${JSON.stringify(shown.db)}}`);
    if (plain(reply.n) === 0) throw new Error("the document has been changed or deleted meanwhile: find it again");
    find();
  } catch (error) {
    await ask("It was not deleted", [element("p", error.message, "bad")], []);
  }
}

// Lines that were taken away and added, by the longest run of lines that both have.
function difference(before, after) {
  const [old, fresh] = [before, after].map(text => text ? text.split("\n") : []);
  const shown = element("div", undefined, "diff");
  // The comparison takes the product of both: what is very long is shown as it was and as it is.
  if (old.length * fresh.length > LINES_MAX ** 2) {
    shown.append(element("del", before), element("ins", after));
    return shown;
  }
  const longest = Array.from({ length: old.length + 1 }, () => new Uint32Array(fresh.length + 1));
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = fresh.length - 1; j >= 0; j--) longest[i][j] = old[i] === fresh[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  }
  for (let i = 0, j = 0; i < old.length || j < fresh.length;) {
    if (i < old.length && j < fresh.length && old[i] === fresh[j]) { shown.append(element("span", `  ${old[i]}`)); i++; j++; }
    else if (j < fresh.length && (i === old.length || longest[i][j + 1] > longest[i + 1][j])) shown.append(element("ins", `+ ${fresh[j++]}`));
    else shown.append(element("del", `- ${old[i++]}`));
  }
  return shown;
}

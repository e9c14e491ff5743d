// Collections and their indexes: sizes, and indexes that another one makes superfluous.

import * as server from "./server.js";
import { bytes, choosable, element, fill, get, number, plain, row, shell, sortable, sorted } from "./show.js";

// Collections of one reading; more are named by the filter.
const READ_MAX = 300;
const BESIDE = 3;
const shown = { list: [], sort: { by: "storage", isDown: true }, chosen: undefined, reading: 0 };

export function start() {
  sortable(document.querySelector("section#collections table"), shown.sort, showRows);
  get("collectionFilter").oninput = showRows;
  get("collectionsAgain").onclick = read;
}

export function open() { if (!shown.list.length) read(); }

async function read() {
  const reading = ++shown.reading;
  shown.list = [];
  try {
    const { databases } = await server.command({ listDatabases: 1, nameOnly: true, $db: "admin" });
    const names = [];
    for (const { name } of databases) names.push(...(await collectionsOf(name)).map(collection => ({ db: name, ...collection })));
    const wanted = get("collectionFilter").value.toLowerCase();
    const chosen = names.filter(one => one.type !== "view" && `${one.db}.${one.name}`.toLowerCase().includes(wanted)).slice(0, READ_MAX);
    const left = [...chosen];
    const readOne = async () => {
      for (let one = left.shift(); one && reading === shown.reading; one = left.shift()) {
        const stats = await statsOf(one);
        if (reading !== shown.reading) return;
        shown.list.push(stats);
        tell(`${shown.list.length} of ${names.length} collections and views`);
      }
    };
    tell(names.length ? "reading" : "there are no collections");
    await Promise.all(Array.from({ length: BESIDE }, readOne));
    showRows();
  } catch (error) {
    tell(error.message);
  }
}

const tell = text => { get("collectionsState").textContent = text; };

export async function collectionsOf(database) {
  const reply = await server.command({ listCollections: 1, nameOnly: true, authorizedCollections: true, cursor: { batchSize: 10_000 }, $db: database });
  if (reply.cursor.id) await server.command({ killCursors: "$cmd.listCollections", cursors: [reply.cursor.id], $db: database });
  return reply.cursor.firstBatch.sort((a, b) => a.name.localeCompare(b.name));
}

async function statsOf({ db, name }) {
  try {
    const [stats, listed, uses] = await Promise.all([
      server.command({ collStats: name, $db: db }), server.command({ listIndexes: name, cursor: { batchSize: 1000 }, $db: db }), usesOf(db, name),
    ]);
    const indexes = listed.cursor.firstBatch.map(index => ({ ...index, size: plain(stats.indexSizes?.[index.name]), use: uses?.get(index.name) }));
    return {
      ns: `${db}.${name}`, db, name, count: plain(stats.count), size: plain(stats.size), storage: plain(stats.storageSize),
      indexSize: plain(stats.totalIndexSize), indexes, remarks: superfluous(indexes), hasUses: Boolean(uses),
    };
  } catch (error) {
    return { ns: `${db}.${name}`, db, name, count: 0, size: 0, storage: 0, indexSize: 0, indexes: [], remarks: [], trouble: error.message };
  }
}

// How often each index was used since the server started; nothing where the server does not count that.
async function usesOf(db, name) {
  try {
    const reply = await server.command({ aggregate: name, pipeline: [{ $indexStats: {} }], cursor: {}, $db: db });
    return new Map(reply.cursor.firstBatch.map(one => [one.name, one.accesses]));
  } catch {
    return undefined;
  }
}

// Indexes that another one serves for: with the same key, or with a key that begins as theirs does. One that makes values unique, leaves
// documents out, lets them expire or compares in another way has a purpose of its own.
export function superfluous(indexes) {
  const isPlain = index => !index.unique && !index.sparse && !index.partialFilterExpression && index.expireAfterSeconds === undefined && !index.hidden;
  const parts = index => Object.entries(index.key).map(part => JSON.stringify(part));
  const isOfValues = index => Object.values(index.key).every(way => Math.abs(plain(way)) === 1);
  const remarks = [];
  for (const index of indexes) {
    if (index.name === "_id_" || !isPlain(index) || !isOfValues(index)) continue;
    const own = parts(index);
    const other = indexes.find(other => other !== index && isOfValues(other) && !other.sparse && !other.partialFilterExpression && !other.hidden
      && JSON.stringify(other.collation) === JSON.stringify(index.collation)
      && own.every((part, place) => part === parts(other)[place])
      && (parts(other).length > own.length || other.unique || other.name < index.name));
    if (!other) continue;
    const same = parts(other).length === own.length ? "has the same key as" : "is the beginning of";
    remarks.push({ name: index.name, text: `${index.name} ${same} ${other.name}` });
  }
  return remarks;
}

function showRows() {
  const wanted = get("collectionFilter").value.toLowerCase();
  const rows = sorted(shown.list.filter(one => one.ns.toLowerCase().includes(wanted)), shown.sort, one => one[shown.sort.by]).map(one => {
    const remarks = element("td", one.trouble ?? one.remarks.map(remark => remark.text).join("; "), "label");
    if (one.trouble || one.remarks.length) remarks.classList.add("bad");
    const line = row([element("td", one.ns, "label"), number(one.count), bytes(one.size), bytes(one.storage), `${one.indexes.length}: ${bytes(one.indexSize)}`, remarks]);
    line.classList.toggle("chosen", one.ns === shown.chosen);
    line.dataset.ns = one.ns;
    return choosable(line, () => choose(one));
  });
  fill(get("collectionRows"), rows, "no collection is called so");
}

function choose(one) {
  shown.chosen = one.ns;
  for (const line of get("collectionRows").children) line.classList.toggle("chosen", line.dataset.ns === one.ns);
  const table = element("table", undefined, "wide"), body = element("tbody"), head = element("thead");
  head.append(row(["index", "key", "size", "used", "remarks"].map(text => element("th", text, ["key", "remarks"].includes(text) ? "text" : ""))));
  fill(body, one.indexes.map(index => indexRow(one, index)), "no indexes");
  table.append(head, body);
  const link = element("a", "Look at the documents");
  link.href = `#data/${encodeURIComponent(one.db)}/${encodeURIComponent(one.name)}`;
  get("indexes").replaceChildren(element("h2", `Indexes of ${one.ns}`), link, table);
}

function indexRow(one, index) {
  const { v, key, name, size, use, ...options } = index;
  const said = one.remarks.find(remark => remark.name === name)?.text;
  const told = Object.keys(options).length ? shell(options, 1) : "";
  const used = use ? `${number(plain(use.ops))} times` : one.hasUses ? "not told" : "not counted by this server";
  const line = row([element("td", name, "label"), element("td", shell(key, 1), "label"), Number.isFinite(size) ? bytes(size) : "not told", used,
    element("td", [said, told].filter(Boolean).join("; "), said ? "label bad" : "label")]);
  line.dataset.index = name;
  return line;
}

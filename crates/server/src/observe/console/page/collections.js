// Collections and their indexes: sizes, and indexes that another one makes superfluous or that nobody has used.

import * as server from "./server.js";
import { bytes, choosable, element, fill, get, moment, number, plain, row, shell, sortable, sorted } from "./show.js";

// Collections of one reading; others are read when somebody asks for more, or names them by the filter.
const READ_MAX = 300;
const BESIDE = 3;
// No more names are asked for, of all databases together and of each.
const NAMES_MAX = 10_000;
const shown = { list: [], left: [], names: 0, isMore: false, sort: { by: "storage", isDown: true }, chosen: undefined, reading: 0 };

export function start() {
  sortable(document.querySelector("section#collections table"), shown.sort, showRows);
  get("collectionFilter").oninput = showRows;
  get("collectionsAgain").onclick = read;
  get("collectionsMore").onclick = () => readMore(++shown.reading);
}

export function open() { if (!shown.list.length) read(); }

// Reads the names that the filter lets through, and the first of their collections.
async function read() {
  const reading = ++shown.reading;
  shown.list = [];
  try {
    const { databases } = await server.command({ listDatabases: 1, nameOnly: true, $db: "admin" });
    const wanted = get("collectionFilter").value.toLowerCase(), names = [];
    shown.isMore = false;
    for (const { name } of databases) {
      if (names.length >= NAMES_MAX) { shown.isMore = true; break; }
      const listed = await collectionsOf(name, named(name, wanted));
      shown.isMore ||= listed.length >= NAMES_MAX;
      names.push(...listed.map(collection => ({ db: name, ...collection })));
    }
    if (reading !== shown.reading) return;
    shown.left = names.filter(one => one.type !== "view" && `${one.db}.${one.name}`.toLowerCase().includes(wanted));
    shown.names = shown.left.length;
    tell(shown.names ? "reading" : "there are no collections");
    await readMore(reading);
  } catch (error) {
    tell(error.message);
  }
}

async function readMore(reading) {
  const left = shown.left.splice(0, READ_MAX);
  get("collectionsMore").hidden = true;
  const readOne = async () => {
    for (let one = left.shift(); one && reading === shown.reading; one = left.shift()) {
      const stats = await statsOf(one);
      if (reading !== shown.reading) return;
      shown.list.push(stats);
      tell(`${shown.list.length} of ${shown.names} collections`);
    }
  };
  await Promise.all(Array.from({ length: BESIDE }, readOne));
  if (reading !== shown.reading) return;
  get("collectionsMore").textContent = `Read ${Math.min(READ_MAX, shown.left.length)} more`;
  get("collectionsMore").hidden = !shown.left.length;
  if (shown.list.length) tell(summary());
  showRows();
}

// How many were read, and what there is to be said of their indexes.
function summary() {
  const remarks = shown.list.flatMap(one => one.remarks), count = kind => remarks.filter(remark => remark.kind === kind).length;
  const more = shown.isMore ? ", and there are more: name them by the filter and read again" : "";
  return `${shown.list.length} of ${shown.names} collections${more}; ${count("unused")} indexes unused, ${count("superfluous")} superfluous`;
}

const tell = text => { get("collectionsState").textContent = text; };

// The part of `database.collection` that the collection's name has to have: text before a dot may be the end of the database's name.
function named(database, wanted) {
  if (database.toLowerCase().includes(wanted)) return {};
  const escaped = text => text.replace(/[^\p{L}\p{N}_ ]/gu, "\\$&");
  const parts = wanted.split(".").map((_, place, all) => [all.slice(0, place).join("."), all.slice(place).join(".")]);
  const behind = parts.filter(([before]) => before && database.toLowerCase().endsWith(before)).map(([, rest]) => `^${escaped(rest)}`);
  return { name: { $regex: [escaped(wanted), ...behind].join("|"), $options: "i" } };
}

export async function collectionsOf(database, filter = {}) {
  const reply = await server.command({ listCollections: 1, nameOnly: true, authorizedCollections: true, filter, cursor: { batchSize: NAMES_MAX }, $db: database });
  if (reply.cursor.id) await server.command({ killCursors: "$cmd.listCollections", cursors: [reply.cursor.id], $db: database });
  return reply.cursor.firstBatch.sort((a, b) => a.name.localeCompare(b.name));
}

async function statsOf({ db, name }) {
  try {
    const [stats, listed, uses] = await Promise.all([
      server.command({ collStats: name, $db: db }), server.command({ listIndexes: name, cursor: { batchSize: 1000 }, $db: db }), usesOf(db, name),
    ]);
    const indexes = listed.cursor.firstBatch.map(index => ({ ...index, size: plain(stats.indexSizes?.[index.name]), use: uses?.get(index.name) }));
    const remarks = [...superfluous(indexes), ...unused(indexes)];
    return {
      ns: `${db}.${name}`, db, name, count: plain(stats.count), size: plain(stats.size), storage: plain(stats.storageSize),
      indexSize: plain(stats.totalIndexSize), indexes, remarks, remarked: remarks.length, hasUses: Boolean(uses),
    };
  } catch (error) {
    return { ns: `${db}.${name}`, db, name, count: 0, size: 0, storage: 0, indexSize: 0, indexes: [], remarks: [], remarked: 0, trouble: error.message };
  }
}

// How often each index was used since the server started; nothing where the server does not count that.
async function usesOf(db, name) {
  try {
    const reply = await server.command({ aggregate: name, pipeline: [{ $indexStats: {} }], cursor: {}, $db: db });
    // One that is being built has not been there to be used.
    return new Map(reply.cursor.firstBatch.filter(one => !one.building).map(one => [one.name, one.accesses]));
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
    remarks.push({ name: index.name, kind: "superfluous", text: `${index.name} ${same} ${other.name}`, isBad: true });
  }
  return remarks;
}

// Indexes by which nothing was read since the server began to count. Some of them do more than serve reads.
export function unused(indexes) {
  const isIdle = index => index.name !== "_id_" && !index.clustered && index.use && plain(index.use.ops) === 0;
  return indexes.filter(isIdle).map(index => {
    const since = new Date(moment(index.use.since)).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
    const more = [];
    if (index.unique) more.push("also enforces uniqueness");
    if (index.expireAfterSeconds !== undefined) more.push("expires documents");
    return { name: index.name, kind: "unused", text: [`${index.name} unused since ${since}`, ...more].join(", "), isBad: !more.length };
  });
}

function showRows() {
  const wanted = get("collectionFilter").value.toLowerCase();
  const rows = sorted(shown.list.filter(one => one.ns.toLowerCase().includes(wanted)), shown.sort, one => one[shown.sort.by]).map(one => {
    const remarks = element("td", one.trouble ?? one.remarks.map(remark => remark.text).join("; "), "label");
    if (one.trouble || one.remarks.some(remark => remark.isBad)) remarks.classList.add("bad");
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
  const remarks = one.remarks.filter(remark => remark.name === name), said = remarks.map(remark => remark.text).join("; ");
  const told = Object.keys(options).length ? shell(options, 1) : "";
  const used = use ? `${number(plain(use.ops))} times` : one.hasUses ? "not told" : "not counted by this server";
  const line = row([element("td", name, "label"), element("td", shell(key, 1), "label"), Number.isFinite(size) ? bytes(size) : "not told", used,
    element("td", [said, told].filter(Boolean).join("; "), remarks.some(remark => remark.isBad) ? "label bad" : "label")]);
  line.dataset.index = name;
  return line;
}

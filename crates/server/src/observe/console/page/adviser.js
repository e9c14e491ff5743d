// Indexes for the slow operations that scanned: which ones would serve each, as the server has found by trying them on a sample.

import * as server from "./server.js";
import { bytes, button, copy, element, get, number, shell, time } from "./show.js";
import { asked, whole } from "./operations.js";

const TRIED_MAX = 10;
// What says how a command is run, and not what it asks.
const OF_RUNS = ["maxTimeMS", "readConcern", "writeConcern", "startTransaction", "autocommit"];
const known = { slow: [] };

export function start() { get("advise").onclick = look; }

export function show({ now }) { known.slow = now.timing.slow; }

const scans = one => /COLLSCAN/.test(one.planSummary ?? "") && one.docsExamined > 0;

async function look() {
  const groups = new Map();
  for (const one of known.slow.filter(scans)) {
    // A find and an update may look for the same, and each is answered for itself.
    const [name] = Object.keys(one.originatingCommand ?? one.command);
    const key = `${name} ${one.queryHash ?? `${one.ns} ${JSON.stringify(Object.keys(one.command))}`}`;
    const group = groups.get(key) ?? { one, count: 0, micros: 0, examined: 0, found: 0 };
    group.count += 1;
    group.micros += one.micros;
    group.examined += one.docsExamined;
    // A write returns nothing of what it finds.
    group.found += one.nMatched ?? one.ndeleted ?? one.nreturned;
    groups.set(key, group);
  }
  const list = [...groups.values()].sort((a, b) => b.micros - a.micros).slice(0, TRIED_MAX);
  get("advice").replaceChildren();
  get("advise").disabled = true;
  for (const [place, group] of list.entries()) {
    get("adviserState").textContent = `trying ${place + 1} of ${list.length}`;
    get("advice").append(await advised(group));
  }
  get("advise").disabled = false;
  get("adviserState").textContent = list.length ? `${list.length} shapes looked at` : "no slow operation scanned a collection since the start";
}

async function advised({ one, count, micros, examined, found }) {
  const box = element("div", undefined, "advice");
  // A getMore goes on with what another command has asked.
  const command = { ...(one.originatingCommand ?? whole(one)), $db: one.command.$db };
  for (const name of OF_RUNS) delete command[name];
  const words = asked(command);
  box.append(element("h3", `${Object.keys(words)[0]} ${one.ns}`), element("pre", shell(words)),
    element("p", `seen ${count} times, ${time(micros)} in all; ${number(examined)} documents examined for ${number(found)} found`, "dim"));
  if (command.$truncated !== undefined) {
    box.append(element("p", "no advice: the command is so long that only its beginning was kept"));
    return box;
  }
  try {
    const { advice, left } = await server.advise({ ...words, $db: command.$db });
    for (const part of advice) box.append(...ofStatements(part, advice.length), ...(part.indexes ? proposal(one, part) : [element("p", `no advice: ${part.reason}`)]));
    const others = (left ?? 0) + (one.statementsNotKept ?? 0);
    if (others) box.append(element("p", `${number(others)} statements more were not looked at`, "dim"));
  } catch (error) {
    box.append(element("p", `not tried: ${error.message}`, "bad"));
  }
  return box;
}

// Which of a command's statements an advice is for, where they are not one.
function ofStatements({ asked: question, statements }, parts) {
  if (parts === 1 && !(statements > 1)) return [];
  return [element("p", `${statements === 1 ? "1 statement asks" : `${number(statements)} statements ask alike, the first of them`} ${shell(question, 1)}`)];
}

function proposal(one, advice) {
  const [db, ...rest] = one.ns.split("."), { indexes, without, withIndexes } = advice, { collation } = advice.asked;
  const of = `db.getSiblingDB(${JSON.stringify(db)}).getCollection(${JSON.stringify(rest.join("."))})`;
  const options = collation ? `, ${shell({ collation }, 1)}` : "";
  const text = indexes.map(({ key }) => `${of}.createIndex(${shell(key, 1)}${options})`).join("\n");
  const copied = button("Copy for mongosh", () => copy(text, copied));
  const lines = element("ul"), sum = name => indexes.reduce((all, index) => all + index[name], 0);
  for (const line of [
    `Tried on ${number(advice.sampled)} of ${number(advice.documents)} documents: the plan becomes ${withIndexes.plan}, in place of ${without.plan}.`,
    `There it examines ${number(withIndexes.docsExamined)} documents and ${number(withIndexes.keysExamined)} keys in place of ${number(without.docsExamined)} documents, and finds the same ${number(withIndexes.returned)}.`,
    `Over the whole collection that is about ${number(advice.docsSaved)} documents fewer each time, if the rest is like the sample.`,
    ...(indexes.length > 1 ? [`The ${indexes.length} indexes belong together, one for each alternative.`] : []),
    `${indexes.length > 1 ? "They" : "It"} would take about ${bytes(sum("bytes"))}, and each insert and each update of ${indexes.length > 1 ? "their" : "its"} fields writes ${sum("keysADocument").toFixed(1)} keys more.`,
  ]) lines.append(element("li", line));
  return [element("pre", text), copied, lines];
}

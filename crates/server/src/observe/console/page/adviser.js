// Indexes for the slow operations that scanned: which one would serve each, as the server has found by trying it on a sample.

import * as server from "./server.js";
import { bytes, button, copy, element, get, number, shell, time } from "./show.js";
import { explainable } from "./operations.js";

const TRIED_MAX = 10;
const known = { slow: [] };

export function start() { get("advise").onclick = look; }

export function show({ now }) { known.slow = now.timing.slow; }

const scans = one => explainable(one) && /COLLSCAN/.test(one.planSummary ?? "") && one.docsExamined > 0;

async function look() {
  const groups = new Map();
  for (const one of known.slow.filter(scans)) {
    const key = one.queryHash ?? `${one.ns} ${JSON.stringify(Object.keys(one.command))}`;
    const group = groups.get(key) ?? { one, count: 0, micros: 0, examined: 0, returned: 0 };
    group.count += 1;
    group.micros += one.micros;
    group.examined += one.docsExamined;
    group.returned += one.nreturned;
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

async function advised({ one, count, micros, examined, returned }) {
  const box = element("div", undefined, "advice");
  const asked = { ...one.command };
  for (const name of ["lsid", "$clusterTime", "$readPreference", "txnNumber", "maxTimeMS", "readConcern", "apiVersion"]) delete asked[name];
  box.append(element("h3", `${Object.keys(asked)[0]} ${one.ns}`), element("pre", shell(Object.fromEntries(Object.entries(asked).filter(([name]) => name !== "$db")))),
    element("p", `seen ${count} times, ${time(micros)} in all; ${number(examined)} documents examined for ${number(returned)} returned`, "dim"));
  try {
    const advice = await server.advise(asked);
    box.append(...(advice.index ? proposal(one, advice) : [element("p", advice.reason)]));
  } catch (error) {
    box.append(element("p", `not tried: ${error.message}`, "bad"));
  }
  return box;
}

function proposal(one, advice) {
  const [db, ...rest] = one.ns.split("."), { without, withIndex } = advice;
  const text = `db.getSiblingDB(${JSON.stringify(db)}).getCollection(${JSON.stringify(rest.join("."))}).createIndex(${shell(advice.index, 1)})`;
  const copied = button("Copy for mongosh", () => copy(text, copied));
  const lines = element("ul");
  for (const line of [
    `Tried on ${number(advice.sampled)} of ${number(advice.documents)} documents: the plan becomes ${withIndex.plan}, in place of ${without.plan}.`,
    `There it examines ${number(withIndex.docsExamined)} documents and ${number(withIndex.keysExamined)} keys in place of ${number(without.docsExamined)} documents, and returns the same ${number(withIndex.returned)}.`,
    `Over the whole collection that is about ${number(advice.docsSaved)} documents fewer each time, if the rest is like the sample.`,
    `It would take about ${bytes(advice.indexBytes)}, and each insert and each update of its fields writes ${advice.keysADocument.toFixed(1)} keys more.`,
  ]) lines.append(element("li", line));
  return [element("pre", text), copied, lines];
}

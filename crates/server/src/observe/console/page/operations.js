// What runs now, with a way to end it, and the slow operations, which stand still until somebody asks for the new ones.

import * as server from "./server.js";
import { ask, button, choosable, copy, element, fill, get, moment, number, row, shell, sortable, sorted, time } from "./show.js";
import { waterfall } from "./phases.js";
import { summary, tree } from "./plan.js";

const KEPT = 500;
// Fields that a driver adds and that say nothing of what is asked.
const OF_DRIVERS = ["lsid", "$db", "$clusterTime", "$readPreference", "txnNumber", "apiVersion", "$audit"];
const slow = { known: new Map(), list: [], chosen: undefined, order: [], sort: { by: "at", isDown: true } };

export function start() {
  sortable(get("slowTable"), slow.sort, showSlow);
  get("slowFilter").oninput = showSlow;
  get("slowNew").onclick = takeNew;
  get("ownToo").onchange = tick;
}

export function show({ now }) {
  slow.order = now.timing.phases;
  for (const one of now.timing.slow) slow.known.set(`${one.opid} ${moment(one.ts)}`, one);
  for (const key of slow.known.keys()) {
    if (slow.known.size <= KEPT) break;
    slow.known.delete(key);
  }
  // The list is filled by itself as long as nobody reads in it.
  if (!slow.list.length) return takeNew();
  const isNew = key => !slow.list.some(one => one.key === key);
  const count = [...slow.known.keys()].filter(isNew).length;
  get("slowNew").hidden = !count;
  get("slowNew").textContent = `Show ${count} new`;
}

function takeNew() {
  slow.list = [...slow.known].map(([key, operation]) => ({
    key, operation, at: moment(operation.ts), ns: `${kind(operation)} ${operation.ns}`, plan: operation.planSummary ?? "",
    examined: operation.docsExamined, returned: operation.nreturned, micros: operation.micros, text: JSON.stringify(whole(operation)).toLowerCase(),
  }));
  get("slowNew").hidden = true;
  showSlow();
}

const kind = operation => operation.op === "command" ? Object.keys(operation.command ?? {})[0] ?? "command" : operation.op;

function showSlow() {
  const words = get("slowFilter").value.toLowerCase();
  const isWanted = one => !words || one.text.includes(words) || `${one.ns} ${one.plan}`.toLowerCase().includes(words);
  const rows = sorted(slow.list.filter(isWanted), slow.sort, one => one[slow.sort.by]).map(one => {
    const plan = element("td", one.plan, one.plan.includes("COLLSCAN") ? "bad" : "");
    const line = row([new Date(one.at).toLocaleTimeString(), element("td", one.ns, "label"), plan, number(one.examined), number(one.returned), time(one.micros)]);
    line.classList.toggle("chosen", one.key === slow.chosen);
    line.dataset.key = one.key;
    return choosable(line, () => choose(one));
  });
  fill(get("slow"), rows, slow.list.length ? "none of the slow operations is like that" : "no slow operation since the start");
}

function choose(one) {
  slow.chosen = one.key;
  for (const line of get("slow").children) line.classList.toggle("chosen", line.dataset.key === one.key);
  const { operation } = one, copied = button("Copy for mongosh", () => copy(mongosh(operation), copied));
  const plan = element("div"), explain = button("Explain it now", () => explainNow(operation, plan));
  const acts = element("div", undefined, "tools");
  acts.append(copied, ...(explainable(operation) ? [explain] : []));
  const facts = element("p", `operation ${operation.opid} of ${operation.client}${operation.appName ? `, ${operation.appName}` : ""}; plan ${one.plan || "none"}; `
    + `${number(operation.keysExamined)} keys and ${number(one.examined)} documents examined, ${number(one.returned)} returned`, "dim");
  const work = element("p", `work ${shell(operation.work, 1)}${operation.waits ? `  waits ${shell(operation.waits, 1)}` : ""}`, "dim");
  const error = operation.errMsg ? [element("p", `${operation.errName}: ${operation.errMsg}`, "bad")] : [];
  get("chosen").replaceChildren(element("h3", one.ns), acts, facts, ...error, element("pre", shell(asked(whole(operation)))), ...notKept(operation), waterfall(operation, slow.order), work, plan);
}

// The command with the statements of a write, which drivers send beside it and the server keeps apart.
export function whole({ command = {}, statements }) {
  const list = { update: "updates", delete: "deletes" }[Object.keys(command)[0]];
  return list && statements ? { ...command, [list]: statements } : command;
}

const notKept = ({ statementsNotKept: count }) => count ? [element("p", `${number(count)} statements more are not shown`, "dim")] : [];

export function asked(command) {
  const kept = { ...command };
  for (const name of OF_DRIVERS) delete kept[name];
  return kept;
}

const database = operation => operation.command?.$db ?? operation.ns.split(".")[0];

// The operation as somebody would type it into the shell.
export function mongosh(operation) {
  const command = asked(whole(operation)), db = `db.getSiblingDB(${JSON.stringify(database(operation))})`;
  if (typeof command.find === "string") {
    const of = `${db}.getCollection(${JSON.stringify(command.find)})`;
    const simple = ["find", "filter", "projection", "sort", "limit", "skip", "batchSize", "singleBatch"];
    if (Object.keys(command).every(name => simple.includes(name))) {
      const parts = [command.filter ?? {}, ...(command.projection ? [command.projection] : [])].map(part => shell(part)).join(", ");
      const calls = ["sort", "skip", "limit"].filter(name => command[name] !== undefined).map(name => `.${name}(${shell(command[name])})`);
      return `${of}.find(${parts})${calls.join("")}`;
    }
  }
  if (typeof command.aggregate === "string" && Object.keys(command).every(name => ["aggregate", "pipeline", "cursor"].includes(name))) {
    return `${db}.getCollection(${JSON.stringify(command.aggregate)}).aggregate(${shell(command.pipeline)})`;
  }
  const rest = operation.statementsNotKept ? `// ${operation.statementsNotKept} statements more were not kept\n` : "";
  return `${rest}${db}.runCommand(${shell(command)})`;
}

export const explainable = operation => ["find", "aggregate", "count", "distinct"].includes(Object.keys(operation.command ?? {})[0]) && !operation.command.$truncated;

async function explainNow(operation, into) {
  into.replaceChildren(element("p", "explaining", "dim"));
  const explain = asked(operation.command);
  for (const name of ["maxTimeMS", "writeConcern", "readConcern"]) delete explain[name];
  try {
    const explained = await server.command({ explain, verbosity: "executionStats", $db: database(operation) });
    into.replaceChildren(element("p", summary(explained), "dim"), tree(explained));
  } catch (error) {
    into.replaceChildren(element("p", `not explained: ${error.message}`, "bad"));
  }
}

export async function tick() {
  try {
    const reply = await server.command({ currentOp: 1, $db: "admin" });
    // A hello that waits for news is how drivers watch a server.
    const isOwn = one => String(one.desc).startsWith("console") || ["hello", "isMaster", "ismaster"].includes(Object.keys(one.command ?? {})[0]);
    const isShown = one => get("ownToo").checked || !isOwn(one);
    const list = reply.inprog.filter(isShown).sort((a, b) => b.microsecs_running - a.microsecs_running);
    showRunning(list);
  } catch (error) {
    fill(get("running"), [], error.message);
  }
}

// Rows stay as long as their operations do, so that a button that somebody is about to press stays where it is.
function showRunning(list) {
  const there = new Map([...get("running").children].map(line => [line.dataset.opid, line]));
  const rows = list.map(one => updated(there.get(`${one.opid} ${Boolean(one.killPending)}`), runningRow(one)));
  const isSame = rows.length && rows.length === there.size && rows.every((line, place) => line === get("running").children[place]);
  if (!isSame) fill(get("running"), rows, "nothing runs just now");
}

function updated(known, fresh) {
  if (!known) return fresh;
  for (const place of [1, 2, 3]) known.cells[place].textContent = fresh.cells[place].textContent;
  return known;
}

export function open() { tick(); }

function runningRow(one) {
  const what = element("td", `${Object.keys(one.command ?? {})[0] ?? one.op} ${one.ns}`, "label");
  what.dataset.tip = one.command ? shell(asked(one.command)).slice(0, 1500) : "the command is not shown";
  const end = one.killPending ? "ending" : button("Kill", () => kill(one));
  const line = row([what, one.quarry?.phase ?? "not told", `${number(one.keysExamined)} / ${number(one.docsExamined)}`, time(one.microsecs_running),
    `${one.client}${one.appName ? ` ${one.appName}` : ""}`, end]);
  line.dataset.opid = `${one.opid} ${Boolean(one.killPending)}`;
  return line;
}

async function kill(one) {
  const parts = [element("p", `${one.op} on ${one.ns}, operation ${one.opid}, running for ${time(one.microsecs_running)}`), element("pre", shell(asked(one.command ?? {})))];
  if (!await ask("End this operation?", parts, [["Kill", true]])) return;
  try {
    await server.command({ killOp: 1, op: one.opid, $db: "admin" });
  } catch (error) {
    await ask("It was not ended", [element("p", error.message, "bad")], []);
  }
  tick();
}

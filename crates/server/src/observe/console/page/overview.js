// The first view: facts of the server, kinds of operations, the heat map of latencies, and who is busiest.

import * as server from "./server.js";
import { bytes, duration, element, fill, get, moment, number, plain, row, time, tip } from "./show.js";
import { legend, stack } from "./phases.js";

const COLUMNS = 240, ROWS = 27;
// Dark blue to yellow, evenly brighter: read the same by everybody, and printed in grey.
const RAMP = [[0, 32, 77], [49, 68, 107], [102, 105, 112], [149, 143, 120], [202, 185, 105], [255, 234, 70]];
const heat = { live: {}, past: undefined, wasChosen: false };

export function start() {
  get("heatKind").onchange = () => { heat.wasChosen = true; readPast(); showHeat(); };
  get("heatSpan").onchange = () => { heat.past = undefined; readPast(); showHeat(); };
  get("heat").onpointermove = pointAtHeat;
  get("heat").onpointerleave = () => { get("heat").dataset.tip = ""; };
}

export function show({ now, before, seconds }) {
  const { timing, status } = now;
  get("server").textContent = `${status.host}  ${status.quarry.version}, ${status.quarry.engine}`;
  document.title = `Quarry ${status.host}`;
  showFacts(status, before?.status, seconds);
  if (!before) get("legend").replaceChildren(...legend(timing.phases));
  showKinds(timing, before?.timing, seconds);
  rememberHeat(timing, before?.timing);
  chooseKind(timing);
  showHeat();
  showLabels("busiest", timing.collections, "nothing was asked within the last minute");
  showLabels("shapes", timing.shapes, "no queries within the last minute");
}

export function tick() {
  const last = heat.past?.at ?? 0;
  if (span() && Date.now() - last > 10_000) readPast();
}

export function open() { readPast(); }

function fact(name, value, small, more) {
  const box = element("div");
  box.append(element("dt", name), element("dd", value));
  box.dataset.fact = name;
  if (small) box.lastChild.append(element("small", small));
  if (more) box.lastChild.append(more);
  return box;
}

const rate = (now, before, seconds, path) => {
  const of = status => path.reduce((value, name) => value?.[name], status);
  return before && of(now) !== undefined && of(before) !== undefined ? Math.max(0, of(now) - of(before)) / seconds : undefined;
};

const since = (date, words) => date === undefined ? words : `${duration(Math.max(0, Date.now() - moment(date)))} ago`;

function showFacts(status, before, seconds) {
  const { quarry, connections } = status, { memory, disk, journal, engineCounters: engine, upkeep } = quarry;
  const persecond = (...path) => rate(status, before, seconds, path);
  const shown = (value, format) => value === undefined ? "measuring" : format(value);
  const cpu = persecond("quarry", "process", "cpuSeconds"), process = quarry.process;
  const syncs = persecond("quarry", "journal", "syncs"), syncMicros = persecond("quarry", "journal", "syncMicros");
  const facts = [
    fact("Version", quarry.version, `MongoDB ${status.version}'s protocol; ${quarry.engine}, ${quarry.durability}`),
    fact("Uptime", duration(status.uptimeMillis), `process ${plain(status.pid)}`),
    fact("Processor", process ? shown(cpu, value => `${(100 * value).toFixed(0)} % of one`) : "not told by this machine", process && `${process.threads} threads`),
    process ? fact("Memory", bytes(process.residentBytes), memoryText(process, memory), memoryBar(process, memory)) : fact("Memory", "not told by this machine"),
    disk ? fact("Disk", `${bytes(disk.freeBytes)} free`, `of ${bytes(disk.sizeBytes)}; data ${engine.diskBytes ? bytes(engine.diskBytes) : "not measured"}`, share(disk.sizeBytes - disk.freeBytes, disk.sizeBytes)) : fact("Disk", "not told by this machine"),
    fact("Cache", hits(engine), `${bytes(engine.cacheBytes)} of blocks${quarry.recordCache ? `, ${bytes(quarry.recordCache.bytes)} of records` : ""}`),
    fact("Connections", `${connections.current}`, `${connections.active} active, ${connections.available} left, ${connections.rejected} rejected`),
    fact("Journal", bytes(journal.fileBytes), syncs ? `${number(syncs)} syncs/s of ${time(syncMicros / syncs)}` : "no syncs just now"),
    fact("Last checkpoint", since(upkeep.lastCheckpoint, "none since the start"), upkeep.lastCheckpoint && `${bytes(engine.unflushedBytes)} are in memory and in the journal`),
    fact("Last backup", since(upkeep.lastBackup, "none")),
    fact("Errors", shown(persecond("quarry", "errors", "count"), value => `${number(value)}/s`), codes(quarry.errors)),
  ];
  if (quarry.refusedWrites.reason) {
    const refused = fact("Writes are refused", number(quarry.refusedWrites.count), quarry.refusedWrites.reason);
    refused.classList.add("bad");
    facts.unshift(refused);
  }
  get("facts").replaceChildren(...facts);
}

function hits(engine) {
  const all = engine.cacheHits + engine.cacheMisses;
  return all ? `${(100 * engine.cacheHits / all).toFixed(1)} % hits` : "not read yet";
}

function codes(errors) {
  const list = Object.entries(errors.byCode).sort((a, b) => b[1] - a[1]).slice(0, 3).map(([code, count]) => `${count} of code ${code}`);
  return list.length ? `since the start: ${list.join(", ")}` : "none since the start";
}

// The parts that are counted, and what is left of the resident memory: code, stacks, and what operations hold for a moment.
function memoryParts(process, memory) {
  const shares = Object.entries(memory.shares).filter(([, size]) => size);
  const counted = shares.reduce((sum, [, size]) => sum + size, 0), mapped = process.mappedBytes;
  return [...shares, ["files mapped", mapped], ["all else", Math.max(0, process.residentBytes - counted - mapped)]];
}

function memoryText(process, memory) {
  const parts = memoryParts(process, memory).sort((a, b) => b[1] - a[1]).slice(0, 3);
  return parts.map(([name, size]) => `${name} ${bytes(size)}`).join(", ");
}

function memoryBar(process, memory) {
  const colors = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8a8f98", "#5c6068"];
  const bar = element("div", undefined, "stack"), parts = memoryParts(process, memory);
  const all = parts.reduce((sum, [, size]) => sum + size, 0) || 1;
  parts.forEach(([name, size], place) => {
    const part = element("i");
    part.style.width = `${100 * size / all}%`;
    part.style.background = colors[place % colors.length];
    bar.append(tip(part, `${name}: ${bytes(size)}`));
  });
  return bar;
}

function share(part, all) {
  const bar = element("div", undefined, "stack"), filled = element("i");
  filled.style.width = `${100 * part / all}%`;
  filled.style.background = part / all > 0.9 ? "#d55e00" : "#0072b2";
  bar.append(filled);
  return tip(bar, `${(100 * part / all).toFixed(1)} % of the disk are taken`);
}

function showKinds(timing, before, seconds) {
  const rows = Object.entries(timing.lastMinute).map(([name, minute]) => {
    const count = timing.sinceStart[name].count, earlier = before?.sinceStart[name]?.count ?? count;
    const bar = element("td", undefined, "bar");
    bar.append(stack(minute.phases, timing.phases));
    const wall = minute.phases.wall;
    const line = row([name, (Math.max(0, count - earlier) / seconds).toFixed(1), time(wall.p50Micros), time(wall.p99Micros), bar]);
    line.dataset.operation = name;
    line.dataset.count = count;
    return line;
  });
  fill(get("kinds"), rows, "nothing was asked within the last minute");
}

function showLabels(id, list, words) {
  const all = list.reduce((sum, one) => sum + one.totalMicros, 0) || 1;
  fill(get(id), list.slice(0, 10).map(one => row([element("td", one.label, "label"), number(one.count),
    time(one.meanMicros), time(one.p99Micros), `${(100 * one.totalMicros / all).toFixed(1)} %`])), words);
}

const span = () => Number(get("heatSpan").value);

function rememberHeat(timing, before) {
  for (const [name, all] of Object.entries(timing.sinceStart)) {
    const earlier = before?.sinceStart[name]?.buckets;
    const columns = heat.live[name] ??= [];
    columns.push({ at: Date.now(), counts: all.buckets.map((count, place) => earlier ? Math.max(0, count - earlier[place]) : 0) });
    if (columns.length > COLUMNS) columns.shift();
  }
}

// Opens on the kind that takes the most time, until somebody chooses another one.
function chooseKind(timing) {
  const select = get("heatKind"), known = [...select.options].map(option => option.value);
  for (const name of Object.keys(timing.sinceStart)) if (!known.includes(name)) select.append(new Option(name, name));
  if (heat.wasChosen) return;
  const busy = Object.entries(timing.lastMinute).filter(([name]) => name !== "command");
  const [busiest] = busy.sort((a, b) => b[1].phases.wall.totalMicros - a[1].phases.wall.totalMicros)[0] ?? [];
  if (busiest && busiest !== select.value) {
    select.value = busiest;
    heat.past = undefined;
    readPast();
  }
}

async function readPast() {
  const ms = span(), kind = get("heatKind").value;
  if (!ms || !kind) return;
  const to = Date.now();
  try {
    const past = await server.history(to - ms, to, COLUMNS, [`heat.${kind}.*`]);
    const rows = Array.from({ length: ROWS }, (_, place) => past.series[`heat.${kind}.${place}`] ?? []);
    const seconds = past.stepMs / 1e3;
    const columns = past.times.map((at, column) => ({ at, counts: rows.map(values => values[column] === null || values[column] === undefined ? null : values[column] * seconds) }));
    heat.past = { at: to, kind, ms, columns };
    showHeat();
  } catch (error) {
    heat.past = { at: to, kind, ms, columns: [], trouble: error.message };
  }
}

function heatColumns() {
  const kind = get("heatKind").value;
  if (!span()) return heat.live[kind] ?? [];
  return heat.past?.kind === kind && heat.past.ms === span() ? heat.past.columns : [];
}

function paint(share) {
  const place = share * (RAMP.length - 1), low = Math.min(RAMP.length - 2, Math.floor(place)), part = place - low;
  return `rgb(${RAMP[low].map((from, at) => Math.round(from + part * (RAMP[low + 1][at] - from))).join(" ")})`;
}

function showHeat() {
  const columns = heatColumns(), canvas = get("heat"), pen = canvas.getContext("2d");
  const width = span() ? Math.max(1, columns.length) : COLUMNS;
  if (canvas.width !== width) canvas.width = width;
  const most = Math.max(1, ...columns.map(column => Math.max(...column.counts)));
  pen.clearRect(0, 0, width, ROWS);
  columns.forEach((column, place) => column.counts.forEach((count, bucket) => {
    if (!count) return;
    pen.fillStyle = paint(Math.log1p(count) / Math.log1p(most));
    pen.fillRect(width - columns.length + place, ROWS - 1 - bucket, 1, 1);
  }));
  const ticks = [4, 7, 10, 14, 17, 20, 24].map(power => {
    const us = 2 ** power, mark = element("span", us < 1e3 ? `${us} µs` : us < 1e6 ? `${Math.round(us / 1e3)} ms` : `${Math.round(us / 1e6)} s`);
    mark.style.bottom = `${100 * (power + 1) / ROWS}%`;
    return mark;
  });
  get("heatRows").replaceChildren(...ticks);
  const clock = at => new Date(at).toLocaleTimeString();
  const ends = columns.length ? [clock(columns[0].at), clock(columns.at(-1).at)] : ["nothing recorded yet", ""];
  get("heatColumns").replaceChildren(...ends.map(text => element("span", text)));
}

function pointAtHeat(event) {
  const canvas = get("heat"), box = canvas.getBoundingClientRect(), columns = heatColumns();
  const place = Math.floor((event.clientX - box.left) / box.width * canvas.width) - (canvas.width - columns.length);
  const bucket = ROWS - 1 - Math.floor((event.clientY - box.top) / box.height * ROWS);
  const column = columns[place], count = column?.counts[bucket];
  if (count === undefined) { canvas.dataset.tip = ""; return; }
  const range = bucket === 0 ? `below ${time(1)}` : bucket === ROWS - 1 ? `above ${time(2 ** (ROWS - 2))}` : `${time(2 ** (bucket - 1))} to ${time(2 ** bucket)}`;
  canvas.dataset.tip = `${new Date(column.at).toLocaleTimeString()}\n${range}: ${count === null ? "not recorded" : `${number(count)} operations`}`;
}

// Charts of the last day, from the history that the server keeps. They share their window and their cursor; a drag zooms in, and another
// window can be laid beside the one that is shown.

import * as server from "./server.js";
import { bytes, element, get, number, time } from "./show.js";
import { isPaused } from "./console.js";

const POINTS = 360;
const COLORS = ["#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#8a8f98", "#b8a100"];
const KINDS = ["find", "insert", "update", "delete", "aggregate", "getMore", "findAndModify", "command"];
const percent = value => `${number(value)} %`;
const rate = value => `${number(value)}/s`;
const byteRate = value => `${bytes(value)}/s`;

const charts = [
  { title: "Operations a second", format: rate, series: KINDS.map(kind => [kind, `${kind}.operations`]) },
  { title: "p99 of the last minute", format: time, series: KINDS.map(kind => [kind, `${kind}.p99Micros`]) },
  { title: "Processor, of one", format: percent, series: [["cpu", "cpuPercent"]] },
  { title: "Memory", format: bytes, series: [["resident", "residentBytes"], ["files mapped", "mappedBytes"], ["engine cache", "memory.engineCache"], ["record cache", "memory.recordCache"], ["operations", "memory.operations"], ["requests", "memory.requests"], ["replies", "memory.replies"]] },
  { title: "Connections and running operations", format: number, series: [["connections", "connections"], ["operations", "activeOperations"]] },
  { title: "Errors and refused writes", format: rate, series: [["errors", "errors"], ["refused writes", "refusedWrites"]] },
  { title: "Documents", format: rate, series: [["returned", "documentsReturned"], ["inserted", "documentsInserted"], ["updated", "documentsUpdated"], ["deleted", "documentsDeleted"]] },
  { title: "Network", format: byteRate, series: [["in", "bytesIn"], ["out", "bytesOut"]] },
  { title: "Engine", format: byteRate, series: [["read", "engineBytesRead"], ["written", "engineBytesWritten"]] },
  { title: "Stalled and syncing, of a second", format: percent, series: [["stalled", "stallPercent"], ["syncing the journal", "journalSyncPercent"]] },
  { title: "Disk", format: bytes, series: [["free", "diskFreeBytes"], ["data", "engineDiskBytes"], ["journal", "journalBytes"]] },
];
const names = [...new Set(charts.flatMap(chart => chart.series.map(([, name]) => name))), "uptimeSeconds"];
const shown = { zoom: undefined, readAt: 0, restarts: [], isReading: false };

export function start() {
  for (const id of ["span", "beside"]) get(id).onchange = () => { shown.zoom = undefined; read(); };
  get("zoomOut").onclick = () => { shown.zoom = undefined; read(); };
  addEventListener("resize", () => charts.forEach(chart => chart.plot?.setSize(size(chart.box))));
}

export function open() { read(); }

export function tick() {
  if (!shown.zoom && !isPaused() && Date.now() - shown.readAt >= 5_000) read();
}

function range() {
  if (shown.zoom) return shown.zoom;
  const to = Date.now();
  return [to - Number(get("span").value), to];
}

// How far back the window beside lies; 0 for none.
function shift([from, to]) {
  const chosen = Number(get("beside").value);
  return chosen === 1 ? to - from : chosen;
}

// The series of both windows; a list goes in parts, because one answer has a bound.
async function readAll(from, to) {
  const parts = [names.slice(0, 30), names.slice(30)];
  const answers = await Promise.all(parts.map(part => server.history(from, to, POINTS, part)));
  return { ...answers[0], series: Object.assign({}, ...answers.map(answer => answer.series)) };
}

async function read() {
  if (shown.isReading) return;
  shown.isReading = true;
  shown.readAt = Date.now();
  try {
    const window = range(), back = shift(window);
    const [past, beside] = await Promise.all([readAll(...window), back ? readAll(window[0] - back, window[1] - back) : undefined]);
    shown.restarts = restarts(past);
    for (const chart of charts) draw(chart, past, beside, back);
    const clock = ms => new Date(ms).toLocaleString();
    const words = past.trouble ? `not written: ${past.trouble}` : `a point is ${past.stepMs / 1000} s`;
    get("window").textContent = `${clock(past.from)} to ${clock(past.to)}; ${words}`;
    get("zoomOut").hidden = !shown.zoom;
  } catch (error) {
    get("window").textContent = `no history: ${error.message}`;
  } finally {
    shown.isReading = false;
  }
}

// The times at which the server began anew.
function restarts(past) {
  const up = past.series.uptimeSeconds ?? [];
  let before;
  return past.times.filter((_, place) => {
    if (up[place] === null || up[place] === undefined) return false;
    const isNew = before !== undefined && up[place] < before;
    before = up[place];
    return isNew;
  });
}

const size = box => ({ width: Math.max(240, box.clientWidth - 18), height: 210 });

function draw(chart, past, beside, back) {
  // What was zero all the time is left out, but for one: that nothing happened is worth a line, too.
  const there = chart.series.filter(([, name]) => past.series[name]?.some(value => value));
  const list = there.length ? there : chart.series.slice(0, 1);
  const values = list.map(([, name]) => past.series[name] ?? past.times.map(() => null));
  const earlier = beside ? list.map(([, name]) => alongside(past, beside, name, back)) : [];
  const table = [past.times.map(ms => ms / 1000), ...values, ...earlier];
  const shape = list.map(([label]) => label).join() + Boolean(beside) + matchMedia("(prefers-color-scheme: dark)").matches;
  if (chart.plot && chart.shape === shape) {
    chart.plot.setData(table, false);
    chart.plot.setScale("x", { min: past.from / 1000, max: past.to / 1000 });
    return;
  }
  chart.plot?.destroy();
  if (!chart.box) get("charts").append(chart.box = element("div"));
  chart.box.dataset.chart = chart.title;
  chart.shape = shape;
  chart.plot = new uPlot(options(chart, list, Boolean(beside)), table, chart.box);
  chart.plot.setScale("x", { min: past.from / 1000, max: past.to / 1000 });
}

// The other window's values at this one's times.
function alongside(past, beside, name, back) {
  const values = new Map(beside.times.map((at, place) => [Math.round((at + back) / past.stepMs), beside.series[name]?.[place] ?? null]));
  return past.times.map(at => values.get(Math.round(at / past.stepMs)) ?? null);
}

function options(chart, list, hasBeside) {
  const style = getComputedStyle(document.body), ink = style.color;
  // Without a cursor there is no place to tell of.
  const value = (_, raw, series, place) => place === null ? "" : raw === null || raw === undefined ? "not recorded" : chart.format(raw);
  const series = (label, place, dash) => ({ label, stroke: COLORS[place % COLORS.length], width: dash ? 1 : 1.5, dash, value, spanGaps: false, points: { show: false } });
  const axis = { stroke: ink, grid: { stroke: grid(), width: 1 }, ticks: { stroke: grid(), width: 1 } };
  return {
    ...size(chart.box), title: chart.title,
    cursor: { sync: { key: "history" }, drag: { x: true, y: false, setScale: false } },
    scales: { x: { time: true }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 1) > 0 ? high * 1.08 : 1] } },
    axes: [axis, { ...axis, size: 78, values: (_, ticks) => ticks.map(chart.format) }],
    series: [
      { value: (_, raw) => raw ? new Date(raw * 1000).toLocaleTimeString() : "" },
      ...list.map(([label], place) => series(label, place)),
      ...(hasBeside ? list.map(([label], place) => series(`${label}, beside`, place, [4, 4])) : []),
    ],
    hooks: { setSelect: [zoom], drawClear: [markRestarts] },
  };
}

const grid = () => matchMedia("(prefers-color-scheme: dark)").matches ? "#ffffff1c" : "#0000001a";

function zoom(plot) {
  const { left, width } = plot.select;
  if (width < 4) return;
  shown.zoom = [plot.posToVal(left, "x") * 1000, plot.posToVal(left + width, "x") * 1000];
  plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  read();
}

function markRestarts(plot) {
  plot.ctx.fillStyle = "#8a8f98aa";
  for (const at of shown.restarts) {
    const x = Math.round(plot.valToPos(at / 1000, "x", true));
    if (x >= plot.bbox.left && x <= plot.bbox.left + plot.bbox.width) plot.ctx.fillRect(x - 1, plot.bbox.top, 3, plot.bbox.height);
  }
}

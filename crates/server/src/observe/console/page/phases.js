// The phases of an operation: their layers and their colours. A layer has one of four hues that people with any kind of colour blindness
// tell apart (after Okabe and Ito), and its phases are shades of it; names stand at the pointer and beside every bar of a waterfall.

import { element, tip, time } from "./show.js";

const layers = {
  wire: ["read", "decode", "auth", "encode", "send"],
  query: ["plan", "lock_wait", "execute", "match", "project", "sort", "group", "splice", "key_gen"],
  engine: ["engine_read", "engine_scan", "engine_write", "stall"],
  journal: ["commit_wait", "journal_append", "sync_wait"],
};
const hues = { wire: [202, 75], query: [164, 80], engine: [41, 90], journal: [26, 92] };

export function color(phase) {
  for (const [layer, phases] of Object.entries(layers)) {
    const place = phases.indexOf(phase);
    const [hue, strength] = hues[layer];
    if (place >= 0) return `hsl(${hue} ${strength}% ${32 + 34 * place / Math.max(1, phases.length - 1)}%)`;
  }
  return "#8a8f98";
}

export function legend(phases) {
  const box = phase => {
    const made = element("i");
    made.style.background = color(phase);
    return made;
  };
  const group = (name, list) => {
    const shown = element("span");
    shown.append(element("b", name), ...list.flatMap(phase => [box(phase), phase]));
    return shown;
  };
  const known = Object.entries(layers).map(([name, list]) => group(name, list.filter(phase => phases.includes(phase))));
  return [...known, group("", ["unattributed"])];
}

// The phases of many operations as one bar.
export function stack(phases, order) {
  const bar = element("div", undefined, "stack"), wall = phases.wall.totalMicros;
  for (const phase of order) {
    if (!phases[phase]) continue;
    const part = element("i"), share = 100 * phases[phase].totalMicros / wall;
    part.style.width = `${share}%`;
    part.style.background = color(phase);
    tip(part, `${phase}: ${share.toFixed(1)} %, p50 ${time(phases[phase].p50Micros)}, p99 ${time(phases[phase].p99Micros)}`);
    bar.append(part);
  }
  return bar;
}

// The phases of one operation, one below the other.
export function waterfall(operation, order) {
  const lines = element("div", undefined, "waterfall");
  let start = 0;
  for (const phase of order) {
    const micros = phase === "unattributed" ? operation.unattributedMicros : operation.phases[phase];
    if (micros === undefined) continue;
    const line = element("div"), track = element("u"), part = element("i");
    part.style.left = `${100 * start / operation.micros}%`;
    part.style.width = `${100 * micros / operation.micros}%`;
    part.style.background = color(phase);
    start += micros;
    track.append(part);
    line.append(element("b", phase), track, element("em", time(micros)));
    lines.append(line);
  }
  return lines;
}

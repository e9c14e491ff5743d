// The page: its views, its clock and its keys. Each view has `start()`, which is called once, and may have `show(data)`, which is called
// with the figures of every second, and `open()`, which is called when it comes into view.

import * as server from "./server.js";
import { get, startTips } from "./show.js";
import * as overview from "./overview.js";
import * as history from "./history.js";
import * as operations from "./operations.js";
import * as collections from "./collections.js";
import * as adviser from "./adviser.js";
import * as data from "./data.js";

const views = { overview, history, operations, collections, adviser, data };
const page = { isPaused: false, view: "overview", before: undefined };

// What `timing.json` and serverStatus said, with the answers of the second before.
async function look() {
  try {
    const [timing, status] = await Promise.all([server.timing(), server.command({ serverStatus: 1, $db: "admin" })]);
    const now = { timing, status, at: performance.now() };
    const seconds = page.before ? (now.at - page.before.at) / 1e3 : 1;
    tell(timing.enabled ? "" : "timing is switched off", false);
    for (const view of Object.values(views)) view.show?.({ now, before: page.before, seconds });
    views[page.view].tick?.();
    page.before = now;
  } catch (error) {
    tell(`no answer: ${error.message}`, true);
  }
}

function tell(text, isBad) {
  get("state").textContent = text;
  get("state").className = isBad ? "bad" : "dim";
}

async function clock() {
  if (!page.isPaused && !document.hidden) await look();
  setTimeout(clock, 1000);
}

function pause() {
  page.isPaused = !page.isPaused;
  get("pause").textContent = page.isPaused ? "Go on" : "Pause";
  get("pause").setAttribute("aria-pressed", page.isPaused);
  if (page.isPaused) tell("paused", false);
}

export const isPaused = () => page.isPaused;

function open(name) {
  page.view = Object.hasOwn(views, name) ? name : "overview";
  for (const section of document.querySelectorAll("section")) section.hidden = section.dataset.view !== page.view;
  for (const tab of document.querySelectorAll("nav a")) tab.setAttribute("aria-selected", tab.dataset.view === page.view);
  views[page.view].open?.(location.hash.split("/").slice(1).map(decodeURIComponent));
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
  const tabs = [...document.querySelectorAll("nav a")];
  if (tabs[event.key - 1]) tabs[event.key - 1].click();
  else if (event.key === "p") pause();
  else if (event.key === "/") {
    const field = document.querySelector("section:not([hidden]) input:not([type=checkbox])");
    if (!field) return;
    event.preventDefault();
    field.focus();
  }
}

for (const view of Object.values(views)) view.start();
get("pause").onclick = pause;
addEventListener("hashchange", () => open(location.hash.slice(1).split("/")[0]));
addEventListener("keydown", press);
startTips();
open(location.hash.slice(1).split("/")[0]);
clock();

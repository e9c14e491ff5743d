// The list of known differences, differs.txt. How it is written stands at its head.
import { readFileSync, writeFileSync } from "node:fs";

const FILE = new URL("differs.txt", import.meta.url);
const HEADING = /^\[(.+)\] (.+)$/;

/** Where a difference stands that nobody has judged. */
export const UNJUDGED = "not judged";

/** The groups: `{name, right, reason, rule, cases}`, of which `cases` are the names of cases, `rule` an optional name of a rule. */
export function readDifferences() {
  return parseDifferences(readFileSync(FILE, "utf8"));
}

export function parseDifferences(text) {
  const groups = [];
  let [file, request] = [];
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const heading = HEADING.exec(line);
    const group = groups.at(-1);
    if (heading) groups.push({ name: heading[1], right: heading[2], reason: [], cases: [] });
    else if (line.startsWith("| ")) group.reason.push(line.slice(2));
    else if (line.startsWith("rule ")) group.rule = line.slice(5);
    else if (line.startsWith("    ")) group.cases.push([file, request, line.slice(4)].join(" | "));
    else if (line.startsWith("  ")) request = line.slice(2);
    else file = line;
  }
  return groups;
}

/** Writes the list anew: listed cases that `differ` stay where they are, others go, and new ones are to be judged. */
export function writeDifferences(differ) {
  const head = readFileSync(FILE, "utf8").split("\n").filter((line) => line.startsWith("#"));
  const groups = readDifferences().filter(({ name }) => name !== UNJUDGED);
  const listed = new Set(groups.flatMap(({ cases }) => cases));
  const unjudged = [...differ].filter((name) => !listed.has(name));
  if (unjudged.length > 0) groups.push({ name: UNJUDGED, right: "?", reason: [], cases: unjudged });
  const texts = groups.map((group) => shownGroup({ ...group, cases: group.cases.filter((name) => differ.has(name)) }));
  writeFileSync(FILE, `${[head.join("\n"), ...texts].join("\n\n")}\n`);
}

function shownGroup({ name, right, reason, rule, cases }) {
  const lines = [`[${name}] ${right}`, ...reason.map((line) => `| ${line}`)];
  if (rule !== undefined) lines.push(`rule ${rule}`);
  let [lastFile, lastRequest] = [];
  for (const one of cases) {
    const [file, request, ...input] = one.split(" | ");
    if (file !== lastFile) lines.push(file);
    if (file !== lastFile || request !== lastRequest) lines.push(`  ${request}`);
    lines.push(`    ${input.join(" | ")}`);
    [lastFile, lastRequest] = [file, request];
  }
  return lines.join("\n");
}

// The cases of the scripts in crates/query/tests, with the requests, contexts and results that the Rust tests hold
// Quarry to. What a verb means stands at the head of `*_scripts.rs` there.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const SCRIPTS = fileURLToPath(new URL("../../../crates/query/tests/", import.meta.url));
const FOLDERS = ["scripts", "pipeline_scripts", "find_scripts"];

/**
 * All cases: `{name, file, verb, request, input, result, collation, let, foreign, documents}`, each but `foreign` a text. An
 * `input` that is absent means that the result is the request's own, a refusal for example.
 */
export function allCases() {
  const cases = [];
  for (const folder of FOLDERS) {
    for (const file of readdirSync(join(SCRIPTS, folder)).sort()) {
      cases.push(...casesOf(`${folder}/${file}`, readFileSync(join(SCRIPTS, folder, file), "utf8")));
    }
  }
  const seen = new Map();
  for (const one of cases) {
    const name = [one.file, one.line, ...(one.input === undefined ? [] : [one.input])].join(" | ");
    const times = (seen.get(name) ?? 0) + 1;
    seen.set(name, times);
    one.name = times === 1 ? name : `${name} | again ${times}`;
  }
  return cases;
}

function casesOf(file, script) {
  const cases = [];
  let context = { foreign: {} };
  let current;
  for (const line of script.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const [before, result] = splitOnce(line, " => ");
    if (line.startsWith("=> ")) {
      if (current) cases.push({ file, ...context, ...current, result: line.slice(3) });
    } else if (/^[{[]/.test(line)) {
      cases.push({ file, ...context, ...current, input: before, result });
      if (current.verb === "write" || current.verb === "modify") context = { ...context, documents: left(result) ?? context.documents };
    } else {
      const [verb, request] = splitOnce(before, " ");
      current = { line: before, verb: verb.replace(/!$/, ""), request };
      context = changed(context, current);
    }
  }
  return cases;
}

/** The context of the requests below one that sets something. */
function changed(context, { verb, request }) {
  switch (verb) {
    case "collation":
    case "documents":
      return { ...context, [verb]: request };
    case "let":
      // It begins anew, as the Rust test does: without the collation.
      return { ...context, let: request, collation: undefined };
    case "foreign": {
      const [name, documents] = splitOnce(request, " ");
      return { ...context, foreign: { ...context.foreign, [name]: documents } };
    }
    default:
      return context;
  }
}

/** The documents that are there after a write. */
function left(result) {
  return result.startsWith("error") ? undefined : splitOnce(result, " of ")[1];
}

export function splitOnce(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + mark.length)];
}

// The operators that a request names, and whether mingo has them.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { LeftOut } from "./plain.mjs";

const require = createRequire(process.env.QUARRY_NODE_MODULES + "/");
const HAVING = ["accumulator", "expression", "pipeline", "projection", "query", "update", "window"];
const LANGUAGE = new URL("../../../docs/language.md", import.meta.url);

/** The operators of mingo, whatever they are for. */
const THEIRS = new Set(HAVING.flatMap((kind) => Object.keys(require(`mingo/operators/${kind}`))));

// It stands for a validator that mingo's caller has to bring.
THEIRS.delete("$jsonSchema");

/** What the page of the language says is served. */
const OURS = new Set(served(readFileSync(LANGUAGE, "utf8")));

function served(page) {
  const lines = page.split("\n").filter((line) => line.startsWith("**Served**"));
  return lines.flatMap((line) => [...line.matchAll(/`(\$\w+)`/g)].map(([, name]) => name));
}

/** Operators that answer by chance. */
const RANDOM = new Set(["$rand", "$sample", "$sampleRate"]);

/** Operators whose result tells of which type a number is, or how many bytes a document has. */
const TELLS_TYPES = new Set(["$type", "$bsonSize", "$toHashedIndexKey", "$convert", "$bit", "$bitAnd", "$bitOr", "$bitXor", "$bitNot", "$isNumber"]);

/** Leaves a case out whose request names what mingo has not, or what tells types that JavaScript does not. */
export function checkOperators(value, facts) {
  const names = new Set();
  collect(value, names);
  for (const name of names) {
    if (RANDOM.has(name)) throw new LeftOut("not the same twice");
    if (OURS.has(name) && !THEIRS.has(name)) throw new LeftOut("no such operator");
  }
  if (facts.oddNumbers && [...names].some((name) => TELLS_TYPES.has(name))) throw new LeftOut("number type");
}

function collect(value, names) {
  if (Array.isArray(value)) value.forEach((item) => collect(item, names));
  else if (value !== null && typeof value === "object" && Object.getPrototypeOf(value) === Object.prototype) {
    for (const [name, item] of Object.entries(value)) {
      if (name.startsWith("$")) names.add(name);
      if (name === "$regexFindAll" && neverEnds(item?.regex)) throw new LeftOut("without end");
      collect(item, names);
    }
  }
}

/** mingo searches again where an empty match was found. An expression that the document holds is not looked at. */
function neverEnds(regex) {
  return typeof regex === "string" || regex instanceof RegExp ? /^\$/.test(regex) || new RegExp(regex).test("") : false;
}

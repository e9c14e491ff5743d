// BSON's values as those of JavaScript that mingo works on, the rules by which a case is left out because they are not the
// same, and the equality of results.
import { Fields, Other, bson } from "./notation.mjs";

const { BSONRegExp, Double, Int32, Long, ObjectId, Timestamp } = bson;

/** Thrown for a value that JavaScript does not have: the case is left out by the rule that is named. */
export class LeftOut extends Error {
  constructor(rule) {
    super(rule);
    this.rule = rule;
  }
}

/** The rules by which cases are left out, and what each is for. */
export const RULES = {
  "bson value": "a value of BSON that JavaScript has not: Decimal128, an Int64 beyond 2^53, Timestamp, Binary, Symbol, Undefined, MinKey, MaxKey, code, a date beyond JavaScript's",
  "number type": "an operator that tells types of numbers (or sizes of documents), or values too large for an Int32, where a number is not the type that its value would have in JavaScript",
  "equal names": "a document with one name twice",
  "names of digits": "a name of digits behind another name: JavaScript moves it to the front",
  "regular expression": "a regular expression with what JavaScript's have not",
  "collation": "strings compared by a collation: mingo has one for sorting alone",
  "not the same twice": "a result that is not the same twice: random numbers, new ids, a date of now",
  "no such thing": "plans, indexes, hints, bounds by keys, distinct values, upserts, replacements: mingo has none of these",
  "no such operator": "an operator that docs/language.md lists as served and mingo has not",
  "without end": "`$regexFindAll` of an expression that matches the empty string (or that the document holds), `$bucketAuto` with a granularity over what is refused: mingo never ends",
  "position": "an update or projection by position of a document that the filter does not find",
  "alters nothing": "requests that only set the context of others",
};

/** A value as mingo takes it. `facts.oddNumbers` is set by numbers whose type their value does not tell. */
export function plain(value, facts) {
  if (value === null || typeof value === "string" || typeof value === "boolean" || value instanceof Date || value instanceof ObjectId) return value;
  if (Array.isArray(value)) return value.map((item) => plain(item, facts));
  if (value instanceof Fields) return plainDocument(value, facts);
  if (value instanceof Int32) return value.valueOf();
  if (value instanceof Double) {
    const number = value.valueOf();
    if (Number.isInteger(number)) facts.oddNumbers = true;
    return number;
  }
  if (value instanceof Long && !(value instanceof Timestamp)) {
    const number = value.toNumber();
    if (!Number.isSafeInteger(number)) throw new LeftOut("bson value");
    if (number === (number | 0)) facts.oddNumbers = true;
    return number;
  }
  if (value instanceof BSONRegExp) return plainRegex(value);
  if (value instanceof Other && /new|now/.test(value.name)) throw new LeftOut("not the same twice");
  throw new LeftOut("bson value");
}

function plainDocument(fields, facts) {
  const out = {};
  let isFirst = true;
  for (const [name, value] of fields.list) {
    if (Object.hasOwn(out, name)) throw new LeftOut("equal names");
    if (/^(0|[1-9]\d*)$/.test(name) && !isFirst) {
      const last = Object.keys(out).at(-1);
      if (!/^\d+$/.test(last) || Number(last) > Number(name)) throw new LeftOut("names of digits");
    }
    isFirst = false;
    out[name] = plain(value, facts);
  }
  return out;
}

function plainRegex({ pattern, options }) {
  const readable = !/[xs]/.test(options) && !/\(\?[^:=!<]|\\[AZzQEGKhHRX]|\[\[:|\(\?<[=!]|[*+?}]\+|\\p/.test(pattern);
  if (!readable) throw new LeftOut("regular expression");
  try {
    return new RegExp(pattern, options);
  } catch {
    throw new LeftOut("regular expression");
  }
}

/** Doubles agree when they differ in their last digits alone: sines and their kin are not the same in every library. */
const RELATIVE_ERROR_MAX = 1e-14;

function equalNumbers(a, b) {
  return a === b || (Number.isNaN(a) && Number.isNaN(b)) || Math.abs(a - b) <= RELATIVE_ERROR_MAX * Math.max(Math.abs(a), Math.abs(b));
}

/** Whether two results are the same, their fields in the same order. */
export function equal(a, b) {
  if (typeof a === "number" && typeof b === "number") return equalNumbers(a, b);
  if (a instanceof Date || b instanceof Date) return a instanceof Date && b instanceof Date && a.getTime() === b.getTime();
  if (a instanceof ObjectId || b instanceof ObjectId) return a instanceof ObjectId && b instanceof ObjectId && a.equals(b);
  if (a instanceof RegExp || b instanceof RegExp) return a instanceof RegExp && b instanceof RegExp && String(a) === String(b);
  if (Array.isArray(a) || Array.isArray(b)) return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, i) => equal(item, b[i]));
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return a === b;
  const [left, right] = [Object.entries(a), Object.entries(b)];
  return left.length === right.length && left.every(([name, value], i) => name === right[i][0] && equal(value, right[i][1]));
}

/** A result with the fields of all its documents in the order of their names. */
export function ordered(value) {
  if (Array.isArray(value)) return value.map(ordered);
  if (value === null || typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.keys(value).sort().map((name) => [name, ordered(value[name])]));
}

/** A result as a client would be sent it: a field without a value is not there, an element without one is null. */
export function sent(value) {
  if (Array.isArray(value)) return Array.from(value, (item) => (item === undefined ? null : sent(item)));
  if (value === null || typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return value;
  const kept = Object.entries(value).filter(([, item]) => item !== undefined);
  return Object.fromEntries(kept.map(([name, item]) => [name, sent(item)]));
}

// Reads the notation of the scripts in crates/query/tests: Extended JSON as far as a text is strictly that, else the
// shell's, and what the scripts print as results. A value keeps its BSON type: numbers are the classes of the package
// `bson`, documents are `Fields` (names may come twice, and names of digits stay where they are).
import { createRequire } from "node:module";

const require = createRequire(process.env.QUARRY_NODE_MODULES + "/");
const bson = require("bson");
const { BSONRegExp, BSONSymbol, Binary, Code, Decimal128, Double, Int32, Long, MaxKey, MinKey, ObjectId, Timestamp, UUID } = bson;

/** A document: its fields in order, as they stand. */
export class Fields {
  constructor(list = []) {
    this.list = list;
  }

  get(name) {
    return this.list.find(([key]) => key === name)?.[1];
  }
}

/** Values of BSON that have neither a class in `bson` nor one in JavaScript. */
export class Other {
  constructor(name) {
    this.name = name;
  }
}

export class NotationError extends Error {}

/** The notations, from the narrowest: strict Extended JSON, the shell's, and that of the pipeline scripts' results. */
const STRICT = 0;
const SHELL = 1;
const SHOWN = 2;

const ISO_DATE = /^-?\d{4,6}-\d\d(-\d\d(T\d\d(:\d\d(:\d\d(\.\d{1,9})?)?)?(Z|[+-]\d\d:?\d\d)?)?)?$/;

class Reader {
  constructor(text, notation) {
    this.text = text;
    this.notation = notation;
    this.at = 0;
  }

  fail(wanted) {
    throw new NotationError(`${wanted} expected at ${this.at} of ${this.text}`);
  }

  space() {
    while (/\s/.test(this.text[this.at] ?? "")) this.at += 1;
  }

  next(mark) {
    this.space();
    if (!this.text.startsWith(mark, this.at)) return false;
    this.at += mark.length;
    return true;
  }

  expect(mark) {
    if (!this.next(mark)) this.fail(`\`${mark}\``);
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found?.[0];
  }

  value() {
    this.space();
    const first = this.text[this.at];
    if (first === "{") return this.document();
    if (first === "[") return this.array();
    if (first === '"' || (first === "'" && this.notation !== STRICT)) return this.string();
    const number = this.match(/-?\d+(\.\d*)?([eE][+-]?\d+)?/y);
    if (number !== undefined) return numberOf(number);
    if (this.match(/true\b/y)) return true;
    if (this.match(/false\b/y)) return false;
    if (this.match(/null\b/y)) return null;
    if (this.notation === STRICT) this.fail("a value");
    return this.shellValue();
  }

  string() {
    const quote = this.text[this.at];
    let out = "";
    this.at += 1;
    while (this.text[this.at] !== quote) {
      const c = this.text[this.at];
      if (c === undefined) this.fail("a closing quote");
      this.at += 1;
      out += c === "\\" ? this.escaped() : c;
    }
    this.at += 1;
    return out;
  }

  escaped() {
    const c = this.text[this.at];
    this.at += 1;
    if (c === "u" || c === "x") {
      const length = c === "u" ? 4 : 2;
      const digits = this.text.slice(this.at, this.at + length);
      this.at += length;
      return String.fromCharCode(parseInt(digits, 16));
    }
    return { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", 0: "\0" }[c] ?? c;
  }

  array() {
    this.expect("[");
    const values = [];
    while (!this.next("]")) {
      if (values.length > 0) this.expect(",");
      if (this.notation !== STRICT && this.next("]")) break;
      values.push(this.value());
    }
    return values;
  }

  document() {
    this.expect("{");
    const list = [];
    while (!this.next("}")) {
      if (list.length > 0) this.expect(",");
      if (this.notation === SHELL && this.next("}")) break;
      list.push([this.name(), this.value()]);
    }
    // Results of pipelines show documents alone; their values are written as the shell does.
    return this.notation === SHOWN ? new Fields(list) : special(new Fields(list), this.notation === SHELL);
  }

  name() {
    this.space();
    let name;
    const isQuoted = this.text[this.at] === '"' || (this.notation !== STRICT && this.text[this.at] === "'");
    if (this.notation === SHOWN) {
      name = this.match(/[^:]*(?=: )/y);
    } else if (isQuoted) {
      name = this.string();
    } else if (this.notation === SHELL) {
      name = this.match(/[\w$.]+/y);
    }
    if (name === undefined) this.fail("a name");
    this.expect(":");
    return name;
  }

  shellValue() {
    if (this.text[this.at] === "/") return this.slashedRegex();
    if (this.match(/-Infinity\b/y)) return new Double(-Infinity);
    if (this.match(/-?NaN\b/y)) return new Double(NaN);
    if (this.match(/-?inf\b/y)) return new Double(this.text[this.at - 4] === "-" ? -Infinity : Infinity);
    this.match(/new\s+/y);
    const word = this.match(/[A-Za-z_][\w.]*/y);
    if (word === undefined) this.fail("a value");
    const plain = { undefined: new Other("undefined"), Infinity: new Double(Infinity), MinKey: new MinKey(), MaxKey: new MaxKey() }[word];
    if (plain !== undefined) {
      if (this.next("(")) this.expect(")");
      return plain;
    }
    this.expect("(");
    const bare = this.notation === SHOWN ? this.match(/[-+\w.]+(?=\))/y) : undefined;
    const args = bare === undefined ? [] : [bare];
    while (!this.next(")")) {
      if (args.length > 0) this.expect(",");
      args.push(this.value());
    }
    return this.construct(word, args);
  }

  construct(word, args) {
    const whole = (value) => BigInt(typeof value === "string" ? value : value.toString());
    switch (word) {
      case "ObjectId":
        return args.length === 0 ? new Other("a new ObjectId") : new ObjectId(args[0]);
      case "ISODate":
      case "Date":
        if (args.length === 0) return new Other("the date of now");
        return typeof args[0] === "string" ? this.isoDate(args[0]) : new Date(Number(args[0].toString()));
      case "NumberLong":
      case "Long":
        return Long.fromBigInt(whole(args[0]));
      case "NumberInt":
      case "Int32":
        return new Int32(Number(whole(args[0])));
      case "NumberDecimal":
      case "Decimal128":
        return Decimal128.fromString(args[0].toString());
      case "Timestamp":
        return args[0] instanceof Fields
          ? new Timestamp({ t: Number(args[0].get("t")), i: Number(args[0].get("i")) })
          : new Timestamp({ t: Number(args[0]), i: Number(args[1]) });
      case "BinData":
        return new Binary(Buffer.from(args[1], "base64"), Number(args[0]));
      case "Binary.createFromBase64":
        return new Binary(Buffer.from(args[0], "base64"), Number(args[1]));
      case "UUID":
        return new UUID(args[0]);
      case "MD5":
        return new Binary(Buffer.from(args[0], "hex"), 5);
      case "RegExp":
        return new BSONRegExp(args[0], args[1] ?? "");
      case "Boolean":
        return args[0];
      case "BSONSymbol":
        return new BSONSymbol(args[0]);
      case "Code":
        return new Code(args[0]);
      case "DBRef":
      case "Dbref":
        return new Fields([["$ref", args[0]], ["$id", args[1]]]);
      case "DBPointer":
        return new Other("DBPointer");
      default:
        return this.fail(`no constructor \`${word}\``);
    }
  }

  isoDate(text) {
    if (!ISO_DATE.test(text)) this.fail("a date");
    const ms = Date.parse(/^\d{5,}/.test(text) ? `+${text.padStart(text.length + 6 - text.indexOf("-"), "0")}` : text);
    return Number.isNaN(ms) ? new Other("a date that JavaScript has not") : new Date(ms);
  }

  slashedRegex() {
    this.at += 1;
    const pattern = this.match(/(\\[^]|[^\\/])*/y);
    this.expect("/");
    return new BSONRegExp(pattern, this.match(/[a-z]*/y));
  }
}

/** Whole numbers are Int32 or Int64 as far as they reach. */
function numberOf(text) {
  if (/[.eE]/.test(text)) return new Double(Number(text));
  const whole = BigInt(text);
  if (BigInt.asIntN(32, whole) === whole) return text.startsWith("-0") ? new Double(-0) : new Int32(Number(whole));
  return BigInt.asIntN(64, whole) === whole ? Long.fromBigInt(whole) : new Double(Number(text));
}

const isText = (value) => typeof value === "string";
const isNumber = (value) => value instanceof Int32 || value instanceof Double || value instanceof Long;

/** The value that a document such as `{"$oid": ..}` stands for, or the document itself. */
function special(fields, isShell) {
  const [name, content] = fields.list[0] ?? [];
  const isAlone = fields.list.length === 1;
  const ok = (condition) => {
    if (!condition) throw new NotationError(`not Extended JSON: ${name}`);
    return true;
  };
  switch (name) {
    case "$oid":
      return ok(isAlone && isText(content)) && new ObjectId(content);
    case "$symbol":
      return ok(isAlone && isText(content)) && new BSONSymbol(content);
    case "$numberInt":
    case "$numberLong":
    case "$numberDouble":
    case "$numberDecimal":
      return ok(isAlone && (isText(content) || (isShell && isNumber(content)))) && numberNamed(name, content.toString());
    case "$binary":
      if (isText(content)) return ok(isAlone || isText(fields.get("$type"))) && new Binary(Buffer.from(content, "base64"), parseInt(fields.get("$type") ?? "0", 16));
      return ok(isAlone && content instanceof Fields) && new Binary(Buffer.from(content.get("base64"), "base64"), parseInt(content.get("subType"), 16));
    case "$uuid":
      return ok(isAlone) && new UUID(content);
    case "$code":
      return new Code(content);
    case "$timestamp":
      return ok(isAlone) && new Timestamp({ t: Number(content.get("t")), i: Number(content.get("i")) });
    case "$regularExpression":
      return ok(isAlone) && new BSONRegExp(content.get("pattern"), content.get("options"));
    case "$regex":
    case "$options":
      if (!isShell || !isText(fields.get("$regex"))) return fields;
      return ok(fields.list.every(([key]) => key === "$regex" || key === "$options")) && new BSONRegExp(fields.get("$regex"), fields.get("$options") ?? "");
    case "$dbPointer":
      return new Other("DBPointer");
    case "$date":
      return ok(isAlone) && dateOf(content, isShell);
    case "$minKey":
      return ok(isAlone && Number(content) === 1) && new MinKey();
    case "$maxKey":
      return ok(isAlone && Number(content) === 1) && new MaxKey();
    case "$undefined":
      return ok(isAlone && content === true) && new Other("undefined");
    default:
      return fields;
  }
}

function numberNamed(name, text) {
  switch (name) {
    case "$numberInt":
      return new Int32(Number(text));
    case "$numberLong":
      return Long.fromBigInt(BigInt(text));
    case "$numberDecimal":
      return Decimal128.fromString(text);
    default:
      return new Double(Number(text));
  }
}

function dateOf(content, isShell) {
  if (isText(content)) return new Reader("", SHELL).isoDate(content);
  if (!(content instanceof Long || (isShell && isNumber(content)))) throw new NotationError("not Extended JSON: $date");
  const date = new Date(Number(content.toString()));
  return Number.isNaN(date.getTime()) ? new Other("a date that JavaScript has not") : date;
}

function whole(text, notation, read) {
  const reader = new Reader(text, notation);
  const result = read(reader);
  reader.space();
  if (reader.at < text.length) reader.fail("the end");
  return result;
}

/** A request's or an input's value: strict Extended JSON where it can be read so, the shell's notation otherwise. */
export function parse(text) {
  return parseEach([text])[0];
}

/** Texts that the scripts' runner reads as one: all strict, or all in the shell's notation. */
export function parseEach(texts) {
  const all = (notation) => texts.map((text) => whole(text, notation, (reader) => reader.value()));
  try {
    return all(STRICT);
  } catch (error) {
    if (!(error instanceof NotationError)) throw error;
    return all(SHELL);
  }
}

/** A value as the pipeline scripts show it. */
export function parseShown(text) {
  return whole(text, SHOWN, (reader) => reader.value());
}

/** Documents that stand beside each other, as the scripts of sorts show them. */
export function parseRow(text) {
  return whole(text, STRICT, (reader) => {
    const values = [];
    for (reader.space(); reader.at < text.length; reader.space()) values.push(reader.value());
    return values;
  });
}

export { bson };

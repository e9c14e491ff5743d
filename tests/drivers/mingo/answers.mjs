// What mingo answers to a case of the scripts, and what the script says, both as values of JavaScript.
import { createRequire } from "node:module";
import { parse, parseEach, parseRow, parseShown } from "./notation.mjs";
import { equal, LeftOut, plain, sent } from "./plain.mjs";
import { checkOperators } from "./operators.mjs";
import { splitOnce } from "./scripts.mjs";

const require = createRequire(process.env.QUARRY_NODE_MODULES + "/");
const mingo = require("mingo");
const { Context, evalExpr } = require("mingo/core");

/** 2024-01-02T03:04:05.678Z, the scripts' now. mingo asks nobody else. */
const NOW_MS = 1704164645678;
Date.now = () => NOW_MS;

/** What an expression without a value has as result. */
const MISSING = "nothing at all";

const context = Context.init({
  accumulator: require("mingo/operators/accumulator"),
  expression: require("mingo/operators/expression"),
  pipeline: require("mingo/operators/pipeline"),
  projection: require("mingo/operators/projection"),
  query: require("mingo/operators/query"),
  window: require("mingo/operators/window"),
});
const OPTIONS = { context, processingMode: mingo.ProcessingMode.CLONE_ALL };

/** Each verb's answer: mingo's, and what the script's result says. */
const VERBS = { match: matched, validate: matched, update: updated, project: projected, sort: sorted, eval: evaluated, run: ran, find: found, count: counted, write: written, modify: modified };

/**
 * How a case ends: `{kind: "agrees" | "refused" | "lax" | "left out" | "differs", rule?, ours?, theirs?}`. `ours` is what the script says.
 */
export function judge(one) {
  try {
    const isRefused = one.result.startsWith("error ");
    const [theirs, ours, isEqual = equal] = answer(one, isRefused);
    if (theirs instanceof Error) return isRefused ? { kind: "refused" } : { kind: "differs", ours, theirs: `refuses: ${theirs.message}` };
    if (isRefused) return { kind: "lax" };
    return isEqual(ours, theirs) ? { kind: "agrees" } : { kind: "differs", ours, theirs };
  } catch (error) {
    if (error instanceof LeftOut) return { kind: "left out", rule: error.rule };
    throw error;
  }
}

function answer(one, isRefused) {
  if (["let", "documents", "collation"].includes(one.verb)) throw new LeftOut("alters nothing");
  const verb = VERBS[one.verb];
  if (verb === undefined) throw new LeftOut("no such thing");
  if (one.collation !== undefined) throw new LeftOut("collation");
  return verb(one, isRefused, { oddNumbers: false });
}

/** mingo's result, or its refusal. */
function attempt(work) {
  try {
    return sent(work());
  } catch (error) {
    if (error instanceof LeftOut) throw error;
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** The values of texts that belong together, as mingo takes them, with the rules held against them. */
function values(one, facts, ...texts) {
  const present = texts.filter((text) => text !== undefined);
  const read = parseEach(present).map((value) => plain(value, facts));
  for (const value of read) checkOperators(value, facts);
  return texts.map((text) => (text === undefined ? undefined : read.shift()));
}

/** An input, which holds no operators. A refused request has none: it is tried with an empty document. */
function input(one, facts, otherwise) {
  return one.input === undefined ? otherwise : plain(parse(one.input), facts);
}

function checked(facts, request) {
  checkOperators(request, facts);
}

function matched(one, isRefused, facts) {
  const filter = plain(parse(one.request), facts);
  const document = input(one, facts, {});
  checked(facts, filter);
  const theirs = attempt(() => new mingo.Query(filter, OPTIONS).test(document));
  return [theirs, /^(yes|ok)/.test(one.result)];
}

/** The parts of `REQUEST where FILTER with FILTERS`. */
function parts(one, facts) {
  const [before, filters] = splitOnce(one.request, " with ");
  const [request, filter] = splitOnce(before, " where ");
  const [asked, arrayFilters] = parseEach([request, filters ?? "null"]).map((value) => plain(value, facts));
  return [asked, arrayFilters ?? undefined, filter === undefined ? undefined : plain(parse(filter), facts)];
}

function updated(one, isRefused, facts) {
  const [update, arrayFilters, filter] = parts(one, facts);
  const document = input(one, facts, {});
  const ours = isRefused ? undefined : one.result === "same" ? document : plain(parse(one.result), facts);
  checkUpdate(update);
  checked(facts, [update, arrayFilters, filter]);
  const theirs = attempt(() => {
    const documents = [structuredCloned(document)];
    if (filter && !new mingo.Query(filter, OPTIONS).test(document)) throw new LeftOut("position");
    mingo.updateOne(documents, filter ?? {}, update, { arrayFilters, cloneMode: "deep" }, OPTIONS);
    return documents[0];
  });
  return [theirs, ours];
}

function checkUpdate(update) {
  const isReplacement = !Array.isArray(update) && !Object.keys(update ?? {}).some((name) => name.startsWith("$"));
  if (isReplacement) throw new LeftOut("no such thing");
}

/** A copy of plain values; those of classes are shared, for nobody changes them. */
function structuredCloned(value) {
  if (Array.isArray(value)) return value.map(structuredCloned);
  if (value === null || typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, structuredCloned(item)]));
}

function projected(one, isRefused, facts) {
  const [projection, , filter = {}] = parts(one, facts);
  const document = input(one, facts, {});
  const ours = isRefused ? undefined : plain(parse(one.result), facts);
  checked(facts, [projection, filter]);
  const theirs = attempt(() => {
    const found = mingo.find([document], filter, projection, OPTIONS).all();
    if (found.length === 0) throw new LeftOut("position");
    return found[0];
  });
  return [theirs, ours];
}

function sorted(one, isRefused, facts) {
  const pattern = plain(parse(one.request), facts);
  const documents = input(one, facts, [{}, {}]);
  const ours = isRefused ? undefined : parseRow(one.result).map((value) => plain(value, facts));
  checked(facts, pattern);
  return [attempt(() => mingo.find(documents, {}, {}, OPTIONS).sort(pattern).all()), ours];
}

function options(one, facts) {
  const collections = Object.fromEntries(Object.entries(one.foreign).map(([name, text]) => [name, parse(text)]));
  const collectionResolver = (name) => (collections[name] === undefined ? [] : collections[name].map((value) => plain(value, facts)));
  const given = one.let === undefined ? {} : plain(parse(one.let), facts);
  return { ...OPTIONS, collectionResolver, variables: bound(given) };
}

/** The variables of `let`; each sees those before it. */
function bound(given) {
  const variables = {};
  for (const [name, value] of Object.entries(given)) variables[name] = evalExpr({}, value, { ...OPTIONS, variables });
  return variables;
}

function evaluated(one, isRefused, facts) {
  const expression = plain(parse(one.request), facts);
  const document = input(one, facts, {});
  const isMissing = one.result === "MISSING";
  const ours = isRefused || isMissing ? MISSING : plain(parseShown(one.result), facts);
  checked(facts, expression);
  const theirs = attempt(() => {
    const value = evalExpr(document, expression, options(one, facts));
    return value === undefined ? MISSING : value;
  });
  return [theirs, ours];
}

function ran(one, isRefused, facts) {
  const pipeline = plain(parse(one.request), facts);
  const documents = input(one, facts, [{}]);
  const ours = isRefused ? undefined : plain(parseShown(one.result), facts);
  checked(facts, pipeline);
  if (isRefused && pipeline.some((stage) => stage?.$bucketAuto?.granularity !== undefined)) throw new LeftOut("without end");
  return [attempt(() => mingo.aggregate(documents, pipeline, options(one, facts))), ours];
}

/** What a case of the find scripts asks, once it asks nothing that mingo has not. */
function asked(one, facts) {
  const request = plain(parse(one.input), facts);
  const unknown = ["hint", "min", "max", "returnKey", "upsert"].some((name) => request[name] !== undefined);
  if (unknown || request.sort?.$natural !== undefined) throw new LeftOut("no such thing");
  if (request.collation !== undefined) throw new LeftOut("collation");
  checked(facts, request);
  const documents = parse(one.documents).map((document) => plain(document, facts));
  return [request, documents, { ...OPTIONS, variables: bound(request.let ?? {}) }];
}

function select(documents, { filter = {}, projection, sort, skip, limit }, settings) {
  const cursor = mingo.find(documents, filter, projection ?? {}, settings);
  if (sort !== undefined) cursor.sort(sort);
  if (skip !== undefined) cursor.skip(skip);
  if (limit !== undefined) cursor.limit(limit);
  return cursor.all();
}

function found(one, isRefused, facts) {
  const [request, documents, settings] = asked(one, facts);
  const ours = isRefused ? undefined : plain(parse(one.result), facts);
  const isEqual = request.sort === undefined && request.skip === undefined && request.limit === undefined ? equalSets : equal;
  return [attempt(() => select(documents, request, settings)), ours, isEqual];
}

/** Without a sort the order is the plan's. */
function equalSets(a, b) {
  const text = (value) => JSON.stringify(value);
  const by = (x, y) => (text(x) < text(y) ? -1 : 1);
  return equal(a.toSorted(by), b.toSorted(by));
}

function counted(one, isRefused, facts) {
  const [request, documents, settings] = asked(one, facts);
  return [attempt(() => select(documents, request, settings).length), Number(one.result)];
}

function written(one, isRefused, facts) {
  const [request, documents, settings] = asked(one, facts);
  if (request.update !== undefined) checkUpdate(request.update);
  const [said, text] = splitOnce(one.result, " of ");
  const ours = isRefused ? undefined : { said, documents: plain(parse(text), facts) };
  const theirs = attempt(() => {
    if (request.update === undefined) return deleted(documents, request, settings);
    const work = request.multi ? mingo.updateMany : mingo.updateOne;
    const config = { arrayFilters: request.arrayFilters, sort: request.sort, let: { ...settings.variables, ...request.c }, cloneMode: "deep" };
    const { matchedCount, modifiedCount } = work(documents, request.filter ?? {}, request.update, config, settings);
    return { said: `matched ${matchedCount}, modified ${modifiedCount}`, documents };
  });
  return [theirs, ours];
}

function deleted(documents, request, settings) {
  const query = new mingo.Query(request.filter ?? {}, settings);
  const gone = new Set(documents.filter((document) => query.test(document)).slice(0, request.multi ? undefined : 1));
  return { said: `deleted ${gone.size}`, documents: documents.filter((document) => !gone.has(document)) };
}

function modified(one, isRefused, facts) {
  const [request, documents, settings] = asked(one, facts);
  if (request.update !== undefined) checkUpdate(request.update);
  const [said, text] = splitOnce(one.result, " of ");
  const ours = isRefused ? undefined : { value: said === "nothing" ? null : plain(parse(said), facts), documents: plain(parse(text), facts) };
  return [attempt(() => modifiedBy(documents, request, settings)), ours];
}

function modifiedBy(documents, request, settings) {
  const { filter = {}, sort, update, arrayFilters } = request;
  const before = structuredCloned(documents);
  const at = before.indexOf(select(before, { filter, sort, limit: 1 }, { ...settings, processingMode: mingo.ProcessingMode.CLONE_OFF })[0]);
  if (at < 0) return { value: null, documents };
  if (update === undefined) documents.splice(at, 1);
  else mingo.updateOne(documents, filter, update, { arrayFilters, sort, cloneMode: "deep" }, settings);
  const value = request.new ? documents[at] : before[at];
  return { value: mingo.find([value], {}, request.fields ?? {}, settings).all()[0], documents };
}

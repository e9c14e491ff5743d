// Random requests, asked of a server and of mingo. `QUARRY_URI=mongodb://... node --test random.test.mjs`; MINGO_SEED and
// MINGO_CASES (of each kind) choose others than every run has. A case that differs is printed as lines of a script that
// reproduce it.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { Generator } from "./generator.mjs";
import { equal, ordered, sent } from "./plain.mjs";
import { shown } from "./shown.mjs";

const require = createRequire(process.env.QUARRY_NODE_MODULES + "/");
const { MongoClient } = require("mongodb");
const mingo = require("mingo");

const SEED = Number(process.env.MINGO_SEED ?? 20240102);
const CASES = Number(process.env.MINGO_CASES ?? 500);

/** So many requests are asked of one collection before it is made anew. */
const CASES_A_COLLECTION = 25;

/** No more differences than these are printed. */
const SHOWN_MAX = 10;

const OPTIONS = { processingMode: mingo.ProcessingMode.CLONE_ALL };
const client = new MongoClient(process.env.QUARRY_URI, { serverSelectionTimeoutMS: 5000 });
const things = client.db("mingo_tests").collection("things");

before(() => client.connect());
after(async () => {
  await client.db("mingo_tests").dropDatabase();
  await client.close();
});

/** Either side's answer, or `refused`. */
async function outcome(ask) {
  try {
    return { answer: sent(await ask()) };
  } catch (error) {
    return { refused: error.message };
  }
}

/** Whether two lists have the same members, in whatever order: the order of groups is nobody's promise. */
function equalAsSets(a, b) {
  const by = (x, y) => (shown(x) < shown(y) ? -1 : 1);
  return equal([...a].sort(by), [...b].sort(by));
}

/** Both sides' outcomes over documents that are there already. */
async function bothOutcomes(one, documents) {
  return [await outcome(one.ours), await outcome(() => one.theirs(documents))];
}

function isSame(one, [ours, theirs]) {
  if (ours.answer === undefined || theirs.answer === undefined) return ours.refused !== undefined && theirs.refused !== undefined;
  return (one.isSet ? equalAsSets : equal)(ordered(ours.answer), ordered(theirs.answer));
}

/** Asks `CASES` requests; `make` gives `{request, ours, theirs, documents?, isSet?}`, of which `request` is a script's line. */
async function compare(context, kind, make) {
  const generator = new Generator(SEED + kind.length);
  const differing = [];
  let [agreeing, refused, documents] = [0, 0, []];
  for (let number = 0; number < CASES; number += 1) {
    const one = make(generator);
    if (one.documents !== undefined || number % CASES_A_COLLECTION === 0) {
      documents = one.documents ?? generator.documents();
      await fill(documents);
    }
    const outcomes = await bothOutcomes(one, documents);
    if (!isSame(one, outcomes)) {
      differing.push(differing.length < SHOWN_MAX ? await described(one, documents) : one.request);
      await fill(documents);
    } else if (outcomes[0].refused !== undefined) refused += 1;
    else agreeing += 1;
  }
  context.diagnostic(`${kind}: seed ${SEED}, ${CASES} cases, ${agreeing} agree, ${refused} refused by both, ${differing.length} differ`);
  assert.equal(differing.length, 0, `\n${differing.slice(0, SHOWN_MAX).join("\n\n")}\n`);
  assert.ok(agreeing > CASES * 0.9, `only ${agreeing} of ${CASES} have been answered`);
}

async function fill(documents) {
  await things.deleteMany({});
  if (documents.length > 0) await things.insertMany(documents);
}

/** A case as lines of a script, with as few documents and fields as still differ. */
async function described(one, documents) {
  let kept = documents;
  for (const smaller of smallerThan(documents)) {
    const candidate = smaller(kept);
    await fill(candidate);
    if (!isSame(one, await bothOutcomes(one, candidate))) kept = candidate;
  }
  await fill(kept);
  const side = ({ answer, refused: message }) => (message === undefined ? shown(answer) : `refused: ${message}`);
  const [ours, theirs] = (await bothOutcomes(one, kept)).map(side);
  return `${one.request}\n${shown(kept)} => ${ours}\n# mingo: ${theirs}`;
}

/** Ways to make a collection smaller: without a document, without a field. */
function* smallerThan(documents) {
  for (const { _id } of documents) yield (kept) => kept.filter((document) => document._id !== _id);
  const names = new Set(documents.flatMap((document) => Object.keys(document)));
  for (const name of names) if (name !== "_id") yield (kept) => kept.map(({ [name]: _, ...rest }) => rest);
}

/** Runs a pipeline on both sides; everything but updates can be put as one. */
function piped(stages) {
  return {
    request: `run ${shown(stages)}`,
    ours: () => things.aggregate(stages).toArray(),
    theirs: (documents) => mingo.aggregate(documents, stages, { ...OPTIONS, collectionResolver: () => documents }),
    isSet: stages.some((stage) => stage.$group !== undefined || stage.$sortByCount !== undefined),
  };
}

test("filters find the same documents", (context) =>
  compare(context, "filters", (generator) => {
    const filter = generator.filter();
    return {
      request: `run ${shown([{ $match: filter }])}`,
      ours: () => things.find(filter).toArray(),
      theirs: (documents) => mingo.find(documents, filter, {}, OPTIONS).all(),
    };
  }));

test("sorts, skips and limits give the same documents in the same order", (context) =>
  compare(context, "sorts", (generator) => {
    const [sort, skip, limit] = [generator.sort(), generator.random.below(4), 1 + generator.random.below(9)];
    return {
      request: `run ${shown([{ $sort: sort }, { $skip: skip }, { $limit: limit }])}`,
      ours: () => things.find().sort(sort).skip(skip).limit(limit).toArray(),
      theirs: (documents) => mingo.find(documents, {}, {}, OPTIONS).sort(sort).skip(skip).limit(limit).all(),
    };
  }));

test("projections show the same fields", (context) =>
  compare(context, "projections", (generator) => {
    const projection = generator.projection();
    return {
      request: `run ${shown([{ $project: projection }])}`,
      ours: () => things.find({}, { projection }).toArray(),
      theirs: (documents) => mingo.find(documents, {}, projection, OPTIONS).all(),
    };
  }));

test("expressions have the same values", (context) =>
  compare(context, "expressions", (generator) => piped([{ $project: { value: generator.expression(3) } }])));

test("pipelines give the same documents", (context) =>
  compare(context, "pipelines", (generator) => piped(generator.pipeline())));

test("updates leave the same documents", (context) =>
  compare(context, "updates", (generator) => {
    const documents = generator.updatable();
    const [filter, update] = [{ _id: { $in: generator.random.list(1, 5, () => generator.random.below(8)) } }, generator.update()];
    return {
      request: `update ${shown(update)} where ${shown(filter)}`,
      documents,
      ours: async () => {
        const { matchedCount, modifiedCount } = await things.updateMany(filter, update);
        return { matchedCount, modifiedCount, documents: await things.find().toArray() };
      },
      theirs: (before) => {
        const after = structuredClone(before);
        const { matchedCount, modifiedCount } = mingo.updateMany(after, filter, update, { cloneMode: "deep" });
        return { matchedCount, modifiedCount, documents: after };
      },
    };
  }));

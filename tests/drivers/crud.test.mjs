// The Node driver against a running server: `QUARRY_URI=mongodb://... node --test crud.test.mjs`.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { validateDatabase } from "./validation.mjs";

const require = createRequire(process.env.QUARRY_NODE_MODULES + "/");
const { MongoClient, ObjectId, Long, Decimal128 } = require("mongodb");

const client = new MongoClient(process.env.QUARRY_URI, { serverSelectionTimeoutMS: 5000 });
const database = client.db("node_tests");
const things = database.collection("things");

before(() => client.connect());
beforeEach(() => database.dropDatabase());
afterEach(() => validateDatabase(database));
after(async () => {
  await database.dropDatabase();
  await client.close();
});

test("insert, find, update, delete", async () => {
  const { insertedId } = await things.insertOne({ name: "one", tags: ["a", "b"], at: new Date(5) });
  assert.ok(insertedId instanceof ObjectId);
  assert.deepEqual(await things.findOne({ tags: "b" }), { _id: insertedId, name: "one", tags: ["a", "b"], at: new Date(5) });
  const updated = await things.updateOne({ name: "one" }, { $set: { name: "two" }, $push: { tags: "c" } });
  assert.equal(updated.modifiedCount, 1);
  assert.deepEqual((await things.findOne({}, { projection: { _id: 0, tags: 1 } })).tags, ["a", "b", "c"]);
  assert.equal((await things.deleteOne({ _id: insertedId })).deletedCount, 1);
  assert.equal(await things.findOne({ _id: insertedId }), null);
});

test("long and decimal values keep their type", async () => {
  await things.insertOne({ _id: 1, long: Long.fromString("9007199254740993"), decimal: Decimal128.fromString("1.10") });
  const found = await things.findOne({ _id: 1 }, { promoteLongs: false });
  assert.equal(found.long.toString(), "9007199254740993");
  assert.equal(found.decimal.toString(), "1.10");
});

test("cursors walk many batches", async () => {
  await things.insertMany(Array.from({ length: 500 }, (_, i) => ({ _id: i, k: i % 5 })));
  let count = 0;
  for await (const document of things.find({ k: { $lt: 2 } }).sort({ _id: 1 }).batchSize(9)) {
    assert.ok(document.k < 2);
    count += 1;
  }
  assert.equal(count, 200);
  assert.equal(await things.countDocuments({ k: 3 }), 100);
  assert.deepEqual((await things.distinct("k")).sort(), [0, 1, 2, 3, 4]);
});

test("bulk writes report each error", async () => {
  await assert.rejects(things.insertMany([{ _id: 1 }, { _id: 1 }, { _id: 2 }], { ordered: false }), (error) => {
    assert.equal(error.code, 11000);
    assert.equal(error.result.insertedCount, 2);
    return true;
  });
  const result = await things.bulkWrite([
    { updateOne: { filter: { _id: 3 }, update: { $set: { a: 1 } }, upsert: true } },
    { deleteOne: { filter: { _id: 1 } } },
  ]);
  assert.deepEqual([result.upsertedCount, result.deletedCount], [1, 1]);
});

test("find and modify", async () => {
  await things.insertOne({ _id: 1, n: 1 });
  const after = await things.findOneAndUpdate({ _id: 1 }, { $inc: { n: 1 } }, { returnDocument: "after" });
  assert.deepEqual(after, { _id: 1, n: 2 });
});

test("indexes, explain and a unique violation", async () => {
  await things.insertMany(Array.from({ length: 100 }, (_, i) => ({ _id: i, a: i })));
  assert.equal(await things.createIndex({ a: 1 }, { unique: true }), "a_1");
  const plan = await things.find({ a: 7 }).explain("executionStats");
  assert.equal(plan.queryPlanner.winningPlan.inputStage.stage, "IXSCAN");
  assert.equal(plan.executionStats.totalDocsExamined, 1);
  await assert.rejects(things.insertOne({ a: 7 }), { code: 11000 });
  assert.deepEqual((await things.indexes()).map((index) => index.name), ["_id_", "a_1"]);
});

test("aggregation", async () => {
  await things.insertMany([{ k: "a", n: 1 }, { k: "b", n: 2 }, { k: "a", n: 3 }]);
  const groups = await things.aggregate([{ $group: { _id: "$k", n: { $sum: "$n" } } }, { $sort: { _id: 1 } }]).toArray();
  assert.deepEqual(groups, [{ _id: "a", n: 4 }, { _id: "b", n: 2 }]);
});

test("sessions and write concerns", async () => {
  await client.withSession(async (session) => {
    await things.insertOne({ _id: 1 }, { session, writeConcern: { w: "majority", j: true } });
    assert.deepEqual(await things.findOne({ _id: 1 }, { session }), { _id: 1 });
  });
});

test("compression", async () => {
  const packed = new MongoClient(process.env.QUARRY_URI, { compressors: ["snappy", "zlib"] });
  try {
    const collection = packed.db("node_tests").collection("packed");
    await collection.insertMany(Array.from({ length: 50 }, (_, i) => ({ _id: i, s: "compressible ".repeat(50) })));
    assert.equal((await collection.find().toArray()).length, 50);
  } finally {
    await packed.close();
  }
});

test("many operations at once over a pool", async () => {
  await Promise.all(Array.from({ length: 200 }, (_, i) => things.insertOne({ _id: i })));
  assert.equal(await things.estimatedDocumentCount(), 200);
});

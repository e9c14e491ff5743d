// The Node driver against a set of one: `QUARRY_URI=mongodb://... node --test set.test.mjs`.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { validateDatabase } from "./validation.mjs";

const require = createRequire(process.env.QUARRY_NODE_MODULES + "/");
const { MongoClient } = require("mongodb");

const client = new MongoClient(process.env.QUARRY_URI, { replicaSet: "rs0", serverSelectionTimeoutMS: 5000 });
const database = client.db("node_set_tests");

before(() => client.connect());
after(async () => {
  await validateDatabase(database);
  await database.dropDatabase();
  await client.close();
});

test("the driver finds the primary of the set", async () => {
  const hello = await client.db("admin").command({ hello: 1 });
  assert.equal(hello.setName, "rs0");
  assert.equal(hello.me, hello.primary);
});

test("a causally consistent session reads what it wrote", async () => {
  const session = client.startSession({ causalConsistency: true });
  try {
    await database.collection("things").insertOne({ _id: 1 }, { session });
    assert.ok(session.operationTime);
    const found = await database.collection("things").findOne({}, { session, readConcern: { level: "majority" } });
    assert.deepEqual(found, { _id: 1 });
  } finally {
    await session.endSession();
  }
});

test("a direct connection takes reads of any preference", async () => {
  const direct = new MongoClient(process.env.QUARRY_URI, { directConnection: true, readPreference: "secondaryPreferred" });
  try {
    assert.equal((await direct.db("admin").command({ ping: 1 })).ok, 1);
  } finally {
    await direct.close();
  }
});

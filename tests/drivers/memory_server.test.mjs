// The server is started and stopped in a mongod's place: with a storage engine, with access control, as a set of one, on a port in use.
// By mongodb-memory-server-core, unchanged: it calls the binary by a link named `mongod`. `QUARRY=... node --test memory_server.test.mjs`.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, test } from "node:test";
import { validateDatabase } from "./validation.mjs";

const require = createRequire(process.env.QUARRY_NODE_MODULES + "/");
const { MongoClient } = require("mongodb");

const directory = mkdtempSync(join(tmpdir(), "quarry-mongod-"));
const mongod = join(directory, "mongod");
symlinkSync(resolve(process.env.QUARRY), mongod);
after(() => rmSync(directory, { recursive: true }));

// Read when the package is loaded.
process.env.MONGOMS_SYSTEM_BINARY = mongod;
process.env.MONGOMS_VERSION = "8.0.0";
const { MongoMemoryReplSet, MongoMemoryServer } = require("mongodb-memory-server-core");

async function withClient(uri, options, work) {
  const client = new MongoClient(uri, { serverSelectionTimeoutMS: 5000, ...options });
  try {
    const done = await work(client);
    await validateDatabase(client.db("shop"));
    return done;
  } finally {
    await client.close();
  }
}

function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test("it takes the binary for a mongod of version 8.0", () => {
  const { stdout, status } = spawnSync(mongod, ["--version"], { encoding: "utf8" });
  assert.equal(status, 0);
  assert.match(stdout, /^db version v8\.0\.\d+$/m);
});

for (const storageEngine of [undefined, "wiredTiger", "ephemeralForTest"]) {
  test(`a server of its own, storage engine ${storageEngine}`, async () => {
    const server = await MongoMemoryServer.create({ instance: { storageEngine, dbName: "shop" } });
    const { pid } = server.instanceInfo.instance.mongodProcess;
    await withClient(server.getUri(), {}, async (client) => {
      const things = client.db("shop").collection("things");
      await things.insertMany([{ _id: 1 }, { _id: 2 }]);
      assert.equal(await things.countDocuments(), 2);
    });
    assert.equal(await server.stop(), true);
    assert.equal(isRunning(pid), false);
  });
}

test("a server that keeps its data is started again on the same port", async () => {
  const dbPath = mkdtempSync(join(directory, "kept-"));
  const server = await MongoMemoryServer.create({ instance: { dbPath, storageEngine: "wiredTiger" } });
  await withClient(server.getUri(), {}, (client) => client.db("shop").collection("things").insertOne({ _id: 1 }));
  const port = server.instanceInfo.port;
  await server.stop({ doCleanup: false });
  await server.start(true);
  assert.equal(server.instanceInfo.port, port);
  const kept = await withClient(server.getUri(), {}, (client) => client.db("shop").collection("things").findOne());
  assert.deepEqual(kept, { _id: 1 });
  await server.stop();
});

test("access control with the user that it makes", async () => {
  const auth = { enable: true, customRootName: "captain", customRootPwd: "ahoy" };
  const server = await MongoMemoryServer.create({ auth });
  await assert.rejects(withClient(server.getUri(), {}, (client) => client.db("shop").collection("things").insertOne({})), /requires authentication/i);
  await withClient(server.getUri(), { auth: { username: "captain", password: "ahoy" } }, (client) => client.db("shop").collection("things").insertOne({}));
  await server.stop();
});

test("a replica set of one, with a transaction and a change stream", async () => {
  const set = await MongoMemoryReplSet.create({ replSet: { count: 1, name: "testset" } });
  await withClient(set.getUri(), {}, async (client) => {
    const things = client.db("shop").collection("things");
    await things.insertOne({ _id: 0 });
    const changes = things.watch();
    const first = changes.next();
    await client.withSession((session) =>
      session.withTransaction(async () => {
        await things.insertOne({ _id: 1 }, { session });
        await things.updateOne({ _id: 0 }, { $set: { seen: true } }, { session });
      }),
    );
    assert.equal((await first).documentKey._id, 1);
    await changes.close();
    assert.equal(await things.countDocuments({ seen: true }), 1);
  });
  assert.equal(await set.stop(), true);
});

test("a port in use is told as what it is", async () => {
  const first = await MongoMemoryServer.create();
  const { instance } = first.instanceInfo;
  const { MongoInstance } = require("mongodb-memory-server-core/lib/util/MongoInstance.js");
  const dbPath = mkdtempSync(join(directory, "second-"));
  const second = new MongoInstance({ instance: { ...instance.instanceOpts, dbPath } });
  await assert.rejects(second.start(), /already in use/);
  await first.stop();
});

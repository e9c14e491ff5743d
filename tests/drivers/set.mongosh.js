// What a person asks a set of one in mongosh. Prints `ok NAME` for every step that holds.
const assert = require("node:assert/strict");

const steps = [];
const step = (name, work) => steps.push([name, work]);

step("rs.status() shows the primary", () => {
  const status = rs.status();
  assert.equal(status.set, "rs0");
  assert.equal(status.members[0].stateStr, "PRIMARY");
});

step("rs.conf() shows the only member", () => {
  const config = rs.conf();
  assert.equal(config.members.length, 1);
  assert.equal(config.members[0].host, db.hello().me);
});

step("rs.initiate() says that it was done", () => {
  let refused;
  try {
    rs.initiate();
  } catch (error) {
    refused = error.codeName;
  }
  assert.equal(refused, "AlreadyInitialized");
});

step("rs.reconfig() gives the member tags", () => {
  const config = rs.conf();
  config.version += 1;
  config.members[0].tags = { dc: "east" };
  assert.equal(rs.reconfig(config).ok, 1);
  assert.equal(db.hello().tags.dc, "east");
});

step("db.getReplicationInfo() tells how far the log reaches", () => {
  db.getSiblingDB("mongosh_set").things.insertOne({});
  const info = db.getReplicationInfo();
  assert.ok(info.timeDiff >= 0);
  assert.ok(info.logSizeMB >= 0);
  const result = db.getSiblingDB("mongosh_set").things.validate({ full: true });
  assert.ok(result.valid && result.errors.length === 0);
  db.getSiblingDB("mongosh_set").dropDatabase();
});

let failed = 0;
for (const [name, work] of steps) {
  try {
    work();
    print(`ok ${name}`);
  } catch (error) {
    failed += 1;
    print(`FAILED ${name}: ${error.message}`);
  }
}
print(`mongosh: ${steps.length - failed} passed, ${failed} failed`);
if (failed > 0) quit(1);

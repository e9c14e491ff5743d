// What a person types into mongosh; the tour of README.md is part of it. Prints `ok NAME` for every step that holds.
// The path of movies.json comes in as MOVIES.
const assert = require("node:assert/strict");
const fs = require("node:fs");

const steps = [];
const step = (name, work) => steps.push([name, work]);
// The shell's arrays are made in a realm of its own, which deepEqual tells apart.
const plain = (value) => JSON.parse(JSON.stringify(value));
const tour = db.getSiblingDB("mongosh_tour");

step("the shell knows the server", () => {
  assert.match(db.version(), /^8\.0\./);
  assert.equal(db.hello().isWritablePrimary, true);
});

step("movies are loaded", () => {
  tour.dropDatabase();
  const movies = JSON.parse(fs.readFileSync(process.env.MOVIES, "utf8"));
  const loaded = tour.movies.insertMany(movies);
  assert.equal(Object.keys(loaded.insertedIds).length, movies.length);
  assert.equal(tour.movies.countDocuments(), 3201);
});

step("movies are queried", () => {
  const best = tour.movies
    .find({ "Major Genre": "Drama", "IMDB Rating": { $gte: 8.5 } }, { _id: 0, Title: 1, "IMDB Rating": 1 })
    .sort({ "IMDB Rating": -1 })
    .limit(3)
    .toArray();
  assert.deepEqual(plain(best.map((film) => film["IMDB Rating"])), [9.2, 8.9, 8.9]);
  assert.deepEqual(plain(best[0]), { Title: "The Shawshank Redemption", "IMDB Rating": 9.2 });
  const numbers = tour.movies.find({ Title: { $type: "number" } }, { Title: 1 }).toArray();
  assert.ok(numbers.length > 0 && numbers.every((film) => typeof film.Title === "number"));
});

step("movies are aggregated", () => {
  const genres = tour.movies.aggregate([
    { $match: { "Major Genre": { $ne: null } } },
    { $group: { _id: "$Major Genre", films: { $sum: 1 }, rating: { $avg: "$IMDB Rating" } } },
    { $sort: { films: -1 } },
    { $limit: 3 },
  ]).toArray();
  assert.deepEqual(plain(genres.map((genre) => genre._id)), ["Drama", "Comedy", "Action"]);
});

step("movies are indexed and the plan says so", () => {
  assert.equal(tour.movies.createIndex({ Director: 1, "IMDB Rating": -1 }), "Director_1_IMDB Rating_-1");
  const plan = tour.movies.find({ Director: "Steven Spielberg" }).explain("executionStats");
  assert.equal(plan.queryPlanner.winningPlan.inputStage.stage, "IXSCAN");
  assert.equal(plan.executionStats.totalDocsExamined, plan.executionStats.nReturned);
});

step("movies are updated", () => {
  const changed = tour.movies.updateMany({ Director: "Steven Spielberg" }, { $set: { seen: true }, $inc: { views: 1 } });
  assert.ok(changed.modifiedCount > 10);
  assert.equal(tour.movies.countDocuments({ seen: true }), changed.modifiedCount);
});

step("the shell's own commands answer", () => {
  assert.ok(tour.getCollectionNames().includes("movies"));
  assert.equal(tour.movies.stats().count, 3201);
  assert.ok(db.adminCommand({ listDatabases: 1 }).databases.some((entry) => entry.name === "mongosh_tour"));
});

step("the time is accounted", () => {
  assert.ok(Object.keys(db.serverStatus().quarry.phases).length > 0);
});

step("every collection is valid", () => {
  for (const name of tour.getCollectionNames()) {
    const result = tour.getCollection(name).validate({ full: true });
    assert.deepEqual(plain([name, result.valid, result.errors]), [name, true, []]);
  }
});

step("nothing is left", () => {
  assert.equal(tour.dropDatabase().ok, 1);
  assert.deepEqual(plain(tour.getCollectionNames()), []);
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

// Connects, writes, reads, indexes and aggregates with the Node driver.
//
//     cd examples/node && npm install
//     node quickstart.mjs mongodb://127.0.0.1:27017/
//
// Uses the database `quickstart_node` and drops it at the end.
import { MongoClient } from "mongodb";

const client = new MongoClient(process.argv[2] ?? "mongodb://127.0.0.1:27017/");
const database = client.db("quickstart_node");
const books = database.collection("books");

try {
  await database.dropDatabase();

  // Create. `_id` is made by the driver unless the document has one.
  await books.insertMany([
    { _id: 1, title: "Dune", author: "Herbert", year: 1965, tags: ["desert", "spice"] },
    { _id: 2, title: "Ubik", author: "Dick", year: 1969, tags: ["time"] },
    { _id: 3, title: "Valis", author: "Dick", year: 1981, tags: [] },
  ]);

  // Read: a filter, a projection, an order.
  const byDick = books.find({ author: "Dick" }, { projection: { title: 1, _id: 0 } }).sort({ year: -1 });
  for await (const book of byDick) {
    console.log("by Dick:", book.title);
  }

  // Update: {w: "majority"} returns once the write survives a power loss.
  const change = { $push: { tags: "worms" }, $inc: { read: 1 } };
  const { modifiedCount } = await books.updateOne({ _id: 1 }, change, { writeConcern: { w: "majority" } });
  console.log("changed:", modifiedCount);

  // Index, and see that the plan uses it.
  await books.createIndex({ author: 1, year: -1 }, { name: "author_year" });
  const { queryPlanner } = await books.find({ author: "Dick" }).explain("queryPlanner");
  console.log("plan:", queryPlanner.winningPlan.stage, "over", queryPlanner.winningPlan.inputStage.stage);

  // Aggregate.
  const groups = books.aggregate([
    { $group: { _id: "$author", books: { $sum: 1 }, first: { $min: "$year" } } },
    { $sort: { _id: 1 } },
  ]);
  for await (const group of groups) {
    console.log(`${group._id}: ${group.books} since ${group.first}`);
  }

  // Delete.
  const { deletedCount } = await books.deleteMany({ tags: { $size: 0 } });
  console.log("deleted:", deletedCount);
} finally {
  await database.dropDatabase();
  await client.close();
}

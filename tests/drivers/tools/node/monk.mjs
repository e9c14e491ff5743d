// Monk, over the Node driver 3.7 that it brings: `node monk.mjs URI`.
import monk from "monk";

// Its promise of a connection resolves to itself, so that it cannot be awaited; operations wait for the connection.
const db = monk(process.argv[2]);
const users = db.get("users");
const said = {};
await users.createIndex({ name: 1 }, { unique: true });
await users.insert([{ name: "Ada", age: 36 }, { name: "Grace", age: 85 }, { name: "Linus", age: 54 }]);
said.duplicate = await users.insert({ name: "Ada" }).then(() => "none", (error) => error.code);
await users.update({ name: "Ada" }, { $set: { age: 37 } });
said.updated = (await users.findOneAndUpdate({ name: "Grace" }, { $inc: { age: 1 } })).age;
said.sorted = await users.find({ age: { $gt: 40 } }, { sort: { age: -1 }, projection: { _id: 0, name: 1 } });
said.counted = await users.count({ age: { $gt: 40 } });
said.distinct = (await users.distinct("name")).length;
said.aggregate = await users.aggregate([{ $group: { _id: null, age: { $sum: "$age" } } }]);
said.removed = (await users.remove({ name: "Linus" })).deletedCount;
said.bulk = (await users.bulkWrite([{ insertOne: { document: { name: "Ken" } } }, { updateOne: { filter: { name: "Ken" }, update: { $set: { age: 80 } } } }])).modifiedCount;
said.each = [];
await users.find({}, { sort: { name: 1 } }).each(({ name }) => said.each.push(name));
said.byId = (await users.findOne((await users.findOne({ name: "Ada" }))._id.toString())).name;
said.indexes = Object.keys(await users.indexes());
said.collections = (await db.listCollections()).map(({ name }) => name);
await db.close();
console.log(JSON.stringify(said));

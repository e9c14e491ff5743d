// Papr: models whose schema the server holds as a validator. `node papr.mjs URI`.
import { MongoClient } from "mongodb";
import Papr, { schema, types, VALIDATION_ACTIONS, VALIDATION_LEVEL } from "papr";

const client = await MongoClient.connect(process.argv[2]);
const papr = new Papr();
const User = papr.model("users", schema(
  {
    name: types.string({ required: true, minLength: 2 }),
    age: types.number({ minimum: 0 }),
    kind: types.enum(["admin", "guest"]),
    tags: types.array(types.string()),
  },
  { defaults: { kind: "guest" }, timestamps: true, validationAction: VALIDATION_ACTIONS.ERROR, validationLevel: VALIDATION_LEVEL.STRICT },
));
papr.initialize(client.db());
await papr.updateSchemas();
// The collection is there now: its validator is changed by collMod.
await papr.updateSchemas();

const said = {};
const refused = (work) => work.then(() => "none", (error) => error.code);
const ada = await User.insertOne({ name: "Ada", age: 36, tags: ["a"] });
await User.insertMany([{ name: "Grace", age: 85, kind: "admin" }, { name: "Linus", age: 54 }]);
said.short = await refused(User.insertOne({ name: "A" }));
said.kind = await refused(User.updateOne({ _id: ada._id }, { $set: { kind: "king" } }));
said.extra = await refused(User.insertOne({ name: "Eve", unknown: 1 }));
said.updated = (await User.findOneAndUpdate({ name: "Ada" }, { $inc: { age: 1 }, $push: { tags: "b" } })).age;
said.upserted = (await User.upsert({ name: "Ken" }, { $set: { age: 80 } })).kind;
said.projected = await User.find({ age: { $gt: 50 } }, { projection: { name: 1, _id: 0 }, sort: { name: 1 } });
said.distinct = (await User.distinct("kind")).sort();
said.exists = await User.exists({ name: "Nobody" });
said.deleted = (await User.deleteMany({ kind: "admin" })).deletedCount;
await client.close();
console.log(JSON.stringify(said));

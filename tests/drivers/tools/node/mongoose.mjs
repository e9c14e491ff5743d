// Mongoose's models, sessions and streams: `node mongoose.mjs URI`. Says in JSON what Mongoose itself read.
import mongoose from "mongoose";

const { Schema } = mongoose;
await mongoose.connect(process.argv[2]);

const Author = mongoose.model("Author", new Schema({ name: { type: String, required: true, unique: true } }, { timestamps: true }));
const bookSchema = new Schema({
  title: String,
  pages: { type: Number, min: 1, index: true },
  tags: [String],
  author: { type: Schema.Types.ObjectId, ref: "Author" },
  prices: { type: Map, of: Number },
});
bookSchema.index({ title: 1, pages: -1 });
bookSchema.index({ title: "text" });
const Book = mongoose.model("Book", bookSchema);
await Promise.all([Author.init(), Book.init()]);

const said = {};
const changes = Book.watch([], { fullDocument: "updateLookup" });
await new Promise((resolve) => changes.once("ready", resolve));
const events = [];
const seen = new Promise((resolve) => changes.on("change", (event) => events.push(event) === 3 && resolve()));

const lem = await Author.create({ name: "Lem" });
await Book.create({ title: "Solaris", pages: 204, tags: ["sea", "love"], author: lem, prices: new Map([["eur", 12]]) });
const fiasco = await Book.create({ title: "Fiasco", pages: 322, tags: ["sea"], author: lem });

said.duplicate = await Author.create({ name: "Lem" }).then(() => "none", (error) => ({ code: error.code, keyValue: error.keyValue }));
said.invalid = await Book.create({ title: "Empty", pages: 0 }).then(() => "none", (error) => error.errors.pages.kind);

fiasco.tags.push("contact");
fiasco.prices = { eur: 15 };
await fiasco.save();
await seen;
await changes.close();
said.events = events.map(({ operationType, fullDocument }) => [operationType, fullDocument.title, fullDocument.tags.length]);

said.populated = (await Book.findOne({ title: "Solaris" }).populate("author")).author.name;
said.lean = await Book.find({ pages: { $gt: 100 } }).sort("pages").select("title -_id").lean();
said.text = await Book.find({ $text: { $search: "fiasco" } }).distinct("title");
said.aggregate = await Book.aggregate([
  { $unwind: "$tags" },
  { $group: { _id: "$tags", pages: { $sum: "$pages" } } },
  { $sort: { _id: 1 } },
]);
said.cursor = [];
for await (const book of Book.find().sort({ pages: -1 }).cursor({ batchSize: 1 })) said.cursor.push(book.title);

await mongoose.connection.transaction(async (session) => {
  const dick = new Author({ name: "Dick" });
  await dick.save({ session });
  await Book.create([{ title: "Ubik", pages: 202, author: dick }], { session });
});
const aborted = mongoose.startSession().then((session) =>
  session.withTransaction(async () => {
    await Author.create([{ name: "Nobody" }], { session });
    throw new Error("given up");
  }),
);
said.aborted = await aborted.then(() => "none", (error) => error.message);
const session = await mongoose.startSession();
said.returned = await session.withTransaction(async () => (await Book.findOneAndUpdate({ title: "Ubik" }, { $inc: { pages: 1 } }, { session, returnDocument: "after" })).pages);
await session.endSession();

// A version that another writer has raised: the save is refused.
const [first, second] = await Promise.all([Book.findOne({ title: "Solaris" }), Book.findOne({ title: "Solaris" })]);
first.tags = ["sea"];
await first.save();
second.tags.set(1, "late");
said.version = await second.save().then(() => "none", (error) => error.name);
said.bulk = (await Book.bulkWrite([
  { updateOne: { filter: { title: "Ubik" }, update: { $addToSet: { tags: "half-life" } } } },
  { deleteOne: { filter: { title: "Fiasco" } } },
])).deletedCount;
bookSchema.index({ tags: 1 });
said.diff = (await Book.diffIndexes()).toCreate;
said.dropped = await Book.syncIndexes();

const series = { timeField: "at", metaField: "room", granularity: "minutes" };
const measureSchema = new Schema({ at: Date, room: String, celsius: Number }, { timeseries: series, expireAfterSeconds: 1e9, autoCreate: false, versionKey: false });
const Measure = mongoose.model("Measure", measureSchema);
await Measure.createCollection();
const noon = new Date("2024-05-01T12:00:00Z");
await Measure.insertMany([20, 21, 22].map((celsius, hour) => ({ at: new Date(+noon + hour * 3600e3), room: hour ? "hall" : "attic", celsius })));
said.measures = (await Measure.find({ at: { $gt: noon } }).sort({ at: -1 })).map((measure) => measure.celsius);
said.moved = (await Measure.updateMany({ room: "attic" }, { room: "cellar" })).modifiedCount;
said.one = await Measure.updateOne({ room: "hall" }, { celsius: 0 }).then(() => "none", (error) => error.message);
said.where = await Book.find({ $where: "this.pages > 1" }).then(() => "none", (error) => error.message);
await mongoose.disconnect();
console.log(JSON.stringify(said));

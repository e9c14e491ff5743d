// MikroORM over MongoDB: entities, relations, a unit of work in transactions. `node mikro_orm.mjs URI`.
import { EntitySchema, MikroORM, OptimisticLockError, UniqueConstraintViolationException } from "@mikro-orm/mongodb";

const author = new EntitySchema({
  name: "Author",
  properties: {
    _id: { type: "ObjectId", primary: true },
    id: { type: "string", serializedPrimaryKey: true },
    name: { type: "string", unique: true },
    version: { type: "integer", version: true },
    books: { kind: "1:m", entity: () => "Book", mappedBy: "author" },
  },
});
const book = new EntitySchema({
  name: "Book",
  indexes: [{ properties: ["title", "pages"] }],
  properties: {
    _id: { type: "ObjectId", primary: true },
    id: { type: "string", serializedPrimaryKey: true },
    title: { type: "string" },
    pages: { type: "integer", index: true },
    author: { kind: "m:1", entity: () => "Author" },
    tags: { kind: "m:n", entity: () => "Tag", nullable: true },
  },
});
const tag = new EntitySchema({ name: "Tag", properties: { _id: { type: "ObjectId", primary: true }, label: { type: "string" } } });

const orm = await MikroORM.init({ entities: [author, book, tag], clientUrl: process.argv[2], dbName: process.argv[3], implicitTransactions: true });
await orm.schema.create();
const said = {};
const em = orm.em.fork();
const lem = em.create("Author", { name: "Lem" });
const sea = em.create("Tag", { label: "sea" });
em.create("Book", { title: "Solaris", pages: 204, author: lem, tags: [sea] });
em.create("Book", { title: "Fiasco", pages: 322, author: lem, tags: [] });
await em.flush();

const fresh = orm.em.fork();
const found = await fresh.findOne("Book", { title: "Solaris" }, { populate: ["author", "tags"] });
said.populated = [found.author.name, found.tags.getItems().map(({ label }) => label)];
found.pages = 205;
await fresh.flush();
said.sorted = (await orm.em.fork().find("Book", { pages: { $gt: 100 } }, { orderBy: { pages: "desc" }, limit: 1 })).map(({ title }) => title);
said.counted = (await orm.em.fork().findAndCount("Book", { author: { $in: [lem] } }))[1];
said.aggregate = await orm.em.fork().aggregate("Book", [{ $group: { _id: null, pages: { $sum: "$pages" } } }]);

const rejected = orm.em.fork();
rejected.create("Author", { name: "Lem" });
said.duplicate = await rejected.flush().then(() => "none", (error) => error instanceof UniqueConstraintViolationException);
said.rolledBack = await orm.em.fork().transactional(async (inside) => {
  inside.create("Author", { name: "Nobody" });
  await inside.flush();
  throw new Error("given up");
}).then(() => "none", (error) => error.message);
await orm.em.fork().transactional(async (inside) => {
  inside.create("Author", { name: "Dick" });
});

const [early, late] = [orm.em.fork(), orm.em.fork()];
const [mine, theirs] = [await early.findOne("Author", { name: "Lem" }), await late.findOne("Author", { name: "Lem" })];
mine.name = "Stanislaw Lem";
await early.flush();
theirs.name = "S. Lem";
said.version = await late.flush().then(() => "none", (error) => error instanceof OptimisticLockError);
const upserted = orm.em.fork();
await upserted.upsert("Author", { name: "Dick", version: 7 });
await upserted.nativeDelete("Book", { title: "Fiasco" });
await orm.close();
console.log(JSON.stringify(said));

// Payload's local interface over its MongoDB adapter: `node payload.mjs URI`.
import { mongooseAdapter } from "@payloadcms/db-mongodb";
import { buildConfig, getPayload } from "payload";

const users = { slug: "users", auth: true, fields: [{ name: "name", type: "text", index: true }] };
const categories = {
  slug: "categories",
  fields: [
    { name: "title", type: "text", unique: true },
    { name: "posts", type: "join", collection: "posts", on: "category" },
  ],
};
const posts = {
  slug: "posts",
  versions: { drafts: true },
  fields: [
    { name: "title", type: "text", required: true, localized: true },
    { name: "number", type: "number" },
    { name: "category", type: "relationship", relationTo: "categories" },
    { name: "tags", type: "array", fields: [{ name: "tag", type: "text" }] },
    { name: "place", type: "point" },
  ],
};
const payload = await getPayload({
  config: buildConfig({
    secret: "keyboard cat",
    telemetry: false,
    typescript: { autoGenerate: false },
    db: mongooseAdapter({ url: process.argv[2] }),
    collections: [users, categories, posts],
    localization: { locales: ["en", "de"], defaultLocale: "en", fallback: true },
  }),
});

const said = {};
const titles = async (where, options = {}) => (await payload.find({ collection: "posts", where, sort: "number", ...options })).docs.map(({ title }) => title);
await payload.create({ collection: "users", data: { email: "ada@a.example", password: "secret", name: "Ada" } });
const sea = await payload.create({ collection: "categories", data: { title: "Sea" } });
said.duplicate = await payload.create({ collection: "categories", data: { title: "Sea" } }).then(() => "none", (error) => error.name);
for (let number = 0; number < 6; number += 1) {
  const data = { title: `Post ${number}`, number, category: sea.id, tags: [{ tag: `t${number}` }], place: [13 + number, 52] };
  await payload.create({ collection: "posts", data });
}
said.near = await titles({ place: { near: "13,52,100000,0" } });
said.within = await titles({ place: { within: { type: "Polygon", coordinates: [[[14.5, 51], [16.5, 51], [16.5, 53], [14.5, 53], [14.5, 51]]] } } });
said.paged = await titles({ "category.title": { equals: "Sea" } }, { sort: "-number", limit: 2, page: 2 });
said.like = await titles({ or: [{ title: { like: "post 5" } }, { "tags.tag": { in: ["t0"] } }] });
said.joined = (await payload.findByID({ collection: "categories", id: sea.id })).posts.docs.length;

const { id } = (await payload.find({ collection: "posts", where: { number: { equals: 5 } } })).docs[0];
await payload.update({ collection: "posts", id, locale: "de", data: { title: "Beitrag 5" } });
await payload.update({ collection: "posts", id, draft: true, data: { title: "Draft" } });
said.locales = (await payload.findByID({ collection: "posts", id, locale: "all" })).title;
said.versions = (await payload.findVersions({ collection: "posts", where: { parent: { equals: id } } })).totalDocs;
said.login = (await payload.login({ collection: "users", data: { email: "ada@a.example", password: "secret" } })).user.name;
const transaction = await payload.db.beginTransaction();
await payload.create({ collection: "categories", data: { title: "Given up" }, req: { transactionID: transaction } });
await payload.db.rollbackTransaction(transaction);
said.deleted = (await payload.delete({ collection: "posts", where: { number: { less_than: 2 } } })).docs.length;
await payload.db.destroy();
console.log(JSON.stringify(said));
process.exit(0);

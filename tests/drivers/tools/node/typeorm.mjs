// TypeORM's mongodb driver: repositories over entities whose indexes are declared. `node typeorm.mjs URI`.
import "reflect-metadata";
import { Column, CreateDateColumn, DataSource, Entity, Index, ObjectIdColumn } from "typeorm";

class Address {
  constructor(city) {
    this.city = city;
  }
}
Column({ type: "string" })(Address.prototype, "city");

class User {}
Entity()(User);
ObjectIdColumn()(User.prototype, "id");
Index()(User.prototype, "name");
Column({ type: "string" })(User.prototype, "name");
Index({ unique: true, sparse: true })(User.prototype, "email");
Column({ type: "string", nullable: true })(User.prototype, "email");
Column({ type: "number" })(User.prototype, "age");
Index({ expireAfterSeconds: 3600 })(User.prototype, "seen");
CreateDateColumn()(User.prototype, "seen");
Column(() => Address)(User.prototype, "address");
Index("by_name_and_age", ["name", "age"])(User);

const source = new DataSource({ type: "mongodb", url: process.argv[2], entities: [User], synchronize: true });
await source.initialize();
const users = source.getMongoRepository(User);
const said = {};

const make = (name, age, email, city) => users.create({ name, age, email, address: new Address(city) });
const [ada, grace, linus] = await users.save([
  make("Ada", 36, "ada@a.example", "London"),
  make("Grace", 85, "grace@a.example", "Arlington"),
  make("Linus", 54, "linus@a.example", "Portland"),
]);
said.duplicate = await users.save(make("Eve", 20, "ada@a.example", "Rome")).then(() => "none", (error) => error.code);

ada.age = 37;
await users.save(ada);
await users.update({ name: "Grace" }, { age: 86 });
await users.delete({ name: "Linus" });
said.found = (await users.find({ where: { age: { $gt: 30 } }, order: { name: "ASC" } })).map(({ name, age }) => [name, age]);
said.paged = (await users.findAndCount({ skip: 1, take: 1, order: { age: "DESC" } })).map((part) => (Array.isArray(part) ? part.map((u) => u.name) : part));
said.one = (await users.findOneBy({ "address.city": "London" })).address instanceof Address;
said.byId = (await users.findOneBy({ _id: grace.id })).name;
said.gone = await users.findOneBy({ _id: linus.id });
said.count = await users.countBy({ age: { $lt: 40 } });
said.aggregate = await users.aggregate([{ $group: { _id: null, oldest: { $max: "$age" } } }]).toArray();
said.indexes = (await users.collectionIndexes()).length;

// A second start over the same entities changes nothing.
await source.synchronize();
said.afterwards = (await users.collectionIndexes()).length;
await source.destroy();
console.log(JSON.stringify(said));

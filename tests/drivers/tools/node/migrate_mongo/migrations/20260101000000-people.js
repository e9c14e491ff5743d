module.exports = {
  async up(db) {
    await db.createCollection("people", { validator: { $jsonSchema: { required: ["name"] } } });
    await db.collection("people").createIndex({ name: 1 }, { unique: true });
    await db.collection("people").insertMany([{ name: "Ada Lovelace" }, { name: "Grace Hopper" }]);
  },
  async down(db) {
    await db.collection("people").drop();
  },
};

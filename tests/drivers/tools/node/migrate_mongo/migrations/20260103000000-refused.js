module.exports = {
  async up(db) {
    await db.collection("people").insertOne({ first: "Nobody" });
  },
  async down() {},
};

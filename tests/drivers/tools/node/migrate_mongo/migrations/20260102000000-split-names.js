module.exports = {
  async up(db, client) {
    await client.withSession((session) =>
      session.withTransaction(async () => {
        const people = db.collection("people");
        const parts = { $split: ["$name", " "] };
        await people.updateMany({}, [{ $set: { first: { $first: parts }, last: { $last: parts } } }], { session });
        await db.collection("counts").insertOne({ people: await people.countDocuments({}, { session }) }, { session });
      }),
    );
  },
  async down(db) {
    await db.collection("people").updateMany({}, { $unset: { first: "", last: "" } });
    await db.collection("counts").deleteMany({});
  },
};

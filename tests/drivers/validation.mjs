// `validate` with `full: true`: what every test ends with, whatever it was about.
import assert from "node:assert/strict";

// Asserts that every collection of the database is valid.
export async function validateDatabase(database) {
  for (const { name } of await database.listCollections({ type: "collection" }, { nameOnly: true }).toArray()) {
    const result = await database.command({ validate: name, full: true });
    assert.deepEqual([name, result.valid, result.errors], [name, true, []]);
  }
}

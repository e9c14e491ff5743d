// Agenda: jobs that are scheduled, run, fail and come again. `node agenda.mjs URI`.
import { Agenda } from "agenda";
import { MongoBackend, MongoChangeStreamNotificationChannel } from "@agendajs/mongo-backend";
import { MongoClient } from "mongodb";

const agenda = new Agenda({ backend: new MongoBackend({ address: process.argv[2] }), processEvery: 100 });
const said = { ran: [], failed: [] };
let ticks = 0;
let finished;
const done = new Promise((resolve) => (finished = resolve));
const settle = () => ticks >= 2 && said.ran.length === 2 && said.failed.length === 1 && finished();

agenda.define("letter", async (job) => {
  said.ran.push(job.attrs.data.to);
});
agenda.define("tick", async () => {
  ticks += 1;
});
agenda.define("broken", async () => {
  throw new Error("no paper");
});
// Told when the result stands in the database.
agenda.on("complete", settle);
agenda.on("fail", (error) => {
  said.failed.push(error.message);
  settle();
});

await agenda.start();
await agenda.every("1 second", "tick");
await agenda.schedule("in 1 second", "letter", { to: "Ada" });
await agenda.now("letter", { to: "Grace" });
await agenda.now("broken");
await agenda.schedule("in 1 day", "letter", { to: "Linus" });
await done;
said.queued = (await agenda.queryJobs({ name: "letter", includeDisabled: true })).jobs.length;
await agenda.schedule("in 1 day", "letter", { to: "Nobody" });
said.cancelled = await agenda.cancel({ name: "letter", data: { to: "Nobody" } });
await agenda.stop();
said.ticks = ticks;

// Another one looks once an hour: a change stream tells it of what is to run. It does not wait until its stream is open.
const client = await MongoClient.connect(process.argv[2], { monitorCommands: true });
const db = client.db();
const opened = new Promise((resolve) => {
  client.on("commandSucceeded", ({ commandName, reply }) => commandName === "aggregate" && reply.cursor.id && resolve());
});
const told = new Agenda({
  backend: new MongoBackend({ mongo: db, collection: "told" }),
  notificationChannel: new MongoChangeStreamNotificationChannel({ db, collection: "told" }),
  processEvery: 3_600_000,
});
const rung = new Promise((resolve, reject) => {
  told.define("bell", async (job) => resolve(job.attrs.data.times));
  told.on("error", reject);
});
await told.start();
await opened;
await told.now("bell", { times: 3 });
said.told = await rung;
await told.stop();
await client.close();
console.log(JSON.stringify(said));
process.exit(0);

// Uploads that multer hands to GridFS, and their way back by the driver's bucket: `node multer_gridfs_storage.mjs URI`.
import { createHash } from "node:crypto";
import express from "express";
import { GridFSBucket, MongoClient } from "mongodb";
import multer from "multer";
import { GridFsStorage } from "multer-gridfs-storage";

const file = (request, { originalname }) => ({ bucketName: "uploads", filename: originalname, chunkSize: 100_000, metadata: { by: "ada" } });
const storage = new GridFsStorage({ url: process.argv[2], file });
const application = express();
application.post("/upload", multer({ storage }).array("files"), (request, response) => response.json(request.files));
const listener = await new Promise((resolve) => {
  const listening = application.listen(0, "127.0.0.1", () => resolve(listening));
});

const large = Buffer.alloc(1_234_567, "quarry ");
const form = new FormData();
form.append("files", new Blob([large], { type: "text/plain" }), "large.txt");
form.append("files", new Blob(["small"]), "small.txt");
form.append("files", new Blob([]), "empty.txt");
const answered = await fetch(`http://127.0.0.1:${listener.address().port}/upload`, { method: "POST", body: form });
const files = await answered.json();
const said = { uploaded: files.map(({ filename, size }) => [filename, size]), sha256: createHash("sha256").update(large).digest("hex") };

const client = await MongoClient.connect(process.argv[2]);
const bucket = new GridFSBucket(client.db(), { bucketName: "uploads" });
const read = async (stream) => Buffer.concat(await stream.toArray());
said.whole = (await read(bucket.openDownloadStreamByName("large.txt"))).equals(large);
said.part = (await read(bucket.openDownloadStreamByName("large.txt", { start: 99_990, end: 300_010 }))).equals(large.subarray(99_990, 300_010));
const [small] = await bucket.find({ filename: "small.txt" }).toArray();
await bucket.rename(small._id, "renamed.txt");
await bucket.delete((await bucket.find({ filename: "empty.txt" }).next())._id);
said.missing = await read(bucket.openDownloadStreamByName("empty.txt")).then(() => "none", (error) => error.code ?? error.message);
await client.close();
await storage.db.client.close();
listener.close();
listener.closeAllConnections();
console.log(JSON.stringify(said));

// An express application whose sessions connect-mongo keeps: `node connect_mongo.mjs URI`.
import MongoStore from "connect-mongo";
import express from "express";
import session from "express-session";

const store = MongoStore.create({ mongoUrl: process.argv[2], stringify: false, touchAfter: 0 });
const application = express();
application.use(session({ secret: "keyboard cat", resave: false, saveUninitialized: false, rolling: true, cookie: { maxAge: 3_600_000 }, store }));
application.get("/login/:user", (request, response) => {
  request.session.user = request.params.user;
  response.json({});
});
application.get("/who", (request, response) => response.json({ user: request.session.user ?? null }));
application.get("/short", (request, response) => {
  request.session.cookie.maxAge = 1000;
  response.json({});
});
application.get("/logout", (request, response) => request.session.destroy(() => response.json({})));
const listener = await new Promise((resolve) => {
  const listening = application.listen(0, "127.0.0.1", () => resolve(listening));
});

const ask = async (path, cookie) => {
  const response = await fetch(`http://127.0.0.1:${listener.address().port}${path}`, { headers: cookie ? { cookie } : {} });
  return { cookie: response.headers.get("set-cookie")?.split(";")[0], body: await response.json() };
};
const promised = (work) => new Promise((resolve, reject) => work((error, value) => (error ? reject(error) : resolve(value))));
const expiry = async () => (await store.collectionP).findOne({ "session.user": "ada" }).then((stored) => stored.expires.getTime());

const said = {};
const ada = (await ask("/login/ada")).cookie;
const grace = (await ask("/login/grace")).cookie;
const linus = (await ask("/login/linus")).cookie;
said.users = [(await ask("/who", ada)).body.user, (await ask("/who", grace)).body.user, (await ask("/who")).body.user];
const before = await expiry();
await ask("/who", ada);
said.touched = (await expiry()) > before;
said.length = await promised((done) => store.length(done));
await ask("/logout", linus);
said.afterLogout = (await ask("/who", linus)).body.user;
await ask("/short", grace);
await store.close();
listener.close();
listener.closeAllConnections();
console.log(JSON.stringify(said));

#!/usr/bin/env node
// `npx quarry-server [FLAGS]` serves ./data; `npx quarry-server top` and the other subcommands are those of `quarry`.
import { spawn } from "node:child_process";
import { binary } from "./index.js";

const given = process.argv.slice(2);
const isServe = given.length === 0 || (given[0].startsWith("-") && !["--help", "-h", "--version", "-V"].includes(given[0]));
const child = spawn(binary, isServe ? ["serve", ...given] : given, { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  // A terminal's interrupt reaches both, and a second one would end the server without its last sync.
  process.on(signal, () => (signal === "SIGINT" && process.stdin.isTTY) || child.kill(signal));
}
child.once("error", (error) => {
  console.error(`quarry-server: ${error.message}`);
  process.exit(1);
});
child.once("close", (code, signal) => {
  process.exitCode = code ?? 1;
  if (signal !== null) console.error(`quarry-server: ended by ${signal}`);
});

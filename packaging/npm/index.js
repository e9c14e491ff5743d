// Quarry as a process of a Node program: `const server = await start(); ... await server.stop()`.
import { spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const START_MS = 60_000;
const STOP_MS = 60_000;
const LOOK_MS = 10;

/** The path of the server's binary. */
export const binary = join(dirname(fileURLToPath(import.meta.url)), "bin", "quarry");

/**
 * Starts a server and resolves when clients can connect. Without `dbpath` its data is in memory and goes with it;
 * `replicaSet` names a set of one; `args` are further flags of `quarry serve`.
 */
export async function start({ dbpath, port = 0, replicaSet, args = [] } = {}) {
  const scratch = await mkdtemp(join(tmpdir(), "quarry-"));
  const directory = dbpath ?? join(scratch, "data");
  const flags = ["serve", "--dbpath", directory, "--port", String(port), "--adminPort", "off"];
  if (dbpath === undefined) flags.push("--engine", "memory");
  if (replicaSet !== undefined) flags.push("--replSet", replicaSet);
  const child = spawn(binary, [...flags, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const log = join(scratch, "log");
  const file = createWriteStream(log);
  child.stdout.pipe(file);
  child.stderr.pipe(file);
  const ended = new Promise((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code, signal) => resolve(`it ended with ${code ?? signal}`));
  });
  const end = () => child.kill("SIGKILL");
  process.once("exit", end);

  const stop = async () => {
    child.kill("SIGTERM");
    const late = setTimeout(end, STOP_MS);
    await ended;
    clearTimeout(late);
    process.off("exit", end);
    await rm(scratch, { recursive: true, force: true });
  };

  let failure;
  ended.then((why) => (failure = why));
  for (const deadline = Date.now() + START_MS; Date.now() < deadline && failure === undefined; await pause(LOOK_MS)) {
    const found = await portOf(directory, child.pid);
    if (found !== undefined) {
      const options = replicaSet === undefined ? "" : `?replicaSet=${replicaSet}`;
      return { uri: `mongodb://127.0.0.1:${found}/${options}`, port: found, pid: child.pid, stop };
    }
  }
  const said = await readFile(log, "utf8").catch(() => "");
  await stop();
  throw new Error(`the server did not start: ${failure ?? "it took too long"}\n${said.slice(-4000)}`);
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The port that this process wrote; a file that an earlier one left says nothing. */
async function portOf(directory, pid) {
  const number = async (name) => Number((await readFile(join(directory, name), "utf8")).trim() || NaN);
  try {
    const port = (await number("quarry.lock")) === pid ? await number("quarry.port") : NaN;
    return Number.isNaN(port) ? undefined : port;
  } catch {
    return undefined;
  }
}

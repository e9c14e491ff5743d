// What the page asks its server for. Every answer is figures or a command's reply; what went wrong is an Error with the server's words.

const OWN = { "X-Quarry-Console": "1" };

async function answered(response) {
  const text = await response.text();
  if (!response.ok) throw new Error(text.trim() || `the server answered ${response.status}`);
  return JSON.parse(text);
}

export async function timing() {
  return answered(await fetch("timing.json", { headers: OWN }));
}

// The operators that queries have.
export async function language() {
  return answered(await fetch("language.json", { headers: OWN }));
}

export async function history(from, to, points, series) {
  const query = `from=${Math.round(from)}&to=${Math.round(to)}&points=${points}&series=${series.join(",")}`;
  return answered(await fetch(`history.json?${query}`, { headers: OWN }));
}

// Runs a command and returns its reply. `text` is the command in the shell's spelling; `canonical` has the type of every value told.
async function run(text, options) {
  const headers = { ...OWN, "Content-Type": "application/json" };
  const reply = await answered(await fetch(`command?${options}`, { method: "POST", headers, body: text }));
  const ok = reply.ok?.$numberDouble ?? reply.ok;
  if (Number(ok) !== 1) throw Object.assign(new Error(reply.errmsg ?? "the command failed"), { code: reply.code });
  const failed = reply.writeErrors?.[0];
  if (failed) throw new Error(failed.errmsg);
  return reply;
}

export const command = (body) => run(JSON.stringify(body), "");
export const canonicalCommand = (body) => run(JSON.stringify(body), "canonical");
export const shellCommand = (text) => run(text, "shell&canonical");

// The advice for each shape of what a command asks.
export async function advise(body) {
  const headers = { ...OWN, "Content-Type": "application/json" };
  return answered(await fetch("advice", { method: "POST", headers, body: JSON.stringify(body) }));
}

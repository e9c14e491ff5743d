// The cases of the scripts in crates/query/tests, answered by mingo: each result is the one that the script names and the
// Rust tests hold Quarry to, or a difference that differs.txt names. `node --test scripts.test.mjs`; with UPDATE=1 the list is
// written anew, and new differences have to be judged by hand.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { UNJUDGED, parseDifferences, readDifferences, writeDifferences } from "./differences.mjs";
import { judge } from "./answers.mjs";
import { RULES, equal, ordered } from "./plain.mjs";
import { allCases } from "./scripts.mjs";
import { shown } from "./shown.mjs";

/** So many cases have one result on both sides, no fewer. */
const AGREEING_MIN = 3000;

/** A rule of differs.txt, by which a difference need not be listed as a case. */
const DIFFERENCE_RULES = { "order of fields": ({ ours, theirs }) => equal(ordered(ours), ordered(theirs)) };

const cases = allCases().map((one) => ({ ...one, outcome: judge(one) }));
const groups = readDifferences();
const differing = cases.filter(({ outcome }) => outcome.kind === "differs");
const ruleOf = ({ outcome }) => groups.find(({ rule }) => rule !== undefined && DIFFERENCE_RULES[rule](outcome));
const toBeListed = new Map(differing.filter((one) => ruleOf(one) === undefined).map((one) => [one.name, one]));
const listed = new Set(groups.flatMap((group) => group.cases));

if (process.env.UPDATE !== undefined) after(() => writeDifferences(new Set(toBeListed.keys())));

function number(of, key) {
  const counts = new Map();
  for (const one of of) counts.set(key(one), (counts.get(key(one)) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a).map(([name, count]) => `${count} ${name}`).join(", ");
}

for (const file of new Set(cases.map((one) => one.file))) {
  test(`${file}: mingo answers what the script says`, () => {
    const unlisted = [...toBeListed.values()].filter((one) => one.file === file && !listed.has(one.name));
    const texts = unlisted.map(({ name, result, outcome }) => `${name}\n   script ${result}\n   mingo  ${typeof outcome.theirs === "string" ? outcome.theirs : shown(outcome.theirs)}`);
    assert.equal(unlisted.length, 0, `\n${texts.join("\n")}\nare not in differs.txt\n`);
  });
}

test("what is listed still differs", () => {
  const gone = [...listed].filter((name) => !toBeListed.has(name));
  assert.deepEqual(gone, []);
  for (const { name, rule } of groups.filter(({ rule }) => rule !== undefined)) {
    assert.ok(differing.some((one) => ruleOf(one)?.rule === rule), `no case differs by the rule of [${name}]`);
  }
});

test("every group of differences is judged, and no case stands in two", () => {
  for (const group of groups) {
    assert.notEqual(group.name, UNJUDGED);
    assert.match(group.right, /^(Quarry|neither)$/, group.name);
    assert.ok(group.reason.length > 0 && (group.rule !== undefined || group.cases.length > 0), group.name);
  }
  assert.equal(listed.size, groups.flatMap((group) => group.cases).length);
  assert.equal(parseDifferences("[a] Quarry\n| b\nf\n  r\n    i | j\n")[0].cases[0], "f | r | i | j");
});

test("enough cases agree, and every rule leaves some out", (context) => {
  const of = (kind) => cases.filter(({ outcome }) => outcome.kind === kind);
  context.diagnostic(`${cases.length} cases: ${number(cases, ({ outcome }) => outcome.kind)}`);
  context.diagnostic(`agree: ${number(of("agrees"), ({ verb }) => verb)}`);
  context.diagnostic(`both refuse: ${number(of("refused"), ({ verb }) => verb)}`);
  context.diagnostic(`only the script refuses: ${number(of("lax"), ({ verb }) => verb)}`);
  context.diagnostic(`left out: ${number(of("left out"), ({ outcome }) => outcome.rule)}`);
  context.diagnostic(`differ: ${number(differing, ({ verb }) => verb)}; by a rule: ${differing.length - toBeListed.size}`);
  assert.ok(of("agrees").length >= AGREEING_MIN);
  assert.deepEqual(new Set(of("left out").map(({ outcome }) => outcome.rule)), new Set(Object.keys(RULES)));
});

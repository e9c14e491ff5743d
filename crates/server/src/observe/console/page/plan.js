// An explained plan as a tree: the stages from the one that answers down to those that read.

import { element, number, plain, shell } from "./show.js";

// Facts that a stage may tell, and their words.
const facts = [
  ["nReturned", "returned"], ["docsExamined", "documents examined"], ["keysExamined", "keys examined"], ["totalDataSizeSorted", "bytes sorted"],
  ["executionTimeMillisEstimate", "ms"], ["works", "works"], ["limitAmount", "limit"], ["skipAmount", "skip"],
];
const documents = ["keyPattern", "indexBounds", "filter", "sortPattern", "transformBy"];

function node(stage, children) {
  const item = element("li"), box = element("div", undefined, stage.name.replace(/\W/g, ""));
  box.append(element("b", stage.name));
  if (stage.index) box.append(` ${stage.index}`);
  for (const line of stage.lines) box.append(element("br"), element("span", line, "dim"));
  item.append(box);
  if (children.length) {
    const list = element("ul", undefined, "tree");
    list.append(...children);
    item.append(list);
  }
  return item;
}

function ofStage(stage) {
  const told = facts.filter(([name]) => stage[name] !== undefined).map(([name, words]) => `${number(plain(stage[name]))} ${words}`);
  const lines = told.length ? [told.join(", ")] : [];
  for (const name of documents) if (stage[name] !== undefined) lines.push(`${name} ${shell(stage[name], 1)}`);
  if (stage.isMultiKey === true) lines.push("multikey");
  const inputs = [stage.inputStage, ...(stage.inputStages ?? []), ...(stage.shards ?? [])].filter(Boolean);
  return node({ name: stage.stage ?? "?", index: stage.indexName, lines }, inputs.map(ofStage));
}

function ofPlan(explained) {
  const stages = explained.executionStats?.executionStages ?? explained.queryPlanner?.winningPlan?.queryPlan ?? explained.queryPlanner?.winningPlan;
  return stages ? [ofStage(stages)] : [];
}

// The stages of a pipeline: the last one answers, and the first holds the plan that reads.
function ofPipeline(stages) {
  return stages.reduce((below, stage) => {
    const name = Object.keys(stage)[0];
    if (name === "$cursor") return ofPlan(stage.$cursor);
    const rest = { ...stage };
    delete rest[name];
    const told = Object.entries(rest).map(([fact, value]) => `${fact} ${number(plain(value))}`).join(", ");
    const lines = [shell(stage[name], 1), ...(told ? [told] : [])];
    return [node({ name, lines }, below)];
  }, []);
}

export function tree(explained) {
  const list = element("ul", undefined, "tree");
  list.append(...(explained.stages ? ofPipeline(explained.stages) : ofPlan(explained)));
  if (!list.children.length) list.append(element("li", "the server gave no plan"));
  return list;
}

export function summary(explained) {
  const stats = explained.executionStats ?? explained.stages?.[0]?.$cursor?.executionStats;
  if (!stats) return "planned, not run";
  return `${number(plain(stats.nReturned))} returned, ${number(plain(stats.totalDocsExamined))} documents and ${number(plain(stats.totalKeysExamined))} keys examined, ${number(plain(stats.executionTimeMillis))} ms`;
}

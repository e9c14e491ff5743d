// Seeded collections and requests over them: documents whose fields have the types that their names stand for, and
// filters, projections, sorts, pipelines and updates that are meaningful for these types. What random requests keep clear of
// stands at the head of differs.txt.

/** Numbers that follow from a seed (mulberry32). */
export class Random {
  constructor(seed) {
    this.state = seed >>> 0;
  }

  next() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let mixed = this.state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  below(limit) {
    return Math.floor(this.next() * limit);
  }

  chance(share) {
    return this.next() < share;
  }

  pick(list) {
    return list[this.below(list.length)];
  }

  /** A list of `least` to `most` values. */
  list(least, most, make) {
    return Array.from({ length: least + this.below(most - least + 1) }, make);
  }

  /** Some of a list's members, at least one, in its order. */
  some(list) {
    const kept = list.filter(() => this.chance(0.5));
    return kept.length > 0 ? kept : [this.pick(list)];
  }
}

const WORDS = ["", "a", "b", "ab", "abc", "B", "zebra", "x y", "éa"];
const DAY_MS = 86400000;

/** Makes documents and requests. The fields: n number, s string, d date, t numbers, w strings, o {x, y}, l [{k, v, q}], m anything. */
export class Generator {
  constructor(seed) {
    this.random = new Random(seed);
  }

  number() {
    return this.random.chance(0.7) ? this.random.below(12) - 3 : (this.random.below(200) - 60) / 8;
  }

  word() {
    return this.random.pick(WORDS);
  }

  date() {
    return new Date(Date.UTC(2019, 0, 1) + this.random.below(2000) * DAY_MS + this.random.below(24) * 3600000);
  }

  scalar() {
    const kinds = [() => this.number(), () => this.word(), () => this.date(), () => this.random.chance(0.5), () => null];
    return this.random.pick(kinds)();
  }

  item() {
    return this.object({ k: () => this.number(), v: () => this.word(), q: () => this.random.list(0, 3, () => this.number()) });
  }

  /** Fields of which some are missing and some null. */
  object(makers) {
    const document = {};
    for (const [name, make] of Object.entries(makers)) {
      if (this.random.chance(0.85)) document[name] = this.random.chance(0.1) ? null : make();
    }
    return document;
  }

  document(id) {
    return {
      _id: id,
      ...this.object({
        n: () => this.number(),
        s: () => this.word(),
        d: () => this.date(),
        t: () => this.random.list(0, 4, () => this.number()),
        w: () => this.random.list(0, 3, () => this.word()),
        o: () => this.object({ x: () => this.number(), y: () => this.word() }),
        l: () => this.random.list(0, 3, () => this.item()),
        m: () => (this.random.chance(0.25) ? this.random.list(0, 3, () => this.scalar()) : this.scalar()),
      }),
    };
  }

  documents() {
    return Array.from({ length: 4 + this.random.below(8) }, (_, id) => this.document(id));
  }

  // Filters.

  filter(depth = 2) {
    const { random } = this;
    if (depth > 0 && random.chance(0.3)) return { [random.pick(["$and", "$or", "$nor"])]: random.list(1, 3, () => this.filter(depth - 1)) };
    if (random.chance(0.12)) return { $expr: this.truth(1) };
    return Object.assign({}, ...random.list(1, 2, () => this.predicate()));
  }

  predicate() {
    const { random } = this;
    const [path, make] = random.pick([
      ["n", () => this.number()],
      ["s", () => this.word()],
      ["d", () => this.date()],
      ["o.x", () => this.number()],
      ["o.y", () => this.word()],
      ["t", () => this.number()],
      ["w", () => this.word()],
      ["l.k", () => this.number()],
      ["l.v", () => this.word()],
      ["m", () => this.scalar()],
    ]);
    if (random.chance(0.15)) return this.arrayPredicate();
    if (random.chance(0.1)) return { [path]: { $exists: random.chance(0.5) } };
    if (random.chance(0.08)) return { _id: { $mod: [2 + random.below(3), random.below(2)] } };
    if (random.chance(0.08)) return { [random.pick(["s", "w", "l.v"])]: { $regex: random.pick(["^a", "b$", "ab?", "[x-z]", "^$"]) } };
    const test = this.comparison(make);
    return { [path]: random.chance(0.12) ? { $not: test } : test };
  }

  comparison(make) {
    const { random } = this;
    const value = () => {
      const made = make();
      return made === null ? 0 : made;
    };
    switch (random.below(5)) {
      case 0:
        return { $eq: value() };
      case 1:
        return { $ne: value() };
      case 2:
        return { [random.pick(["$in", "$nin"])]: random.list(1, 4, value) };
      case 3:
        return { $gte: value(), $lte: value() };
      default:
        return { [random.pick(["$gt", "$gte", "$lt", "$lte"])]: value() };
    }
  }

  arrayPredicate() {
    const { random } = this;
    const number = () => this.number();
    return random.pick([
      () => ({ t: { $size: random.below(4) } }),
      () => ({ w: { $size: random.below(3) } }),
      () => ({ l: { $elemMatch: { k: this.comparison(number), v: { $gte: this.word() } } } }),
      () => ({ l: { $elemMatch: { k: this.comparison(number) } } }),
      () => ({ t: { $elemMatch: { $gte: this.number(), $lt: this.number() + 6 } } }),
      () => ({ t: { $elemMatch: { $in: random.list(1, 3, number) } } }),
      () => ({ "t.0": this.number() }),
      () => ({ "l.0.k": { $gt: this.number() } }),
    ])();
  }

  // Expressions, by the type of their values.

  numeric(depth) {
    const { random } = this;
    const leaf = () => random.pick([{ $ifNull: ["$n", this.number()] }, { $ifNull: ["$o.x", 1] }, this.number()]);
    if (depth <= 0) return leaf();
    const sub = () => this.numeric(depth - 1);
    return random.pick([
      leaf,
      () => ({ $add: [sub(), sub()] }),
      () => ({ $subtract: [sub(), sub()] }),
      () => ({ $multiply: [sub(), sub(), 2] }),
      () => ({ $divide: [sub(), 4] }),
      () => ({ $mod: [sub(), 5] }),
      () => ({ $abs: sub() }),
      () => ({ $floor: sub() }),
      () => ({ $ceil: sub() }),
      () => ({ $trunc: [sub(), 0] }),
      () => ({ $size: this.array(depth - 1) }),
      () => ({ $strLenCP: this.text(depth - 1) }),
      () => ({ $strLenBytes: this.text(depth - 1) }),
      () => ({ $indexOfArray: [this.array(depth - 1), this.number()] }),
      () => ({ $sum: this.array(depth - 1) }),
      () => ({ $cond: [this.truth(depth - 1), sub(), sub()] }),
      () => ({ [random.pick(["$year", "$month", "$dayOfMonth", "$hour", "$dayOfYear", "$dayOfWeek"])]: { $ifNull: ["$d", new Date(0)] } }),
      () => ({ $cmp: [sub(), sub()] }),
      () => ({ $reduce: { input: this.array(depth - 1), initialValue: 0, in: { $add: ["$$value", "$$this"] } } }),
      () => ({ $let: { vars: { v: sub() }, in: { $add: ["$$v", sub()] } } }),
      () => ({ $toInt: { $toBool: sub() } }),
    ])();
  }

  text(depth) {
    const { random } = this;
    const leaf = () => random.pick([{ $ifNull: ["$s", this.word()] }, { $ifNull: ["$o.y", "none"] }, this.word()]);
    if (depth <= 0) return leaf();
    const sub = () => this.text(depth - 1);
    return random.pick([
      leaf,
      () => ({ $concat: [sub(), "-", sub()] }),
      () => ({ $substrCP: [sub(), random.below(3), random.below(4)] }),
      () => ({ [random.pick(["$toUpper", "$toLower"])]: random.pick(["a", "bC", "x y"]) }),
      () => ({ $trim: { input: sub() } }),
      () => ({ $replaceOne: { input: sub(), find: "b", replacement: "-" } }),
      () => ({ $replaceAll: { input: sub(), find: "a", replacement: "bb" } }),
      () => ({ $toString: { $toInt: { $floor: this.numeric(depth - 1) } } }),
      () => ({ $cond: { if: this.truth(depth - 1), then: sub(), else: sub() } }),
      () => ({ $dateToString: { date: { $ifNull: ["$d", new Date(0)] }, format: random.pick(["%Y-%m-%d", "%H:%M:%S.%L", "%j"]) } }),
      () => ({ $switch: { branches: [{ case: this.truth(depth - 1), then: sub() }, { case: this.truth(depth - 1), then: "second" }], default: "rest" } }),
    ])();
  }

  truth(depth) {
    const { random } = this;
    const operator = () => random.pick(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]);
    const number = () => ({ [operator()]: [this.numeric(depth - 1), this.numeric(depth - 1)] });
    if (depth <= 0) return number();
    return random.pick([
      number,
      () => ({ [operator()]: [this.text(depth - 1), this.text(depth - 1)] }),
      () => ({ [random.pick(["$and", "$or"])]: random.list(1, 3, () => this.truth(depth - 1)) }),
      () => ({ $not: [this.truth(depth - 1)] }),
      () => ({ $in: [this.numeric(depth - 1), this.array(depth - 1)] }),
      () => ({ $isArray: [random.pick(["$t", "$n", "$l", "$m"])] }),
      () => ({ $anyElementTrue: [this.array(depth - 1)] }),
      () => ({ $allElementsTrue: [this.array(depth - 1)] }),
      () => ({ $setIsSubset: [this.array(depth - 1), this.array(depth - 1)] }),
      () => ({ $regexMatch: { input: this.text(depth - 1), regex: random.pick(["^a", "b", "z+"]) } }),
    ])();
  }

  /** An array of numbers. */
  array(depth) {
    const { random } = this;
    const leaf = () => random.pick([{ $ifNull: ["$t", []] }, { $literal: random.list(0, 3, () => this.number()) }]);
    if (depth <= 0) return leaf();
    const sub = () => this.array(depth - 1);
    return random.pick([
      leaf,
      () => ({ $concatArrays: [sub(), sub()] }),
      () => ({ $reverseArray: sub() }),
      () => ({ $slice: [sub(), 1 + random.below(3)] }),
      () => ({ $filter: { input: sub(), as: "e", cond: { $gt: ["$$e", this.number()] } } }),
      () => ({ $map: { input: sub(), as: "e", in: { $add: ["$$e", this.numeric(0)] } } }),
      () => ({ $range: [0, random.below(5), 1 + random.below(2)] }),
      () => ({ $sortArray: { input: sub(), sortBy: random.pick([1, -1]) } }),
      () => ({ $sortArray: { input: { [random.pick(["$setUnion", "$setIntersection", "$setDifference"])]: [sub(), sub()] }, sortBy: 1 } }),
      () => ({ $cond: [this.truth(depth - 1), sub(), sub()] }),
    ])();
  }

  expression(depth) {
    return this.random.pick([
      () => this.numeric(depth),
      () => this.text(depth),
      () => this.truth(depth),
      () => this.array(depth),
      () => ({ $arrayElemAt: [this.array(depth), this.random.below(5) - 2] }),
      () => ({ $mergeObjects: [{ a: this.numeric(depth - 1), b: this.text(depth - 1) }] }),
      () => ({ $mergeObjects: ["$o", { z: this.numeric(depth - 1) }] }),
      () => ({ $objectToArray: "$o" }),
      () => ({ $zip: { inputs: [{ $concatArrays: [[1], this.array(depth - 1)] }, { $concatArrays: [this.array(depth - 1), [2]] }] } }),
      () => ({ $type: this.random.pick(["$s", "$t", "$o", "$d"]) }),
      () => "$l.k",
      () => "$l.q",
      () => "$o.x",
    ])();
  }

  // Requests.

  sort() {
    const keys = this.random.some(["n", "s", "d", "o.x", "o.y"]);
    return { ...Object.fromEntries(keys.map((name) => [name, this.random.pick([1, -1])])), _id: 1 };
  }

  projection() {
    const { random } = this;
    const paths = random.some(["n", "s", "t", "o", "l.k", "m", "d"]);
    const value = random.pick([0, 1]);
    return { ...Object.fromEntries(paths.map((path) => [path, value])), ...(random.chance(0.3) ? { _id: 0 } : {}) };
  }

  pipeline() {
    const { random } = this;
    const stages = random.list(1, 4, () => this.stage());
    if (random.chance(0.15)) stages.unshift(this.window());
    if (random.chance(0.4)) stages.push(...this.ending());
    return stages;
  }

  /** A window over all documents, in the order of their ids. */
  window() {
    const { random } = this;
    const documents = random.pick([["unbounded", "current"], [-1, 1], [0, 2], ["unbounded", "unbounded"]]);
    const accumulator = { [random.pick(["$sum", "$avg", "$min", "$max", "$push"])]: this.numeric(1) };
    const output = random.pick([{ x1: { ...accumulator, window: { documents } } }, { x1: { $documentNumber: {} } }, { x1: { $rank: {} } }]);
    return { $setWindowFields: { sortBy: { _id: 1 }, output } };
  }

  /** A stage that leaves the fields of the documents what their names stand for. */
  stage() {
    const { random } = this;
    return random.pick([
      () => ({ $match: this.filter() }),
      () => ({ $addFields: { [random.pick(["x1", "x2"])]: this.expression(2) } }),
      () => ({ $set: { n: this.numeric(2), s: this.text(2) } }),
      () => ({ $sort: this.sort() }),
      () => ({ $skip: 1 + random.below(3) }),
      () => ({ $limit: 1 + random.below(6) }),
      () => ({ $unwind: { path: "$l", preserveNullAndEmptyArrays: random.chance(0.5) } }),
      () => ({ $lookup: { from: "things", localField: random.pick(["n", "o.x"]), foreignField: "_id", as: "x2" } }),
      () => ({ $unset: random.pick(["m", ["w", "d"]]) }),
    ])();
  }

  /** Stages that make other documents. */
  ending() {
    const { random } = this;
    return random.pick([
      () => [{ $group: { _id: random.pick([null, { $mod: [{ $floor: this.numeric(1) }, 3] }, { $ifNull: ["$s", "none"] }]), ...this.accumulated() } }],
      () => [{ $project: { _id: 1, e: this.expression(3) } }],
      () => [{ $project: { a: this.expression(2), b: this.expression(2), n: 1 } }],
      () => [{ $replaceRoot: { newRoot: { $mergeObjects: [{ _id: "$_id" }, { $ifNull: ["$o", {}] }] } } }],
      () => [{ $facet: { some: [{ $match: this.filter() }, { $limit: 2 }], first: [{ $sort: { _id: 1 } }, { $project: { e: this.expression(2) } }] } }],
      () => [{ $unionWith: { coll: "things", pipeline: [{ $match: this.filter() }] } }],
      () => [{ $sortByCount: { $ifNull: ["$s", "none"] } }],
      () => [{ $match: { _id: { $gte: 0 } } }, { $sort: { _id: -1 } }, { $limit: 3 }],
    ])();
  }

  accumulated() {
    const { random } = this;
    const makers = {
      total: () => ({ $sum: this.numeric(1) }),
      mean: () => ({ $avg: this.numeric(1) }),
      least: () => ({ $min: this.numeric(1) }),
      most: () => ({ $max: this.text(1) }),
      count: () => ({ $sum: 1 }),
      all: () => ({ $push: this.numeric(1) }),
      deviation: () => ({ $stdDevPop: this.numeric(1) }),
      first: () => ({ $first: this.numeric(0) }),
      last: () => ({ $last: this.text(0) }),
    };
    return Object.fromEntries(random.some(Object.keys(makers)).map((name) => [name, makers[name]()]));
  }

  update() {
    const { random } = this;
    const makers = {
      $set: () => random.pick([{ n: this.number() }, { "o.x": this.number(), s: this.word() }, { fresh: { a: this.number() } }]),
      $unset: () => random.pick([{ d: "" }, { "o.y": "" }]),
      $inc: () => ({ counter: this.number() }),
      $mul: () => ({ factor: this.number() }),
      $min: () => ({ low: this.number() }),
      $max: () => ({ high: this.number() }),
      $push: () => random.pick([{ list: this.number() }, { list: { $each: random.list(1, 3, () => this.number()), $slice: -3 } }, { list: { $each: [this.number(), this.number()], $sort: 1 } }]),
      $addToSet: () => ({ set: this.number() }),
      $pull: () => ({ list2: { $gte: this.number() } }),
      $pop: () => ({ list3: random.pick([1, -1]) }),
      $rename: () => ({ m: "renamed" }),
    };
    return Object.fromEntries(random.some(Object.keys(makers)).map((name) => [name, makers[name]()]));
  }

  /** Documents whose fields take every operator of `update`. */
  updatable() {
    const numbers = () => this.random.list(0, 4, () => this.number());
    return this.documents().map(({ n: _n, t: _t, w: _w, l: _l, ...rest }) => ({ ...rest, o: rest.o ?? {}, counter: this.number(), factor: this.number(), low: this.number(), high: this.number(), list: numbers(), set: [...new Set(numbers())], list2: numbers(), list3: numbers() }));
  }
}

// Values in the notation of the scripts, so that a random case can be put into one.

const BARE = /^[A-Za-z_$][\w$]*$/;

/** A value as a script has it. */
export function shown(value) {
  if (value instanceof Date) return `ISODate(${JSON.stringify(value.toISOString())})`;
  if (value instanceof RegExp) return String(value);
  if (Array.isArray(value)) return `[${value.map(shown).join(", ")}]`;
  if (value === null || typeof value !== "object") return typeof value === "number" ? String(value) : JSON.stringify(value) ?? "undefined";
  if (Object.getPrototypeOf(value) !== Object.prototype) return String(value);
  const fields = Object.entries(value).map(([name, item]) => `${BARE.test(name) ? name : JSON.stringify(name)}: ${shown(item)}`);
  return `{${fields.join(", ")}}`;
}

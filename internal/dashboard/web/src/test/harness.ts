import { eachLine, type Line } from "../tile.ts";

// A test is a function that throws. Node.js runs them, started by a test in Go.

const tests: [string, () => void | Promise<void>][] = [];

export function test(name: string, f: () => void | Promise<void>): void {
  tests.push([name, f]);
}

/** equal compares two values as JSON. */
export function equal(got: unknown, want: unknown, what = ""): void {
  const a = JSON.stringify(got);
  const b = JSON.stringify(want);
  if (a !== b) throw new Error(`${what}: got ${a}, want ${b}`);
}

/** decode returns copies of the lines of a tile. */
export function decode(data: Uint8Array): Line[] {
  const lines: Line[] = [];
  eachLine(data, (l) => {
    const { line, runs } = l;
    lines.push({ line, runs, ends: l.ends.slice(0, runs), cats: l.cats.slice(0, runs), cover: l.cover.slice(0, runs) });
  });
  return lines;
}

export async function run(): Promise<void> {
  let failed = 0;
  for (const [name, f] of tests) {
    try {
      await f();
      console.log("ok " + name);
    } catch (err) {
      failed++;
      console.log(`FAIL ${name}: ${err instanceof Error ? err.message : String(err)}`);
    }
  }
  console.log(`${tests.length} tests, ${failed} failed`);
}

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

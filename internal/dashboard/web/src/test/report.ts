import { parse, ReportSource } from "../report.ts";
import { decode, equal, test } from "./harness.ts";

/** container writes data as the server does. */
function container(): Uint8Array {
  const parts: Uint8Array[] = [];
  const columns: { name: string; type: string; offset: number; length: number }[] = [];
  let offset = 0;
  const add = (name: string, type: string, data: ArrayBufferView): void => {
    const b = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    columns.push({ name, type, offset, length: b.length });
    parts.push(b);
    offset += b.length;
  };
  // Not sorted, so that the page must.
  add("category", "u8", Uint8Array.from([1, 8, 8]));
  add("row", "u32", Uint32Array.from([1, 0, 0]));
  add("start", "f64", Float64Array.from([10, 200, 0]));
  add("duration", "f64", Float64Array.from([100, 50, 100]));
  add("key", "u32", Uint32Array.from([0xffffffff, 1, 0]));
  add("bytes", "f64", Float64Array.from([4096, 7, 5]));
  add("peer", "u32", Uint32Array.from([1, 0, 0]));
  add("transport", "u32", Uint32Array.from([1, 0, 0]));
  add("flags", "u8", Uint8Array.from([1, 2, 0]));
  add("keys", "bytes", new TextEncoder().encode("inc-1inc-ü"));
  add("key-offsets", "u32", Uint32Array.from([0, 5, 11]));
  const files = {
    "/millstream/meta.json": { id: "r" }, "/millstream/rows.json": { rows: [{ id: 0 }, { id: 1 }], names: [] },
    "/millstream/logs.json?worker=a": { lines: ["x"] },
  };
  const head = new TextEncoder().encode(JSON.stringify({ files, columns, peers: ["tcp://b"], transports: ["rc"] }));
  const out = new Uint8Array(4 + head.length + offset);
  new DataView(out.buffer).setUint32(0, head.length, true);
  out.set(head, 4);
  let at = 4 + head.length;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

test("report", async () => {
  const s = new ReportSource(parse(container()));
  equal((await s.meta()).id, "r");
  const w = { start: 0, stop: 1000, from: 0, to: 10 };
  const got = await s.spans(w, 10);
  equal(got, {
    spans: [
      { row: 0, start: 0, stop: 100, cat: 8, bytes: 5, key: "inc-1" },
      { row: 0, start: 200, stop: 250, cat: 8, bytes: 7, key: "inc-ü", status: "error" },
      { row: 1, start: 10, stop: 110, cat: 1, bytes: 4096, peer: "tcp://b", transport: "rc", incoming: true },
    ],
    truncated: false,
  });
  equal((await s.spans(w, 2)).truncated, true);
  equal((await s.spans({ ...w, start: 150 }, 10)).spans.length, 1);
  const sum = await s.summary({ ...w, start: 50 });
  equal(sum.categories.map((c) => [c.cat, c.count, Math.round(c.seconds * 1e6), c.bytes]), [[8, 2, 100, 12], [1, 1, 60, 4096]]);
  equal(sum.transports.map((t) => [t.transport, t.count]), [["rc", 1]]);
  equal(decode(await s.tile({ level: 0, index: 0, from: 0, to: 64, group: 0 })).length, 2);
  equal(await s.json("logs.json", { worker: "a" }), { lines: ["x"] });
  let text = "";
  await s.json("why.json").catch((err: Error) => (text = err.message));
  equal(text, "This is not part of the report.");
});

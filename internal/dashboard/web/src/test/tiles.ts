// Prints tiles of a report, one as hexadecimal digits on each line, for a test that compares them with those of the
// server. Arguments: a file with the base64 of the data, then level,index,from,to,group of each tile.

import { embedded, ReportSource } from "../report.ts";

declare const process: { argv: string[] };
const fs = (await import("node:fs" as string)) as { readFileSync(name: string, encoding: string): string };
const [, , file, ...tiles] = process.argv;
const source = new ReportSource(await embedded(fs.readFileSync(file!, "utf8")));
for (const t of tiles) {
  const [level, index, from, to, group] = t.split(",").map(Number) as [number, number, number, number, number];
  const data = await source.tile({ level, index, from, to, group });
  console.log(Array.from(data, (b) => b.toString(16).padStart(2, "0")).join(""));
}

import "./format.ts";
import "./tile.ts";
import "./model.ts";
import "./cache.ts";
import "./pages.ts";
import "./report.ts";
import { run } from "./harness.ts";

await run();

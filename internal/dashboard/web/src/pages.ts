// All pages, in the order of the navigation. A page without a title is reached by links only.

import type { Page } from "./app.ts";
import { workersPage } from "./pages/workers.ts";
import { streamPage } from "./stream/view.ts";

export const pages: Page[] = [streamPage, workersPage];

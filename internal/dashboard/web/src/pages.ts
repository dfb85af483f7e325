// All pages, in the order of the navigation. A page without a title is reached by links only.

import type { Page } from "./app.ts";
import { bandwidthPage } from "./pages/bandwidth.ts";
import { cliquesPage } from "./pages/cliques.ts";
import { failuresPage, storyPage } from "./pages/failures.ts";
import { graphPage } from "./pages/graph.ts";
import { memoryPage } from "./pages/memory.ts";
import { profilePage } from "./pages/profile.ts";
import { progressPage } from "./pages/progress.ts";
import { whyPage } from "./pages/why.ts";
import { workersPage } from "./pages/workers.ts";
import { streamPage } from "./stream/view.ts";

export const pages: Page[] = [streamPage, workersPage, progressPage, bandwidthPage, graphPage, cliquesPage, memoryPage,
  failuresPage, storyPage, whyPage, profilePage];

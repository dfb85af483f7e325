// The JSON of the server. Times are microseconds since the origin of the history.

/** Meta describes a history. */
export interface Meta {
  version: string;
  scheduler: string;
  id: string; // changes when the scheduler restarts
  started: number;
  origin: number; // Unix time in microseconds
  first: number;
  last: number;
  spans: number;
  dropped: number;
  bytes: number;
  rows: number;
  names: number;
  report: boolean;
}

/** Row is one line of the task stream. */
export interface Row {
  id: number;
  worker: string;
  name: string;
  kind: "thread" | "transfer" | "disk";
  slot: number;
}

export interface Rows {
  rows: Row[];
  names: string[]; // by category
}

/** Tick is sent twice a second by the live stream. */
export interface Tick {
  id: string;
  now: number;
  last: number;
  rows: number;
  names: number;
  tasks: Record<string, number>;
  workers: number;
  threads: number;
  rate: number;
  memory: number;
  bytes_rate: Record<string, number>;
  failures: number;
}

export interface Span {
  row: number;
  start: number;
  stop: number;
  cat: number;
  key?: string;
  bytes?: number;
  peer?: string;
  transport?: string;
  status?: string;
  incoming?: boolean;
}

export interface Spans {
  spans: Span[];
  truncated: boolean;
}

/** Totals of one category or one transport. */
export interface Total {
  cat?: number;
  name?: string;
  transport?: string;
  count: number;
  seconds: number;
  bytes: number;
}

export interface Summary {
  categories: Total[];
  transports: Total[];
}

export interface Worker {
  address: string;
  name: string;
  host: string;
  status: string;
  threads: number;
  cpu: number; // percent of one core
  memory: { managed: number; unmanaged: number; spilled: number; limit: number; rss: number };
  device: { used: number; limit: number; pinned: number; utilization: number; total: number } | null;
  processing: number;
  ready: number;
  executing: number;
  held: number;
  last_seen: number; // seconds since the last heartbeat
  transports: string[] | null;
  version: string;
  dashboard: string;
}

export interface Prefix {
  name: string;
  waiting: number;
  queued: number;
  no_worker?: number;
  processing: number;
  memory: number;
  erred: number;
  released: number;
  forgotten: number;
  seconds: number;
  bytes: number;
}

export interface Pair {
  from: string;
  to: string;
  transport: string;
  bytes: number;
  seconds: number;
  rate: number; // bytes per second
  count: number;
  reason: string;
}

export interface Bandwidth {
  workers: string[];
  pairs: Pair[];
  transports: Record<string, unknown>;
}

export interface GraphNode {
  id: string;
  label: string;
  state?: string;
  counts?: Record<string, number>;
  tasks?: number;
}

export interface Graph {
  grouped: boolean;
  nodes: GraphNode[];
  edges: [number, number, number][];
}

export interface Collective {
  op: string;
  count: number;
  bytes: number;
  seconds: number;
  slowest?: { rank: number; seconds: number } | null;
}

export interface Clique {
  id: string;
  name: string;
  state: string;
  end?: number; // seconds since 1970
  ranks: { rank: number; worker: string; host: string }[];
  collectives: Collective[] | null;
}

export type Series = Record<string, [number, number][]>;

export interface Failure {
  time: number;
  kind: string;
  worker: string;
  key: string;
  cause: string;
  text: string;
}

export interface Story {
  key: string;
  events: { time: number; from: string; to: string; stimulus: string; worker: string }[];
}

export interface Finding {
  kind: string;
  title: string;
  text: string;
  start?: number;
  stop?: number;
  rows?: number[];
}

export interface Call {
  name: string;
  file?: string;
  line?: number;
  count: number;
  children?: Call[] | null;
}

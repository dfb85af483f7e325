package taskbench

// command is a request to a process.
type command struct {
	// Do is start (Workers, Threads, Certs, Directory; answers with Pids), a case (N, Size, Parts, Seed, Busy, Spin,
	// Directory), stop, or for Go only: start-device (Device, Size of the pool of each worker, Directory; like
	// start), start-spill (Device, Size of an array, Limit of the worker's GPU memory, Directory; like start),
	// device-copies (Device, Size, N: copies from and to a GPU), scheduler (Journal, Dashboard; answers with
	// Address), usage (N: the number of tasks that must be in memory), empty (waits until no task is left, and
	// answers like usage), zero (Address, Workers, Threads: workers that do nothing), flood (Address, N, Rate per
	// second: no-op tasks), release, profile (Path: starts a profile, or ends it without a path).
	Do        string  `json:"do"`
	Workers   int     `json:"workers,omitempty"`
	Threads   int     `json:"threads,omitempty"`
	Certs     string  `json:"certs,omitempty"`
	Directory string  `json:"directory,omitempty"`
	N         int     `json:"n,omitempty"`
	Size      int64   `json:"size,omitempty"`
	Limit     int64   `json:"limit,omitempty"`
	Parts     int     `json:"parts,omitempty"`
	Seed      uint64  `json:"seed,omitempty"`
	Busy      bool    `json:"busy,omitempty"`
	Spin      float64 `json:"spin,omitempty"`
	Address   string  `json:"address,omitempty"`
	Journal   string  `json:"journal,omitempty"`
	Dashboard bool    `json:"dashboard,omitempty"`
	Rate      int     `json:"rate,omitempty"`
	Path      string  `json:"path,omitempty"`
	Device    string  `json:"device,omitempty"`
}

// answer is the reply.
type answer struct {
	Version string `json:"version,omitempty"`
	Pid     int    `json:"pid,omitempty"`
	Pids    []int  `json:"pids,omitempty"`
	Address string `json:"address,omitempty"`
	// Dashboard is the host:port of a scheduler's dashboard.
	Dashboard string `json:"dashboard,omitempty"`
	// Seconds is the duration of a case, for Tasks or Bytes. Check must be equal on both sides.
	Seconds   float64 `json:"seconds,omitempty"`
	Tasks     int64   `json:"tasks,omitempty"`
	Bytes     int64   `json:"bytes,omitempty"`
	Check     string  `json:"check,omitempty"`
	Transport string  `json:"transport,omitempty"`
	// Times are the times of all repetitions in seconds, if not only the best is needed.
	Times []float64 `json:"times,omitempty"`
	// Rates are bandwidths in bytes per second, in the order of the case.
	Rates []float64 `json:"rates,omitempty"`
	// Ran are the numbers of tasks that each worker ran.
	Ran []int64 `json:"ran,omitempty"`
	// CPU is the processor time of the process in seconds, CPUAfter the same after the work of usage itself. RSS and
	// Heap are its memory in bytes: resident, and in use after a garbage collection.
	CPU      float64 `json:"cpu,omitempty"`
	CPUAfter float64 `json:"cpu_after,omitempty"`
	RSS      int64   `json:"rss,omitempty"`
	Heap     int64   `json:"heap,omitempty"`
	Error    string  `json:"error,omitempty"`
}

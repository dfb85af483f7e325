package commpeer

// Command is a line to a process of a pair.
type Command struct {
	// Do is listen (Address; answers with Address), connect (Address), rtt and echo (N,
	// Size; answer with Seconds), idle (N more comms).
	Do      string `json:"do"`
	Address string `json:"address,omitempty"`
	N       int    `json:"n,omitempty"`
	Size    int64  `json:"size,omitempty"`
}

// Answer is the line that comes back.
type Answer struct {
	Address string  `json:"address,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Error   string  `json:"error,omitempty"`
}

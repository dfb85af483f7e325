package commpeer

// Command is a command to a process of a pair, as one line.
type Command struct {
	// Do is listen (Address; replies with Address), connect (Address), rtt and echo (N, Size; reply with Seconds), idle
	// (N more comms).
	Do      string `json:"do"`
	Address string `json:"address,omitempty"`
	N       int    `json:"n,omitempty"`
	Size    int64  `json:"size,omitempty"`
	// Stripes is the number of stripes of comms of Go processes (listen, connect; 0 for the default).
	Stripes int `json:"stripes,omitempty"`
}

// Answer is the reply to a Command, as one line.
type Answer struct {
	Address string  `json:"address,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	Error   string  `json:"error,omitempty"`
}

package gpu

// order tells the second process what to do. Orders run side by side; answers carry their number.
type order struct {
	ID int
	Do string

	Options  map[string]string // open
	Scheme   string            // open-comm: tcp, or "" for ucxx
	Socket   bool              // open, accept: by UCX's own connections
	Progress int               // open: ucx.ProgressMode
	Endpoint int               // number of the endpoint, as accept gave it
	Block    int               // number of the memory, as register gave it
	Kind     string            // of memory
	N        int
	Tag      uint64 // tag, or id of an active message
	Seed     uint64
	Flags    amFlags
	Frames   []frameSpec
	Host     string // receive of frames: where those in host memory go; "" for Go's heap
	Device   string // and those in device memory; "" for host memory
	Canary   bool   // a receive that must fail: then nothing may be written any more
}

type amFlags struct{ Eager, Rendezvous bool }

type frameSpec struct {
	Kind string
	N    int
	Seed uint64
}

// answer ends an order, or with Note tells how far it is.
type answer struct {
	ID   int
	Note string
	Err  string

	Address       string
	Number        int
	Key           []byte
	Rendezvous    bool
	Contexts      int
	Registrations int
	InFlight      int64
	Regions       int64
}

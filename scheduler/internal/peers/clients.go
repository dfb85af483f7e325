package peers

import (
	"strings"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
)

// Clients are the clients that are known. The loop owns it.
type Clients struct {
	state  *state.State
	ByName map[string]*Client
}

func NewClients(st *state.State) *Clients {
	return &Clients{state: st, ByName: map[string]*Client{}}
}

// ByID returns the client with an id of the state; nil for none.
func (s *Clients) ByID(id state.ClientID) *Client {
	if sc := s.state.Client(id); sc != nil {
		c, _ := sc.Data.(*Client)
		return c
	}
	return nil
}

// Client is one who wants keys: a client, or a part of the scheduler, such as a variable,
// which has no stream. The loop owns it.
type Client struct {
	ID       state.ClientID
	Name     string
	Versions any
	Program  *Program // nil for clients that do not say; see programOf
	Short    string   // what it was last told to wait for, see reportShortages
	Stream   *Stream  // nil while it is away, and for parts of the scheduler
	Part     bool     // a part of the scheduler
	LastSeen time.Time
	AwayFrom time.Time // when it lost its connection; zero while it is there
}

// IsPart tells names that parts of the scheduler have as clients.
func IsPart(name string) bool {
	return name == FireAndForget || strings.HasPrefix(name, "variable-") || strings.HasPrefix(name, "queue-") ||
		strings.HasPrefix(name, "published-")
}

// FireAndForget is the client in whose name others make tasks run once that they do not
// want to wait for.
const FireAndForget = "fire-and-forget"

package peers

import (
	"strings"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
)

// Clients are the known clients. The loop owns it.
type Clients struct {
	state  *state.State
	ByName map[string]*Client
}

func NewClients(st *state.State) *Clients {
	return &Clients{state: st, ByName: map[string]*Client{}}
}

// ByID returns the client with an ID of the state; nil for none.
func (s *Clients) ByID(id state.ClientID) *Client {
	if sc := s.state.Client(id); sc != nil {
		c, _ := sc.Data.(*Client)
		return c
	}
	return nil
}

// Client holds keys: a client, or a part of the scheduler, such as a variable, which has no stream. The loop owns it.
type Client struct {
	ID       state.ClientID
	Name     string
	Versions any
	Program  *Program // nil if unknown; see ProgramOf
	Short    string   // last reported shortage, see package shortage
	Stream   *Stream  // nil while disconnected, and for parts of the scheduler
	Part     bool     // a part of the scheduler
	LastSeen time.Time
	AwayFrom time.Time // when its connection was lost; zero while connected
}

// IsPart reports whether a name is that of a part of the scheduler.
func IsPart(name string) bool {
	return name == FireAndForget || strings.HasPrefix(name, "variable-") || strings.HasPrefix(name, "queue-") ||
		strings.HasPrefix(name, "published-")
}

// FireAndForget is the client that holds tasks whose results no client waits for.
const FireAndForget = "fire-and-forget"

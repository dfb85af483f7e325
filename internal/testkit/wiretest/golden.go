package wiretest

import (
	"encoding/json"
	"fmt"
	"os"

	"go.millstream.dev/wire"
)

// Case is a golden message.
type Case struct {
	// Name is the unique name of the case.
	Name string `json:"name"`
	// Kind is "value" for one value sent with Serialize as the whole message, "message" for a message of a server.
	Kind string `json:"kind"`
	// Text describes the value (see Describe), loosely for messages.
	Text string `json:"text"`
	// Frames are the frames of the message.
	Frames [][]byte `json:"frames"`
}

// Message returns the message of the case.
func (c *Case) Message() *wire.Message {
	m := new(wire.Message)
	for _, f := range c.Frames {
		m.Frames = append(m.Frames, wire.HeapFrame(f))
	}
	return m
}

// Loose reports whether Text was created with loose set.
func (c *Case) Loose() bool { return c.Kind == "message" }

// Load reads a file of golden messages.
func Load(path string) ([]Case, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(b)
}

// Parse reads golden messages.
func Parse(b []byte) ([]Case, error) {
	var doc struct {
		Cases []Case `json:"cases"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("wiretest: parse golden messages: %w", err)
	}
	if len(doc.Cases) == 0 {
		return nil, fmt.Errorf("wiretest: no golden messages")
	}
	return doc.Cases, nil
}

package member

import (
	"context"
	"fmt"

	"go.millstream.dev/comm"
	"go.millstream.dev/wire"
)

// writeText sends a text as one message.
func writeText(ctx context.Context, c comm.Comm, text string) error {
	return c.Write(ctx, &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte(text))}})
}

// readText receives a text.
func readText(ctx context.Context, c comm.Comm) (string, error) {
	m, err := c.Read(ctx)
	if err != nil {
		return "", err
	}
	defer m.Release()
	b := m.Body()
	if len(m.Frames) != 1 || len(b) == 0 || len(b) > maxText {
		return "", fmt.Errorf("member: message of %d frames and %d bytes: want one text of at most %d bytes",
			len(m.Frames), len(b), maxText)
	}
	return string(b), nil
}

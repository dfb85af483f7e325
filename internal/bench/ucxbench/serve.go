package ucxbench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// closeGrace bounds the shutdown of a child whose parent has gone.
const closeGrace = 2 * time.Second

// Serve runs one child: it handles requests of the parent until r ends.
func Serve(ctx context.Context, r io.Reader, w io.Writer, side Side) error {
	err := serve(ctx, r, w, func(ctx context.Context, verb string, args json.RawMessage) (any, error) {
		switch verb {
		case "open":
			var a OpenArgs
			if err := json.Unmarshal(args, &a); err != nil {
				return nil, err
			}
			return side.Open(ctx, a)
		case "connect":
			var address string
			if err := json.Unmarshal(args, &address); err != nil {
				return nil, err
			}
			return side.Connect(ctx, address)
		case "run":
			var spec Spec
			if err := json.Unmarshal(args, &spec); err != nil {
				return nil, err
			}
			return side.Run(ctx, spec)
		default:
			return nil, fmt.Errorf("unknown verb %q: parent and child have different releases", verb)
		}
	})
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	if cerr := side.Close(closing); err == nil {
		err = cerr
	}
	return err
}

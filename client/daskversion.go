package client

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"go.millstream.dev/wire"
	"go.millstream.dev/wire/msgpack"
)

// Releases of Dask's scheduler that this client has been tested with. Older ones take graphs
// in another form.
const (
	oldestDask = "2025.4.1"
	newestDask = "2026.8.0"
)

// checkDask asks a scheduler of Dask's for its release: an older one is refused, a newer one
// is warned of.
func (c *Client) checkDask(ctx context.Context) error {
	var reply msgpack.Map
	if err := c.call(ctx, "versions", wire.Dict{}, &reply); err != nil {
		return err
	}
	release := packagesOf(reply)["distributed"]
	switch {
	case release == "":
		c.log.Warn("the scheduler does not tell its release of Dask: tasks may fail in odd ways", "scheduler", c.address, "tested", oldestDask+" to "+newestDask)
	case compareReleases(release, oldestDask) < 0:
		return fmt.Errorf("it runs Dask %.40s, and graphs have another form before %s: upgrade dask and distributed there", release, oldestDask)
	case compareReleases(release, newestDask) > 0:
		c.log.Warn("the scheduler runs a release of Dask that this client has not been tested with", "scheduler", c.address, "release", release, "tested", oldestDask+" to "+newestDask)
	}
	return nil
}

// compareReleases compares by the numbers; what follows them ("rc1", "+12.g0a") does not
// count.
func compareReleases(a, b string) int {
	for len(a) > 0 || len(b) > 0 {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		if d := leadingNumber(x) - leadingNumber(y); d != 0 {
			return d
		}
	}
	return 0
}

func leadingNumber(s string) int {
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		s = s[:end]
	}
	n, _ := strconv.Atoi(s) // "" is 0
	return n
}

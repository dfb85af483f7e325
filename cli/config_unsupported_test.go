package cli

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"go.millstream.dev/config"
	"go.millstream.dev/secure"
)

// Keys of Dask without an effect are named in the log once, unless they ask for what is done anyway.
func TestUnsupportedKeys(t *testing.T) {
	for _, c := range []struct {
		role secure.Role
		env  string
		want string // key that is warned of; "" for none
		err  string
	}{
		{secure.Scheduler, "DASK_DISTRIBUTED__SCHEDULER__PRELOAD=mod", "", ""},
		{secure.Scheduler, "DASK_DISTRIBUTED__NANNY__PRELOAD=mod", "", ""},
		{secure.Worker, "DASK_DISTRIBUTED__NANNY__PRELOAD=[]", "", ""},
		{secure.Worker, "DASK_DISTRIBUTED__NANNY__PRELOAD=['a', 'b']", "", ""},
		{secure.Worker, "DASK_DISTRIBUTED__NANNY__ENVIRON={'A': 1}", "", ""},
		{secure.Worker, "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES=['my.routes']", "distributed.worker.http.routes", ""},
		{secure.Scheduler, "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES=['distributed.http.scheduler.api', 'my.routes']",
			"distributed.scheduler.http.routes", ""},
		{secure.Scheduler, "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES=['distributed.http.scheduler.api']", "", ""},
		{secure.Scheduler, "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES=['distributed.http.health']", "", ""},
		{secure.Scheduler, "DASK_DISTRIBUTED__SCHEDULER__PICKLE=True", "", ""},
		{secure.Scheduler, "DASK_DISTRIBUTED__SCHEDULER__PICKLE=False", "", "--no-python"},
	} {
		t.Run(c.env, func(t *testing.T) {
			before, err := config.Default()
			if err != nil {
				t.Fatal(err)
			}
			defer config.SetDefault(before)
			own, err := config.Load(config.Options{Env: []string{c.env}})
			if err != nil {
				t.Fatal(err)
			}
			config.SetDefault(own)
			var log bytes.Buffer
			err = warnUnsupported(c.role, slog.New(slog.NewTextHandler(&log, nil)))
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got error %v, want %q", err, c.err)
			}
			if got := strings.Count(log.String(), "configuration key has no effect"); c.want == "" && got != 0 ||
				c.want != "" && got != 1 {
				t.Errorf("got %d warnings: %s", got, log.String())
			}
			if !strings.Contains(log.String(), c.want) {
				t.Errorf("got %q, want the key %s", log.String(), c.want)
			}
		})
	}
}

package doctor

import (
	"cmp"
	"fmt"
	"strings"

	"go.millstream.dev/internal/comm/flow"
)

// Member is a worker of a cluster, as it describes itself.
type Member = flow.Member

// Flow is a measured transfer from one worker to another.
type Flow = flow.Flow

// Judge reports the connection and the speed of each flow, and why it was not faster.
func Judge(flows []Flow) Report {
	var r Report
	for _, f := range flows {
		name := fmt.Sprintf("%s → %s: ", f.From.Name, f.To.Name)
		if f.Device {
			name += "device memory, "
		}
		if f.Err != nil {
			r.Findings = append(r.Findings, Finding{ID: "transfer", Severity: Fail, Title: name + "nothing arrived",
				Detail: f.Err.Error(), Fix: "check the logs of both workers"})
			continue
		}
		title := name + cmp.Or(f.Scheme, "unknown connection")
		if len(f.Transports) > 0 {
			title += " (" + strings.Join(f.Transports, ", ") + ")"
		}
		if f.Rate > 0 {
			title += fmt.Sprintf(", %.2f GB/s", f.Rate/1e9)
		}
		severity, why, fix := f.Faster()
		r.Findings = append(r.Findings,
			Finding{ID: "transfer", Severity: Severity(severity), Title: title, Detail: why, Fix: fix})
	}
	return r
}

package benchfmt

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Better specifies which direction of a figure is an improvement.
type Better string

// Directions.
const (
	Lower  Better = "lower"
	Higher Better = "higher"
)

// Units of the benchmarks. Rates of bytes are decimal: 1 GB/s is 1e9 bytes per second.
const (
	UnitMicros    = "us"
	UnitGBps      = "GB/s"
	UnitMsgRate   = "msg/s"
	UnitAllocs    = "allocs/op"
	UnitCorePct   = "%core"
	UnitTaskRate  = "tasks/s"
	UnitBytes     = "B"
	UnitSeconds   = "s"
	UnitMappings  = "mappings"
	UnitCalls     = "calls/op"
	bytesPerGB    = 1e9
	microsPerSec  = 1e6
	bytesPerMebi  = 1 << 20
	significantJS = 4
)

// Figure is one measured number, with the number of the peer if one ran. Its JSON form is a stable interface of
// `--json`: fields are added, but never changed.
type Figure struct {
	// Bench is the benchmark, such as "ucx".
	Bench string `json:"bench"`
	// Case is the measured case, such as "tag-lat".
	Case string `json:"case"`
	// Setting is the requested setting: "shm", "tcp", "auto", "cuda_ipc".
	Setting string `json:"setting"`
	// Transport is the transport that was used, such as "posix" or "tcp/lo"; empty if unknown.
	Transport string `json:"transport"`
	// Mode is the progress mode of the worker: "spin" or "adaptive".
	Mode string `json:"mode"`
	// Size is the payload of one message in bytes.
	Size int64 `json:"size"`
	// Unit is the unit of Ours and Theirs.
	Unit string `json:"unit"`
	// Ours is the number of Millstream, the best of all rounds.
	Ours float64 `json:"ours"`
	// Peer is the name of the peer program, empty if none ran.
	Peer string `json:"peer"`
	// Theirs is the number of the peer, the best of all rounds.
	Theirs float64 `json:"theirs"`
	// Better is the direction of improvement.
	Better Better `json:"better"`
	// Mem is the memory of the payload: "heap", "buffer" or "cuda".
	Mem string `json:"mem"`
	// Endpoint is the kind of endpoint if it is not the default.
	Endpoint string `json:"endpoint"`
	// Tasks is the number of tasks in the graph.
	Tasks int64 `json:"tasks"`
	// OursMedian and TheirsMedian are the medians of the rounds, 0 if they are not reported.
	OursMedian   float64 `json:"ours_median"`
	TheirsMedian float64 `json:"theirs_median"`
	// Bar is the target of the figure; it may be nil.
	Bar *Bar `json:"bar"`
}

// Ratio returns Ours/Theirs, and false if no peer ran or its number is zero.
func (f Figure) Ratio() (float64, bool) {
	if f.Peer == "" || f.Theirs == 0 || math.IsNaN(f.Theirs) {
		return 0, false
	}
	return f.Ours / f.Theirs, true
}

// Wins reports whether Ours is at least as good as Theirs.
func (f Figure) Wins() bool {
	r, ok := f.Ratio()
	if !ok {
		return false
	}
	if f.Better == Higher {
		return r >= 1
	}
	return r <= 1
}

// Validate reports what is missing from a figure that is about to be printed.
func (f Figure) Validate() error {
	for _, field := range []struct{ name, value string }{
		{"bench", f.Bench}, {"case", f.Case}, {"setting", f.Setting}, {"unit", f.Unit},
	} {
		if field.value == "" {
			return fmt.Errorf("benchfmt: figure has no %q: %+v", field.name, f)
		}
	}
	if f.Better != Lower && f.Better != Higher {
		return fmt.Errorf("benchfmt: figure %s/%s has better=%q, want lower or higher", f.Bench, f.Case, f.Better)
	}
	for _, v := range []float64{f.Ours, f.Theirs, f.OursMedian, f.TheirsMedian} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return fmt.Errorf("benchfmt: figure %s/%s has value %v, which is not a measurement", f.Bench, f.Case, v)
		}
	}
	return nil
}

// jsonFigure determines the order of the fields and omits those of the peer if none ran.
type jsonFigure struct {
	Bench     string  `json:"bench"`
	Case      string  `json:"case"`
	Setting   string  `json:"setting"`
	Transport string  `json:"transport"`
	Mode      string  `json:"mode"`
	Size      int64   `json:"size"`
	Unit      string  `json:"unit"`
	Ours      number  `json:"ours"`
	Peer      string  `json:"peer,omitempty"`
	Theirs    *number `json:"theirs,omitempty"`
	Ratio     *number `json:"ratio,omitempty"`
	Better    Better  `json:"better"`
	Mem       string  `json:"mem,omitempty"`
	Endpoint  string  `json:"endpoint,omitempty"`

	Tasks        int64   `json:"tasks,omitempty"`
	OursMedian   *number `json:"ours_median,omitempty"`
	TheirsMedian *number `json:"theirs_median,omitempty"`
	Bar          *number `json:"bar,omitempty"`
	BarOf        string  `json:"bar_of,omitempty"` // ratio or ours
	Met          *bool   `json:"met,omitempty"`
}

// number is a float that is printed with four significant digits, which is the precision of measurements on a shared
// machine.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	v := float64(n)
	if v != 0 {
		scale := math.Pow(10, significantJS-1-math.Floor(math.Log10(math.Abs(v))))
		if scale < 1 {
			scale = 1 // integers are not rounded
		}
		v = math.Round(v*scale) / scale
	}
	return strconv.AppendFloat(nil, v, 'f', -1, 64), nil
}

// MarshalJSON returns the line described at [Figure].
func (f Figure) MarshalJSON() ([]byte, error) {
	j := jsonFigure{
		Bench: f.Bench, Case: f.Case, Setting: f.Setting, Transport: f.Transport, Mode: f.Mode, Size: f.Size,
		Unit: f.Unit, Ours: number(f.Ours), Better: f.Better, Mem: f.Mem, Endpoint: f.Endpoint, Tasks: f.Tasks,
		OursMedian: optional(f.OursMedian), TheirsMedian: optional(f.TheirsMedian),
	}
	if f.Bar != nil {
		bar := number(f.Bar.Value)
		j.Bar, j.BarOf = &bar, "ours"
		if f.Bar.Ratio {
			j.BarOf = "ratio"
		}
		if met, known := f.Met(); known {
			j.Met = &met
		}
	}
	if f.Peer != "" {
		theirs := number(f.Theirs)
		j.Peer, j.Theirs = f.Peer, &theirs
		if r, ok := f.Ratio(); ok {
			ratio := number(r)
			j.Ratio = &ratio
		}
	}
	return json.Marshal(j)
}

// optional returns nil for 0.
func optional(v float64) *number {
	if v == 0 {
		return nil
	}
	n := number(v)
	return &n
}

// Sink receives figures. Close writes buffered ones.
type Sink interface {
	Add(Figure) error
	Close() error
}

// JSONWriter is a [Sink] that writes one JSON object per line immediately, so that an interrupted run keeps its
// figures.
type JSONWriter struct{ w io.Writer }

// NewJSONWriter returns a JSONWriter for w.
func NewJSONWriter(w io.Writer) *JSONWriter { return &JSONWriter{w: w} }

// Add writes one line.
func (j *JSONWriter) Add(f Figure) error {
	if err := f.Validate(); err != nil {
		return err
	}
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	_, err = j.w.Write(append(line, '\n'))
	return err
}

// Close does nothing: all lines are written.
func (j *JSONWriter) Close() error { return nil }

// GBps converts bytes moved in seconds to the unit GB/s.
func GBps(bytes, seconds float64) float64 { return bytes / seconds / bytesPerGB }

// GBpsFromMebi converts MiB/s, which ucx_perftest prints as "MB/s", to GB/s.
func GBpsFromMebi(mebi float64) float64 { return mebi * bytesPerMebi / bytesPerGB }

// Micros converts seconds to microseconds.
func Micros(seconds float64) float64 { return seconds * microsPerSec }

package benchfmt

import "encoding/json"

// UnmarshalJSON reads a line of `--json`. The bar is not restored.
func (f *Figure) UnmarshalJSON(data []byte) error {
	var j jsonFigure
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	value := func(n *number) float64 {
		if n == nil {
			return 0
		}
		return float64(*n)
	}
	*f = Figure{
		Bench: j.Bench, Case: j.Case, Setting: j.Setting, Transport: j.Transport, Mode: j.Mode, Size: j.Size,
		Unit: j.Unit,
		Ours: float64(j.Ours), Peer: j.Peer, Theirs: value(j.Theirs), Better: j.Better, Mem: j.Mem,
		Endpoint: j.Endpoint,
		Tasks:    j.Tasks, OursMedian: value(j.OursMedian), TheirsMedian: value(j.TheirsMedian),
	}
	return f.Validate()
}

package benchfmt

// Bar is what a figure has to reach. The figure's Better says from which side.
type Bar struct {
	// Value is the bar itself.
	Value float64
	// Ratio tells that the ratio to the peer must reach it, not our own number.
	Ratio bool
}

// Met reports whether the figure reaches its bar. It is false, false without a bar, and
// where the bar is one of a ratio and no peer ran.
func (f Figure) Met() (met, known bool) {
	if f.Bar == nil {
		return false, false
	}
	v := f.Ours
	if f.Bar.Ratio {
		var ok bool
		if v, ok = f.Ratio(); !ok {
			return false, false
		}
	}
	if f.Better == Higher {
		return v >= f.Bar.Value, true
	}
	return v <= f.Bar.Value, true
}

// text is the bar with its outcome: "≥ 50 ×  ✓".
func (f Figure) barText() string {
	if f.Bar == nil {
		return ""
	}
	text := "≤ "
	if f.Better == Higher {
		text = "≥ "
	}
	text += trimValue(f.Bar.Value)
	if f.Bar.Ratio {
		text += " ×"
	}
	met, known := f.Met()
	switch {
	case !known:
		return text
	case met:
		return text + " ✓"
	default:
		return text + " ✗"
	}
}
